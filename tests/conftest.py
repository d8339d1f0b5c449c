"""Options of the test run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--oracle-cases",
        type=int,
        default=384,
        help="how many random problems every engine must get right (default: %(default)s)",
    )
