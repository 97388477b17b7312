"""Attacks on the history, the ledger and `doctor`: `PYTHONPATH=tests python tests/attacks/remembered.py`; `--write`.

A file of the history, the ledger, the machines or the baselines is forged: it has other numbers, texts and places, and
the right hash of them. Commits and rules have hostile names, a program harms `history backfill`, which measures it, or
the system of `doctor` shows nonsense. An attack works if a command has an internal error, takes longer than `MOST_S`,
prints a command of CI, an escape or a mark of writing direction, or changes the user's clone or the remembered runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from begun import PROGRAM, SCRIPTS, script, started
from conftest import steady
from many import write_table
from stored import changed, places

from perfgate.cli.entry import run
from perfgate.commands import doctor

BEGIN, END = "<!-- generated: tests/attacks/remembered.py -->\n", "<!-- end of remembered.py -->\n"
ATTACKS, MOST_S = 900, 30
BAD = re.compile(r"(?m)^\s*::\w|##[\[vt]|\x1b|\r|[\u200e\u200f\u202a-\u202e\u2066-\u2069]|Traceback")
HOSTILE = (
    *("::error::x", "a\n::error::x", "##vso[task.complete result=Succeeded]", "##teamcity[buildStop]", "\x1b[2J"),
    *(
        "a\u202eb",
        "a\rb",
        "@all",
        "#1",
        "<img src=x>",
        "[a](http://x)",
        "x" * 5000,
        "a\x00b",
        "=HYPERLINK(0)",
        "../../x",
    ),
    *("\ud800", "a,b", '"', "{x}", "*", "%s", "-", "", " ", "forward", "\u0663", "nan", "1e999", "a/b", "C:\\x", "NUL"),
)
#: Those that can be words of a command.
TYPED = [text for text in HOSTILE if "\x00" not in text and text.isascii() | text.isprintable()]
#: What reads the files below `baselines/`, beside `check` and the commands of `stored.py`.
READING = (
    *(("history", "backfill", "forward"), ("history", "backfill", "forward", "--json"), ("history", "quarantine")),
    *(
        ("history", "show"),
        ("history", "show", "forward"),
        ("history", "show", "--json"),
        ("history", "events", "--all"),
    ),
    *(("history", "export"), ("history", "export", "--format", "openmetrics"), ("history", "report", "--html", "-")),
    *(("history", "export", "--format", "github-action-benchmark"), ("history", "compact", "--all"), ("rules",)),
    *(
        ("rules", "diff", "rules", "rules"),
        ("baseline", "verify"),
        ("history", "watch", "--dry-run"),
        ("check", "new.json"),
    ),
    *(("rules", "explain"), ("baseline", "list"), ("history", "events", "--json"), ("attack", "new.json")),
)
#: How the state of a clone is asked for.
STATE = ("rev-parse HEAD", "symbolic-ref HEAD", "diff --cached --name-only", "stash list", "branch --list")
#: The counters of Linux that `doctor` reads, and what is in their place.
COUNTERS = (
    *("proc/stat", "proc/loadavg", "proc/pressure/cpu", "proc/7/stat", "proc/self/cgroup", "sys/fs/cgroup/cpu.stat"),
    *("sys/fs/cgroup/cpu.max", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "proc/meminfo", "proc/cpuinfo"),
    *("sys/devices/system/cpu/intel_pstate/no_turbo", "sys/devices/system/cpu/smt/active"),
    *("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "sys/devices/system/cpu/cpufreq/boost"),
    *("sys/kernel/mm/transparent_hugepage/enabled", "sys/devices/system/cpu/cpu0/topology/thread_siblings_list"),
)
CONTENTS: tuple[Any, ...] = (
    *(
        b"",
        b"\n",
        b"\x00" * 99,
        b"\xff" * 99,
        b"nan",
        b"inf",
        b"-1",
        b"1e999",
        b"9" * 5000,
        b"1 " * 9999,
        b"max 0",
        b"0 0",
    ),
    *(
        b"cpu " + b"9" * 400 + b" 1 1 1 1 1 1 1\n",
        b"cpu 1 1\n",
        b"cpu99999999999 1 1 1 1 1 1 1 1\n",
        b"cpu 1 1 1 1 1 1 1 1\n",
    ),
    *(b"::error::x\n\x1b[2J##vso[x]", b"[\x1b[2J]", b"some total=nan", b"some total=-1", b"throttled_usec 1e999"),
    *(Path.mkdir, lambda place: place.symlink_to(place), lambda place: place.symlink_to("/nowhere")),
)
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b")


def written(name: str, values: list[float], metric: str = "forward", **more: Any) -> str:
    series = [{"metric": metric, "unit": "s", "values": values}]
    Path(name).write_text(json.dumps({"schema": "perfgate.results/1", "series": series, **more}))
    return name


def prepared() -> None:
    """Make a repository whose main became 8 % slower, with a baseline, a ledger and a qualified machine.

    The commits that may have done it have hostile subjects and authors.
    """
    Path("rules").mkdir()
    Path("rules/rules.yaml").write_text("version: 1\nrules:\n  - forward within 5% of baseline\n")
    subprocess.run([*GIT, "init", "-q", "-b", "main"], check=True)
    for number in range(24):
        for text in (*TYPED, "last") if number == 14 else ("c",):
            who = re.sub(r"[<>\n]", "_", text[:900])
            words = ("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", text, f"--author=A{who} <a@b>")
            subprocess.run([*GIT, *words], check=True)
        name = written("run.json", steady(0.1 if number < 14 else 0.108, seed=number, spread=0.002))
        assert run(["history", "add", name, "--time", f"2026-01-{number + 1:02}T00:00:00Z", "--ref", "main"]) == 0
    runs = [written(f"base-{seed}.json", steady(0.1, seed=90 + seed, spread=0.002)) for seed in range(3)]
    assert run(["baseline", "approve", *runs, "--reason", "first"]) == 0
    written("new.json", steady(0.1, seed=99, spread=0.002))
    assert run(["check", "new.json"]) == 0  # into the ledger
    doctor._SECONDS, doctor._LOADS_S, doctor._IDLE_S, doctor._BUSY = 0.2, 0.2, 0.05, 9.0
    assert run(["doctor", "--qualify", "--renew"]) in (0, 3)


def named() -> list[tuple[str, int]]:
    """Show commits with hostile subjects, and give hostile words for names."""
    found = [(" ".join(words), outcome(*words)) for words in READING]
    for text in TYPED:
        calls = [("history", "backfill", text), ("history", "backfill", text, "--json")]
        options = ("--change", "--ref", "--suite", "--environment", "--rules", "--baselines")
        calls += [("history", "backfill", "forward", f"{option}={text}") for option in options]
        calls += [("history", "quarantine", f"{option}={text}") for option in options[1:]]
        found += [(ascii(words[-1]), outcome(*words)) for words in calls]
    return found


def ruled() -> list[tuple[str, int]]:
    """Give `quarantine`, `backfill`, `events` and `rules` odd rules of the metrics in the history."""
    kept, found = Path("rules/rules.yaml").read_text(), []
    sentences = [f"{json.dumps(text)} within 5% of baseline" for text in TYPED]
    sentences += [f"forward {one} within 5% of baseline" for one in ("p0.001", "p99.999", "min", "count", "total")]
    sentences += [
        f"forward within {one} of baseline" for one in ("0%", "1e-300%", "99%", "1 ns", "1e300 s", "5% and 1 s")
    ]
    sentences += [
        "* within 5% of baseline",
        "f*r?[v-w]* within 5% of baseline",
        "* over 0",
        "forward / forward under 2",
    ]
    settings = [
        "quarantine: 2026-01-01",
        "quarantine: 9999-12-31",
        "owner: '@all ::x'",
        "on_missing: skip",
        "min_runs: 99",
    ]
    rules = [f"  - {json.dumps(one)}\n" for one in sentences]
    rules += [f"  - {{assert: forward within 5% of baseline, {one}}}\n" for one in settings]
    rules.append("".join(f"  - forward p{number} within 5% of baseline\n" for number in range(1, 99)))
    for rule in rules:
        Path("rules/rules.yaml").write_text(f"version: 1\nrules:\n{rule}")
        calls = (("history", "quarantine"), ("history", "backfill", "forward"), ("rules",), ("history", "events"))
        found += [(f"{' '.join(words)}: {rule[:60]!a}", outcome(*words)) for words in calls]
    Path("rules/rules.yaml").write_text(kept)
    return found


def measured() -> list[tuple[str, int]]:
    """Let `history backfill` measure programs that do harm; nothing that is remembered may be lost."""
    found = []
    for text in (one.replace("step_time", "forward") for one in SCRIPTS):
        home = Path(tempfile.mkdtemp(prefix="remembered-"))
        shutil.copytree(".", home / "c", symlinks=True)
        (home / "p.py").write_text(PROGRAM.replace("step_time", "forward"))
        (home / "mine").write_text("mine")
        before = state(home / "c")
        words = (
            "history",
            "backfill",
            "forward",
            "--runs",
            "2",
            "--timeout",
            "10s",
            "--",
            *script(text.replace("step_time", "forward")),
        )
        code, said = started(home, *words)
        kept = state(home / "c")
        is_bad = code not in (0, 1, 2, 3, 130, 143) or BAD.search(said) is not None or kept[0] != before[0]
        is_bad = is_bad or not before[1] <= kept[1] or (home / "mine").read_text() != "mine" or (home / "bad").exists()
        if is_bad and "SHOW" in os.environ:
            print(text, code, ascii(said[-900:]), kept[0] == before[0], file=sys.stderr, flush=True)
        found.append((text, 4 if is_bad else 3))
        subprocess.run(["chmod", "-R", "u+rwx", home], check=False)
        shutil.rmtree(home, ignore_errors=True)
    return found


def state(clone: Path) -> tuple[bytes, set[str]]:
    """Return what git shows of a clone, and the files below its baselines with their content."""
    git = ["git", "-c", "core.fsmonitor=false", "-C", str(clone)]
    shown = [subprocess.run([*git, *words.split()], capture_output=True, check=False).stdout for words in STATE]
    files = [path for path in (clone / "baselines").rglob("*") if path.is_file()]
    return b"\n".join(shown), {f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files}


def examined() -> list[tuple[str, int]]:
    """Let `doctor` see hostile programs and counters."""
    found = []
    doctor._IDLE_S, doctor.measure_loads = 0.3, lambda *given: []  # type: ignore[assignment]
    burn = (
        "import ctypes, sys\nctypes.CDLL(None).prctl(15, sys.argv[1].encode('utf-8', 'surrogateescape'))\nwhile 1: pass"
    )
    calls = (("doctor", "--machine-only"), ("doctor", "--machine-only", "--json", "-"))
    for text in (*TYPED[:6], ") R 1 (", "((((", "a) S 1 1 1", "\u202ex"):
        with subprocess.Popen([sys.executable, "-c", burn, text]) as burning:
            try:
                found += [(ascii(text), outcome(*words)) for words in calls]
            finally:
                burning.kill()
    doctor._IDLE_S = 0.01
    real, root = doctor._ROOT, Path("root").resolve()
    for name in COUNTERS:
        for content in CONTENTS:
            place = root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if callable(content):
                content(place)
            else:
                place.write_bytes(content)
            doctor._ROOT = root
            found += [(f"{name}: {content!r:.40}", outcome(*words)) for words in calls[1:]]
            shutil.rmtree(root)
    doctor._ROOT = real
    return found


def late(*_: object) -> None:
    raise TimeoutError("it hangs")


def outcome(*words: str) -> int:
    """The exit code of a command, 3 instead of 0; 4 if the attack works."""
    out, told = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", newline="") for _ in range(2))
    signal.alarm(MOST_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
            code = run(list(words))
    except TimeoutError:
        code = 4
    finally:
        signal.alarm(0)
    said = "".join([one.flush() or one.buffer.getvalue().decode("utf-8", "replace") for one in (out, told)])
    if code == 4 or (found := BAD.search(said)):
        if "SHOW" in os.environ:
            at = 0 if code == 4 else found.start()
            print(words, code, ascii(said[max(at - 100, 0) : at + 900]), file=sys.stderr, flush=True)
        return 4
    return 3


def signed(document: Any) -> bytes:
    """Return a stored document with the hash of its content."""
    document.pop("content_sha256", None)
    text = json.dumps(document, indent=2)[:-2] + ',\n  "content_sha256": "'
    digest = hashlib.sha256(f'{text}"\n}}\n'.encode()).hexdigest()
    return f'{text}{digest}"\n}}\n'.encode()


def with_text(source: random.Random, document: Any) -> Any:
    """Return a document in which hostile texts are in the place of one to three texts."""
    texts = [place for place in places(document) if isinstance(at(document, place), str)]
    for place in source.sample(texts, min(len(texts), source.choice((1, 1, 3)))):
        at(document, place[:-1])[place[-1]] = source.choice(HOSTILE)
    return document


def at(document: Any, place: tuple[Any, ...]) -> Any:
    for name in place:
        document = document[name]
    return document


def forged() -> list[tuple[str, int]]:
    """Forge one file below `baselines/` after the other."""
    source, found = random.Random(11), []
    shutil.copytree("baselines", "kept")
    files = [path for path in sorted(Path("baselines").rglob("*.json")) if path.is_file()]
    kinds = [[path for path in files if part in str(path)] for part in ("_history/default", "_ledger", "_machines", "")]
    assert all(kinds)
    for _ in range(ATTACKS):
        path, words = source.choice(source.choice(kinds)), source.choice(READING)
        document = json.loads(path.read_text())
        document = source.choice((changed, with_text))(source, document)
        with contextlib.suppress(UnicodeEncodeError, AttributeError):
            path.write_bytes(signed(document))
            found.append((f"{path}: {' '.join(words)}", outcome(*words)))
        shutil.rmtree("baselines")
        shutil.copytree("kept", "baselines")
    shutil.rmtree("kept")
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        os.environ["CI"] = "true"
        prepared()
        results = {
            "a forged file of the history, the ledger, a machine or a level": forged(),
            "subjects of commits, and words for `backfill` and `quarantine`": named(),
            "rules that `quarantine` replays": ruled(),
            "a program that `backfill` measures": measured(),
            "what `doctor` sees": examined(),
        }
        os.chdir("/")
    sys.exit(write_table(results, "attacked", BEGIN, END))
