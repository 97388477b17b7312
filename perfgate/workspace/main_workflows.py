"""The workflows of GitHub for main that `init` writes: a run of each merge, and tickets for regressions."""

from __future__ import annotations

from perfgate.workspace.ci_files import CiFile


def main_workflows(*, is_remembered: bool = False) -> tuple[CiFile, CiFile]:
    """Return the workflow that remembers a run of each merge, and the one that it starts, which keeps the tickets.

    `is_remembered`: the command is in rules/perfgate.yaml.
    """
    command, options = ("", "") if is_remembered else (_COMMAND, ' --results "$RESULTS" -- bash -c "$COMMAND"')
    environment = command and f"        env:\n{command}"
    steps = {"checkout": _CHECKOUT, "own": _OWN, "options": options}
    return (
        CiFile(".github/workflows/perf-main.yml", _MERGES.format(environment=environment, **steps)),
        CiFile(".github/workflows/perf-history.yml", _TICKETS.format(install=_INSTALL, command=command, **steps)),
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
_OWN = """\
      # TODO: install what your command needs, and the commit of perfgate that you use, in an environment of its own.
      - run: |
          python3 -m venv "$RUNNER_TEMP/perfgate"
          "$RUNNER_TEMP/perfgate/bin/pip" install -q "perfgate[gpu] @ git+https://github.com/OWNER/perfgate@COMMIT"
"""
_MERGES = """\
# After a merge: measures main, and opens a pull request that adds the run to the history and the baseline.
# Allow it: Settings, Actions, General, "Allow GitHub Actions to create and approve pull requests".
name: perf-main

on:
  push:
    branches: [main]
    paths-ignore: ["baselines/**"] # merging such a pull request needs no new measurement

permissions: {{}}

concurrency:
  group: perf-main
  cancel-in-progress: false

jobs:
  measure:
    runs-on: [self-hosted, gpu]
    timeout-minutes: 60
    permissions:
      contents: read # it runs the code of main, so it cannot write
    steps:
{checkout}{own}\
      - name: Measure once
{environment}\
        run: |
          # The next job judges this run.
          "$RUNNER_TEMP/perfgate/bin/perfgate" run --runs 1{options} || test -d perfgate-runs
          test ! -e perfgate-runs/run-001.FAILED.txt
          # If the command wrote files, its output is not a run. The files of the machine stay beside the run.
          rmdir perfgate-runs/run-001 2> /dev/null || rm perfgate-runs/run-001.log
          mkdir measured
          cp -r perfgate-runs/machine-*.json perfgate-runs/run-001* measured
      - uses: actions/upload-artifact@330a01c490aca151604b8cf639adc76d48f6c5d4 # v5.0.0
        with:
          name: measured
          path: measured
          if-no-files-found: error
          overwrite: true

  add:
    # On another machine: the job that measures has no token that can write.
    needs: [measure]
    runs-on: ubuntu-latest
    timeout-minutes: 10
    permissions:
      contents: write # to push a branch
      pull-requests: write # to propose it
    steps:
{checkout}\
      - uses: actions/download-artifact@634f93cb2916e3fdff6788551b99b062d0335ce0 # v5.0.0
        with:
          name: measured
          path: measured
      - uses: OWNER/perfgate/action/baseline@COMMIT
        with:
          mode: add
          results: measured/run-001*
          env: |
            measured/machine-before.json
            measured/machine-after.json
"""
_TICKETS = """\
# Keeps an issue for each change of main, whenever a run joins the history, and searches the commit of a new issue.
name: perf-history

on:
  push:
    branches: [main]
    paths: ["baselines/_history/**"]
  workflow_dispatch:

permissions: {{}}

concurrency:
  group: perf-history
  cancel-in-progress: false

jobs:
  tickets:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    permissions:
      contents: read
      issues: write # to open, update and close tickets
    outputs:
      search: ${{{{ steps.watch.outputs.search }}}}
    steps:
{checkout}{install}\
      - id: watch
        run: perfgate history watch
        env:
          GITHUB_TOKEN: ${{{{ github.token }}}}

  # If a new ticket has several commits, this job measures them: at most 30 runs in 20 minutes for each of at most two
  # tickets, on your GPU runner. Remove `search` and `answers` if you search by hand.
  search:
    needs: [tickets]
    if: needs.tickets.outputs.search != ''
    runs-on: [self-hosted, gpu]
    timeout-minutes: 60
    permissions:
      contents: read # it runs the code of main, so it cannot write
    steps:
{checkout}\
{own}\
      - env:
          EVENTS: ${{{{ needs.tickets.outputs.search }}}}
{command}\
        run: |
          mkdir answers
          for event in $EVENTS; do
            "$RUNNER_TEMP/perfgate/bin/perfgate" bisect --event "$event" --max-runs 30 --time-budget 20m \\
              --json "answers/$event.json"{options} ||
              test -s "answers/$event.json"
          done
      - uses: actions/upload-artifact@330a01c490aca151604b8cf639adc76d48f6c5d4 # v5.0.0
        if: always()
        with:
          name: answers
          path: answers
          if-no-files-found: error
          overwrite: true

  answers:
    needs: [search]
    if: always() && needs.search.result != 'skipped'
    runs-on: ubuntu-latest
    timeout-minutes: 30
    permissions:
      contents: read
      issues: write # to comment on tickets
    steps:
{checkout}{install}\
      - uses: actions/download-artifact@634f93cb2916e3fdff6788551b99b062d0335ce0 # v5.0.0
        with:
          name: answers
          path: answers
      - run: perfgate history watch --answers answers
        env:
          GITHUB_TOKEN: ${{{{ github.token }}}}
"""
