"""Reports with any text in every text field: what a hostile input could make of one."""

from typing import Any, get_args

from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from perfgate.core import (
    NO_STEP,
    OUTCOMES,
    Action,
    Estimate,
    Key,
    Location,
    NextStep,
    Policy,
    Problem,
    RelativeChange,
    Report,
    RunEstimate,
    Share,
    SourceFile,
    Verdict,
)
from perfgate.core.calculations import MIXED, Attribution, Changed, FactorEffect
from perfgate.core.causes import Cause, CauseKind, CauseReport, PlaceTime, RankTime
from perfgate.core.details import (
    QUANTILES,
    FactChange,
    LevelDetails,
    MachineChannel,
    MachineTrace,
    Part,
    ReportDetails,
    RunDetails,
    SweepCurve,
    VerdictDetails,
)
from perfgate.core.verdicts import verdict_ids

#: Reports have so many fields that making one takes longer than rendering it.
briefly = settings(max_examples=20)

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "a\u202eb",
    "zero\u200bwidth",
    "\ud800",
    "\ufffe\uffff",
    "]]><testcase name='x'/>",
    "<img src=x onerror=alert(1)>",
    "<!-- ",
    "| fake | PASS |",
    "x\n| fake | PASS |\n",
    "a\\|b",
    "a\r\nb",
    "``` `` `",
    "`a`b`c_d`<b>",
    "[text](https://example.com)",
    "![image](https://example.com/x.png)",
    "https://example.com www.example.com a@example.com @octocat #1 GH-1",
    "* _x_ **y** ~~z~~",
    "::stop-commands::x",
    "  ::error file=a::b",
    "##[add-mask]secret",
    "##vso[task.complete result=Succeeded]",
    "-",
    "1. x",
    "# x",
    "[red]markup[/red] :smile:",
    "漢字" * 40,
    "e\u0301" * 30,
    "x" * 300,
    "../../etc/passwd",
    "",
    "  ",
]

text = st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=10)
number = st.floats(allow_nan=False, allow_infinity=False)
maybe_number = st.none() | number
maybe_text = st.none() | text
labels = st.dictionaries(text, text, max_size=2)
counts = st.integers(0, 10**9)

locations = st.builds(Location, text, st.none() | counts, st.none() | counts)
estimates = st.builds(Estimate, maybe_number, maybe_number, maybe_number, st.none() | counts, maybe_number, counts)
changes = st.builds(RelativeChange, maybe_number, maybe_number, maybe_number)
runs = st.builds(RunEstimate, st.sampled_from(["base", "new"]), text, maybe_number, counts, counts, st.booleans())
shares = st.builds(Share, text, labels, number, number, number, number, number, maybe_text)
units = st.sampled_from([None, "s", "B", "1", "1/s", "FLOP/s", "\x1b|"])

actions = st.sampled_from([action for action in get_args(Action) if action not in ("none", "other")])
next_steps = st.just(NO_STEP) | st.builds(NextStep, actions, text, text, text, maybe_text)
factor_effects = st.builds(FactorEffect, number, number, number)
verdicts = st.builds(
    Verdict,
    rule=text,
    metric=text,
    labels=labels,
    statistic=maybe_text,
    outcome=st.sampled_from(OUTCOMES),
    reason=text,
    severity=st.sampled_from(["error", "warning"]),
    exit_code=st.integers(0, 3),
    kind=st.sampled_from(["limit", "change"]),
    unit=units,
    message=text,
    next_step=next_steps,
    at=locations,
    against=maybe_text,
    member=labels,
    new=st.none() | estimates,
    bound=maybe_number,
    comparator=maybe_text,
    asks=text,
    base=st.none() | estimates,
    change=st.none() | changes,
    tolerance=maybe_number,
    minimum_detectable_change=maybe_number,
    at_worst=maybe_number,
    not_excluded=maybe_number,
    share=st.none() | estimates,
    allowed_share=maybe_number,
    notes=st.lists(text, max_size=2).map(tuple),
    shown_unit=st.sampled_from([None, "ms", "%", "pp", "GiB", "\x1b"]),
    why=maybe_text,
    runs=st.lists(runs, max_size=2).map(tuple),
    explained_by=st.lists(shares, max_size=2).map(tuple),
    source=maybe_text,
    attribution=st.none()
    | st.builds(
        Attribution,
        st.sampled_from(get_args(Changed)),
        *(factor_effects, factor_effects, st.none() | factor_effects, st.integers(2, 10), number, st.booleans()),
        st.none() | st.sampled_from(MIXED),
    ),
)
problems = st.builds(
    Problem,
    st.sampled_from(["error", "warning"]),
    text,
    locations,
    st.none() | st.builds(Key, text, labels.map(lambda pairs: tuple(sorted(pairs.items())))),
    maybe_text,
)
places = st.integers(0, 3)
four_numbers = st.lists(number, min_size=4, max_size=4).map(tuple)
standings = st.sampled_from(["past", "base", "new"])
run_evidences = st.builds(
    RunDetails,
    run=text,
    standing=standings,
    judged=st.booleans(),
    estimate=maybe_number,
    member=labels,
    n=st.none() | counts,
    dropped=counts,
    stalled=counts,
    quantiles=st.just(()) | st.lists(number, min_size=len(QUANTILES), max_size=len(QUANTILES)).map(tuple),
    values=four_numbers,
    steps=st.lists(counts, min_size=4, max_size=4).map(tuple),
    warmup=places,
    stalls=st.lists(places, max_size=2).map(tuple),
)
run_lists = st.lists(run_evidences, max_size=2).map(
    lambda runs: (RunDetails("x", "new", judged=True, estimate=1.0), *runs)
)
points = st.lists(st.tuples(number, number), max_size=3).map(tuple)
numbers = st.lists(number, max_size=4).map(tuple)
parts = st.lists(st.builds(Part, text, labels, maybe_number, maybe_number), max_size=2).map(tuple)
evidences = st.builds(
    ReportDetails,
    verdicts=st.lists(
        st.builds(VerdictDetails, places, units.filter(bool), run_lists, counts, maybe_number, maybe_number), max_size=2
    ).map(tuple),
    left_out=counts,
    levels=st.lists(
        st.builds(LevelDetails, text, text, text, text, st.lists(text, max_size=2).map(tuple), st.none() | counts),
        max_size=2,
    ).map(tuple),
    base_environment=st.dictionaries(text, text | st.integers(-(2**53), 2**53) | st.booleans() | number, max_size=2),
    breakdown=parts,
    movers=parts,
    sweeps=st.lists(
        st.builds(
            SweepCurve,
            metric=text,
            labels=st.dictionaries(text, text, max_size=2),
            condition=text,
            unit=st.sampled_from(("s", "B", "1/s", "1")),
            base=points,
            new=points,
        ),
        max_size=2,
    ).map(tuple),
    machine=st.lists(
        st.builds(
            MachineChannel,
            metric=text | st.sampled_from(("clock.sm", "machine.cpu.steal", "machine.gpu.throttled.thermal")),
            labels=st.dictionaries(text, text, max_size=2),
            unit=st.sampled_from(("1/s", "W", "°C", "1")),
            runs=st.lists(st.builds(MachineTrace, text, standings, number, numbers, numbers, numbers), max_size=2).map(
                tuple
            ),
            devices=counts,
        ),
        max_size=2,
    ).map(tuple),
)
paths = st.lists(text, max_size=3).map(tuple)
calls = st.lists(st.tuples(text, number), max_size=2).map(tuple)
causes = st.builds(
    Cause,
    *(st.sampled_from(get_args(CauseKind)), paths, st.sampled_from(["time", "memory"]), number, number, number),
    maybe_number,
    ranks=st.lists(text, max_size=2).map(tuple),
    gone=calls,
    come=calls,
    places=st.lists(paths, max_size=2).map(tuple),
    source=text,
)
cause_reports = st.builds(
    CauseReport,
    st.lists(causes, max_size=2).map(tuple),
    *(number, number, number, number, counts, counts),
    notes=st.lists(text, max_size=1).map(tuple),
    tree=st.lists(st.builds(PlaceTime, text, st.integers(-1, 3), number, number, counts), max_size=4).map(tuple),
    ranks=st.lists(st.builds(RankTime, text, number, number, number, number), max_size=3).map(tuple),
)


def _explained(report: Report, causes: CauseReport | None) -> Report:
    """The report with causes; from the first of them follows every other verdict."""
    if causes is None or not causes.causes:
        return replace(report, causes=causes)
    first, *others = causes.causes
    first = replace(first, verdicts=verdict_ids(report.verdicts)[::2])
    return replace(report, causes=replace(causes, causes=(first, *others)))


def _report(**fields: Any) -> Report:
    """Make a report. Hypothesis asks the class itself for types that are imported only where they are used."""
    return Report(**fields)


words = st.lists(text, max_size=2).map(tuple)
plain_reports = st.builds(
    _report,
    outcome=st.sampled_from(OUTCOMES),
    exit_code=st.integers(0, 4),
    verdicts=st.lists(verdicts, max_size=4).map(tuple),
    problems=st.lists(problems, max_size=2).map(tuple),
    inputs=st.lists(st.builds(SourceFile, text, text, text), max_size=1).map(tuple),
    environment=st.dictionaries(text, text | st.integers(-(2**53), 2**53) | st.booleans() | number, max_size=2),
    policy=st.builds(Policy, maybe_text, text, text),
    suite=text,
    baseline=maybe_text,
    accept=next_steps,
    details=evidences,
    fact_changes=st.lists(st.builds(FactChange, text, words, words, st.booleans()), max_size=2).map(tuple),
)
reports = st.builds(_explained, plain_reports, st.none() | cause_reports)
