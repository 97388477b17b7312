"""Attacks on a search: `PYTHONPATH=tests python tests/attacks/bisected.py`; `--write` writes the table.

`perfgate bisect` searches six commits for a slow one, whose program or build fails, writes wrong results, or harms its
worktree. An attack works if the answer is another commit or an error of perfgate, or if the user's clone is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from many import write_table

BEGIN, END = "<!-- generated: tests/attacks/bisected.py -->\n", "<!-- end of bisected.py -->\n"
PROGRAM = """
import json, os, random, subprocess, sys
slow, out, keep = SLOW, os.environ["PERFGATE_RESULTS"], os.environ["KEEP"]
os.makedirs(out, exist_ok=True)
path = out + "/r.json"
def sh(script): subprocess.run(script, shell=True)
def write(path, values, metric="step_time", unit="s"):
    series = [dict(metric=metric, unit=unit, values=values)]
    json.dump({"schema": "perfgate.results/1", "series": series}, open(path, "w"))
values = [(0.15 if slow else 0.1) * random.gauss(1, 0.004) for _ in range(40)]
BEFORE
write(path, values)
AFTER
"""
BEFORE = (
    *("if slow: sys.exit(random.choice([0, 1, 3]))", "if random.random() < 0.3: sys.exit(0)", "if slow: sys.exit(3)"),
    *("if random.random() < 0.3: sys.exit(1)", "if random.random() < 0.3: os.kill(os.getpid(), 9)"),
    *("sh('rm -f .git')", "sh('rm -f .git; git reset -q --hard HEAD~1')", "sh('git checkout -q -f -b evil')"),
    *("sh('git commit -q --allow-empty -m e')", "sh('git stash')", "sh('git worktree prune')"),
    *("sh('git config core.hooksPath /nowhere; git config core.fsmonitor false')", "os.close(1); os.close(2)"),
    *("os.symlink('/etc/passwd', out + '/x.json')", "sh('sleep 30 &')", "os.environ.clear()"),
    *("sh('rm -rf ' + keep + '/*.json')", "sh('for f in ' + keep + '/*.json; do echo {} > $f; done')"),
    *("sh('chmod 0 ' + keep)", "if 'c' != os.path.basename(os.getcwd()): sh('rm -rf ../*')"),
)
AFTER = (
    *("write(out + '/r2.json', [0.1] * 40)", "open(path, 'w').write('{')", "os.remove(path)", "os.truncate(path, 30)"),
    *("print('::error::x' + 'x' * 10 ** 6)", "[write(out + f'/{i}.json', [1.0]) for i in range(300)]"),
    *("write(path, [float('nan')] * 40)", "write(path, values, 'other' if slow else 'step_time')"),
    "write(path, values, unit='B' if slow else 's')",
)
BUILDS = (
    *("true", "exit 1", "exit $(($(od -An -N1 -tu1 /dev/urandom) % 2))", "rm -f .git", "git reset -q --hard HEAD~1"),
    *(
        "git checkout -q -f main",
        "rm run.py",
        "kill -9 $$",
        "git clean -fdxq ..",
        "chmod 000 .",
        "touch perfgate-bisect",
    ),
    *("echo '::error::x'; head -c 100000 /dev/urandom", "ln -sf /dev/zero run.py", "git worktree remove --force ."),
    "git config --global user.name evil",
)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


def state() -> tuple[str, ...]:
    """What the clone of the user has."""
    head, branch = git("rev-parse", "HEAD"), git("symbolic-ref", "HEAD")
    return head, branch, git("status", "--porcelain", "--untracked-files=no"), Path("run.py").read_text()


def searched(before: str, after: str, build: str) -> int:
    """The exit code of a search in a new clone; 4 if the answer is wrong or the clone has changed."""
    home = tempfile.mkdtemp(prefix="bisected-")
    keep = f"{home}/kept"
    os.mkdir(f"{home}/c")
    os.chdir(f"{home}/c")
    git("init", "-q", "-b", "main")
    commits = []
    for number in range(6):
        program = PROGRAM.replace("SLOW", str(number >= 3)).replace("BEFORE", before).replace("AFTER", after)
        Path("run.py").write_text(f"{program}# {number}\n")
        git("add", "run.py")
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", f"c{number}")
        commits.append(git("rev-parse", "HEAD"))
    was = state()
    words = [sys.executable, "-m", "perfgate", "bisect", "--good", commits[0], "--metric", "step_time", "--whole-runs"]
    words += ["--tolerance", "10%", "--max-runs", "14", "--timeout", "20s", "--keep", keep]
    words += ["--build", f"sh -c {build!r}"] if build else []
    done = subprocess.run(
        [*words, "--", sys.executable, "run.py"],
        env={**os.environ, "KEEP": keep, "HOME": home},
        capture_output=True,
        check=False,
    )
    said = done.stdout.decode(errors="replace")
    is_right = done.returncode == 3 or (done.returncode == 0 and commits[3][:7] in said)
    has_command = any(line.startswith(b"::") for line in (done.stdout + done.stderr).splitlines())
    code = done.returncode if is_right and not has_command and state() == was else 4
    subprocess.run(["chmod", "-R", "u+rwx", home], check=False)
    shutil.rmtree(home, ignore_errors=True)
    return 3 if code == 0 else code  # the right commit is no success of an attack


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack; return the script and the exit code of each."""
    programs = [*((way, "", "") for way in BEFORE), *(("", way, "") for way in AFTER)]
    return {
        "the program of a commit": [
            (before or after, searched(before, after, build)) for before, after, build in programs
        ],
        "its build": [(build, searched("", "", build)) for build in BUILDS],
    }


if __name__ == "__main__":
    results = tried()
    os.chdir("/")
    sys.exit(write_table(results, "attacked by", BEGIN, END))
