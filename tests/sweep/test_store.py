"""The store: intervals only tighten, claims hold, and changes are noticed."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vhagar
from vhagar.errors import InvalidInput, VhagarError
from vhagar.result import BoundKind, Interval, Status, Witness
from vhagar.result.requirement import Judgement, parse_requirement
from vhagar.sweep import database, runner
from vhagar.sweep import store as store_module
from vhagar.sweep.claims import is_gone, owner_name
from vhagar.sweep.gate import judged_store
from vhagar.sweep.rows import suggestion_of_row, witness_of_row
from vhagar.sweep.runner import open_study
from vhagar.sweep.snapshot import Ending, Snapshot
from vhagar.sweep.store import Store
from vhagar.sweep.study import Study, load_models

from .conftest import small_network

TWIN, SOLVER = BoundKind.TWIN, BoundKind.SOLVER


@pytest.fixture
def store(pairs: Study, tmp_path: Path) -> Store:
    found, _, _ = open_study(pairs, tmp_path / "s.db")
    found.begin_run({})
    return found


def _witness(confidence: float, target: int | None = 1) -> Witness:
    x = np.linspace(0, 1, 16).reshape(1, 4, 4)
    scores = np.array([confidence, 0.0, -1.0])
    return Witness(x, scores, confidence, target, 1 - x, scores, 0.5, False, "linf", {"e": 0.25})


def _bounds(lower: float, upper: float, kind: BoundKind = TWIN, target: int | None = 1) -> Snapshot:
    witnesses = {target: _witness(lower, target)} if lower > 0 else {}
    return Snapshot(1.0, {target: Interval(lower, upper, kind)}, witnesses)


def test_the_best_of_all_that_was_said_counts(store: Store) -> None:
    for lower, upper in ((0.0, 9.0), (2.0, 8.0), (1.0, 8.5), (0.0, 7.0), (3.0, 20.0)):
        store.improve(1, _bounds(lower, upper))
    assert store.interval(1) == (3.0, 7.0)
    (row,) = store.rows("witnesses", 1)
    assert row["confidence"] == 3.0


def test_parameters_stay_with_their_witness(store: Store) -> None:
    witness = replace(_witness(2.0), choice=(0.1, -0.3))
    store.improve(1, Snapshot(1.0, {1: Interval(2.0, 8.0, TWIN)}, {1: witness}))
    (row,) = store.rows("witnesses", 1)
    assert witness_of_row(row, (1, 4, 4)).choice == (0.1, -0.3)
    assert suggestion_of_row(row).parameters.tolist() == [0.1, -0.3]


def test_a_store_that_only_describes_parameters_is_read(store: Store) -> None:
    """So did earlier versions: the number of the last parameter is all there is."""
    store.improve(1, _bounds(2.0, 8.0))
    store.close()
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        connection.execute("""UPDATE witnesses SET parameters = '{"e": 0.25}'""")
        connection.commit()
    found = Store(store.path)
    (row,) = found.rows("witnesses", 1)
    assert witness_of_row(row, (1, 4, 4)).choice == ()
    assert suggestion_of_row(row).parameters.tolist() == [0.25]
    found.begin_run({})
    assert found.improve(1, _bounds(3.0, 7.0))
    found.close()
    assert Store(store.path).interval(1) == (3.0, 7.0)


def test_what_is_written_about_the_whole_study_comes_back(store: Store, tmp_path: Path) -> None:
    (_, question), *_ = store.problems()
    whole = question.without_perturbation()
    assert (store.largest(), store.plain("neighbours")) == ({}, None)
    store.write_largest({whole: (1.5, 2.0)})
    store.write_plain("neighbours", [{"problem": 1}])
    assert store.largest() == {whole.key: (1.5, 2.0)}
    assert store.plain("neighbours") == [{"problem": 1}]
    store.improve(1, _bounds(2.0, 8.0))
    store.to_csv(tmp_path / "s.csv")
    heads, first, *rest = (tmp_path / "s.csv").read_text().splitlines()
    assert heads.startswith("problem,network,file,perturbation,clip")
    assert ",2.0,8.0,twin," in first
    assert len(rest) == len(store.problems()) - 1


def test_what_is_no_better_leaves_no_trace(store: Store) -> None:
    store.improve(1, _bounds(2.0, 8.0))
    before = len(store.rows("events"))
    assert not store.improve(1, _bounds(2.0, 8.0))
    assert not store.improve(1, _bounds(0.0, float("inf")))
    assert len(store.rows("events")) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE goals SET lower = 1 WHERE problem = 1",
        "UPDATE goals SET upper = 9 WHERE problem = 1",
        "UPDATE goals SET upper = NULL WHERE problem = 1",
        "UPDATE goals SET proven = 9 WHERE problem = 1",
        "UPDATE goals SET lower = 3 WHERE problem = 1",  # there is no such witness
        "UPDATE goals SET lower = 2, upper = 1 WHERE problem = 1",
        "DELETE FROM goals",
        "DELETE FROM events",
        "UPDATE events SET lower = 0",
    ],
)
def test_the_file_itself_refuses_to_forget(store: Store, statement: str) -> None:
    store.improve(1, _bounds(2.0, 8.0))
    connection = sqlite3.connect(store.path)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    connection.close()
    assert store.interval(1) == (2.0, 8.0)


def test_a_lower_bound_without_a_witness_does_not_count(store: Store) -> None:
    store.improve(1, Snapshot(1.0, {1: Interval(5.0, 8.0, TWIN)}))
    assert store.interval(1) == (0.0, 8.0)


def test_a_contradiction_of_proven_bounds_is_an_error_and_changes_nothing(store: Store) -> None:
    store.improve(1, _bounds(2.0, 8.0))
    with pytest.raises(VhagarError, match="bug"):
        store.improve(1, _bounds(9.0, 10.0))
    with pytest.raises(VhagarError, match="bug"):
        store.improve(1, _bounds(0.0, 1.0))
    assert store.interval(1) == (2.0, 8.0)
    assert store.rows("witnesses", 1)[0]["confidence"] == 2.0


@pytest.mark.parametrize("kind", [SOLVER, BoundKind.MARABOU])
def test_a_refuted_bound_on_trust_is_given_up_for_the_proven_one(
    store: Store, kind: BoundKind
) -> None:
    store.improve(1, _bounds(0.0, 9.0))
    store.improve(1, _bounds(0.0, 3.0, kind))
    assert [row["proven"] for row in store.rows("goals", 1)] == [9.0]
    store.improve(1, _bounds(4.0, 9.0))
    assert store.interval(1) == (4.0, 9.0)
    assert not store.improve(1, _bounds(0.0, 3.0, kind))
    assert store.interval(1) == (4.0, 9.0)


def test_a_gate_does_not_take_marabous_word(store: Store) -> None:
    limit = parse_requirement("upper<=5")
    store.improve(1, _bounds(0.0, 3.0, BoundKind.MARABOU))
    assert judged_store(store, [limit])[0].judgement is Judgement.UNDECIDED
    store.improve(1, _bounds(0.0, 2.0))
    assert judged_store(store, [limit])[0].judgement is Judgement.MET


def test_a_witness_comes_back_as_it_was(store: Store) -> None:
    witness = _witness(2.0)
    store.improve(1, _bounds(2.0, 8.0))
    (row,) = store.rows("witnesses", 1)
    found = witness_of_row(row, (1, 4, 4))
    for name in ("x", "x_p", "scores", "scores_p"):
        assert np.array_equal(getattr(found, name), getattr(witness, name))
    assert (found.confidence, found.target, found.margin) == (2.0, 1, 0.5)
    assert (found.tie, found.piece, found.parameters) == (False, "linf", {"e": 0.25})


def test_every_problem_is_claimed_once(store: Store) -> None:
    other = Store(store.path)
    other.begin_run({})
    numbers = []
    while (claimed := (store, other)[len(numbers) % 2].claim()) is not None:
        numbers.append(claimed.number)
    assert sorted(numbers) == list(range(1, 13))
    assert store.claim() is None


@pytest.mark.subprocess
def test_a_claim_of_a_dead_process_is_free(store: Store) -> None:
    script = (
        "import sys; from vhagar import Store; s = Store(sys.argv[1]); s.begin_run({});"
        "print(s.claim().number, flush=True); import time; time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(vhagar.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(store.path)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        first = int(process.stdout.readline())
        second = store.claim()
        process.kill()
    third = store.claim()
    assert second is not None
    assert third is not None
    assert (first, second.number, third.number) == (1, 2, 1)


def test_a_claim_that_is_not_renewed_runs_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LEASE", 0.05)
    assert store.claim() is not None
    other = Store(store.path)
    other.begin_run({})
    time.sleep(0.1)
    again = other.claim()
    assert again is not None
    assert again.number == 1


def test_who_is_alive() -> None:
    mine = owner_name()
    assert not is_gone(mine)
    host, pid, began, number = mine.split("|")
    assert not is_gone("|".join(["elsewhere", "1", "0", number]))
    if began:  # where the system tells
        assert is_gone("|".join([host, pid, "1", number]))


def test_a_lost_worker_is_forgiven_twice(store: Store) -> None:
    for _ in range(2):
        claimed = store.claim()
        assert claimed is not None
        assert claimed.number == 1
        store.lose(1, "it fell over")
    assert store.counts() == {"open": 12}
    store.claim()
    store.lose(1, "it fell over")
    assert store.counts() == {"open": 11, "failed": 1}


def test_more_time_opens_what_ran_out_of_it(store: Store) -> None:
    ending = Ending(Status.TIMEOUT, 10, "bab")
    store.finish(1, _bounds(2.0, 8.0), ending, budget=5.0)
    store.finish(2, _bounds(2.0, 2.0), Ending(Status.CLOSED, 1, "bab"), budget=5.0)
    assert store.reopen(5.0) == 0
    assert store.reopen(6.0) == 1
    assert store.counts() == {"open": 11, "closed": 1}
    assert store.interval(1) == (2.0, 8.0)


def test_a_changed_model_is_noticed(pairs: Study, tmp_path: Path) -> None:
    open_study(pairs, tmp_path / "s.db")[0].close()
    vhagar.write_onnx(small_network(seed=4), pairs.networks[0])
    with pytest.raises(InvalidInput, match="has changed since the study began"):
        open_study(None, tmp_path / "s.db", resume=True)
    with pytest.raises(InvalidInput, match="has changed since the study began"):
        open_study(pairs, tmp_path / "s.db", resume=True)


def test_an_exported_again_model_is_the_same(pairs: Study, tmp_path: Path) -> None:
    open_study(pairs, tmp_path / "s.db")[0].close()
    import onnx

    model = onnx.load(pairs.networks[0])
    model.producer_name = "somebody else"
    onnx.save(model, pairs.networks[0])
    open_study(None, tmp_path / "s.db", resume=True)[0].close()


def test_another_version_is_noticed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.other_versions() == []
    monkeypatch.setattr(store_module, "__version__", "99.0")
    assert store.other_versions() == [vhagar.__version__]


def test_a_store_is_not_overwritten(pairs: Study, tmp_path: Path) -> None:
    open_study(pairs, tmp_path / "s.db")[0].close()
    with pytest.raises(InvalidInput, match="--resume"):
        open_study(pairs, tmp_path / "s.db")


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("resume", [False, True])
def test_a_store_that_was_killed_while_it_was_created_is_begun_again(
    resume: bool, pairs: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    with monkeypatch.context() as patch:
        patch.setattr(database.Database, "_create", _killed)
        with pytest.raises(KeyboardInterrupt):
            Store(path, create=True)
    assert path.stat().st_size > 0  # a database without tables
    with pytest.raises(InvalidInput, match="not a store"):
        Store(path)
    store, study, _ = open_study(pairs, path, resume)
    with store:
        assert study == store.study() == pairs


def test_of_two_that_create_a_store_one_does(
    pairs: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one looked before there was a file."""
    path = tmp_path / "s.db"
    open_study(pairs, path)[0].close()
    for module in (database, runner):
        monkeypatch.setattr(module, "is_unused", lambda _: True)
    with pytest.raises(InvalidInput, match="a store exists"):
        open_study(pairs, path)
    with Store(path) as store:
        assert store.study() == pairs
        assert len(store.problems()) == 12


@pytest.mark.parametrize("content", [b"not a database", b"x" * 5000])
def test_a_file_that_is_no_store(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="cannot use"):
        Store(path)
    with pytest.raises(InvalidInput, match="a store exists"):
        Store(path, create=True)
    assert path.read_bytes() == content


def test_another_database_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    connection.close()
    with pytest.raises(InvalidInput, match="not a store"):
        Store(path)
    with pytest.raises(InvalidInput, match="a store exists"):
        Store(path, create=True)
    with pytest.raises(InvalidInput, match="no store at"):
        Store(tmp_path / "missing.db")


def test_a_problem_whose_bound_is_refuted_is_open_again(store: Store) -> None:
    store.improve(1, _bounds(0.0, 9.0))
    ending = Ending(Status.CLOSED, 5, "mip")
    store.finish(1, _bounds(2.5, 3.0, SOLVER), ending, None)
    assert store.counts().get("closed") == 1
    store.improve(1, _bounds(4.0, 9.0))
    assert store.interval(1) == (4.0, 9.0)
    assert "closed" not in store.counts()
    claimed = {store.claim().number for _ in store.problems()}  # type: ignore[union-attr]
    assert 1 in claimed


def test_seconds_are_those_of_the_history(store: Store) -> None:
    """A run that is lost has taken its time, too."""
    first = store.claim()
    assert first is not None
    number = first.number
    store.improve(number, Snapshot(2.0, {1: Interval(0.0, 9.0, TWIN)}))
    store.lose(number, "it was killed", 5.0)
    second = store.claim()
    assert second is not None
    assert (second.number, second.seconds) == (number, 5.0)
    snapshot = Snapshot(5.0 + 3.0, {1: Interval(0.0, 8.0, TWIN)})
    store.finish(number, snapshot, Ending(Status.TIMEOUT, 7, "bab"), 10.0)
    events = store.rows("events", number)
    seconds = [row["seconds"] for row in events]
    assert [row["what"] for row in events] == [
        *("started", "improved", "lost", "started", "improved", "finished"),
    ]
    assert seconds == [0.0, 2.0, 5.0, 5.0, 8.0, 8.0]
    (row,) = [row for row in store.rows("problems") if row["id"] == number]
    assert row["seconds"] == seconds[-1]


def _problem(store: Store, number: int = 1) -> sqlite3.Row:
    (row,) = [row for row in store.rows("problems") if row["id"] == number]
    return row


def test_conventions_that_are_not_stored_are_those_of_the_study(store: Store, pairs: Study) -> None:
    (model,) = load_models(pairs)
    asked = [question for _, question in store.problems()]
    store.write_study(replace(pairs, mean=(0.5,)), [model], asked)
    assert store.conventions() == {model.fingerprint: {}}
    store.write_plain("conventions", {})
    assert store.conventions() == {model.fingerprint: {"mean": (0.5,)}}
    store.write_study(replace(pairs, networks=("another.onnx",)), [], asked)
    assert store.conventions() == {model.fingerprint: {"mean": [0.5]}}
    store.write_plain("conventions", {})  # neither says how it was read
    assert store.conventions() == {model.fingerprint: {}}


def test_a_closed_store_answers_nothing(store: Store) -> None:
    with store as entered:
        assert entered is store
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        store.counts()


def test_a_study_that_is_written_again_keeps_what_is_known(
    store: Store, pairs: Study, tmp_path: Path
) -> None:
    store.improve(1, _bounds(2.0, 8.0))
    before = store.rows("networks")
    (model,) = load_models(pairs)
    renamed = replace(model, network=replace(model.network, name="another name"))
    asked = [question for _, question in store.problems()]
    assert store.plain("conventions") == {model.fingerprint: {}}
    another = replace(model, fingerprint="another")
    store.write_study(replace(pairs, mean=(0.5,)), [renamed, another], asked[::-1])
    # Those of a network belong to its path, and that stays, too.
    expected = {model.fingerprint: {}, "another": {"mean": [0.5]}}
    assert store.plain("conventions") == expected
    store.write_study(pairs, [renamed, another], asked[::-1])
    assert store.plain("conventions") == expected
    assert store.interval(1) == (2.0, 8.0)
    kept = [row for row in store.rows("networks") if row["fingerprint"] != "another"]
    assert [tuple(row) for row in kept] == [tuple(row) for row in before]
    # The same problems, in the order in which they are asked now.
    assert [number for number, _ in store.problems()] == list(range(12, 0, -1))
    claimed = store.claim()
    assert claimed is not None
    assert claimed.number == 12


def test_what_a_run_did_bears_its_number(store: Store, tmp_path: Path) -> None:
    (first,) = store.rows("runs")
    assert first["ended"] is None
    assert json.loads(first["settings"]) == {}
    assert first["owner"] == store.owner
    assert abs(first["started"] - time.time()) < 600
    other = Store(store.path)
    other.begin_run({"jobs": 3})
    assert [row["id"] for row in store.rows("runs")] == [1, 2]
    assert json.loads(store.rows("runs")[1]["settings"]) == {"jobs": 3}
    other.improve(1, _bounds(0.0, 9.0))
    store.improve(1, _bounds(0.0, 8.0))
    assert [row["run"] for row in store.rows("events", 1)] == [2, 1]
    other.fail(3, "it cannot be read")
    assert (_problem(store, 3)["run"], _problem(store, 3)["status"]) == (2, "failed")
    assert json.loads(_problem(store, 3)["notes"]) == ["it cannot be read"]
    store.finish(2, _bounds(0.0, 1.0), Ending(Status.CLOSED, 1, "bab"), None)
    assert _problem(store, 2)["run"] == 1


def test_what_an_error_quotes_leaves_the_store_readable(store: Store) -> None:
    store.fail(1, "no operator \x1b[2J")
    store.finish(2, _bounds(0.0, 1.0), Ending(Status.CLOSED, 1, "bab", ("\x9b2J",)), None)
    with Store(store.path) as again:
        assert json.loads(_problem(again, 1)["notes"]) == ["no operator ?[2J"]
        assert json.loads(_problem(again, 2)["notes"]) == ["?2J"]


def test_a_run_that_ends_gives_back_what_is_its_own(store: Store) -> None:
    other = Store(store.path)
    other.begin_run({})
    mine, theirs = store.claim(), other.claim()
    assert mine is not None
    assert theirs is not None
    store.end_run()
    assert store.rows("runs")[0]["ended"] is not None
    assert store.rows("runs")[1]["ended"] is None
    row = _problem(store, mine.number)
    assert (row["owner"], row["lease"]) == (None, None)
    assert _problem(store, theirs.number)["owner"] == other.owner
    again = other.claim()
    assert again is not None
    assert again.number == mine.number


def test_a_claim_holds_until_its_lease_and_is_renewed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(store_module.time, "time", lambda: now[0])
    assert store_module.LEASE == 15.0  # five renewals of three seconds
    other = Store(store.path)
    other.begin_run({})
    claimed, theirs = store.claim(), other.claim()
    assert claimed is not None
    assert theirs is not None
    assert (claimed.number, theirs.number) == (1, 2)
    assert _problem(store)["lease"] == 1015.0
    now[0] = 1014.9
    store.renew_claims()
    assert _problem(store, 1)["lease"] == 1029.9
    assert _problem(store, 2)["lease"] == 1015.0
    now[0] = 1015.0  # it has just run out
    third = store.claim()
    assert third is not None
    assert third.number == 2
    now[0] = 1029.8
    fourth = other.claim()
    assert fourth is not None
    assert fourth.number == 3


def test_only_the_owner_gives_a_problem_back(store: Store) -> None:
    other = Store(store.path)
    other.begin_run({})
    assert store.claim() is not None
    other.release(1)
    assert _problem(store)["owner"] == store.owner
    store.release(1)
    assert (_problem(store)["owner"], _problem(store)["lease"]) == (None, None)
    events = [(row["what"], row["note"]) for row in store.rows("events", 1)]
    assert events == [
        ("started", ""),
        ("released", "the sweep ended"),
        ("released", "the sweep ended"),
    ]


def test_losses_are_counted_and_the_problem_is_free_again(store: Store) -> None:
    assert store.claim() is not None
    store.lose(1, "it\x1b[2J fell over")
    row = _problem(store)
    assert (row["losses"], row["owner"], row["status"]) == (1, None, "open")
    assert store.rows("events", 1)[-1]["note"] == "it?[2J fell over"
    for _ in range(2):
        store.claim()
        store.lose(1, "it fell over again")
    (note,) = json.loads(_problem(store)["notes"])
    assert note == "its worker was lost 3 times; the last time: it fell over again"
    assert (_problem(store)["owner"], _problem(store)["losses"]) == (None, 3)


def test_a_failed_problem_belongs_to_nobody(store: Store) -> None:
    assert store.claim() is not None
    store.fail(1, "it cannot be read")
    row = _problem(store)
    assert (row["owner"], row["lease"], row["status"]) == (None, None, "failed")
    last = store.rows("events", 1)[-1]
    assert (last["what"], last["note"]) == ("failed", "it cannot be read")


def test_an_ending_is_written_down(store: Store) -> None:
    ending = Ending(Status.TIMEOUT, 10, "bab", ("a note",), "proof.cert")
    store.claim()
    store.finish(1, _bounds(2.0, 8.0), ending, budget=5.0)
    row = _problem(store)
    assert (row["status"], row["budget"], row["engine"]) == ("timeout", 5.0, "bab")
    assert (row["nodes"], row["certificate"], row["owner"]) == (10, "proof.cert", None)
    assert json.loads(row["notes"]) == ["a note"]
    assert store.reopen(None) == 1
    store.finish(1, _bounds(2.0, 7.0), replace(ending, nodes=5), budget=None)
    assert (_problem(store)["nodes"], _problem(store)["budget"]) == (15, float("inf"))
    assert store.rows("events", 1)[-1]["note"] == Status.TIMEOUT.value
    # Nobody has more time than without a limit.
    assert store.reopen(None) == 0


def test_a_store_says_what_it_is(store: Store, pairs: Study) -> None:
    assert store.study() == pairs
    assert repr(store) == f"<Store {store.path}>"
    assert store.counts() == {"open": 12}
    store.improve(2, _bounds(0.0, 4.0, target=None if _goals(store, 2) == [None] else 1))
    assert len(store.intervals()) == 12
    assert {number for number, _ in store.problems()} == set(range(1, 13))
    assert [row["problem"] for row in store.rows("events", 3)] == []


def _goals(store: Store, number: int) -> list[int | None]:
    return [row["target"] for row in store.rows("goals", number)]


def test_a_store_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no study"):
        Store(tmp_path / "empty.db", create=True).study()
