"""A hook of mkdocs: links of notebooks to other documents, which it leaves as they are."""

from __future__ import annotations

import re
from typing import Any


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """`href="sweeps.md"` of a notebook becomes the page's address on the site."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    return re.sub(r'href="([a-z-]+)\.md(#[^"]*)?"', r'href="../\1/\2"', html)
