"""The jobs that `init` writes for a CI system: they measure, judge, and fail if a rule fails or nothing is decided.

Their texts are in `jobs/`. A piece that depends on the user's choices replaces `<NAME>` there, or a whole such line.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

_JOBS = Path(__file__).parent / "jobs"
_PIECE = re.compile(r"^<([A-Z]+)>\n|<([A-Z]+)>", re.MULTILINE)


class CiFile(Struct, frozen=True):
    """The job of one system: the path of its file, its text, and what the user does so that the system finds it."""

    place: str
    text: str
    step: str = ""


class _OtherSystem(Struct, frozen=True):
    """The job of a system that runs a shell. `place` and `step` are those of `CiFile`."""

    place: str
    step: str
    #: In the words of the shell: the folder of perfgate's own environment, and the branch that a change goes to.
    venv: str
    target: str
    #: The indentation of the script in `jobs/JOB`.
    indent: int
    job: str


_OTHERS = {
    "gitlab": _OtherSystem(
        ".gitlab/perf.yml", "add `include: .gitlab/perf.yml` to .gitlab-ci.yml",
        "$CI_BUILDS_DIR", "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME", 6, "gitlab.yml",
    ),
    "buildkite": _OtherSystem(
        ".buildkite/perf.yml", "let the pipeline upload it: `buildkite-agent pipeline upload .buildkite/perf.yml`",
        "${TMPDIR:-/tmp}", "$BUILDKITE_PULL_REQUEST_BASE_BRANCH", 6, "buildkite.yml",
    ),
    "jenkins": _OtherSystem(
        "ci/perf.Jenkinsfile", "make it the script path of a multibranch pipeline",
        "$WORKSPACE_TMP", "${CHANGE_TARGET:-main}", 14, "jenkins.groovy",
    ),
    "slurm": _OtherSystem(
        "ci/perf.sbatch", "run it in the clone of a change: `TARGET=main sbatch --wait ci/perf.sbatch`",
        "${TMPDIR:-/tmp}", "${TARGET:-main}", 0, "slurm.sh",
    ),
}  # fmt: skip
SYSTEMS = ("github", *_OTHERS)


def ci_file(system: str, *, is_paired: bool = False, command: str | None = None, is_remembered: bool = False) -> CiFile:
    """Return the job for a system.

    `system`: one of `SYSTEMS`. `is_paired`: measure pairs. `is_remembered`: rules/perfgate.yaml has the command.
    `command`: the command of pairs, with the placeholders `{results}` (the folder for its files) and `{run}` (its
    number). The last two are only for GitHub: the jobs of other systems always run the command in that file.
    """
    if system == "github":
        return CiFile(".github/workflows/perf.yml", _workflow(is_paired, is_remembered, command))
    other = _OTHERS[system]
    # perfgate has an environment of its own, so that `python` stays the one with the user's packages. gate.sh resolves
    # the target before it measures, because the code of a change can move every ref of the clone.
    script = _job("gate.sh", VENV=other.venv, TARGET=other.target, PAIRED="--paired " if is_paired else "")
    script = script.replace("$", "$$") if system == "buildkite" else script  # it fills in variables itself
    lines = "".join(f"{' ' * other.indent}{line}\n" for line in script.splitlines())
    mark = "//" if system == "jenkins" else "#"
    says = "".join(f"{mark} {line}\n" for line in _SAYS)
    return CiFile(other.place, _job(other.job, SAYS=says, SCRIPT=lines), other.step)


def _workflow(is_paired: bool, is_remembered: bool, command: str | None) -> str:
    """Return the workflow of docs/github-actions.md, with comments."""
    # `gate`: the inputs of the action, with the command if it is not remembered.
    setup = _SETUP if is_remembered else ""
    if is_remembered:
        gate = _PAIRS if is_paired else ""
    elif is_paired:
        script = (command or "").replace("{results}", "$PERFGATE_RESULTS").replace("{run}", "$PERFGATE_RUN")
        lines = _PAIRED_TODO if command is None else ("run: |-", f"  {script}")
        gate = _PAIRS + _RECORDER + "".join(f"          {line}\n" for line in lines)
    else:
        gate = _STORED_GATE
    what, machine = (_JUDGED_BY_PAIRS, _PAIRED_MACHINE) if is_paired else (_JUDGED, _STORED_MACHINE)
    return _job("github.yml", WHAT=what, MACHINE=machine, SETUP=setup, GATE=gate)


def main_workflows(*, is_remembered: bool = False) -> tuple[CiFile, CiFile]:
    """Return the workflow of GitHub that remembers a run of each merge, and the one for tickets, which it starts.

    `is_remembered`: the command is in rules/perfgate.yaml.
    """
    command, options = ("", "") if is_remembered else (_COMMAND, ' --results "$RESULTS" -- bash -c "$COMMAND"')
    environment = command and f"        env:\n{command}"  # the step in the file of tickets has an `env` already
    steps = {"CHECKOUT": _CHECKOUT, "OWN": _OWN_ENVIRONMENT, "OPTIONS": options}
    merges = _job("github-main.yml", ENVIRONMENT=environment, **steps)
    tickets = _job("github-tickets.yml", INSTALL=_INSTALL, COMMAND=command, **steps)
    return CiFile(".github/workflows/perf-main.yml", merges), CiFile(".github/workflows/perf-history.yml", tickets)


def _job(name: str, **pieces: str) -> str:
    """Return the text of a job with its pieces."""
    return _PIECE.sub(lambda found: pieces[found[1] or found[2]], (_JOBS / name).read_text(encoding="utf-8"))


_SAYS = (
    "Measures with the command of rules/perfgate.yaml, and judges by the rules of the target branch. The job fails if",
    "a rule fails (exit 1) or if no decision was possible (exit 3). TODO: OWNER/perfgate and COMMIT: the repository of",
    "perfgate that you use, and the commit of a release.",
)
_JUDGED = (
    "# Judges every pull request. The job fails if a rule fails (exit 1) or if no decision was possible (exit 3).\n"
)
_JUDGED_BY_PAIRS = (
    "# Measures every pull request and its base in pairs. The job fails if a rule fails (exit 1) or if no decision\n"
    "# was possible (exit 3).\n"
)
_STORED_MACHINE = (
    "    # The kind of machine that the baseline was measured on. On another kind, the job says so and fails.\n"
)
_PAIRED_MACHINE = "    # Base and new run on the same machine, so any machine of yours will do.\n"
_STORED_GATE = """\
        with:
          # TODO: your command, with the Python that you train with, and the file that it writes. The rules and
          # baselines come from the base, so a pull request cannot loosen them.
          run: python train.py > train.log
          results: train.log
"""
_PAIRS = """\
        with:
          paired: true
          # Fewer pairs are made if the answer is clear.
          pairs: 10
"""
_RECORDER = """\
          # The command of both sides. If it uses a perfgate.Recorder, install perfgate for its Python before this step.
"""
_SETUP = """\
      # TODO: install what your command needs, if the machine does not have it. The command is in rules/perfgate.yaml.
"""
_PAIRED_TODO = (
    "# TODO: your command, and the file that it writes.",
    "run: python train.py > train.log",
    "results: train.log",
)
_CHECKOUT = """\
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          fetch-depth: 0 # git orders the runs
          persist-credentials: false
"""
_INSTALL = """\
      - uses: actions/setup-python@e797f83bcb11b83ae66e0230d6156d7c80228e7c # v6.0.0
        with:
          python-version: "3.12"
      # TODO: the repository of perfgate that you use, and the commit of a release.
      - run: python -m pip install "perfgate @ git+https://github.com/OWNER/perfgate@COMMIT"
"""
_COMMAND = """\
          # TODO: your command, and the file that it writes.
          COMMAND: python train.py > train.log
          RESULTS: train.log
"""
_OWN_ENVIRONMENT = """\
      # TODO: install what your command needs, and the commit of perfgate that you use, in an environment of its own.
      - run: |
          python3 -m venv "$RUNNER_TEMP/perfgate"
          "$RUNNER_TEMP/perfgate/bin/pip" install -q "perfgate[gpu] @ git+https://github.com/OWNER/perfgate@COMMIT"
"""
