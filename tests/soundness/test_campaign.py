"""The short form of the campaign, of which a plain `pytest` runs a part.

`python -m tests.soundness.campaign` is the long form.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..marks import campaign_from
from . import (
    affine,
    corruption,
    domains,
    edits,
    interrupts,
    midsize,
    numerics,
    oracle,
    tiny,
    windows,
)
from .bombs import BOMBS, costs
from .campaign import PARTS, summary
from .damage import DAMAGE
from .faults import FAULTS
from .forgeries import FORGERIES

# More than any of them needs, and far less than what runs away would take. In MiB.
_MOST_MEMORY = 1000.0
# Parts in which faults are planted: small ones, so that workers share them evenly.
_PARTS_OF_FAULTS = 16
_CHUNKS = 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    share = metafunc.config.getoption("--soundness-share")
    # How many cases there are, and how many of them run by default.
    counts = {
        "tiny_case": (54, 8),
        "affine_case": (24, 4),
        "hard_case": (40, 5),
        "domain_case": (12, 1),
        "round_of_edits": (6, 1),
        "window_case": (12, 1),
        "larger_case": (3, 0),
        "interrupt_case": (40, 2),
        "chunk": (_CHUNKS, 1),
    }
    for name, (count, by_default) in counts.items():
        if name in metafunc.fixturenames:
            many = count if name == "chunk" else max(1, round(count * share))
            cases = [pytest.param(k, marks=campaign_from(by_default, k)) for k in range(many)]
            metafunc.parametrize(name, cases)


def test_tiny_problems(tiny_case: int, tmp_path: Path) -> None:
    assert tiny.look(tiny_case, tmp_path).wrong == []


def test_tiny_problems_about_affine_maps(affine_case: int, tmp_path: Path) -> None:
    assert affine.look(affine_case, tmp_path).wrong == []


def test_hard_arithmetic(hard_case: int, tmp_path: Path) -> None:
    assert numerics.look(hard_case, tmp_path).wrong == []


def test_hard_arithmetic_over_domains(domain_case: int, tmp_path: Path) -> None:
    assert domains.look(domain_case, tmp_path).wrong == []


def test_the_parts_with_an_exact_answer_take_turns(tmp_path: Path) -> None:
    """Every kind of hard network comes up, with every perturbation, whatever ten numbers share."""
    turns = [oracle.part_of(number) for number in range(1000)]
    assert [turns.count(part) for part in (tiny, numerics, affine, domains)] == [400, 300, 200, 100]
    hard = {number % 99 for number, part in enumerate(turns) if part is numerics}
    assert len(hard) == len(numerics.HARD) * len(numerics.KINDS) == 99
    assert oracle.look(4, tmp_path).facts["part"] == oracle.part_of(4).__name__.rpartition(".")[2]


def test_windows_of_few_pixels(window_case: int, tmp_path: Path) -> None:
    assert windows.look(window_case, tmp_path).wrong == []


def test_larger_problems(larger_case: int, tmp_path: Path) -> None:
    assert midsize.look(larger_case, tmp_path).wrong == []


def test_what_the_checker_accepts_is_true(
    chunk: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    many = round(500 * request.config.getoption("--soundness-share"))
    findings = [corruption.look(number, tmp_path) for number in range(chunk, many, _CHUNKS)]
    assert [finding for finding in findings if finding.wrong] == []
    outcomes = {finding.facts["outcome"] for finding in findings}
    # Nearly all are refused, and for many reasons; some change nothing that matters.
    assert "refused" in outcomes
    refusals = {finding.facts.get("refusal") for finding in findings}
    assert len(refusals) > len(findings) / 10


def test_no_edit_of_a_certificate_proves_a_false_claim(round_of_edits: int, tmp_path: Path) -> None:
    """One edit of each certificate."""
    many = len(edits.originals())
    numbers = range(round_of_edits * many, (round_of_edits + 1) * many)
    findings = [edits.look(number, tmp_path) for number in numbers]
    assert [finding for finding in findings if finding.wrong] == []
    assert len({finding.facts["refusal"] for finding in findings}) > many / 4


@pytest.mark.subprocess
def test_an_early_interrupt_is_quiet(interrupt_case: int) -> None:
    found = interrupts.look(interrupt_case, seed=1)
    assert found.outcome in interrupts.FINE, found


@pytest.mark.slow
@pytest.mark.subprocess
def test_no_certificate_makes_the_checker_run_away() -> None:
    found = costs(list(BOMBS))
    assert found.keys() == BOMBS.keys()
    for name, cost in found.items():
        assert cost.answer.startswith(("refused", "accepted")), name
        assert cost.mebibytes < _MOST_MEMORY, name
    # What nobody uses costs nothing, and does no harm.
    assert [name for name, cost in found.items() if cost.answer.startswith("accepted")] == [
        "many regions"
    ]


@pytest.mark.campaign
@pytest.mark.subprocess
@pytest.mark.parametrize("part", range(_PARTS_OF_FAULTS))
def test_every_planted_fault_is_caught(part: int) -> None:
    """What catches each is in the output; a fault that survives needs a new test."""
    names = list(FAULTS)[part::_PARTS_OF_FAULTS]
    command = [sys.executable, "-m", f"{__package__}.catching", *names]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    survivors = [line for line in done.stdout.splitlines() if '"caught": "' not in line]
    assert not survivors, survivors
    assert len(done.stdout.splitlines()) == len(names), done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_fits_the_source(name: str) -> None:
    """Planting a fault takes a while; that its place is still there is quickly seen."""
    fault, root = FAULTS[name], Path(__file__).parents[2]
    source = (root / "src" / (fault.module.replace(".", "/") + ".py")).read_text()
    assert [source.count(old) for old, _ in fault.changes] == [1] * len(fault.changes)
    assert fault.test is None or (root / fault.test.split("::")[0]).exists()


def test_there_are_enough_of_everything() -> None:
    assert len(FAULTS) >= 30
    assert len(DAMAGE) + len(FORGERIES) >= 40
    assert PARTS["tiny"] >= 10_000
    assert PARTS["corruption"] >= 500
    assert PARTS["midsize"] >= 200


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_long_form_goes_on_where_it_stopped(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    command = [sys.executable, "-m", f"{__package__}.campaign", "corruption"]
    for last in (3, 5):
        subprocess.run(
            [*command, "--to", str(last), "--lines", str(lines)],
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
        )
        assert len(lines.read_text().splitlines()) == last
    assert summary(lines).startswith("5 cases")
