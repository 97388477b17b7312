"""Attacks by a full disk: `PYTHONPATH=tests python tests/attacks/full.py`; `--write` writes the table. It needs root.

A command, or a training with a recorder, works in a tmpfs with few pages left, or its temporary files do. An attack
works if a slow run gets a green, if 0 is returned and something is missing, if anything that was stored is lost or
cannot be read after that, if a training stops, or if perfgate has an internal error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from many import document, exit_code, write_table

BEGIN, END = "<!-- generated: tests/attacks/full.py -->\n", "<!-- end of full.py -->\n"
PAGE = 4096
#: The pages that are left for the command: fewer and fewer steps as the room grows.
ROOM = (*range(9), 10, 12, 14, 17, 20, 24, 30, 40, 60, 90)
RULES = "version: 1\nsuite: s\nrules:\n  - step within 10% of baseline\n  - step p90 within 10% of baseline\n"
#: perfgate, which writes the values of every document to temporary files.
IN_PIECES = """
import sys
from perfgate.cli.entry import run
from perfgate.readers.recorded import results
results.WHOLE_BYTES = 1000
sys.exit(run())
"""
RECORD = """
import sys, time
from perfgate import Recorder
with Recorder(sys.argv[1], work=True, machine=True) as recorder:
    for i in range(4000):
        with recorder.step_span(): recorder.record("step", 0.3 + i % 7 / 1000, unit="s")
print("trained")
"""
COPY = "cp slow.json $PERFGATE_RESULTS/new.json"
REPORTS = ("--json", "r.json", "--html", "r.html", "--junit", "r.xml", "--markdown", "r.md", "--sarif", "r.sarif")
#: The commands by kind. What compares is given a slow run, so that no green is right.
COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "a check, its reports, a run": [
        ("check", "slow.json"),
        ("check", "slow.json", *REPORTS),
        ("report", "old.json", *REPORTS[2:]),
        ("run", "--runs", "2", "--", "sh", "-c", COPY),
        ("run", "--runs", "2", "--", sys.executable, "train.py", "{results}/new.json"),
        ("record", "--out", "rec.json", "--", "sh", "-c", "sleep 0.3"),
    ],
    "what is stored": [
        ("baseline", "approve", "ok.json", "--reason", "again"),
        ("baseline", "add", "ok.json"),
        ("baseline", "prune", "--keep", "1"),
        ("history", "add", "ok.json"),
        ("history", "compact"),
        ("history", "export", "--to", "x.csv"),
        ("history", "report", "--html", "h.html"),
        ("history", "import", "x-old.csv", "--suite", "t"),
        ("rules", "--calibrate", *(f"base-{number}.json" for number in range(8))),
        ("init", "base-0.json", "base-1.json", "--rules", "other"),
    ],
}


def prepared() -> None:
    """Make a gate with a baseline, a history and reports."""
    Path("rules").mkdir()
    Path("rules/rules.yaml").write_text(RULES)
    Path("train.py").write_text(RECORD)
    Path("limit").mkdir()
    Path("limit/rules.yaml").write_text("version: 1\nrules:\n  - step median under 350 ms\n")
    runs = [f"base-{number}.json" for number in range(8)]
    for number, name in enumerate(runs):
        Path(name).write_text(json.dumps(document(1, number)))
    for name, slower in (("slow.json", 3), ("ok.json", 1)):
        Path(name).write_text(json.dumps(document(slower, 31)))
    subprocess.run(["git", "init", "-q"], check=True)
    assert exit_code("baseline", "approve", *runs[:4], "--reason", "first") == 0
    for name in runs[4:]:
        words = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", name]
        subprocess.run(words, check=True)
        assert exit_code("history", "add", name) == 0
    assert exit_code("history", "export", "--to", "x-old.csv") == 0
    assert exit_code("check", "slow.json", "--json", "old.json") == 1


def stored() -> dict[str, str]:
    """The hash of each file below `baselines` and `rules`."""
    paths = [path for top in ("baselines", "rules") for path in Path(top).rglob("*") if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def mount(folder: Path, room: int, *, kept: Path | None = None) -> None:
    """Mount a tmpfs on a folder, copy files into it, and leave it `room` pages."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "perfgate-full", folder], check=True)
    if kept is not None:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
    resize(folder, used(folder) + room)


def used(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_blocks - found.f_bfree


def resize(folder: Path, pages: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={max(pages, 1) * PAGE}", folder], check=True)


def ended(words: tuple[str, ...], *, temporary: Path | None) -> tuple[int, str]:
    environment = {**os.environ, "TMPDIR": str(temporary or "/tmp"), "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout + done.stderr


def attacked(kept: Path, folder: Path, words: tuple[str, ...], room: int, *, is_temporary: bool) -> int:
    """The exit code of a command with little room; 4 if it harms anything."""
    temporary = folder.with_name("temporary")
    mount(folder, 30_000 if is_temporary else room, kept=kept)
    if is_temporary:
        mount(temporary, room)
    os.chdir(folder)
    try:
        before = stored()
        program = ("-c", IN_PIECES) if is_temporary else ("-m", "perfgate")
        code, said = ended((*program, *words), temporary=temporary if is_temporary else None)
        is_harmed = code not in (0, 1, 2, 3) or "Traceback" in said
        resize(folder, 60_000)
        after = stored()
        removes = words[:2] in (("baseline", "prune"), ("history", "compact"), ("baseline", "approve"))
        is_harmed |= not removes and any(after.get(name) != was for name, was in before.items())
        is_harmed |= exit_code("baseline", "verify") != 0 or exit_code("check", "slow.json") not in (1, 3)
        is_harmed |= len(numbers()) < len(EVERY)
        is_lost = code == 0 and exit_code(*words) not in (0, 1, 2, 3)
        is_compared = words[0] in ("check", "report", "run")
        if os.environ.get("SHOW") and (is_harmed or is_lost or (is_compared and code == 0)):
            print(room, is_temporary, words, code, said[-600:], file=sys.stderr)
        return 4 if is_harmed or is_lost else 3 if code == 0 and not is_compared else code
    finally:
        os.chdir("/")
        subprocess.run(["umount", folder], check=True)
        if is_temporary:
            subprocess.run(["umount", temporary], check=True)


EVERY: set[str] = set()


def numbers() -> set[str]:
    """The lines of the whole history."""
    exit_code("history", "export", "--to", "/tmp/perfgate-full.csv", "--suite", "s")
    return set(Path("/tmp/perfgate-full.csv").read_text().splitlines())


def trained(folder: Path, room: int) -> int:
    """The exit code of a check of what a training recorded with little room; 4 if it stopped, 3 if all is there."""
    mount(folder, room)
    try:
        code, said = ended((str(folder.with_name("kept") / "train.py"), str(folder / "new.json")), temporary=None)
        if code or "trained" not in said:
            return 4
        os.chdir(folder.with_name("kept"))
        code = exit_code("check", str(folder / "new.json"), "--rules", "limit")
        words = ("-m", "perfgate", "inspect", str(folder / "new.json"))
        return 3 if code == 0 and " 4000 " in ended(words, temporary=None)[1] else code
    finally:
        os.chdir("/")
        subprocess.run(["umount", folder], check=True)


def tried(top: Path) -> dict[str, list[tuple[str, int]]]:
    """Try every attack; return the command and the exit code of each."""
    kept, folder = top / "kept", top / "full"
    for path in (kept, folder, top / "temporary"):
        path.mkdir()
    os.chdir(kept)
    prepared()
    EVERY.update(numbers())
    found: dict[str, list[tuple[str, int]]] = {}
    for kind, commands in COMMANDS.items():
        for words in commands:
            for room in ROOM:
                code = attacked(kept, folder, words, room, is_temporary=False)
                found.setdefault(kind, []).append((f"{room} pages: {' '.join(words)}", code))
            for room in ROOM[:: 1 if words[0] in ("check", "baseline") else 5]:
                code = attacked(kept, folder, words, room, is_temporary=True)
                found.setdefault("its temporary files", []).append((f"{room} pages: {' '.join(words)}", code))
    found["a training that is recorded"] = [
        (f"{room} pages", trained(folder, room)) for room in (*range(0, 90, 2), 200)
    ]
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        results = tried(Path(scratch))
    sys.exit(write_table(results, "full", BEGIN, END))
