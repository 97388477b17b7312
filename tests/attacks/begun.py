"""Attacks on `init -- COMMAND` and `doctor -- COMMAND`: `PYTHONPATH=tests python tests/attacks/begun.py`; `--write`.

A program measures itself, and does harm before or after: it fails sometimes, writes odd files, floods its output, kills
what measures it. An attack works if perfgate has an internal error, does not end, prints a command of CI, writes out of
its folder or over a file of the user, or if the gate that it made is green for the same program three times as slow.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from many import write_table

BEGIN, END = "<!-- generated: tests/attacks/begun.py -->\n", "<!-- end of begun.py -->\n"
MOST_S = 90
PROGRAM = """
import json, os, random, sys
slow = 3 if os.path.exists("slow") else 1
values = [slow * 0.1 * random.gauss(1, 0.004) for _ in range(40)]
series = [dict(metric="step_time", unit="s", values=values)]
path = os.path.join(os.environ.get("PERFGATE_RESULTS", "."), "r.json")
json.dump({"schema": "perfgate.results/1", "series": series}, open(path, "w"))
"""
#: $P is the program, $R the folder for results; `n` counts the runs.
SCRIPTS = (
    *(
        "$P; exit $((n % 2))",
        "$P; exit $((n == 3))",
        "exit 0",
        "exit 77",
        "$P; kill -9 $$",
        "$P; kill -STOP $$",
        "kill $PPID",
    ),
    *(
        "$P; rm -f $R/r.json",
        "$P; : > $R/r.json",
        "$P; head -c 60 $R/r.json > $R/x; mv $R/x $R/r.json",
        "$P; rm -rf $R",
    ),
    *("$P; mkfifo $R/x.json", "$P; ln -s /dev/zero $R/x.json", "$P; ln -s /etc/passwd $R/x.json", "$P; ln -s $R $R/x"),
    *("$P; mkdir $R/r.json.machine", "$P; cp $R/r.json $R/r2.json", "$P; head -c 99999 /dev/urandom > $R/x.json"),
    *(
        "$P; truncate -s 1G $R/x.json",
        "$P; truncate -s 1G $R/r.json.machine",
        "$P; touch $R/$(printf 'a\\nb::error::x').json",
    ),
    *("$P; for i in $(seq 2000); do : > $R/$i.json; done", "$P; mkdir -p $R/$(seq -s/ 500)", "$P; chmod 0 $R/r.json"),
    *(
        "$P; yes '::error::x' | head -c 3000000",
        "$P; head -c 3000000 /dev/urandom",
        "$P; yes | tr -d '\\n' | head -c 9000000",
    ),
    *(
        "$P; printf 'step_time: 0.1 s\\n\\033[2J##[error]x\\r::stop::x\\n'",
        "$P; echo step 1: time 1e999 ms",
        "$P; exec 1>&- 2>&-",
    ),
    *("rm -rf rules baselines; $P", "mkdir -p rules; echo x > rules/perfgate.yaml; $P", "ln -s /nowhere rules; $P"),
    *(
        "$P; mkdir -p rules; ln -sf $HOME/mine rules/perfgate.yaml",
        "$P; ln -sf $HOME/mine .github",
        "$P; mkdir baselines; ln -s / baselines/x",
    ),
    *(
        "$P; rm -rf $PWD/*",
        "cd /; $P",
        "$P; chmod 0 .",
        "$P; chmod 500 .; chmod 500 rules",
        "$P; git init -q; git config core.fsmonitor 'touch $HOME/bad'",
    ),
    *(
        "$P; sleep 999 & sleep 0.1",
        "(sleep 999; $P) & $P",
        "$P; setsid sleep 99 &",
        "$P; for p in $(pgrep -P $PPID); do kill -9 $p; done",
    ),
    *(
        "if [ $n = 1 ]; then $P; fi",
        "if [ $n = 3 ]; then echo '{}' > $R/r.json; else $P; fi",
        "touch slow; $P; rm slow",
    ),
    *(
        "if [ $n = 2 ]; then touch slow; fi; $P; rm -f slow",
        "$P; cp $R/r.json keep 2>/dev/null || :; cp keep $R/r.json",
    ),
    *(
        "$P; ulimit -f 0; echo x > $R/y.json",
        "$P; echo '- *a' > $R/x.yaml",
        "$P; export PERFGATE_RESULTS=/; $P",
        "$P; sed -i s/step_time/$n/ $R/r.json",
    ),
    *(
        "$P; sed -i s/step_time/$(printf 'x%.0s' $(seq 3000))/ $R/r.json",
        "$P; sed -i 's/step_time/a\\\\n::error::b/' $R/r.json",
    ),
    *(
        "$P; sed -i 's/step_time/*/' $R/r.json",
        '$P; sed -i "s/step_time/it\'s {rank=1} within 5% of/" $R/r.json',
        "$P; sed -i s/step_time// $R/r.json",
    ),
    *(
        "$P; sed -i 's/step_time/a: b #c/' $R/r.json",
        '$P; sed -i \'s/"s"/"parsec"/\' $R/r.json',
        "$P; sed -i 's/0\\./-0./g' $R/r.json",
    ),
    *(
        "$P; sed -i 's/0\\.[0-9]*/0.1/g' $R/r.json",
        "$P; sed -i 's/0\\.[0-9]*/0/g' $R/r.json",
        "$P; sed -i 's/0\\.[0-9]*/1e308/g' $R/r.json",
    ),
)
#: Words of a command that are odd, as they are remembered in YAML and given to a program without a shell.
WORDS = (
    *(
        "\n",
        "\t",
        "'",
        '"',
        "\\",
        "{results}",
        "{",
        "}",
        "{run}",
        "{x}",
        "%",
        "#",
        ": ",
        "- ",
        "&a",
        "*a",
        "!!x",
        "no",
        "0x1f",
    ),
    *(
        "1e3",
        "~",
        "",
        " ",
        "\u00b2",
        "\u2028",
        "\ufeff",
        "\x01",
        "\x7f",
        "\U0001f984",
        "a" * 9000,
        "--",
        "-",
        "|",
        ">",
        "$(id)",
    ),
    *(
        "`id`",
        "@x",
        "\r",
        "\x85",
        "\ud800",
        "null",
        "2026-01-01",
        "?",
        "[a",
        "{a: b",
        "---",
        "...",
        "\x1b[2J",
        "::error::x",
    ),
)


def started(home: Path, *words: str) -> tuple[int, str]:
    """The exit code and the output of perfgate in the folder of an attack; 4 if it does not end."""
    environment = {**os.environ, "HOME": str(home), "P": f"{sys.executable} {home}/p.py", "COUNT": str(home / "n")}
    environment.pop("CI", None)
    one = subprocess.Popen(
        [sys.executable, "-m", "perfgate", *words], cwd=home / "c", env=environment, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said = one.communicate(timeout=MOST_S)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(one.pid, signal.SIGKILL)
        return 4, "it hangs"
    return (4 if one.returncode < 0 and one.returncode != -15 else one.returncode), said


def attacked(*command: str, words: tuple[str, ...] = ("init", "--timeout", "20s", "--")) -> int:
    """The exit code of a command of perfgate; 4 if the attack works."""
    home = Path(tempfile.mkdtemp(prefix="begun-"))
    (home / "c").mkdir()
    (home / "p.py").write_text(PROGRAM)
    (home / "mine").write_text("mine")
    try:
        code, said = started(home, *words, *command)
        is_bad = code not in (0, 1, 2, 3, 130, 143) or "Traceback" in said or re.search(r"(?m)^::|\x1b\[2J", said)
        is_bad = is_bad or (home / "mine").read_text() != "mine" or (home / "bad").exists()
        if not is_bad and code == 0 and words[0] == "init":
            (home / "c/slow").touch()
            later, told = started(home, "run", "--runs", "1", "--timeout", "20s")
            is_bad, said = later in (0, 4), said + told
            code = 3
        if is_bad and "SHOW" in os.environ:
            print(command, code, said[-700:], file=sys.stderr, flush=True)
        return 4 if is_bad else 3 if code == 0 else code
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", home], check=False)
        shutil.rmtree(home, ignore_errors=True)


def script(text: str) -> tuple[str, ...]:
    return ("sh", "-c", f"R=${{PERFGATE_RESULTS:-.}}; echo >> $COUNT; n=$(wc -l < $COUNT); {text}")


def tried() -> dict[str, list[tuple[str, int]]]:
    """Try every attack; return the script or the word, and the exit code of each."""
    found = {"a program that `init` runs": [(one, attacked(*script(one))) for one in SCRIPTS]}
    usable = [word for word in WORDS if "\0" not in word]
    found["words of a remembered command"] = [
        (ascii(word[:40]), attacked("sh", "-c", "$P", os.fsdecode(word.encode("utf-8", "surrogatepass"))))
        for word in usable
    ]
    doctor = ("doctor", "--time", "3s", "--")
    found["a program that `doctor` runs"] = [(one, attacked(*script(one), words=doctor)) for one in SCRIPTS[::4]]
    return found


if __name__ == "__main__":
    results = tried()
    sys.exit(write_table(results, "attacked by", BEGIN, END))
