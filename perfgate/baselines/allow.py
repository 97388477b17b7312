"""`perfgate baseline allow`: a commit may be so much worse, says somebody who may write to the base."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import perfgate
from perfgate.baselines.allowances import FULL_SHA, SCHEMA, AllowanceFile, encode
from perfgate.baselines.candidates import plain, write
from perfgate.baselines.layout import ALLOWANCES
from perfgate.core import RelativeChange, Verdict
from perfgate.rules.syntax.cursor import Cursor, SentenceError
from perfgate.workspace import surroundings
from perfgate.workspace.errors import Refused
from perfgate.workspace.options import CommandOptions, command_line, place_words
from perfgate.workspace.rule_source import WorkingTree, locked, open_store, read_rules


@dataclass(frozen=True, slots=True)
class Permission:
    """What is allowed to which commit, in the words of the command line."""

    head: str
    metric: str
    up_to: str
    reason: str
    expires: str
    by: str | None = None
    pr: int | None = None


def allow_command(options: CommandOptions, head: str | None, failed: Sequence[Verdict]) -> str | None:
    """The commands that would allow this commit what was seen of it, for a month: a command for each metric.

    None where nothing moved by a share that can be allowed, as from zero.
    """
    expires = surroundings.today() + timedelta(days=30)
    worst: dict[str, float] = {}
    for verdict in failed:
        worst[verdict.metric] = max(worst.get(verdict.metric, 0.0), _worsening(verdict))
    commands = [
        command_line(
            [
                *("perfgate", "baseline", "allow", "--head", head or "SHA", "--metric", metric),
                *("--up-to", f"{math.ceil(100 * worsening)}%", "--reason", "...", "--expires", str(expires)),
                *place_words(options),
            ]
        )
        for metric, worsening in worst.items()
        if worsening
    ]
    return " && ".join(commands) or None


def _worsening(verdict: Verdict) -> float:
    """How far a metric may have moved, as far as the interval tells."""
    change = verdict.change or RelativeChange(None, None, None)
    end = change.low if (change.estimate or 0.0) < 0 else change.high
    return abs(end or change.estimate or 0.0)


def allow(given: Permission, rules: tuple[str, ...], suite: str | None, baselines: str) -> list[str]:
    """Record an allowance; returns the lines to print. Raises Refused."""
    if not given.reason.strip():
        raise Refused('an allowance needs a reason: --reason "..."')
    if not FULL_SHA.fullmatch(given.head):
        raise Refused(f"--head {given.head}: give the whole commit, 40 hexadecimal digits (git rev-parse)")
    stored = AllowanceFile(
        schema=SCHEMA,
        tool=f"perfgate {perfgate.__version__}",
        suite=suite or _suite(rules),
        head=given.head,
        metric=plain(given.metric),
        up_to=_share(given.up_to),
        reason=plain(given.reason),
        by=plain(given.by or surroundings.who()),
        pr=given.pr,
        time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        expires=_date(given.expires),
    )
    store, data = open_store(baselines), encode(stored)
    path = f"{stored.suite}/{ALLOWANCES}/{given.head[:12]}-{hashlib.sha256(data).hexdigest()[:8]}.json"
    with locked(store):
        write(store, path, data)
    return [
        f"wrote {store.location(path)}",
        f"until {stored.expires}, {given.head[:12]} may be up to {given.up_to} worse in {given.metric}; "
        f"it counts once it is on the base that `check --policy-ref` reads",
    ]


def _suite(rules: tuple[str, ...]) -> str:
    ruleset, problems, _ = read_rules(WorkingTree(), rules, None)
    if ruleset is None:
        raise Refused("\n".join(map(str, problems)))
    return ruleset.suite


def _share(text: str) -> float:
    try:
        quantity = Cursor(text).quantity()
    except SentenceError as error:
        raise Refused(f"--up-to {text}: {error}") from None
    if quantity.unit is None or quantity.unit.symbol != "%" or not quantity.value > 0:
        raise Refused(f"--up-to {text}: give a percentage, such as 22%")
    return quantity.value


def _date(text: str) -> str:
    try:
        expires = date.fromisoformat(text)
    except ValueError:
        raise Refused(f"--expires {text}: give a date, YYYY-MM-DD") from None
    if expires < surroundings.today():
        raise Refused(f"--expires {text}: that day is over")
    return expires.isoformat()
