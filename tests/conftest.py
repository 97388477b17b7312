"""What the tests share: the command line as a function, logs and result files with known values."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure: properties are about answers, not about time. A change is judged by the same examples
# as its base; the thorough profile looks for new ones.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("perfgate", _UNTIMED, max_examples=30, derandomize=True)
settings.register_profile("thorough", _UNTIMED, max_examples=300)
settings.load_profile("perfgate")

# A shell that starts the tests in the background lets them ignore Ctrl-C, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of tests start perfgate as a program. It keeps its bytecode, as for users: else each compiles it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores, because many tests wait for programs that they start: a tenth less time on two."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that read ../shared are skipped where it is absent."""
    if SHARED.is_dir():
        return
    for item in items:
        if item.get_closest_marker("shared"):
            item.add_marker(pytest.mark.skip(reason="../shared is not here"))


def answer_of(found: Any) -> str:
    """The outcome of a result or verdict; `suspect` if it is undecided because it is probably worse."""
    return "suspect" if found.outcome == "undecided" and found.suspect else str(found.outcome)


@pytest.fixture
def shared() -> Path:
    """The folder of samples and reference values beside the repository."""
    return SHARED


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with a fixed date, and nothing of the machine's surroundings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")  # 2026-01-01
    monkeypatch.setenv("GITHUB_ACTOR", "ada")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "NO_COLOR", "CI", "GITHUB_ACTIONS", "RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


#: The commands whose short report leaves the sentences of verdicts out.
_WITH_VERDICTS = ("check", "report", "run")


@pytest.fixture
def in_short(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command line, in this process and in the test's folder, as a user types it."""
    from perfgate.cli.entry import run

    def command(*words: str | Path) -> Done:
        capsys.readouterr()
        code = run([str(word) for word in words])
        found = capsys.readouterr()
        return Done(code, found.out, found.err)

    return command


@pytest.fixture
def perfgate(in_short: Callable[..., Done]) -> Callable[..., Done]:
    """The same with everything that a verdict says: `perfgate("check", "new.log")` is `check --verbose new.log`."""

    def command(*words: str | Path) -> Done:
        with_details = words and words[0] in _WITH_VERDICTS and not {"-q", "--quiet", "--help"} & {*map(str, words)}
        return in_short(*words[:1], *(["--verbose"] if with_details else []), *words[1:])

    return command


def steady(centre: float, n: int = 200, spread: float = 0.01, seed: int = 1) -> list[float]:
    """n values around a centre, in no particular unit, without any warm-up."""
    return [float(x) for x in centre * (1 + spread * np.random.default_rng(seed).standard_normal(n))]


def write_rules(folder: Path, *sentences: str, name: str = "rules/rules.yaml", head: str = "") -> Path:
    """A rule file with these sentences, each quoted as YAML asks for."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join("  - '" + sentence.replace("'", "''") + "'\n" for sentence in sentences)
    path.write_text(f"version: 1\n{head}rules:\n{lines}", encoding="utf-8")
    return path


def write_log(path: Path, ranks: Sequence[dict[str, Sequence[float]]] = (), **timers: Sequence[float]) -> Path:
    """A DeepSpeed log of timers in milliseconds: of one rank, or of several whose records alternate."""
    lines = []
    for rank, columns in enumerate(ranks or [timers]):
        for step in range(max(map(len, columns.values()))):
            cells = "".join(f" | {name}: {x[step]:.4f}" for name, x in columns.items() if step < len(x))
            lines.append(
                (step, f"[2026-01-01 00:00:00,000] [INFO] [logging.py:77:log_dist] [Rank {rank}] time (ms){cells}")
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for _, line in sorted(lines, key=lambda pair: pair[0])))
    return path


def write_results(path: Path, *series: dict[str, Any], **fields: Any) -> Path:
    """A `perfgate.results/1` document."""
    path.write_text(json.dumps({"schema": "perfgate.results/1", **fields, "series": list(series)}))
    return path


def same_code(path: Path, runs: int = 10) -> list[Path]:
    """The run and `runs` - 1 more of the same code: its times differ by up to .2 %, its bytes and counts do not."""
    from perfgate.core import Series
    from perfgate.workspace.inputs import read_runs

    def again(one: Series, factor: float) -> dict[str, Any]:
        exact = {"count": int, "calls": int, "cv": float}
        is_exact = one.unit in ("B", "FLOP") or all(map(float.is_integer, one.values.tolist() or [0.5]))
        wobble = 0.0 if is_exact else 2e-5  # values times a factor would be a copy
        values = [x * (1 + wobble * math.sin(at * 1e5 * factor)) for at, x in enumerate(one.values.tolist())]
        by = 1.0 if is_exact else factor
        printed = {name: exact[name](x) if name in exact else x * by for name, x in one.aggregate.items()}
        numbers = {"values": [value * by for value in values]} if values else {"aggregate": printed}
        return {"metric": one.key.metric, "labels": dict(one.key.labels), "unit": one.unit, **numbers}

    (run,) = read_runs([str(path)])
    sizes = [0.002 * (1 - number // 2 / runs) for number in range(runs - 1)]  # two of each size, up and down
    if runs % 2 == 0:
        sizes[-1] = 0.0001
    copies = [path.with_name(f"{path.stem}-again{number}.json") for number in range(1, runs)]
    for number, copy in enumerate(copies):
        factor = 1 + (-1) ** number * sizes[number]
        write_results(copy, *(again(one, factor) for one in run.series), environment=dict(run.environment))
    return [path, *copies]


def approve_steady(perfgate: Callable[..., Done], path: Path, runs: int = 10, *words: str) -> list[Path]:
    """Approve a run and more of the same code (see `same_code`), so that one new run can pass and can fail."""
    found = same_code(path, runs)
    done = perfgate("baseline", "approve", *found, "--reason", "first", *words)
    assert done.code == 0, done.said
    return found


# --- a team's repository ------------------------------------------------------------------------------------------


def write_run(
    path: Path, forward: float = 100.0, backward: float = 200.0, *, seed: int = 1, gpu: str = "H200", **facts: object
) -> Path:
    """One run of a training job with two metrics in milliseconds, steady around these values."""
    series = [
        {"metric": "forward", "unit": "ms", "values": steady(forward, spread=0.002, seed=seed)},
        {"metric": "backward", "unit": "ms", "values": steady(backward, spread=0.002, seed=seed + 1000)},
    ]
    return write_results(path, *series, environment={"gpu": gpu, "gpu_count": 1, "world_size": 1, **facts})


def calibrate(perfgate: Callable[..., Done], folder: Path, **centres: float) -> None:
    """Store the noise between eight runs of `write_run`, which `baseline approve` knows nothing of."""
    runs = [write_run(folder / f"unchanged{seed}.json", seed=seed, **centres) for seed in range(8)]
    done = perfgate("rules", "--calibrate", *runs)
    assert done.code == 0, done.said
    for run in runs:
        run.unlink()


class Repository:
    """The git commands of the story, each of which has to succeed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "ada")
        self.git("config", "user.email", "ada@example.org")

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "-A", "rules", "baselines")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(folder: Path, perfgate: Callable[..., Done]) -> Repository:
    """Rules for two metrics, and three runs of unchanged code as the first level, committed on main.

    The noise between runs is calibrated, so that one new run can fail.
    """
    found = Repository(folder)
    write_rules(folder, "forward within 5% of baseline and within 12% of anchor", "backward within 5% of baseline")
    for seed in range(3):
        write_run(folder / f"first{seed}.json", seed=seed)
    assert perfgate("baseline", "approve", "first0.json", "--reason", "first baseline").code == 0
    assert perfgate("baseline", "add", "first1.json", "first2.json").code == 0
    calibrate(perfgate, folder, forward=100, backward=200)
    found.commit("first baseline")
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A date that moves on by a day with every call."""
    now = [1767225600]

    def tomorrow() -> None:
        now[0] += 86400
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(now[0]))

    return tomorrow


# --- work that must end -------------------------------------------------------------------------------------------


@contextmanager
def ends(seconds: float = 60) -> Iterator[None]:
    """Fail what takes so long of the processor, where a moment is enough: quadratic work, not a slow machine."""

    def give_up(*_: object) -> None:
        raise AssertionError("this does not end in any reasonable time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty folder in a bucket of a server of our own."""
    s3fs = pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"team-{uuid4().hex}"  # every server of this library keeps its buckets in the same place
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}/baselines"
    server.stop()
    s3fs.S3FileSystem.clear_instance_cache()
