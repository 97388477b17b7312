"""The domain types: what was measured, what was found wrong with it, and what was decided.

| module | is about |
|---|---|
| `measured` | series, runs, and problems with them |
| `summaries` | what `inspect` shows of a run |
| `stored` | the runs that new ones are compared with |
| `decided` | verdicts and the report that holds them |
| `planned` | what rules would see, and the proof that they can fail |

Every type is frozen, and numbers are in base units (`s`, `B`, `1`, `1/s`, `B/s`, `FLOP`, `FLOP/s`). Nothing here
reads, computes or prints. The types of the rule language are in `perfgate.rules.syntax.sentence` and
`perfgate.rules.ruleset`.
"""

from __future__ import annotations

from perfgate.core.baseline import Allowance, Baseline, CalibratedPrior
from perfgate.core.plans import Plan, PlanPoint, Proof
from perfgate.core.runs import (
    MEMBER_LABELS,
    Fact,
    Key,
    Kind,
    Location,
    Problem,
    Run,
    Series,
    Severity,
    SourceFile,
    fact_text,
    read_only,
    show_labels,
)
from perfgate.core.summaries import Portion, RunSummary, SeriesSummary, Straggler, TraceView
from perfgate.core.verdicts import (
    OUTCOMES,
    Better,
    ChangeKind,
    Comparator,
    Estimate,
    MeanChange,
    MissingBaseline,
    Outcome,
    Policy,
    PolicyChange,
    RelativeChange,
    Report,
    RunEstimate,
    Share,
    Verdict,
)

__all__ = [
    "MEMBER_LABELS",
    "OUTCOMES",
    "Allowance",
    "Baseline",
    "Better",
    "CalibratedPrior",
    "ChangeKind",
    "Comparator",
    "Estimate",
    "Fact",
    "Key",
    "Kind",
    "Location",
    "MeanChange",
    "MissingBaseline",
    "Outcome",
    "Plan",
    "PlanPoint",
    "Policy",
    "PolicyChange",
    "Portion",
    "Problem",
    "Proof",
    "RelativeChange",
    "Report",
    "Run",
    "RunEstimate",
    "RunSummary",
    "Series",
    "SeriesSummary",
    "Severity",
    "Share",
    "SourceFile",
    "Straggler",
    "TraceView",
    "Verdict",
    "fact_text",
    "read_only",
    "show_labels",
]
