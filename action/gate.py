"""The gate of `action.yml`: measure if asked to, judge, show the report, and exit with the answer.

Inputs come from variables `INPUT_*`, never from the text of a script. The exit code is that of `perfgate check`, `run`
or `report`. A failure to show the report is only a warning.
"""

from __future__ import annotations

import glob
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from commits import NOT_JUDGED, base_of_event, base_of_pairs, check_policy, commit_of, git, measured_head
from showing import Answer, outputs, publish
from workflow import Refused, for_others, given, lines, perfgate, tell, truth, without_commands, write_outputs

#: Exit codes, the worst first: internal error, usage, failure, could not judge, nothing blocks.
ORDER = (4, 2, 1, 3, 0)
USAGE, INTERNAL = 2, 4
#: Explanations of the exit codes, for a perfgate that wrote no report.
ENDS = {
    INTERNAL: "could not start, or broke,",
    2: "refused its options or rules (exit code 2)",
    3: "could not read what it was given (exit code 3)",
}
#: Earlier runs, pairs and the facts of the machine, in the working directory.
KEPT = Path("perfgate-runs")
#: The ends of the names of files with metrics of the machine.
MACHINE = ".machine"
#: How long a measurement may take. The time limit of the job ends it before.
NO_TIMEOUT = "1000h"


def main() -> int:
    """Judge and show; return the exit code. Nothing after the judgement changes it."""
    answer, written = Answer(INTERNAL), list[str]()
    place = os.environ.get("RUNNER_TEMP")
    try:
        with tempfile.TemporaryDirectory(prefix="perfgate-", dir=place, ignore_cleanup_errors=True) as scratch:
            answer = judge(Path(scratch))
            written = publish(answer)
    except Exception as error:  # a traceback would end in 1, which looks like a regression
        tell("error", f"internal error: {type(error).__name__}: {error}")
    write_outputs(outputs(answer, written))
    return answer.code


def judge(scratch: Path) -> Answer:
    """Return the answer, or the error that replaces it."""
    try:
        return with_jobs(decide(scratch))
    except Refused as refused:
        tell("error", str(refused))
        return Answer(refused.exit_code)


def decide(scratch: Path) -> Answer:
    """Judge pairs, results, or the reports of other jobs. Raises Refused."""
    results, reports = lines("results"), lines("report")
    if truth("paired"):
        return pairs(scratch)
    if results and reports:
        raise Refused("give one of two inputs: results (what was measured), or report (reports of other jobs)")
    if given("run") and not results:
        raise Refused("give results, the files that run writes; without both, rules/perfgate.yaml has the command")
    if not results and not reports:
        return remembered(scratch)
    if reports:
        options = [f"--expect={number('expect')}"] if given("expect") else []
        return ask("report", options, matches(reports), scratch)
    return runs(results, scratch)


def runs(results: Sequence[str], scratch: Path) -> Answer:
    """Measure if there is a command for it, and judge; if it blocks, let `perfgate run` measure again. Raises Refused.

    `run` makes no further run if none can change the answer.
    """
    count, again = number("rerun-count"), "rerun" if given("rerun") else "run"
    options = judging()
    if given("run"):
        answer = measure("run", 0, results, [], options, scratch)
    else:
        make_kept()
        answer = ask("check", [*machine(KEPT / "env-0.json"), *options], matches(results), scratch)
    if not answer.code or not answer.report or not given(again):
        return answer
    tell("notice", f"the answer is {answer.outcome}: up to {count} more runs are made if they can change it")
    return measure(again, count, lines("rerun-results") or results, matches(results), options, scratch)


def remembered(scratch: Path) -> Answer:
    """Measure with the command of rules/perfgate.yaml, which `perfgate run` takes from the commit of the rules."""
    judged_by, most = judging(), f"--runs={1 + number('rerun-count')}"
    answer = ask("run", [most, f"--keep={KEPT / 'runs'}", f"--timeout={NO_TIMEOUT}", *judged_by], [], scratch)
    if answer.code == USAGE:
        tell("error", "without results, run and report, rules/perfgate.yaml of the base has the command (`run:`)")
    return answer


def measure(
    name: str, reruns: int, results: Sequence[str], measured: Sequence[str], judging: Sequence[str], scratch: Path
) -> Answer:
    """Measure with `perfgate run --reruns`; `measured` are the results of the first run, if it was made already."""
    options = [f"--reruns={reruns}", f"--keep={KEPT}", f"--timeout={NO_TIMEOUT}", *judging]
    options += [f"--results={pattern}" for pattern in results]
    options += [f"--measured={path}" for path in measured]
    return ask("run", options, script(name, scratch), scratch)


def pairs(scratch: Path) -> Answer:
    """Interleave the steps of the working tree and of its base, and judge the pairs. Raises Refused."""
    odd = [name for name in ("report", "rerun", "rerun-results") if given(name)]
    if odd:
        raise Refused(f"paired and {odd[0]} exclude each other: pairs are repeated until every rule has its answer")
    if given("fork") == "true":
        raise Refused(
            "this is a pull request of a fork, whose code would run beside the base that it is compared with: read it, "
            "push its commit to a branch here, and start this workflow on that branch",
            NOT_JUDGED,
        )
    judged_by = judging()
    make_kept()
    kept = KEPT / "pairs"
    options = ["--paired", f"--base-ref={base_of_pairs()}", f"--keep={kept}", f"--runs={number('pairs')}"]
    options += [f"--{name}={given(name)}" for name in ("time-budget", "timeout") if given(name)]
    options += [f"--results={pattern}" for pattern in lines("results")]
    options += [f"--build={shlex.join(script('build', scratch))}"] if given("build") else []
    return ask("run", [*options, *judged_by], script("run", scratch) if given("run") else [], scratch)


# --- inputs ------------------------------------------------------------------------------------------------------


def number(name: str) -> int:
    """Return an input that is a number from 1 to 20. Raises Refused."""
    text = given(name)
    if not text.isdecimal() or not 0 < int(text) <= 20:
        raise Refused(f"the input {name} is a number from 1 to 20, not {text!r}")
    return int(text)


def matches(patterns: Sequence[str]) -> list[str]:
    """Return the files and folders that patterns match. A pattern without a match stays: perfgate reports it."""
    found: list[str] = []
    for pattern in patterns:
        paths = sorted(glob.glob(pattern, recursive=True))
        # What the machine did is read with the results beside it.
        found += [path for path in paths if KEPT not in Path(path).parents and not path.endswith(MACHINE)] or [pattern]
    return list(dict.fromkeys(found))


def make_kept() -> None:
    """Make the folder of the facts and runs. Raises Refused if the commit has it: it could be or contain a link."""
    if KEPT.is_symlink() or git("ls-files", "--error-unmatch", "--", str(KEPT)):
        raise Refused(f"the repository contains {KEPT}/, and perfgate writes there: remove it from git", NOT_JUDGED)
    KEPT.mkdir(exist_ok=True)


def judging() -> list[str]:
    """Return the options for judging runs and pairs, before anything is measured. Raises Refused."""
    policy = commit_of("policy-ref")
    if given("run") or not lines("results"):
        check_policy(policy)
    else:
        policy = base_of_event() or policy
    alone = {name: given(name) for name in ("suite", "policy-ref", "missing-baseline")}
    alone |= {"head": measured_head(), "policy-commit": policy}
    options = [f"--{name}={value}" for name, value in alone.items() if value]
    options += [f"--{name}={line}" for name in ("rules", "baselines", "only", "env") for line in lines(name)]
    return options + (["--strict"] if truth("strict") else [])


def script(name: str, scratch: Path) -> list[str]:
    """Write an input that is a shell command to a file; `perfgate run` would fill in the braces of its words."""
    place = scratch / f"{name}.sh"
    place.write_text(given(name) + "\n", encoding="utf-8")
    return ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(place)]


# --- perfgate ----------------------------------------------------------------------------------------------------


def machine(place: Path) -> list[str]:
    """Write the facts of this machine to a file; return the option that names it, or nothing after a warning."""
    place.unlink(missing_ok=True)
    with place.open("xb") as file:
        done = subprocess.run(perfgate("env"), stdout=file, check=False)
    if done.returncode:
        tell("warning", f"perfgate env ended with {done.returncode}: judging without the facts of this machine")
        return []
    return [f"--env={place}"]


def ask(command: str, options: Sequence[str], words: Sequence[str], scratch: Path) -> Answer:
    """Run a command of perfgate that judges, and read the report that it writes."""
    report = scratch / "report.json"
    report.unlink(missing_ok=True)
    asked = perfgate(command, *options, "--no-github", f"--json={report}", "--", *words)
    with without_commands():
        code = subprocess.run(asked, env=for_others(), stdin=subprocess.DEVNULL, check=False).returncode
    code = code if code in ORDER else INTERNAL
    try:
        document = json.loads(report.read_bytes())
        return Answer(code, document["outcome"], document["counts"], report)
    except (OSError, ValueError, KeyError):
        # Without a report, 0 and 1 are not answers of perfgate: Python itself exits with 1 if it cannot start perfgate.
        code = INTERNAL if code in (0, 1) else code
        tell("error", f"perfgate {command} {ENDS[code]} and judged nothing: see the log for the reason")
        return Answer(code)


def with_jobs(answer: Answer) -> Answer:
    """Return the answer, or could not judge if a job that it depends on did not succeed. Raises Refused."""
    if not given("needs"):
        return answer
    try:
        results = {name: job["result"] for name, job in json.loads(given("needs")).items()}
    except (ValueError, AttributeError, KeyError, TypeError):
        raise Refused("the input needs is ${{ toJSON(needs) }}") from None
    for name, result in results.items():
        if result != "success":
            tell("error", f"the job {name} is {result}: its results may be missing")
            code = min(answer.code, NOT_JUDGED, key=ORDER.index)
            answer = replace(answer, code=code, outcome="error" if code == NOT_JUDGED else answer.outcome)
    return answer


if __name__ == "__main__":
    sys.exit(main())
