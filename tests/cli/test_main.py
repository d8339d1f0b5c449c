"""The command line from arguments to exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vhagar
from vhagar.attack.engine import Attack
from vhagar.attack.options import AttackOptions
from vhagar.cli.main import _parser, main
from vhagar.cli.plain import PlainWatch
from vhagar.engine import AbstractEngine
from vhagar.network import Affine, Network, Relu
from vhagar.options import Options
from vhagar.perturbation import parse
from vhagar.perturbation.parse import PERTURBATIONS
from vhagar.result import Run
from vhagar.runtime.deadline import Deadline
from vhagar.search import ENGINES
from vhagar.search.branch_and_bound import Bab
from vhagar.search.mip.engine import Mip

from ..result.certificates import read_certificate

DOCUMENT = Path(__file__).parents[2] / "docs" / "command-line.md"
ROOT = Path(vhagar.__file__).parents[1]
CONTROL_CODE = "\x1b"


def _write_network(path: Path, sizes: tuple[int, ...]) -> Path:
    rng = np.random.default_rng(3)
    layers: list[Any] = []
    for before, after in pairwise(sizes):
        weight = rng.normal(size=(after, before))
        layers += [
            Affine(weight, np.zeros(after), (before,), (after,)),
            Relu((after,)),
        ]
    vhagar.write_onnx(Network(tuple(layers[:-1]), (sizes[0],)), path)
    return path


@pytest.fixture(autouse=True)
def without_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Search in this process where the test is not about others, which take a while to start."""
    if request.node.get_closest_marker("subprocess") is None:
        monkeypatch.setattr(Options, "worker_count", 1)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A network that is verified in no time."""
    return str(_write_network(tmp_path / "small.onnx", (4, 6, 3)))


@pytest.fixture
def hard_model(tmp_path: Path) -> str:
    """A network that keeps any engine busy."""
    return str(_write_network(tmp_path / "hard.onnx", (200, 100, 100, 100, 10)))


Action = Callable[[Run], object]


@pytest.fixture
def engine_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[Action], str]:
    """The name of an engine that only does what the test wants to happen during a search."""

    def name(action: Action) -> str:
        class Engine(AbstractEngine):
            name = "test"

            def search(self, run: Run, deadline: Deadline) -> bool:
                action(run)
                return False

        monkeypatch.setitem(ENGINES, "test", Engine)
        return "test"

    return name


def _start(*arguments: str, **settings: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **settings}
    return subprocess.Popen(
        [sys.executable, "-m", "vhagar", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


VERIFY = ("--perturbation", "linf(0.1)", "--source", "0")


@pytest.mark.subprocess
def test_verify(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, plot = tmp_path / "out.json", tmp_path / "out.png"
    code = main(["verify", model, *VERIFY, "--json", str(output), "--plot", str(plot)])
    printed = capsys.readouterr()
    assert code == 0
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0] == "small, linf(0.1), class 0 to any other"
    assert lines[-1].startswith("Proven: no input classified 0 with confidence above ")
    assert f"wrote:    {output}" in lines
    assert f"wrote:    {plot}" in lines
    assert CONTROL_CODE not in printed.out
    result = json.loads(output.read_text())
    assert result["status"] == "closed"
    assert 0 < result["lower"] <= result["upper"]
    assert np.array(result["witness"]["x"]).shape == (4,)
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.subprocess
@pytest.mark.parametrize("more", [[], pytest.param(["--paper"], marks=pytest.mark.slow)])
def test_attack(
    more: list[str],
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One round of it, so that it ends when it is done."""
    quick = AttackOptions(rounds=1, inputs=16, patience=2)
    monkeypatch.setattr(Attack, "_options", lambda self, options: quick)
    output = tmp_path / "out.json"
    assert main(["attack", model, *VERIFY, *more, "--timeout", "90", "--json", str(output)]) == 0
    assert "witness:  an input with confidence" in capsys.readouterr().out
    result = json.loads(output.read_text())
    assert 0 < result["lower"] <= result["upper"]


def test_confidence(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.json"
    code = main(["confidence", model, "--class", "1", "--json", str(output)])
    assert code == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("Proven: no input is classified 1 with confidence above ")
    result = json.loads(output.read_text())
    assert result["problem"]["perturbation"] is None
    assert result["problem"]["source"] == 1


@pytest.mark.parametrize("command", [("verify", *VERIFY), ("confidence", "--class", "0")])
def test_certificate(
    command: tuple[str, ...], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof, output = tmp_path / "the proof.cert", tmp_path / "out.json"
    files = ["--certificate", str(proof), "--json", str(output)]
    assert main([command[0], model, *command[1:], *files]) == 0
    check = f"vhagar check '{proof}' --model {model}"
    assert f"proof:    {proof}; check with: {check}" in capsys.readouterr().out.splitlines()
    result = json.loads(output.read_text())
    assert result["certificate"] == {"file": str(proof), "check": check}
    head = read_certificate(proof, 3).head
    assert head["claims"]["lower"] == result["lower"]
    assert head["claims"]["upper"] == result["upper"]
    assert head["model"]["name"] == Path(model).name


def test_a_certificate_is_about_the_question(model: str, tmp_path: Path) -> None:
    """With percentages there is a second search, which must not take its place."""
    proof = tmp_path / "proof.cert"
    assert main(["verify", model, *VERIFY, "--percent", "--certificate", str(proof)]) == 0
    assert read_certificate(proof, 3).head["problem"]["perturbation"] == "linf(0.1)"


def test_a_certificate_that_cannot_be_written_after_all(
    model: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr("vhagar.search.proofs.tree.write_certificate", full)
    proof = tmp_path / "proof.cert"
    assert main(["verify", model, *VERIFY, "--certificate", str(proof)]) == 2
    printed = capsys.readouterr()
    assert "no space left on device" in printed.out
    assert printed.out.splitlines()[-1].startswith("Proven: no input classified 0 ")
    assert printed.err == f"vhagar: error: there is no certificate {proof}\n"


def test_percent(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.json"
    assert main(["verify", model, *VERIFY, "--percent", "--json", str(output)]) == 0
    result = json.loads(output.read_text())
    largest, (low, high) = result["max_confidence"], result["percent"]
    assert low <= 100 * result["lower"] / largest["upper"]
    assert high >= min(100 * result["upper"] / largest["lower"], 100)
    assert re.search(r"percent: .* % of the maximal confidence in class 0", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("given", "targets"),
    [
        ([], [1, 2]),
        (["--target", "2"], [2]),
        (["--target", "1,2"], [1, 2]),
        (["--target", "2", "--target", "1"], [1, 2]),
    ],
)
def test_targets(given: list[str], targets: list[int], model: str, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    assert main(["verify", model, *VERIFY, *given, "--json", str(output)]) == 0
    assert json.loads(output.read_text())["problem"]["targets"] == targets


def test_notes_of_both_searches_are_kept(
    model: str, tmp_path: Path, engine_that: Callable[[Action], str]
) -> None:
    engine = engine_that(lambda run: run.note(f"seen {run.problem.perturbation}"))
    output = ["--json", str(tmp_path / "out.json")]
    assert main(["verify", model, *VERIFY, "--engine", engine, "--percent", *output]) == 0
    notes = json.loads((tmp_path / "out.json").read_text())["notes"]
    assert notes == ["seen linf(0.1)", "seen None"]


def test_options_arrive(model: str, engine_that: Callable[[Action], str]) -> None:
    seen: list[Run] = []
    chosen = [
        "--engine",
        engine_that(seen.append),
        "--gap",
        "0.25",
        "--seed",
        "7",
        "--input-range",
        "-1,2",
    ]
    perturbed = ["--perturbation", "brightness([0,0.1])", "--source", "0", "--no-clip"]
    assert main(["verify", model, *perturbed, *chosen]) == 0
    (run,) = seen
    assert (run.options.relative_gap, run.options.seed) == (0.25, 7)
    assert (run.problem.domain.lower, run.problem.domain.upper) == (-1.0, 2.0)
    assert run.problem.clip is False


@pytest.mark.parametrize(
    "command", [["verify", *VERIFY], ["attack", *VERIFY], ["confidence", "--class", "0"]]
)
def test_the_number_of_workers_arrives(
    model: str, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    seen: list[Run] = []

    def search(engine: AbstractEngine, run: Run, deadline: Deadline) -> bool:
        seen.append(run)
        return False

    for engine in (Bab, Attack):
        monkeypatch.setattr(engine, "search", search)
    for given, expected in (("1", 1), ("3", 3)):
        assert main([command[0], model, *command[1:], "-w", given]) == 0
        assert seen[-1].options.workers == expected


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5"])
def test_a_number_of_workers_is_a_number(
    model: str, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    with pytest.raises(SystemExit):
        main(["verify", model, *VERIFY, "--workers", given])
    assert "--workers" in capsys.readouterr().err


def test_an_engine_s_own_options_arrive(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Mip] = []

    def search(engine: Mip, run: Run, deadline: Deadline) -> bool:
        seen.append(engine)
        return False

    monkeypatch.setattr(Mip, "search", search)
    chosen = ("--solver", "highs", "--formulation", "lambda")
    parts = ("--without", "hints", "--without", "attack")
    assert main(["verify", model, *VERIFY, "--engine", "mip", *chosen, *parts]) == 0
    assert seen == [Mip(solver="highs", formulation="lambda", without=("hints", "attack"))]


MIP = ("--engine", "mip")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "missing.onnx", *VERIFY], "no model file at missing.onnx"),
        (["verify", "MODEL", "--perturbation", "blur(3)", "--source", "0"], "not a perturbation"),
        (["verify", "MODEL", "--perturbation", "linf(0.1)", "--source", "9"], "source class 9"),
        (["verify", "MODEL", *VERIFY, "--target", "0"], "both source and target"),
        (
            ["verify", "MODEL", *VERIFY, "--target", "one"],
            "no target class 'one'; without names, write a number",
        ),
        (["verify", "MODEL", *VERIFY, "--engine", "steam"], "unknown engine 'steam'"),
        (["verify", "MODEL", *VERIFY, *MIP, "--without", "luck"], "dependencies, attack, hints"),
        (["verify", "MODEL", *VERIFY, *MIP, "--formulation", "cubic"], "one of: bigm, lambda"),
        (["verify", "MODEL", *VERIFY, *MIP, "--solver", "abacus"], "one of: highs, scip, gurobi"),
        (["verify", "MODEL", *VERIFY, "--solver", "scip"], "engine 'bab' has no option 'solver'"),
        (["verify", "MODEL", *VERIFY, "--without", "hints"], "no option 'without'"),
        (["verify", "MODEL", *VERIFY, *MIP, "--without", "polish"], "unknown part 'polish'"),
        (["verify", "MODEL", *VERIFY, "--gap", "2"], "relative gap"),
        (["verify", "MODEL", *VERIFY, "--gap", "10%"], "'10%' is not a number, such as 0.5"),
        (["local", "MODEL", "--index", "one"], "'one' is not a whole number, such as 5"),
        (["verify", "MODEL", *VERIFY, "--timeout", "-1"], "number of seconds"),
        (["verify", "MODEL", *VERIFY, "--timeout", "nan"], "number of seconds"),
        (["verify", "MODEL", *VERIFY, "--seed", "-1"], "whole number"),
        (["verify", "MODEL", *VERIFY, "--input-range", "1"], "not an interval"),
        (["verify", "MODEL", *VERIFY, "--input-range", "1,0"], "input range"),
        (["verify", "MODEL", *VERIFY, "--json", "missing/out.json"], "cannot write"),
        (["verify", "MODEL", *VERIFY, "--plot", "out.jpg"], "end its name with"),
        (["verify", "MODEL", *VERIFY, "--json", "MODEL"], "would be overwritten"),
        (["verify", "MODEL", *VERIFY, "--json", "a.svg", "--plot", "a.svg"], "named twice"),
        (["verify", "MODEL", *VERIFY, "--certificate", "missing/a.cert"], "cannot write"),
        (["verify", "MODEL", *VERIFY, "--certificate", "MODEL"], "would be overwritten"),
        (["verify", "MODEL", *VERIFY, "--certificate", "a", "--json", "a"], "named twice"),
        (["verify", "MODEL", *VERIFY, "--certificate", "a", "--engine", "mip"], "engine 'bab'"),
        (["verify", "MODEL", *VERIFY, "--certificate", "a", "--engine", "attack"], "engine 'bab'"),
        (["attack", "MODEL", *VERIFY, "--certificate", "a"], "no option --certificate"),
        (["verify", "MODEL", "--pertubation", "linf(1)"], "did you mean --perturbation?"),
        (["verify", "MODEL", "--class", "2"], "no option --class; did you mean --source?"),
        (["confidence", "MODEL", "--source", "2"], "no option --source; did you mean --class?"),
        (["domain", "fit", "--covr=0.9"], "did you mean --cover?"),
        (["--versoin"], "did you mean --version?"),
        (["domain", "fix", "--covr=0.9"], "invalid choice: 'fix'"),
        (["inspect", "--", "--missing.onnx"], "no model file at --missing.onnx"),
        (["verify", "MODEL", *VERIFY, "--dataset", "missing.npz"], "missing.npz"),
        (["attack", "MODEL", *VERIFY, "--dataset", "missing.npz"], "missing.npz"),
        (["attack", "MODEL", *VERIFY, "--device", "abacus"], "invalid choice: 'abacus'"),
        (["attack", "MODEL", *VERIFY, "--device", "cuda"], "finds no CUDA GPU"),
        (["attack", "MODEL", *VERIFY, "--without", "luck"], "starts, aim, lagrangian"),
        (["confidence", "MODEL", "--class", "3"], "source class 3"),
        (["confidence", "MODEL"], "required: --class"),
        (["verfy", "MODEL"], "no command 'verfy'; did you mean verify?"),
        (["quux"], "no command 'quux'; the commands are inspect, verify"),
        (["inspect", "."], ". is a folder"),
    ],
)
def test_bad_input(
    arguments: list[str],
    message: str,
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    before = sorted(tmp_path.iterdir())
    try:
        code: Any = main([model if word == "MODEL" else word for word in arguments])
    except SystemExit as stop:  # argparse ends the program itself
        code = stop.code
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""  # the search did not even begin
    assert printed.err.startswith("vhagar: error: ")  # and no usage before it
    assert message in printed.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("words", [[], ["domain"], ["baseline"]])
def test_a_command_without_its_name_shows_the_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert "examples:" in printed.out
    assert not printed.err


def test_errors_are_not_broken_within_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["verfy"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert all(len(line) <= 60 for line in lines)
    assert " ".join(lines).endswith(", convert, completion")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(
    number: signal.Signals,
    model: str,
    tmp_path: Path,
    engine_that: Callable[[Action], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = engine_that(lambda _: os.kill(os.getpid(), number))
    output, plot = tmp_path / "out.json", tmp_path / "out.svg"
    files = ["--json", str(output), "--plot", str(plot)]
    assert main(["verify", model, *VERIFY, "--engine", engine, *files]) == 130
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("interval: [0, ") for line in lines)
    assert any(line.startswith("status:   the run was interrupted") for line in lines)
    assert lines[-1].endswith("No counterexample was found.")
    assert json.loads(output.read_text())["status"] == "interrupted"
    assert plot.exists()


def test_a_display_that_fails_does_not_cost_the_answer(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no such colour")

    monkeypatch.setattr(PlainWatch, "__call__", fail)
    assert main(["verify", model, *VERIFY]) == 130
    lines = capsys.readouterr().out.splitlines()
    assert "note:     the display failed: no such colour" in lines
    assert lines[-1].startswith("Proven: no input classified 0 ")


def test_interrupted_with_percent_keeps_the_answer(
    model: str,
    engine_that: Callable[[Action], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = engine_that(lambda _: os.kill(os.getpid(), signal.SIGINT))
    assert main(["verify", model, *VERIFY, "--engine", engine, "--percent"]) == 130
    printed = capsys.readouterr().out
    assert "the maximal confidence was not computed" in printed
    assert printed.splitlines()[-1].startswith("Proven: no input classified 0 ")


def test_a_file_that_cannot_be_written_after_all_does_not_cost_the_answer(
    model: str,
    tmp_path: Path,
    engine_that: Callable[[Action], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    engine = engine_that(lambda _: shutil.rmtree(folder))
    files = ["--json", str(folder / "out.json"), "--plot", str(tmp_path / "out.png")]
    assert main(["verify", model, *VERIFY, "--engine", engine, *files]) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1].startswith("Proven: no input classified 0 ")
    assert f"vhagar: error: cannot write {folder / 'out.json'}" in printed.err
    assert (tmp_path / "out.png").exists()  # the other file is written all the same


@pytest.mark.subprocess
def test_a_real_interrupt(hard_model: str, tmp_path: Path) -> None:
    output, proof = tmp_path / "out.json", tmp_path / "proof.cert"
    files = ["--json", str(output), "--certificate", str(proof)]
    process = _start("verify", hard_model, *VERIFY, *files, FORCE_COLOR="1")
    assert process.stdout is not None
    lines = [process.stdout.readline(), process.stdout.readline()]  # the question, the first bound
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    lines += rest.splitlines()
    assert process.returncode == 130
    assert errors == ""
    assert lines[-1].startswith("Proven: no input classified 0 with confidence above ")
    result = json.loads(output.read_text())
    assert result["status"] == "interrupted"
    assert read_certificate(proof, 10).head["claims"]["upper"] == result["upper"]
    assert CONTROL_CODE not in "".join(lines)


@pytest.mark.subprocess
def test_a_reader_that_goes_away_ends_the_run(hard_model: str, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    process = _start("verify", hard_model, *VERIFY, "--json", str(output))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 130
    assert process.stderr.read() == ""
    process.stderr.close()
    assert json.loads(output.read_text())["status"] == "interrupted"


@pytest.mark.subprocess
def test_time_is_kept_and_is_no_failure(
    hard_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", hard_model, *VERIFY, "--target", "1", "--timeout", "0"]) == 0
    assert "status:   the time was up" in capsys.readouterr().out


@pytest.mark.subprocess
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["verify", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from vhagar.cli.main import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as stop:\n"
        "    assert stop.code == 0\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    loaded = set(done.stderr.split())
    assert "vhagar" in loaded
    heavy = {"numpy", "scipy", "onnx", "onnxruntime", "highspy", "rich", "matplotlib", "torch"}
    assert not loaded & heavy


@pytest.mark.subprocess
def test_a_small_problem_needs_no_large_library() -> None:
    """What takes longer to import than the problem to solve is left to others."""
    program = (
        "import sys\n"
        "from vhagar.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    network = Path(__file__).parents[2] / "examples" / "mnist_3x10.onnx"
    question = "--perturbation brightness([0,0.1]) --no-clip --source 0 --target 1 -w 1"
    command = [sys.executable, "-c", program, "verify", str(network), *question.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Proven" in done.stdout
    loaded = set(done.stderr.split())
    assert {"numpy", "highspy"} <= loaded
    assert not loaded & {"torch", "matplotlib", "PIL", "rich", "ray"}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"vhagar {vhagar.__version__}\n"


def _help(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    return capsys.readouterr().out


def test_help_shows_every_perturbation(capsys: pytest.CaptureFixture[str]) -> None:
    text = _help("verify", capsys)
    for form in PERTURBATIONS.values():
        assert f"  {form} " in text


def test_examples_of_the_help_can_be_parsed(capsys: pytest.CaptureFixture[str]) -> None:
    text = _help("verify", capsys).replace(" \\\n", "")
    examples = re.findall(r"^  vhagar (.*)$", text, re.MULTILINE)
    assert len(examples) >= 3
    for example in examples:
        arguments = _parser().parse_args(shlex.split(example))
        parse(arguments.perturbation)


@pytest.mark.parametrize(
    "command",
    [
        "verify",
        "attack",
        "confidence",
        "baseline marabou",
        "baseline dataset",
        "baseline random",
        "local",
    ],
)
def test_every_option_is_documented(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = DOCUMENT.read_text()
    options = set(re.findall(r"^  (--[a-z-]+)", _help(command, capsys), re.MULTILINE))
    assert "--timeout" in options
    for option in options:
        assert re.search(rf"^\| `{option}[ `]", text, re.MULTILINE), option


@pytest.mark.parametrize(
    "words",
    [
        ["verify"],
        ["attack"],
        ["confidence"],
        ["sweep"],
        ["local"],
        ["compare"],
        ["baseline", "marabou"],
    ],
)
def test_every_command_that_searches_takes_a_number_of_workers(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    assert "--workers N" in capsys.readouterr().out
