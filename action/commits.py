"""Ask the clone: are there rules at the base, where is the base of pairs, what does a merge group merge."""

from __future__ import annotations

import os
import subprocess

from workflow import Refused, given, lines

NOT_JUDGED = 3
DEEPER = "give actions/checkout `fetch-depth: 0`"


def git(*words: str) -> list[str] | None:
    """Return the lines that git prints, or None if it fails. Replaced objects do not count."""
    environment = {**os.environ, "GIT_NO_REPLACE_OBJECTS": "1"}
    done = subprocess.run(["git", *words], env=environment, capture_output=True, encoding="utf-8", check=False)
    return None if done.returncode else done.stdout.splitlines()


def check_policy() -> None:
    """Check that there are rules, before an hour of measuring. Raises Refused."""
    ref, rules = given("policy-ref"), lines("rules")
    listed = git("ls-tree", "--name-only", ref, "--", *rules) if ref else rules
    if listed is None:
        raise Refused(f"{ref} is not in this clone, so there are no rules to judge by: {DEEPER}", NOT_JUDGED)
    if not listed:
        raise Refused(
            f"{ref} has no {' or '.join(rules)}: a pull request is judged by the rules of its base; commit them there "
            "first, or judge the first rules with an empty policy-ref",
            NOT_JUDGED,
        )


def base_of_pairs() -> str:
    """Return the merge base of HEAD and its base: a pull request does not answer for later commits. Raises Refused."""
    ref = given("base-ref")
    if not ref:
        raise Refused("pairs need a base, and this event has none: give base-ref, or use it on pull_request")
    found = git("merge-base", ref, "HEAD")
    if not found:
        raise Refused(f"this clone does not have the merge base of HEAD and {ref}: {DEEPER}", NOT_JUDGED)
    return found[0]


def measured_head() -> str:
    """Return the commit that may have an allowance: in a merge group of one pull request, the head of that.

    The group's commit must be exactly the merge of its base and that head. A squashed or rebased commit names no head,
    and is returned itself.
    """
    head, base = given("head"), given("group-base")
    found = git("rev-parse", "HEAD", "HEAD^@", "HEAD^{tree}") if base else None
    if not found or len(found) != 4:
        return head
    measured, *parents, tree = found
    merges = measured == head and parents[0] == base
    return parents[1] if merges and git("merge-tree", "--write-tree", *parents) == [tree] else head
