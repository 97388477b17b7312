"""`perfgate baseline allow`: record that a commit may regress a metric by up to a percentage."""

from __future__ import annotations

import hashlib
from datetime import date

from msgspec import Struct

from perfgate.baselines.files import ALLOWANCE, FULL_SHA, AllowanceFile
from perfgate.baselines.places import ALLOWANCES
from perfgate.baselines.stores import locked, open_store, write_file
from perfgate.core.wording import utf8_text
from perfgate.rules.syntax.cursor import Cursor, SentenceError
from perfgate.version import __version__
from perfgate.workspace import surroundings
from perfgate.workspace.options import Refused
from perfgate.workspace.rule_source import WORKING_TREE, read_ruleset


class AllowanceRequest(Struct, frozen=True):
    """The allowance to record, as the command line gives it."""

    head: str
    metric: str
    up_to: str
    reason: str
    expires: str
    by: str | None = None
    pr: int | None = None


def allow(request: AllowanceRequest, rules: tuple[str, ...], suite: str | None, baselines: str) -> list[str]:
    """Record an allowance; returns the lines to print. Raises Refused.

    Parameters
    ----------
    rules: the rule files, which name the suite if `suite` is None.
    baselines: the directory or URL to write to.
    """
    if not request.reason.strip():
        raise Refused('an allowance needs a reason: --reason "..."')
    if not FULL_SHA.fullmatch(request.head):
        raise Refused(f"--head {request.head}: give the whole commit, 40 hexadecimal digits (git rev-parse)")
    content = AllowanceFile(
        schema=ALLOWANCE.schema,
        tool=f"perfgate {__version__}",
        suite=suite or read_ruleset(WORKING_TREE, rules, None).suite,
        head=request.head,
        metric=utf8_text(request.metric),
        up_to=_share(request.up_to),
        reason=utf8_text(request.reason),
        by=utf8_text(request.by or surroundings.who()),
        pr=request.pr,
        time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        expires=_date(request.expires),
    )
    store, data = open_store(baselines), ALLOWANCE.encode(content)
    path = f"{content.suite}/{ALLOWANCES}/{request.head[:12]}-{hashlib.sha256(data).hexdigest()[:8]}.json"
    with locked(store):
        write_file(store, path, data)
    return [
        f"wrote {store.location(path)}",
        f"until {content.expires}, {request.head[:12]} may be up to {request.up_to} worse in {request.metric}, "
        "once this file is on the base that `check --policy-ref` reads",
    ]


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
