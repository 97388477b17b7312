"""The gate of `action.yml`: measure where that is asked for, judge, tell the runner, and exit with the answer.

Inputs come from variables `INPUT_*`, never from the text of a script. The exit code is that of `perfgate check`, of
`perfgate run --paired` or of `perfgate report`; what fails in showing the report is a warning, and changes nothing.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from commits import NOT_JUDGED, base_of_pairs, look_for_policy, measured_head
from showing import Verdict, outputs, publish
from workflow import Refused, folded, for_others, given, lines, perfgate, tell, truth, without_commands, write_outputs

#: When several hold: internal error, usage, failure, could not judge, nothing.
ORDER = (4, 2, 1, 3, 0)
INTERNAL = 4
#: What reports name beside the results, in the working directory: earlier runs, pairs, and the facts of the machine.
KEPT = Path("perfgate-runs")


def main() -> int:
    """Judge, show and tell; returns the exit code, which nothing after the verdict changes."""
    verdict, written = Verdict(INTERNAL), list[str]()
    place = os.environ.get("RUNNER_TEMP")
    try:
        with tempfile.TemporaryDirectory(prefix="perfgate-", dir=place, ignore_cleanup_errors=True) as scratch:
            verdict = judge(Path(scratch))
            written = publish(verdict)
    except Exception as error:  # a traceback would end in 1, which reads as a regression
        tell("error", f"internal error: {type(error).__name__}: {error}")
    write_outputs(outputs(verdict, written))
    return verdict.code


def judge(scratch: Path) -> Verdict:
    """The verdict, or the error that stands for it."""
    try:
        return with_jobs(decide(scratch))
    except Refused as refused:
        tell("error", str(refused))
        return Verdict(refused.exit_code)


def decide(scratch: Path) -> Verdict:
    """The verdict on results, or on the reports of other jobs. Raises Refused."""
    results, reports = lines("results"), lines("report")
    if truth("paired"):
        return pairs(scratch)
    if bool(results) == bool(reports):
        raise Refused("give one of two inputs: results (what was measured), or report (what other jobs reported)")
    return merge(matches(reports), scratch) if reports else gate(results, scratch)


# --- measuring and judging ---------------------------------------------------------------------------------------


def gate(results: Sequence[str], scratch: Path) -> Verdict:
    """Measure if there is a command for it, judge, and measure again while that could settle a suspicion."""
    again, most = given("rerun") or given("run"), times("rerun-count")
    facts = [machine(scratch, 0)]
    if given("run"):
        look_for_policy()
        set_aside(matches(results), 0)
        if not measure(given("run"), 1):
            raise Refused("what was to be measured failed, so nothing was judged; see its log above", NOT_JUDGED)
    runs = matches(results)
    facts.append(machine(scratch, 1))
    verdict = check(runs, facts, scratch)
    if verdict.outcome != "suspect" or not again:
        return verdict
    pattern = lines("rerun-results") or results
    set_aside([path for path in matches(pattern) if path not in runs], 0)
    judged: list[str] = []
    for number in range(1, most + 1):
        tell("notice", f"suspect: measuring again, {number} of {most}")
        judged += set_aside(runs, number)
        if not measure(again, number + 1):
            tell("error", "measuring again failed, so the suspicion stands; see its log above")
            return verdict
        runs = matches(pattern)
        facts.append(machine(scratch, number + 1))
    return check([*judged, *runs], facts, scratch)


def times(name: str) -> int:
    """An input that is a number of times. Raises Refused."""
    text = given(name)
    if not text.isdecimal() or not 0 < int(text) <= 20:
        raise Refused(f"the input {name} is a number from 1 to 20, not {text!r}")
    return int(text)


def matches(patterns: Sequence[str]) -> list[str]:
    """The files and folders that patterns name; a pattern that names none stays, and is reported as missing."""
    found: list[str] = []
    for pattern in patterns:
        paths = sorted(glob.glob(pattern, recursive=True))
        found += [path for path in paths if KEPT not in Path(path).parents] or [pattern]
    return list(dict.fromkeys(found))


def set_aside(paths: Sequence[str], number: int) -> list[str]:
    """Move results out of the way of the next measurement, so that nothing old is taken for new."""
    folder = KEPT / ("before" if number == 0 else str(number))
    shutil.rmtree(folder, ignore_errors=True)
    moved = []
    for path in filter(os.path.exists, paths):
        target = folder / Path(*(part for part in Path(os.path.relpath(path)).parts if part != ".."))
        target.parent.mkdir(parents=True, exist_ok=True)
        moved.append(shutil.move(path, str(target)))
    return moved


def measure(command: str, number: int) -> bool:
    """Run the user's command in a process of its own, which cannot write outputs; whether it succeeded."""
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]
    with folded(f"measurement {number}"):
        done = subprocess.run(shell, env={**for_others(), "PERFGATE_RUN": str(number)}, check=False)
    if done.returncode:
        tell("error", f"measurement {number} ended with {done.returncode}")
    return done.returncode == 0


def machine(scratch: Path, number: int) -> Path | None:
    """The facts of this machine now, in a file; None, and a warning, where they cannot be had."""
    place = scratch / f"env-{number}.json"
    with place.open("wb") as file:
        done = subprocess.run(perfgate("env"), stdout=file, check=False)
    if done.returncode:
        tell("warning", f"perfgate env ended with {done.returncode}: the machine is judged without its facts")
        return None
    return place


def check(runs: Sequence[str], facts: Sequence[Path | None], scratch: Path) -> Verdict:
    """Judge runs with `perfgate check`."""
    known: Sequence[Path] = [fact for fact in facts if fact]
    with suppress(OSError):  # where nothing can be kept, reports name what the end of the job removes
        KEPT.mkdir(exist_ok=True)
        known = [Path(shutil.copy(fact, KEPT / fact.name)) for fact in known]
    return ask("check", [*(f"--env={fact}" for fact in known), *judging()], runs, scratch)


def judging() -> list[str]:
    """The options by which runs and pairs are judged. Raises Refused."""
    alone = {name: given(name) for name in ("suite", "policy-ref", "missing-baseline")} | {"head": measured_head()}
    options = [f"--{name}={value}" for name, value in alone.items() if value]
    options += [f"--{name}={line}" for name in ("rules", "baselines", "only", "env") for line in lines(name)]
    return options + (["--strict"] if truth("strict") else [])


# --- pairs -------------------------------------------------------------------------------------------------------


def pairs(scratch: Path) -> Verdict:
    """Measure the working tree and its base by turns, and judge the pairs. Raises Refused."""
    if not given("run"):
        raise Refused("pairs are measured here: give run, the command of both sides")
    odd = [name for name in ("report", "rerun", "rerun-results") if given(name)]
    if odd:
        raise Refused(f"paired and {odd[0]} exclude each other: pairs are repeated until every rule is answered")
    if given("fork") == "true":
        raise Refused(
            "this is a pull request of a fork, whose code would run beside the base that it is compared with: read it, "
            "push its commit to a branch here, and start this workflow on that branch",
            NOT_JUDGED,
        )
    look_for_policy()
    kept = KEPT / "pairs"
    shutil.rmtree(kept, ignore_errors=True)
    options = ["--paired", f"--base-ref={base_of_pairs()}", f"--keep={kept}", f"--runs={times('pairs')}"]
    options += [f"--{name}={given(name)}" for name in ("time-budget", "timeout") if given(name)]
    options += [f"--results={pattern}" for pattern in lines("results")]
    options += [f"--build={shlex.join(script('build', scratch))}"] if given("build") else []
    return ask("run", [*options, *judging()], script("run", scratch), scratch)


def script(name: str, scratch: Path) -> list[str]:
    """An input that is a shell command, in a file: `perfgate run` fills in what stands in braces in its words."""
    place = scratch / f"{name}.sh"
    place.write_text(given(name) + "\n", encoding="utf-8")
    return ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(place)]


# --- asking perfgate ---------------------------------------------------------------------------------------------


def merge(reports: Sequence[str], scratch: Path) -> Verdict:
    """The worst of the reports of several jobs, with `perfgate report`."""
    options = [f"--expect={times('expect')}"] if given("expect") else []
    return ask("report", options, reports, scratch)


def ask(command: str, options: Sequence[str], words: Sequence[str], scratch: Path) -> Verdict:
    """Run a command that judges paths, or what the words of a command measure; read the report that it writes."""
    report = scratch / "report.json"
    report.unlink(missing_ok=True)
    asked = perfgate(command, *options, "--no-github", f"--json={report}", "--", *words)
    with without_commands():
        code = subprocess.run(asked, env=for_others(), stdin=subprocess.DEVNULL, check=False).returncode
    code = code if code in ORDER else INTERNAL
    try:
        document = json.loads(report.read_bytes())
        return Verdict(code, document["outcome"], document["counts"], report)
    except (OSError, ValueError, KeyError):
        tell("error", f"perfgate {command} ended with {code} and judged nothing; it says why in the log")
        return Verdict(code or INTERNAL)


def with_jobs(verdict: Verdict) -> Verdict:
    """The verdict, which cannot be good where a job that it depends on was skipped, cancelled or failed."""
    if not given("needs"):
        return verdict
    try:
        results = {name: job["result"] for name, job in json.loads(given("needs")).items()}
    except (ValueError, AttributeError, KeyError, TypeError):
        raise Refused("the input needs is ${{ toJSON(needs) }}") from None
    for name, result in results.items():
        if result != "success":
            tell("error", f"the job {name} is {result}: what it was to measure may be missing")
            code = min(verdict.code, NOT_JUDGED, key=ORDER.index)
            verdict = replace(verdict, code=code, outcome="error" if code == NOT_JUDGED else verdict.outcome)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
