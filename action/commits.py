"""What the clone's commits say: whether there is a policy, where pairs have their base, what a merge group merges."""

from __future__ import annotations

import os
import subprocess

from workflow import Refused, given, lines

NOT_JUDGED = 3
DEEPER = "give actions/checkout `fetch-depth: 0`"


def git(*words: str) -> list[str] | None:
    """The lines that git prints, or None where it fails; nothing may be replaced behind our back."""
    environment = {**os.environ, "GIT_NO_REPLACE_OBJECTS": "1"}
    done = subprocess.run(["git", *words], env=environment, capture_output=True, encoding="utf-8", check=False)
    return None if done.returncode else done.stdout.splitlines()


def look_for_policy() -> None:
    """Look for the rules before an hour is spent on what could not be judged. Raises Refused."""
    ref, rules = given("policy-ref"), lines("rules")
    listed = git("ls-tree", "--name-only", ref, "--", *rules) if ref else rules
    if listed is None:
        raise Refused(f"{ref} is not in this clone, so there are no rules to judge by: {DEEPER}", NOT_JUDGED)
    if not listed:
        raise Refused(
            f"{ref} does not hold {' or '.join(rules)}: a pull request is judged by the rules of its base; commit "
            "them there first, or judge the first ones with an empty policy-ref",
            NOT_JUDGED,
        )


def base_of_pairs() -> str:
    """The commit where HEAD has left its base, for it does not answer for what came later. Raises Refused."""
    ref = given("base-ref")
    if not ref:
        raise Refused("pairs need a base, and this event has none: give base-ref, or use it on pull_request")
    found = git("merge-base", ref, "HEAD")
    if not found:
        raise Refused(f"this clone does not hold where HEAD has left {ref}: {DEEPER}", NOT_JUDGED)
    return found[0]


def measured_head() -> str:
    """The commit that may have an allowance: in a merge group of one pull request, the head of that.

    Only where the group's commit is, to the byte, the merge of its base and that head, as it is where the check of a
    pull request has judged it; a squashed or rebased commit names no head, and stays what it is.
    """
    head, base = given("head"), given("group-base")
    found = git("rev-parse", "HEAD", "HEAD^@", "HEAD^{tree}") if base else None
    if not found or len(found) != 4:
        return head
    measured, *parents, tree = found
    merges = measured == head and parents[0] == base
    return parents[1] if merges and git("merge-tree", "--write-tree", *parents) == [tree] else head
