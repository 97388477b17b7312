"""The sentence about how often a rule was wrong."""

from __future__ import annotations

from perfgate.core.rule_ledger import RuleRecord
from perfgate.core.units import format_number
from perfgate.core.wording import plural


def rule_record(record: RuleRecord) -> str:
    """Return `wrong in 1 of 214 checks (1 red), at most 2.2%; 12 more are not known`."""
    if not record.known:
        return f"{plural(record.unknown, 'check')}, not known whether right or wrong"
    kinds = ((record.wrong_reds, "red"), (record.wrong_greens, "green"))
    which = ", ".join(f"{count} {kind}" for count, kind in kinds if count)
    rate = f"at most {format_number(100 * record.highest, 2)}%"
    text = f"wrong in {record.wrong} of {plural(record.known, 'check')}{f' ({which})' if which else ''}, {rate}"
    return text + (
        f"; {record.unknown} more {'is' if record.unknown == 1 else 'are'} not known" if record.unknown else ""
    )
