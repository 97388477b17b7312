"""Find commits in the clone: the one with the rules, the base of pairs, and the head that a merge group merges.

A ref is resolved once, before code of the pull request runs; that code can move every ref of the clone.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from fnmatch import fnmatchcase

from workflow import Refused, given, lines, tell

NOT_JUDGED = 3
DEEPER = "give actions/checkout `fetch-depth: 0`"


def git(*words: str) -> list[str] | None:
    """Return the lines that git prints, or None if it fails."""
    said = git_bytes(*words)
    return None if said is None else said.decode().splitlines()


def git_bytes(*words: str) -> bytes | None:
    """Return what git prints, or None if it fails. Replaced objects do not count.

    An earlier step may have written to .git/config: git runs no hook and no monitor of that file.
    """
    environment = {**os.environ, "GIT_NO_REPLACE_OBJECTS": "1"}
    asked = ["git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", *words]
    done = subprocess.run(asked, env=environment, capture_output=True, check=False)
    return None if done.returncode else done.stdout


#: A hash, a full name, or HEAD, and steps back from it. A short name could be that of a tag, which anybody may push.
EXACT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64}|refs/[^~^:@\s]+|HEAD)((?:[~^]\d*)*)")
BRANCH = re.compile(r"refs/(?:heads|remotes/[^/]+)/(.+)")


def commit_of(name: str) -> str:
    """Return the commit of an input that names one, or `""` if it is empty. Raises Refused."""
    ref = given(name)
    if not ref:
        return ""
    exact = EXACT.fullmatch(ref)
    if exact is None:
        step = (
            f"write refs/remotes/{ref}" if ref.startswith("origin/") else "write refs/remotes/origin/BRANCH or a hash"
        )
        raise Refused(f"the input {name} is a full name or a whole hash, because a tag can be called {ref!r}: {step}")
    refuse_other_branches(name, exact[1])
    there = not ref.startswith("refs/") or git("show-ref", "--verify", "--quiet", "--", exact[1]) is not None
    found = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}") if there else None
    if not found:
        raise Refused(f"this clone has no commit {ref}, so nothing can be judged: {DEEPER}", NOT_JUDGED)
    return found[0]


def refuse_other_branches(name: str, ref: str) -> None:
    """Refuse a branch whose rules do not count. Raises Refused.

    A pull request could be judged by a branch that its author can write to, become green, and be retargeted: a check
    belongs to a commit, not to the branch that it goes to.
    """
    branch = BRANCH.fullmatch(ref)
    # A hash may be that of the base of the event. A tag is what the workflow chose.
    base = given("base-branch").removeprefix("refs/heads/") if not ref.startswith("refs/") and ref != "HEAD" else ""
    found, counting = branch[1] if branch else base, lines("policy-branches")
    if found and not any(fnmatchcase(found, pattern) for pattern in counting):
        raise Refused(
            f"{name}: the rules and the code of the branch {found} do not count, only those of "
            f"{', '.join(counting) or 'the branches in policy-branches, which is empty'}: retarget the pull request, "
            "or add the branch to the input policy-branches if only reviewed changes reach it",
            NOT_JUDGED,
        )


def base_of_event() -> str:
    """Return the commit that a pull request goes to as GitHub says it; empty if the rules are of another ref.

    An earlier step may have run its code, which can move every ref of the clone and overwrite every object. GitHub
    names the merge that it made, whose hash proves its first parent. Without that merge, the event has an older base.
    """
    merge = given("merge-commit")
    if given("policy-ref") != f"refs/remotes/origin/{given('base-branch')}":
        return ""
    data = (git_bytes("cat-file", "commit", merge) if merge else None) or b""
    kind = hashlib.sha256 if len(merge) == 64 else hashlib.sha1
    is_whole = kind(b"commit %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest() == merge
    parent = re.match(rb"tree \w+\nparent (\w+)\n", data)
    return parent[1].decode() if is_whole and parent else given("event-base")


def check_policy(commit: str) -> None:
    """Check that there are rules, before an hour of measuring. Raises Refused."""
    ref, rules = given("policy-ref"), lines("rules")
    if commit and not git("ls-tree", "--name-only", commit, "--", *rules):
        raise Refused(
            f"{ref} has no {' or '.join(rules)}: a pull request is judged by the rules of its base; commit them there "
            "first, or judge the first rules with an empty policy-ref",
            NOT_JUDGED,
        )


def base_of_pairs() -> str:
    """Return the merge base of HEAD and its base: a pull request is not judged for later commits. Raises Refused."""
    ref, commit = given("base-ref"), commit_of("base-ref")
    if not commit:
        raise Refused("pairs need a base, and this event has none: give base-ref, or use it on pull_request")
    found = git("merge-base", commit, "HEAD")
    if not found:
        raise Refused(f"this clone does not have the merge base of HEAD and {ref}: {DEEPER}", NOT_JUDGED)
    if found == git("rev-parse", "HEAD") and git("status", "--porcelain", "--untracked-files=no") == []:
        tell("warning", f"the base of the pairs is the measured commit {found[0][:12]} itself: no change can be seen")
    return found[0]


def measured_head() -> str:
    """Return the commit that may have an allowance: in a merge group of one pull request, the head of that.

    The group's commit must be exactly the merge of its base and that head. A squashed or rebased commit has no
    such head, and is returned itself.
    """
    head, base = given("head"), given("group-base")
    found = git("rev-parse", "HEAD", "HEAD^@", "HEAD^{tree}") if base else None
    if not found or len(found) != 4:
        return head
    measured, *parents, tree = found
    merges = measured == head and parents[0] == base
    return parents[1] if merges and git("merge-tree", "--write-tree", *parents) == [tree] else head
