"""One clause of a rule for one metric: what has to be there first, then the kind of answer that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from perfgate.core.wording import listed
from perfgate.judge.allowances import after_allowance
from perfgate.judge.changes import change_finding
from perfgate.judge.evidence import Member, Members
from perfgate.judge.finding import Finding, Undecidable
from perfgate.judge.gathering import gather
from perfgate.judge.limits import limit_finding
from perfgate.judge.measure import NotAvailable
from perfgate.judge.question import Question
from perfgate.judge.rank_ratios import rank_ratio_finding
from perfgate.rules.syntax.sentence import LimitClause


def findings(question: Question) -> Iterator[Finding]:
    """One finding, or with `on each rank` one for every rank of either side."""
    try:
        _check_presence(question)
    except Undecidable as error:
        yield error.finding()
        return
    if question.rank != "each":
        yield _finding(question, ())
        return
    for member in sorted(question.subject.members((*question.new, *question.base))):
        yield _finding(replace(question, new=_only(question.new, member), base=_only(question.base, member)), member)


def _finding(question: Question, member: Member) -> Finding:
    """The answer to a question, with the runs behind it where they are to be shown."""
    found = _answer_or_error(question, member)
    return replace(found, evidence=gather(question, member, found)) if question.case.with_evidence else found


def _answer_or_error(question: Question, member: Member) -> Finding:
    """The answer to a question; what cannot be answered is an error that names the rank it is about."""
    try:
        return _answer(question)
    except Undecidable as error:
        found = error.finding()
    except NotAvailable as error:
        found = Finding("error", "not-available", str(error), "use a statistic that the source holds")
    return replace(found, fields={"member": dict(member), **found.fields})


def _answer(question: Question) -> Finding:
    if not all(question.new):
        raise Undecidable("rank-gone", f"a run does not hold {question.subject.key} on every rank", "find out why")
    question.check_terms()
    _check_numbers(question)
    asks = question.clause.asks
    if isinstance(asks, LimitClause):
        return limit_finding(question, asks)
    if asks.reference.endswith("rank"):
        return rank_ratio_finding(question, asks)
    return after_allowance(question, asks, change_finding(question, asks))


def _only(runs: Sequence[Members], member: Member) -> tuple[Members, ...]:
    """Each run with one rank alone."""
    return tuple({member: members[member]} if member in members else {} for members in runs)


def _check_presence(question: Question) -> None:
    """An absent metric, a rank that is gone and a damaged series are errors, before anything is measured."""
    subject = question.subject
    if not subject.new:
        raise Undecidable("no-data", f"{subject.key}: there is no new run", "see why the program wrote none")
    if subject.trouble:
        raise Undecidable("not-available", f"{subject.key}: {subject.trouble}", "see `perfgate inspect`")
    for view, members in zip(question.evidence.new, subject.new, strict=True):
        if not members:
            where = "the baseline does" if subject.members(subject.base) else "other runs do"
            message = f"{view.run.name} does not hold {subject.key}, though {where}"
            raise Undecidable("metric-absent", message, "find out why it is no longer written, or change the rule")
    _check_ranks(question)
    _check_units(question)
    _check_values(question)
    _check_lengths(question)


def _check_ranks(question: Question) -> None:
    """Every new run holds every rank that the baseline or another new run holds."""
    subject = question.subject
    stored, seen = subject.members(subject.base), subject.members(subject.new)
    for view, members in zip(question.evidence.new, subject.new, strict=True):
        gone = sorted((stored | seen) - members.keys())
        if not gone:
            continue
        names = [" ".join(f"{name} {value}" for name, value in member) or "the one without rank" for member in gone]
        where = "the baseline has" if stored & set(gone) else "other new runs have"
        message = f"{subject.key}: {view.run.name} lacks {listed(names)}, which {where}"
        step = "find out why that process wrote nothing"
        if len(subject.new) > 1:
            step += "; if these are the files of one run, one for each rank, give their folder"
        raise Undecidable("rank-gone", message, step)


def _check_units(question: Question) -> None:
    """The same metric in another unit is another metric: seconds must not be compared with calls a second."""
    subject = question.subject
    units = sorted({series.unit for series in subject.all_series()})
    if len(units) > 1:
        message = f"{subject.key} is measured in {' here and in '.join(units)} there"
        raise Undecidable("unit-mismatch", message, "write it in one unit, or under another name")


def _check_lengths(question: Question) -> None:
    """A rank that died early says little, and must not hide behind the rank that speaks for the run."""
    for view, members in zip(question.evidence.new, question.subject.new, strict=True):
        lengths = {member: len(series.values) for member, series in members.items() if series.kind == "samples"}
        usual = median(lengths.values()) if lengths else 0
        for member, length in lengths.items():
            if length < usual / 2:
                name = " ".join(f"{label} {value}" for label, value in member) or "one without rank"
                message = f"{question.subject.key}: in {view.run.name}, {name} has {length} values, others {usual:g}"
                raise Undecidable("too-few-samples", message, "that process seems to have died early: run it again")


def _check_numbers(question: Question) -> None:
    """No rank may hide another one behind which a derived metric is no number, whichever of them speaks."""
    for members in (*question.new, *question.base):
        for member, series in members.items():
            if not np.isfinite(series.values).all():
                raise question.data_error("not-a-number", question.words(member))


def _check_values(question: Question) -> None:
    """A reader that left out a value of this metric said so: what is left may not be the whole truth."""
    if problems := question.subject.concerned_by(question.evidence.left_out):
        message = f"{question.subject.key}: a value was left out: {problems[0].at}: {problems[0].message}"
        raise Undecidable("not-a-number", message, "find out why the job wrote it")
