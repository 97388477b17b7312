"""How the working tree differs from the policy that decided, in lines."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Policy, PolicyChange
from perfgate.core.wording import one_line, without_commands

#: How many differences a report shows before it counts the rest.
_SHOWN = 20


def policy_lines(policy: Policy) -> list[str]:
    """What a report says of a policy that was read from a ref; empty where the working tree asks for the same."""
    if not policy.changes:
        return []
    head = f"policy {policy.ref} decided; this working tree differs from it:"
    lines = [f"  {change_line(change)}" for change in policy.changes[:_SHOWN]]
    more = len(policy.changes) - _SHOWN
    lines += [f"  and {more} more differences"] if more > 0 else []
    own = [f"  by its own policy the answer would be: {policy.own_outcome}"] if policy.own_outcome else []
    return [one_line(line) for line in (head, *lines, *own)]


def change_line(change: PolicyChange) -> str:
    """One difference: what it is, where, and what it means for the runs that were judged."""
    effect = f"; {change.effect}" if change.effect else ""
    where = f" ({change.at})" if change.rule or change.own_rule else ""
    return one_line(f"{change.message}{where}{effect}")


def render_difference(changes: Sequence[PolicyChange], sides: str) -> str:
    """What `rules diff` prints."""
    if not changes:
        return one_line(f"the rules ask for the same: {sides}")
    return without_commands("\n".join([one_line(f"rules, {sides}:"), *(f"  {change_line(one)}" for one in changes)]))
