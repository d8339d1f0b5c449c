"""Recording: a tree of proofs while the search runs, and the certificate when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from vhagar.errors import InvalidInput, VhagarError
from vhagar.network.onnx_reader import require_one_file
from vhagar.result import Run
from vhagar.runtime.deadline import OutOfTime
from vhagar.runtime.output_files import check_writable
from vhagar.search.proofs.review import review
from vhagar.search.proofs.scratch import Scratch, ScratchState, kept_scratch, scratch_beside
from vhagar.search.proofs.tree import ProofTree
from vhagar.search.proofs.tree_state import TreeState


@contextmanager
def recording(run: Run, kept: TreeState | None = None) -> Iterator[ProofTree | None]:
    """Yield a tree for the certificate, if one is asked for, and write it however the search ends.

    A search that fails leaves nothing behind, except for its checkpoint. `kept` is the tree of the
    checkpoint that is resumed.
    """
    if run.options.certificate is None:
        yield None
        return
    require_one_file(run.original.network)
    if run.options.resume is not None and kept is None:
        raise InvalidInput(
            f"{run.options.resume} holds no proofs, because its search was not to write a "
            "certificate: resume it without one, or start anew"
        )
    with _scratch(run, kept) as scratch:
        tree = ProofTree(run.problem, scratch, kept)
        try:
            yield tree
        except (KeyboardInterrupt, OutOfTime):
            _write(tree, run)
            raise
        _write(tree, run)


def _write(tree: ProofTree, run: Run) -> None:
    """Nothing that goes wrong here may cost the answer."""
    assert run.options.certificate is not None
    path = Path(run.options.certificate)
    try:
        with run.phase("certificate"):
            tree.write(path, run)
            run.certificate = path
            review(path, run, lambda: tree.write(path, run))
    except (OSError, VhagarError) as error:
        run.note(f"the certificate could not be written: {error}")


def _scratch(run: Run, kept: TreeState | None) -> AbstractContextManager[Scratch]:
    assert run.options.certificate is not None
    path, checkpoint = Path(run.options.certificate), run.options.checkpoint
    if checkpoint is None:
        return scratch_beside(path)
    check_writable(path)
    state = ScratchState() if kept is None else kept.scratch
    return kept_scratch(checkpoint, run.options.resume, state)
