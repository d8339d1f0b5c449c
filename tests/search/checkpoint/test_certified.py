"""A search that is to write a certificate is kept with its proofs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vhagar import Problem, Result, read_onnx, verify, write_onnx
from vhagar.errors import InvalidInput
from vhagar.search.branch_and_bound import Bab
from vhagar.search.proofs import review as proof_review
from vhagar.search.proofs.scratch import (
    MAGIC,
    Scratch,
    ScratchState,
    kept_scratch,
    proofs_beside,
)
from vhagar_check import Rejected, check

from .conftest import Kept, small_problem
from .test_forgeries import forged

OPTIONS: dict[str, Any] = {"workers": 0, "relative_gap": 0.1}


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    path = tmp_path / "model.onnx"
    write_onnx(small_problem().network, path)
    return Problem(read_onnx(path), perturbation="linf(0.3)", source=0, targets=(1, 2))


def searched(
    problem: Problem, folder: Path, engine: Bab, seconds: float, **options: Any
) -> tuple[float, float]:
    """The interval of a search; its certificate proves it."""
    proof = folder / "proof.cert"
    proof.unlink(missing_ok=True)
    result = verify(
        problem, engine=engine, certificate=proof, timeout=seconds, **OPTIONS, **options
    )
    verdict = check(proof, model=folder / "model.onnx")
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    return result.lower, result.upper


@pytest.mark.parametrize(
    "engine",
    [
        Bab(attack=False),
        pytest.param(Bab(attack=False, slopes=False), marks=pytest.mark.slow),
        pytest.param(Bab(attack=False, gpu=True), marks=pytest.mark.slow),
    ],
)
def test_a_resumed_search_writes_a_certificate_of_all_it_knows(
    problem: Problem, engine: Bab, tmp_path: Path, all_kept: Kept
) -> None:
    path = tmp_path / "checkpoint"
    searched(problem, tmp_path, engine, 2.0, checkpoint=path)
    rng = np.random.default_rng(0)
    for early in [all_kept[k] for k in rng.permutation(len(all_kept))[:3]]:
        # A kill leaves an earlier checkpoint beside more proofs.
        shutil.copy(proofs_beside(path), proofs_beside(early))
        lower, upper = searched(problem, tmp_path, engine, 0.0, resume=early)
        more = searched(problem, tmp_path, engine, 1.0, resume=early)
        assert lower <= more[0]
        assert more[1] <= upper


def test_proofs_that_are_not_the_checkpoints_are_refused(problem: Problem, tmp_path: Path) -> None:
    path, proof = tmp_path / "checkpoint", tmp_path / "proof.cert"
    verify(problem, certificate=proof, checkpoint=path, timeout=1.0, **OPTIONS)
    proofs = proofs_beside(path)
    content = bytearray(proofs.read_bytes())
    content[len(content) // 2] ^= 1
    proofs.write_bytes(content)
    with pytest.raises(InvalidInput, match="does not hold the proofs"):
        verify(problem, certificate=proof, resume=path, timeout=1.0, **OPTIONS)
    proofs.unlink()
    with pytest.raises(InvalidInput, match="cannot use"):
        verify(problem, certificate=proof, resume=path, timeout=1.0, **OPTIONS)
    # Without a certificate nobody needs them.
    verify(problem, resume=path, timeout=0.0, **OPTIONS)


@pytest.mark.parametrize("resumes", [False, True])
def test_a_foreign_file_beside_a_checkpoint_is_left_as_it_was(
    resumes: bool, problem: Problem, tmp_path: Path
) -> None:
    """The name of the proofs follows from that of the checkpoint, and may be somebody's."""
    path, proof, options = tmp_path / "checkpoint", tmp_path / "proof.cert", {}
    if resumes:
        options["resume"] = tmp_path / "earlier"
        verify(problem, certificate=proof, checkpoint=options["resume"], timeout=0.5, **OPTIONS)
    proofs_beside(path).write_bytes(b"SQLite format 3\0")
    with pytest.raises(InvalidInput, match="holds something else; move it away"):
        verify(problem, certificate=proof, checkpoint=path, timeout=0.5, **OPTIONS, **options)
    assert proofs_beside(path).read_bytes() == b"SQLite format 3\0"


def test_a_foreign_file_in_place_of_the_proofs_is_left_as_it_was(
    problem: Problem, tmp_path: Path
) -> None:
    path, proof = tmp_path / "checkpoint", tmp_path / "proof.cert"
    verify(problem, certificate=proof, checkpoint=path, timeout=0.5, **OPTIONS)
    proofs_beside(path).write_bytes(100 * b"else")
    for options in ({}, {"checkpoint": tmp_path / "later"}):
        with pytest.raises(InvalidInput, match="does not hold the proofs"):
            verify(problem, certificate=proof, resume=path, timeout=0.5, **OPTIONS, **options)
    assert proofs_beside(path).read_bytes() == 100 * b"else"
    assert not proofs_beside(tmp_path / "later").exists()


@pytest.mark.parametrize("resumes", [False, True])
def test_proofs_that_another_run_keeps_are_left_as_they_are(
    resumes: bool, problem: Problem, tmp_path: Path
) -> None:
    """Two runs that were begun with one checkpoint: the second is refused, the first goes on."""
    path, proof = tmp_path / "checkpoint", tmp_path / "proof.cert"
    verify(problem, certificate=proof, checkpoint=path, timeout=0.5, **OPTIONS)
    second: dict[str, Any] = {"resume": path}
    if not resumes:
        path.unlink()
        second = {"checkpoint": path}
    with kept_scratch(path, None, ScratchState()) as first:
        at = first.keep(b"a proof")
        with pytest.raises(InvalidInput, match="another run keeps its proofs in"):
            verify(problem, certificate=proof, timeout=0.5, **OPTIONS, **second)
        assert first.read(at, 7) == b"a proof"
        assert path.exists() == resumes
    path.unlink(missing_ok=True)
    verify(problem, certificate=proof, checkpoint=path, timeout=0.5, **OPTIONS)


def test_proofs_of_a_search_that_left_no_checkpoint_are_begun_again(
    problem: Problem, tmp_path: Path
) -> None:
    path, proof = tmp_path / "checkpoint", tmp_path / "proof.cert"
    verify(problem, certificate=proof, checkpoint=path, timeout=0.2, **OPTIONS)
    path.unlink()
    verify(problem, certificate=proof, checkpoint=path, timeout=0.2, **OPTIONS)
    path.unlink()
    proofs_beside(path).write_bytes(b"")
    verify(problem, certificate=proof, checkpoint=path, timeout=0.2, **OPTIONS)
    verify(problem, certificate=proof, resume=path, timeout=0.2, **OPTIONS)


@pytest.mark.parametrize("left", [False, True])
def test_proofs_are_copied_whole_to_those_of_another_checkpoint(
    left: bool, problem: Problem, tmp_path: Path, all_kept: Kept
) -> None:
    """Also over proofs that a search has left without its checkpoint."""
    first, second, engine = tmp_path / "first", tmp_path / "second", Bab(attack=False)
    searched(problem, tmp_path, engine, 2.0, checkpoint=first)
    early = all_kept[len(all_kept) // 2]
    shutil.copy(proofs_beside(first), proofs_beside(early))
    if left:
        searched(problem, tmp_path, engine, 0.3, checkpoint=second)
        second.unlink()
    later = searched(problem, tmp_path, engine, 1.0, resume=early, checkpoint=second)
    last = searched(problem, tmp_path, engine, 1.0, resume=second)
    assert later[0] <= last[0]
    assert last[1] <= later[1]


@pytest.mark.parametrize("before", [b"", MAGIC, MAGIC + 100 * b"earlier"])
def test_a_copy_of_proofs_is_where_they_were(before: bytes, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with kept_scratch(first, None, ScratchState()) as scratch:
        at = scratch.keep(b"a proof")
        state = scratch.state()
    proofs_beside(second).write_bytes(before)
    with kept_scratch(second, first, state) as scratch:
        assert scratch.read(at, 7) == b"a proof"
        assert scratch.state() == state
    assert proofs_beside(second).read_bytes() == proofs_beside(first).read_bytes()


def test_proofs_that_shrink_while_they_are_copied_are_an_error(tmp_path: Path) -> None:
    with (tmp_path / "first").open("w+b") as source, (tmp_path / "second").open("w+b") as file:
        scratch = Scratch(source)
        scratch.keep(b"a proof")
        source.truncate(3)
        with pytest.raises(OSError, match="have become shorter"):
            scratch.copy_to(file)


def test_without_proofs_there_is_no_certificate(problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    verify(problem, checkpoint=path, timeout=1.0, **OPTIONS)
    with pytest.raises(InvalidInput, match="holds no proofs"):
        verify(problem, certificate=tmp_path / "proof", resume=path, timeout=1.0, **OPTIONS)


@pytest.fixture
def forgery(problem: Problem, tmp_path: Path, all_kept: Kept) -> tuple[Path, Result]:
    """A checkpoint whose bounds are half of what was proved, and the honest result."""
    path, proof = tmp_path / "checkpoint", tmp_path / "proof.cert"
    honest = verify(problem, certificate=proof, checkpoint=path, timeout=1.0, **OPTIONS)

    def halve(about: dict[str, Any], arrays: dict[str, Any]) -> None:
        about["witnesses"] = []
        arrays["tree proofs"]["upper"] *= 0.5

    forged(path, halve)
    return path, honest


def test_a_forged_bound_is_not_certified(
    problem: Problem,
    tmp_path: Path,
    forgery: tuple[Path, Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever writes a checkpoint can make a run claim anything, but not prove it."""
    path, honest = forgery
    monkeypatch.setattr(proof_review, "_MOST_PRODUCTS", 0)  # as if the certificate were large
    proof = tmp_path / "proof.cert"
    result = verify(problem, certificate=proof, resume=path, timeout=0.0, **OPTIONS)
    assert result.upper < 0.9 * honest.upper
    with pytest.raises(Rejected):
        check(proof, model=tmp_path / "model.onnx")


def test_a_forged_bound_is_taken_back_where_the_checker_is_asked(
    problem: Problem, tmp_path: Path, forgery: tuple[Path, Result]
) -> None:
    path, honest = forgery
    proof = tmp_path / "proof.cert"
    result = verify(problem, certificate=proof, resume=path, timeout=0.0, **OPTIONS)
    # What the proofs prove, without the room that was left for rounding.
    assert 0.999 * honest.upper < result.upper <= honest.upper
    assert any("the certificate proves the bound" in note for note in result.notes)
    assert check(proof, model=tmp_path / "model.onnx").upper == result.upper
