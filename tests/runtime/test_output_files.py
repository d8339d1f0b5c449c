"""Files are written whole or not at all, in one place of the program."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import vhagar
from vhagar.errors import InvalidInput
from vhagar.runtime.output_files import check_writable, write_bytes

# Where the packages are installed; there may be others beside them.
SOURCES = Path(vhagar.__file__).parents[1]
PACKAGES = "vhagar", "vhagar_check"
# Beside the one place: files that only grow while a search goes on, and a copy of one.
OTHERS = {"vhagar/search/proofs/scratch.py", "vhagar/search/spill.py"}
WRITES = re.compile(
    r"\.write_text\(|\w\.write_bytes\(|open\([^)]*[\"'][wxa]b?\+?[\"']|copyfile|\.rename\("
    r"|TemporaryFile\("
)


def test_files_are_written_in_one_place() -> None:
    found = {
        path.relative_to(SOURCES).as_posix(): written[0]
        for package in PACKAGES
        for path in (SOURCES / package).rglob("*.py")
        if (written := WRITES.search(path.read_text())) is not None
    }
    # The last two are about standard output.
    allowed = OTHERS | {
        f"vhagar/{name}.py" for name in ("runtime/output_files", "runtime/processes", "cli/entry")
    }
    assert OTHERS <= set(found) <= allowed, found


@pytest.mark.parametrize("name", ["given", "link", "hard"])
def test_an_input_is_not_an_output(name: str, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("given")
    (tmp_path / "link").symlink_to(given)
    (tmp_path / "hard").hardlink_to(given)
    with pytest.raises(InvalidInput, match="is an input"):
        check_writable(tmp_path / name, None, given)
    check_writable(tmp_path / name, tmp_path / "other")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"


def test_what_waits_under_the_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    """In a folder that others may write to, somebody could put a link there."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"kept")
    (tmp_path / f".out.json.{os.getpid()}.tmp").symlink_to(precious)
    write_bytes(tmp_path / "out.json", b"new")
    assert precious.read_bytes() == b"kept"
    assert (tmp_path / "out.json").read_bytes() == b"new"
    assert not (tmp_path / "out.json").is_symlink()


def test_a_device_is_written_to_and_not_replaced() -> None:
    null = Path("/dev/null")
    check_writable(null)
    write_bytes(null, b"gone")
    assert null.is_char_device()


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out.json").write_text("old")
    check_writable(tmp_path / "out.json")
    assert (tmp_path / "out.json").read_text() == "old"


@pytest.mark.parametrize("name", ["missing/out.json", "", "file/out.json"])
def test_what_cannot_be_written_is_found_early(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file is no folder")
    with pytest.raises(InvalidInput, match="cannot write"):
        check_writable(tmp_path / name)


def test_an_interrupt_while_a_place_is_tried_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def interrupted(self: Path, *arguments: Any) -> Any:
        opened(self, *arguments).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_writable(tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == []
