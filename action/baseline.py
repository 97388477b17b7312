"""Propose baselines and allowances in a pull request, from a branch of their own.

A person decides by merging it. The files go through the REST API: no credential is in the clone, and only the folder of
baselines can change. Each mode is a command of perfgate: `add` the runs of a merged commit, or `allow` a commit to be
worse by up to X %.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate import matches
from github import Repository
from workflow import Refused, for_others, given, lines, perfgate, tell, without_commands, write_outputs

FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
REFUSED = 1  # the exit code of a refused decision


def main() -> int:
    """Write, commit and propose; return the exit code of the command if that refuses."""
    modes = {"add": add, "allow": allow}
    try:
        if not os.environ["GITHUB_REF"].startswith("refs/heads/"):
            raise Refused(f"start this on a branch: {os.environ['GITHUB_REF']} may only be called like one")
        if given("mode") not in modes:
            raise Refused(f"the input mode is add or allow, not {given('mode')!r}")
        modes[given("mode")](Repository.here())
    except Refused as refused:
        tell("error", str(refused))
        return refused.exit_code
    return 0


def add(repository: Repository) -> None:
    """Remember the runs of this commit, and add them to the current level. Raises Refused if the level refuses them.

    The allowances of its pull request count. The history has every run of the branch, so refused ones are proposed for
    the history alone. Its months that are over become one file each.
    """
    sha = os.environ["GITHUB_SHA"]
    measured = [f"--head={sha}", *stores(), *(f"--env={line}" for line in lines("env"))]
    results = matches(lines("results"))
    command("history", "add", f"--ref={os.environ['GITHUB_REF_NAME']}", *measured, "--", *results)
    command("history", "compact", *(f"--baselines={line}" for line in lines("baselines")))
    merged = merged_head(repository, sha)
    head = [f"--merged={merged}"] if merged else []
    title, refusal = f"Add a run of {sha[:12]} to the baseline", None
    try:
        command("baseline", "add", "--rotate", *measured, *head, "--", *results)
    except Refused as refused:
        title, refusal = f"Remember a run of {sha[:12]} in the history", refused
    propose(repository, f"perfgate/add-{sha[:12]}", title, "Measured after the merge; the files have the figures.")
    if refusal is not None:
        raise refusal


def merged_head(repository: Repository, sha: str) -> str | None:
    """Return the last commit of the pull request that this commit merged; None for a plain push."""
    for pull in repository.get(f"commits/{sha}/pulls"):
        if pull["merged_at"] and pull["merge_commit_sha"] == sha:
            return str(pull["head"]["sha"])
    return None


def allow(repository: Repository) -> None:
    """Allow the head of a pull request, and no other commit, to be worse by up to X %."""
    number, head = given("pr"), given("head")
    if not number.isdecimal() or not FULL_SHA.fullmatch(head):
        raise Refused("give the number of the pull request, and its head commit with all of its digits")
    pull = repository.get(f"pulls/{number}")
    if pull["state"] != "open" or pull["head"]["sha"] != head:
        raise Refused(
            f"#{number} is {pull['state']}, at {pull['head']['sha'][:12]}: {head[:12]} can be allowed only while it is "
            "the head of an open pull request",
            REFUSED,
        )
    if pull["base"]["ref"] != os.environ["GITHUB_REF_NAME"]:
        raise Refused(f"#{number} goes to {pull['base']['ref']}: start this workflow on that branch", REFUSED)
    who = os.environ["GITHUB_ACTOR"]
    facts = [f"--{name}={given(name)}" for name in ("metric", "up-to", "reason", "expires")]
    command("baseline", "allow", f"--head={head}", f"--by={who}", f"--pr={number}", *facts, *stores())
    title = f"Allow #{number} to be up to {given('up-to')} worse in {given('metric')}"
    branch = f"perfgate/allow-{head[:12]}-{os.environ['GITHUB_RUN_ID']}"
    propose(repository, branch, title, f"Asked for by {who}: {given('reason')}")


def stores() -> list[str]:
    """Return the options that name rules, baselines and suite."""
    given_lines = [f"--{name}={line}" for name in ("rules", "baselines") for line in lines(name)]
    return given_lines + ([f"--suite={given('suite')}"] if given("suite") else [])


def command(*words: str) -> None:
    """Run a command of perfgate. Raises Refused with its exit code."""
    with without_commands():
        done = subprocess.run(perfgate(*words), env=for_others(), stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        name = " ".join(words[:2])
        raise Refused(f"perfgate {name} ended with {done.returncode}: see the log above", done.returncode)


# --- the pull request --------------------------------------------------------------------------------------------


def propose(repository: Repository, branch: str, title: str, body: str) -> None:
    """Put the changed baselines on a branch, and open a pull request for it. Raises Refused."""
    base = os.environ["GITHUB_SHA"]
    entries = [entry(repository, path) for path in changed(given("baselines"))]
    if not entries:
        raise Refused("nothing changed in the folder of baselines; a bucket needs no pull request")
    parent = repository.get(f"git/commits/{base}")
    tree = repository.send("POST", "git/trees", {"base_tree": parent["tree"]["sha"], "tree": entries})
    document = {"message": title, "tree": tree["sha"], "parents": [base]}
    commit = repository.send("POST", "git/commits", document)
    repository.send("POST", "git/refs", {"ref": f"refs/heads/{branch}", "sha": commit["sha"]})
    document = {"title": title, "head": branch, "base": os.environ["GITHUB_REF_NAME"], "body": plain(body)}
    pull = repository.send("POST", "pulls", document)
    tell("notice", f"proposed in #{pull['number']}: {title}")
    write_outputs({"pull-request": str(pull["number"])})


def changed(folder: str) -> Sequence[str]:
    """Return the files at or below a folder that differ from HEAD. Raises Refused."""
    words = ["git", "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", folder]
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        raise Refused(f"git status fails: {done.stderr.decode(errors='replace').strip()}")
    return [os.fsdecode(line[3:]) for line in done.stdout.split(b"\0") if line]


def entry(repository: Repository, path: str) -> dict[str, Any]:
    """Return one file for the new tree; a deleted file has no content."""
    place = Path(path)
    kind = {"path": path, "mode": "100644", "type": "blob"}
    if not place.exists():
        return {**kind, "sha": None}
    content = base64.b64encode(place.read_bytes()).decode()
    blob = repository.send("POST", "git/blobs", {"content": content, "encoding": "base64"})
    return {**kind, "sha": blob["sha"]}


def plain(text: str) -> str:
    """Return text as Markdown that mentions nobody and links to nothing."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 3)
    return f"{fence}text\n{text}\n{fence}"


if __name__ == "__main__":
    sys.exit(main())
