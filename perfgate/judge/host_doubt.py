"""Doubt a change if the new runs are of another host, and the history shows that this host is slower or faster.

The change is judged again with the new runs as they would be on the hosts of the base. If the difference of the hosts
could explain a failure, or hide a regression, and the other view tells another story, the verdict is suspect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from perfgate.core import HostDifference
from perfgate.judge.case import Case
from perfgate.judge.decisions import ChangeDecision, ChangeQuestion, Doubt, decide
from perfgate.judge.inquiry import Inquiry


def doubt_host(inquiry: Inquiry, decision: ChangeDecision, *, grows: bool) -> Iterator[Doubt]:
    """Yield the hosts, if they differ and something may be wrong, and what the difference of the hosts explains.

    Parameters
    ----------
    grows : True if a faster host makes the values larger.
    """
    base, new = hosts_of(inquiry.case)
    if not base or not new or base & new:
        return
    known = inquiry.of_series(inquiry.case.baseline.hosts)
    if known is None:
        if decision.outcome != "pass":
            yield Doubt("machine", "host", ", ".join(sorted(base)), ", ".join(sorted(new)), decides=False)
        return
    on_one_host = decide(_on_base_host(decision.question, known))
    if not isinstance(on_one_host, ChangeDecision) or on_one_host.outcome == "error":
        return
    is_open = on_one_host.reason == "cannot-exclude" and decision.reason != "cannot-exclude"  # it promises less
    is_calm = on_one_host.outcome in ("pass", "inconclusive") and not is_open
    agrees = on_one_host.outcome == "fail" if decision.outcome == "fail" else is_calm
    if decision.outcome == "suspect":  # if the hosts explain it, another host answers better than more runs here
        agrees = not is_calm
    yield Doubt(
        "machine",
        "host-level",
        known.base.level,
        known.new.level,
        decides=not agrees,
        of="slower" if (known.log_difference > 0) != grows else "faster",
        hosts=known,
    )
    change = on_one_host.result.log_change
    if change is not None:
        yield Doubt("machine", "same-host", 0.0, math.expm1(change), decides=False)


def hosts_of(case: Case) -> tuple[frozenset[str], frozenset[str]]:
    """Return the hosts of the base runs and of the new runs, as far as they are known."""
    base = {str(run.environment["host"]) for run in case.baseline.runs if "host" in run.environment}
    known = (run.environment.get("host", case.facts.get("host")) for run in case.new)
    return frozenset(base), frozenset(str(host) for host in known if host is not None)


def _on_base_host(question: ChangeQuestion, known: HostDifference) -> ChangeQuestion:
    """The same question with the new runs as they would be on the hosts of the base."""
    factor = math.exp(-known.log_difference)
    measures = tuple(
        one if one.value is None else replace(one, value=one.value * factor) for one in question.new.measures
    )
    return replace(question, new=replace(question.new, measures=measures))
