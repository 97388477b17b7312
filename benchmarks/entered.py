"""Count the files and functions of perfgate that one command enters: how much a reader has to know to follow it.

    python benchmarks/entered.py check            # `perfgate check runs/change.log` on a copy of examples/tiny-gpt
    python benchmarks/entered.py paired           # `perfgate run --paired` of a tiny program with a perfgate.Recorder
    python benchmarks/entered.py check --list     # each file, too, with the functions that are entered

It prints a line such as `check: 55 files, 400 functions`. A function counts once, however often it is called. Named
functions and methods of the package `perfgate` in the process of the command count, in every thread. Lambdas,
comprehensions, class bodies and what dataclasses generate do not. `tests/test_entered.py` has the goals.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = f"{ROOT / 'perfgate'}{os.sep}"
IS_FUNCTION = 0x1  # inspect.CO_OPTIMIZED: unlike modules and class bodies

#: Its clock is made up, for other times are judged by other functions, and a busy machine would change the count.
PROGRAM = """\
import os, random, time

with open("began", "a+") as began:
    print("once more", file=began, flush=True)
    began.seek(0)
    draw = random.Random(len(began.readlines()))
now = 0

def clock():
    global now
    now += int(draw.gauss(1e7, 2e4))
    return now

time.perf_counter_ns = clock
from perfgate import Recorder

with Recorder(os.path.join(os.environ["PERFGATE_RESULTS"], "results.json")) as recorder:
    for _ in range(30):
        with recorder.step_span():
            time.sleep(0.02)
"""
RULES = "version: 1\nrules:\n  - step.time within 900% of baseline\n  - step.time under 1 s\n"

Entered = dict[str, set[str]]


def entered_by(words: list[str]) -> Entered:
    """Run a command line in this process; return the functions that it enters, by file."""
    sys.path.insert(0, str(ROOT))
    from perfgate.__main__ import main

    found: dict[tuple[str, int], str] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_flags & IS_FUNCTION:
            found[code.co_filename.removeprefix(PACKAGE), code.co_firstlineno] = code.co_name

    sys.argv = ["perfgate", *words]
    printed = io.StringIO()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
    except SystemExit as ended:
        if ended.code != 0:
            sys.exit(f"perfgate {' '.join(words)} ended with {ended.code}:\n{printed.getvalue()}")
    finally:
        sys.setprofile(None)
    by_file: Entered = {}
    for (file, line), name in sorted(found.items()):
        if not name.startswith("<"):
            by_file.setdefault(file, set()).add(f"{name}:{line}")
    return by_file


def check(folder: Path) -> list[str]:
    """Prepare `check` in a copy of the example."""
    shutil.copytree(ROOT / "examples" / "tiny-gpt", folder, dirs_exist_ok=True)
    return ["check", "runs/change.log"]


def paired(folder: Path) -> list[str]:
    """Prepare `run --paired` of a program that takes steps by turns with itself."""
    (folder / "rules").mkdir()
    (folder / "rules" / "rules.yaml").write_text(RULES, encoding="utf-8")
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    os.environ["PYTHONPATH"] = str(ROOT)
    command = f"{sys.executable} train.py"
    return ["run", "--paired", "--base", command, "--new", command, "--runs", "2"]


def main() -> None:
    """Parse the arguments, measure and print."""
    commands = {"check": check, "paired": paired}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("--list", action="store_true", help="print each file with its functions")
    given = parser.parse_args()
    for name in ("CI", "GITHUB_ACTIONS", "PERFGATE_LIMITS"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        entered = entered_by(commands[given.command](Path(folder)))
        os.chdir(ROOT)
    if given.list:
        for file, names in entered.items():
            print(f"{file} {len(names)}: {', '.join(sorted(name.partition(':')[0] for name in names))}")
    print(f"{given.command}: {len(entered)} files, {sum(map(len, entered.values()))} functions")


if __name__ == "__main__":
    main()
