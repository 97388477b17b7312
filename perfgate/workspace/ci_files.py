"""The job that `init` writes for a CI system: it measures, judges, and fails if a rule fails or nothing is decided."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class CiFile(Struct, frozen=True):
    """The job of one system: where its file is, its text, and how the system finds it."""

    place: str
    text: str
    step: str = ""


def ci_file(system: str, *, is_paired: bool = False, command: str | None = None, is_remembered: bool = False) -> CiFile:
    """Return the job for a system.

    `system`: one of `SYSTEMS`. `is_paired`: measure pairs. `command`: the command of pairs, with the placeholders
    `{results}` and `{run}`. `is_remembered`: the command is in rules/perfgate.yaml.
    """
    if system == "github":
        return CiFile(".github/workflows/perf.yml", _workflow(is_paired, is_remembered, command))
    other = _OTHERS[system]
    script = _SCRIPT.format(venv=other.venv, target=other.target, paired="--paired " if is_paired else "")
    script = script.replace("$", "$$") if system == "buildkite" else script  # it fills in variables itself
    lines = "".join(f"{' ' * other.indent}{line}\n" for line in script.splitlines())
    mark = "//" if system == "jenkins" else "#"
    says = "".join(f"{mark} {line}\n" for line in _SAYS)
    return CiFile(other.place, other.text.replace("SAYS\n", says).replace("SCRIPT\n", lines), other.step)


def _workflow(is_paired: bool, is_remembered: bool, command: str | None) -> str:
    """Return the workflow of docs/github-actions.md, with comments."""
    gate, setup = _STORED_GATE, ""
    lines: Sequence[str] = _PAIRED_TODO
    if command is not None:
        script = command.replace("{results}", "$PERFGATE_RESULTS").replace("{run}", "$PERFGATE_RUN")
        lines = ("run: |-", f"  {script}")
    if is_remembered:
        gate, setup = _REMEMBERED_PAIRS if is_paired else "", _SETUP
    elif is_paired:
        gate = _PAIRED_GATE + "".join(f"          {line}\n" for line in lines)
    what, machine = (_JUDGED_BY_PAIRS, _PAIRED_MACHINE) if is_paired else (_JUDGED, _STORED_MACHINE)
    return _WORKFLOW.format(what=what, machine=machine, setup=setup, gate=gate)


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
_PAIRED_GATE = """\
        with:
          paired: true
          # Fewer pairs are made if the answer is clear.
          pairs: 10
          # The command of both sides. If it uses a perfgate.Recorder, install perfgate for its Python before this step.
"""
_REMEMBERED_PAIRS = """\
        with:
          paired: true
          # Fewer pairs are made if the answer is clear.
          pairs: 10
"""
_SETUP = """\
      # TODO: install what your command needs, if the machine does not have it. The command is in rules/perfgate.yaml.
"""
_PAIRED_TODO = (
    "# TODO: your command, and the file that it writes.",
    "run: python train.py > train.log",
    "results: train.log",
)
_WORKFLOW = """\
{what}name: perf

on:
  pull_request:
    # `edited` judges again when the pull request goes to another branch.
    types: [opened, synchronize, reopened, edited]
  # A merge queue measures again the code that will be merged.
  merge_group:

# No permission to write: a pull request runs its own code in this job.
permissions: {{}}

# A newer push cancels the run of an older one. Other pull requests are not affected.
concurrency:
  group: perf-${{{{ github.ref }}}}
  cancel-in-progress: true

jobs:
  gate:
{machine}    # Require approval before pull requests of strangers run on your machines (Settings, Actions, General).
    runs-on: [self-hosted, gpu]
    # The default is six hours. Do not let a program that hangs block the GPU that long.
    timeout-minutes: 60
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          # The whole history, because perfgate reads the rules and baselines of the base from it.
          fetch-depth: 0
          persist-credentials: false
{setup}\
      # TODO: the repository of perfgate that you use, and the commit of a release. Upgrade in a separate pull request.
      - uses: OWNER/perfgate@COMMIT
{gate}"""


class _OtherSystem(Struct, frozen=True):
    """The job of a system that runs a shell."""

    place: str
    step: str
    #: The folder of perfgate's own environment, the branch that a change goes to, and the indentation of the script.
    venv: str
    target: str
    indent: int
    text: str


_SAYS = (
    "Measures with the command of rules/perfgate.yaml, and judges by the rules of the target branch. The job fails if",
    "a rule fails (exit 1) or if no decision was possible (exit 3). TODO: OWNER/perfgate and COMMIT: the repository of",
    "perfgate that you use, and the commit of a release.",
)
#: perfgate has an environment of its own, so that `python` stays the one with your packages. The target is read first:
#: the code of a change can move every ref of the clone.
_SCRIPT = """\
set -eu
venv="{venv}/perfgate"
python3 -m venv "$venv"
"$venv/bin/pip" install -q "perfgate[gpu] @ git+https://github.com/OWNER/perfgate@COMMIT"
git fetch -q origin "refs/heads/{target}"
policy=$(git rev-parse --verify "FETCH_HEAD^{{commit}}")
"$venv/bin/perfgate" run {paired}--policy-ref "$policy" --junit perfgate.xml --json perfgate.json
"""
_GITLAB = """\
SAYS
perf-gate:
  # TODO: the tags of your GPU runner, and the name of its lock.
  tags: [gpu]
  resource_group: gpu
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
  timeout: 1 hour
  variables:
    GIT_DEPTH: "0"
  script:
    - |
SCRIPT
  artifacts:
    when: always
    paths: [perfgate.json]
    reports:
      junit: perfgate.xml
"""
_BUILDKITE = """\
SAYS
steps:
  - label: perf-gate
    if: build.pull_request.id != null
    # TODO: the queue of your GPU machines. One job at a time measures.
    agents: { queue: gpu }
    concurrency: 1
    concurrency_group: perf-gate/gpu
    timeout_in_minutes: 60
    command: |
SCRIPT
    artifact_paths: [perfgate.json, perfgate.xml]
"""
_JENKINS = """\
SAYS
pipeline {
  agent { label 'gpu' }
  stages {
    stage('perf-gate') {
      steps {
        lock('gpu') {
          timeout(time: 1, unit: 'HOURS') {
            sh '''
SCRIPT
            '''
          }
        }
      }
    }
  }
  post {
    always {
      junit testResults: 'perfgate.xml', allowEmptyResults: false
      archiveArtifacts artifacts: 'perfgate.json', allowEmptyArchive: true
    }
  }
}
"""
_SLURM = """\
#!/bin/bash
# TODO: the options of your cluster. `sbatch --wait` exits with the answer.
#SBATCH --job-name=perf-gate --gres=gpu:1 --exclusive --time=01:00:00 --output=perf-gate-%j.log
SAYS
SCRIPT
"""
_OTHERS = {
    "gitlab": _OtherSystem(
        ".gitlab/perf.yml", "add `include: .gitlab/perf.yml` to .gitlab-ci.yml",
        "$CI_BUILDS_DIR", "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME", 6, _GITLAB,
    ),
    "buildkite": _OtherSystem(
        ".buildkite/perf.yml", "let the pipeline upload it: `buildkite-agent pipeline upload .buildkite/perf.yml`",
        "${TMPDIR:-/tmp}", "$BUILDKITE_PULL_REQUEST_BASE_BRANCH", 6, _BUILDKITE,
    ),
    "jenkins": _OtherSystem(
        "ci/perf.Jenkinsfile", "make it the script path of a multibranch pipeline",
        "$WORKSPACE_TMP", "${CHANGE_TARGET:-main}", 14, _JENKINS,
    ),
    "slurm": _OtherSystem(
        "ci/perf.sbatch", "run it in the clone of a change: `TARGET=main sbatch --wait ci/perf.sbatch`",
        "${TMPDIR:-/tmp}", "${TARGET:-main}", 0, _SLURM,
    ),
}  # fmt: skip
SYSTEMS = ("github", *_OTHERS)
