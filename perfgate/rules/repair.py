"""Guess what an author meant: propose a valid sentence for a wrong one, and names of stored metrics.

A proposal always parses; if the meaning is not clear, there is no proposal. Names with blanks become the known metric
with the same words, or a quoted name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from perfgate.core import Problem
from perfgate.core.units import NUMBER, UNITS
from perfgate.core.wording import STATISTICS, is_statistic, listed
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.cursor import KEYWORDS, SentenceError, meant_percentile, meant_unit
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.syntax.sentence import Expression, Selector, selectors

#: Metrics that many formats have, for authors without stored runs.
_USUAL_METRICS = (
    *("step.time", "memory.peak_allocated", "memory.allocated", "memory.reserved", "gpu.utilization"),
    *("samples_per_second", "tokens_per_second", "iteration_time"),
)
#: A part of a name that may be quoted; `p101` and operators are not meant as names.
_NAME_PART = re.compile(r"(?!p\d)[^\W\d][\w.:-]*")
#: The longest text, in characters, for which a proposal is searched.
_LONGEST = 300


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Words before a quantity that belong to the clause, not to the name of the metric: those of a lower bound, of a bound
#: that the value must not reach, of a change, and those that say nothing by themselves.
_LOWER_BOUND = _words("least minimum min over above > >= higher greater larger more longer faster")
_STRICT = _words("under below less lower smaller fewer shorter over above greater higher larger longer < >")
_CHANGE = _words(
    "within change changes changed increase increases increased regress regresses regression grow grows slowdown "
    "slower worse degrade degrades drop drops decrease decreases decline declines loss faster"
)
_VERBS = _words("is are be should must shall may can will stays stay remains remain keeps keep takes take")
_FILLERS = _VERBS | _words(
    "no not never than at most up to by being been was a an the maximum max <= = == : of equal equals limit limited "
    "exceed exceeds allowed has have needs need wihtin withn undr belw"
)
_CLAUSE_WORDS = _LOWER_BOUND | _STRICT | _CHANGE | _FILLERS
#: Words after a quantity: the reference that they mean, and words that may be there, too.
_REFERENCES = {
    **dict.fromkeys(_words("baseline basline base before main master previous reference yesterday"), "baseline"),
    "anchor": "anchor",
}
_AFTER = _CHANGE | _words("of off from than the to compared with over above below more less higher lower")
#: The words that a misspelt one may mean, misspelt ones that look like others, and statistics in other words.
_MISSPELT = sorted(word for word in _CLAUSE_WORDS if len(word) > 3 and word.isalpha() and word not in _VERBS)
_OFTEN = {"then": "than", "slow": "slower", "high": "higher", "low": "lower", "within:": "within"}
_STATISTICS = {"average": "mean", "avg": "mean", "maximum": "max", "minimum": "min", "sum": "total"}
#: Fields of a mapping in the words of other tools, and how the sentence goes on.
_METRIC_FIELDS = ("metric", "name", "key", "series", "measure")
_STATISTIC_FIELDS = ("statistic", "stat", "percentile", "aggregate", "aggregation")
_BOUND_FIELDS = {
    **dict.fromkeys(("max", "maximum", "at_most", "upper", "limit", "threshold", "less_than", "lte"), "at most {}"),
    **dict.fromkeys(("under", "below", "lt"), "under {}"),
    **dict.fromkeys(("min", "minimum", "at_least", "lower", "greater_than", "gte"), "at least {}"),
    **dict.fromkeys(("over", "above", "gt"), "over {}"),
    **dict.fromkeys(
        ("within", "tolerance", "max_change", "max_regression", "max_increase", "change", "regression"),
        "within {} of baseline",
    ),
}


def repaired(text: str, metrics: Collection[str] = ()) -> str | None:
    """Return a valid sentence that the author of a wrong one probably meant, or None.

    `text`: a sentence that does not parse. `metrics`: the names of the stored metrics, if they are known.
    """
    words = re.findall(r"[<>]=?|==?|[^\s<>=,]+", text)  # `<5ms` is two words
    if words[:2] == ["no", "more"]:  # a count with a limit of its own, or a misspelt sentence about all work
        words = words[2:] if words[2:] and words[2].startswith("work.") else []
    # The quantity is the first number, but not the first word, and no percentile such as `95th`.
    at = next((i for i, word in enumerate(words) if i and NUMBER.match(word) and not meant_percentile(word)), None)
    if at is None or len(text) > _LONGEST or any(mark in text for mark in '{}()"`'):  # labels, formulas, quoted names
        return None
    quantity, after = _quantity(words, at)
    head = [*words[:1], *map(_spelt, words[1:at])]
    words = [*head, *words[at:]]
    # The words before the number are the subject, then the words of the clause.
    while head and head[-1].lower() in _CLAUSE_WORDS and len(head) > 1:
        head.pop()
    subject = _subject(head, metrics)
    clause = _clause([word.lower() for word in words[len(head) : at]], quantity, [word.lower() for word in after])
    return _valid(f"{subject} {clause}") if subject and clause else None


def _spelt(word: str) -> str:
    """Return the word of a clause that a misspelt word means: `slower` for `slowr`, `than` for `then`."""
    if word.lower() in _CLAUSE_WORDS:
        return word
    near = get_close_matches(_OFTEN.get(word.lower(), word.lower()), _MISSPELT, n=1, cutoff=0.75)
    return near[0] if near else word


def sentence_of_mapping(mapping: Mapping[str, object], known: Collection[str]) -> str | None:
    """Return the sentence for a rule in the form of another tool, such as `{metric: forward, max: 50 ms}`; or None.

    `mapping`: the rule, without `assert`. `known`: the fields of a rule, which say nothing about the sentence.
    """
    fields = {str(name).lower(): value for name, value in mapping.items() if name not in known}
    metric = next((str(fields[name]) for name in _METRIC_FIELDS if isinstance(fields.get(name), str)), None)
    if metric is None and len(mapping) == 1:  # `forward: 50 ms`
        [(name, value)] = mapping.items()
        is_misspelt = get_close_matches(name, known, n=1, cutoff=0.6)
        return None if is_misspelt else _valid(f"{name} {value}") or _valid(f"{name} at most {value}")
    statistic = next((f" {fields[name]}" for name in _STATISTIC_FIELDS if is_statistic(str(fields.get(name)))), "")
    unit = f" {fields['unit']}" if isinstance(fields.get("unit"), str) else ""
    clauses = []
    for name, clause in _BOUND_FIELDS.items():
        bound = fields.get(name)
        if isinstance(bound, (str, int, float)):
            clauses.append(clause.format(bound if isinstance(bound, str) else f"{bound}{unit}"))
    if not metric or not clauses:
        return None
    name = f'"{metric}"' if " " in metric else metric
    return _valid(f"{name}{statistic} {' and '.join(clauses)}")


def in_yaml(sentence: str) -> str:
    """Return a proposal as it is written in a rule file: in single quotes if YAML would misread it."""
    is_plain = re.match(r"\w", sentence) and not re.search(r": | #", sentence)  # `"a b"`, `*` and `a:` need quotes
    return sentence if is_plain else "'" + sentence.replace("'", "''") + "'"


def known_name(words: Sequence[str], metrics: Iterable[str]) -> str | None:
    """Return the shortest metric whose name has all these words: `memory.peak_allocated` for `peak memory`. Or None."""
    wanted = {word.lower() for word in words}
    fitting = [name for name in metrics if wanted <= set(re.split(r"[^a-z0-9]+", name.lower()))]
    return min(fitting, key=lambda name: (len(name), name), default=None)


def _quantity(words: Sequence[str], at: int) -> tuple[str, list[str]]:
    """Return the quantity that begins at a word, its unit corrected, and the words after it."""
    found = NUMBER.match(words[at])
    assert found is not None
    symbol, rest = words[at][found.end() :], list(words[at + 1 :])
    if not symbol and rest and (unit := meant_unit(rest[0])):
        symbol, rest = unit, rest[1:]
    symbol = meant_unit(symbol) or symbol
    return f"{found[0]}{'' if symbol in ('%', 'x') else ' '}{symbol}".rstrip(), rest


def _subject(words: Sequence[str], metrics: Collection[str]) -> str | None:
    """Return the metric and its statistic from the words before the clause; None if they are something else."""
    left, statistic = list(words), None
    for word in words if len(words) > 1 else ():
        meant = meant_percentile(word) or _STATISTICS.get(word.lower(), word)
        if is_statistic(meant):
            statistic = meant
            left.remove(word)
            break
    if statistic is None and len(left) > 1 and known_name(left, metrics) is None:
        # The last word may be a misspelt statistic.
        near = get_close_matches(left[-1].lower(), STATISTICS, n=1, cutoff=0.8)
        statistic, left = (near[0], left[:-1]) if near else (None, left)
    ignored = _VERBS | ({"of", "the", "a", "an", "percentile"} if statistic else {"the", "a", "an"})
    left = [word for word in left if word.lower() not in ignored] or left
    name = left[0]
    if len(left) > 1:
        if any(word in KEYWORDS or not _NAME_PART.fullmatch(word) for word in left):
            return None  # a rank, arithmetic, a statistic that does not exist
        name = known_name(left, metrics) or known_name(left, _USUAL_METRICS) or f'"{" ".join(left)}"'
    return f"{name} {statistic}" if statistic else name


def _clause(before: Sequence[str], quantity: str, after: Sequence[str]) -> str | None:
    """Return the clause from the words before and after its quantity; None if its meaning is not clear."""
    words, rest = frozenset(before), [word for word in after if word not in _FILLERS]
    if not _AFTER.union(_REFERENCES).issuperset(rest):
        return None
    reference = next((_REFERENCES[word] for word in rest if word in _REFERENCES), None)
    is_share = quantity.endswith("%")
    is_change = not _CHANGE.isdisjoint([*before, *rest])
    is_comparison = not words.isdisjoint(_STRICT | _LOWER_BOUND | {"most"})
    # A quantity without a blank is a share (5%), a factor (1.1x) or has no unit.
    if reference and is_comparison and not is_change and (is_share or " " not in quantity):
        return None  # `at most 95% of baseline` requires an improvement: the message says what to do
    if reference or _is_near(words, "within") or (is_share and is_change):
        return f"within {quantity} of {reference or 'baseline'}"
    return None if rest else f"{_comparator(words, quantity)} {quantity}"


def _comparator(words: frozenset[str], quantity: str) -> str:
    """Return the comparator of a limit from the words before its quantity."""
    if "slower" in words:  # a time that is larger, a rate that is smaller
        unit = UNITS.get(quantity.rpartition(" ")[2])
        return "at least" if unit and unit.base in ("1/s", "B/s", "FLOP/s") else "at most"
    if words & {"no", "not", "never"}:  # `not less than` is a lower bound, `not more than` an upper one
        return "at least" if words & {"less", "lower", "smaller", "fewer", "shorter", "below", "under"} else "at most"
    if words & _LOWER_BOUND:
        return "over" if words & (_STRICT | {"more"}) else "at least"
    return "under" if words & _STRICT or _is_near(words, "under", "below") else "at most"


def _is_near(words: Iterable[str], *known: str) -> bool:
    return any(get_close_matches(word, known, cutoff=0.75) for word in words)


def _valid(sentence: str) -> str | None:
    try:
        parse_sentence(sentence)
    except SentenceError:
        return None
    return sentence


#: The most names that are compared, and the most absent metrics that get the nearest names: to compare is slow.
_MOST_COMPARED, _MOST_ABSENT = 5_000, 50


def absent_metrics(ruleset: Ruleset, names: Collection[str]) -> list[Problem]:
    """Return a warning for each metric of a rule that no stored run has; none if no metric is stored.

    Rules that accept a missing metric (`on_missing`) are left out, and so are metrics that `check` computes itself
    (of the warm-up, `mfu`, `hfu`), and globs of derived metrics.
    """
    found: list[Problem] = []
    for rule in ruleset.rules if names else ():
        if rule.settings.on_missing == "error":
            for selector in dict.fromkeys(_read(rule.sentence.subject, ruleset)):
                if not any(selector.matches_metric(name) for name in names):
                    found.append(_absent(rule, selector, names, is_hinted=len(found) < _MOST_ABSENT))
    return found


def _read(expression: Expression, ruleset: Ruleset, depth: int = 10) -> Iterator[Selector]:
    """Yield the metrics that an expression reads. A chain of derived metrics, or a circle, is followed to a `depth`."""
    for selector in selectors(expression):
        derived = ruleset.metrics.get(selector.pattern)
        if derived is not None and depth:
            yield from _read(derived.expression, ruleset, depth - 1)
        elif ruleset.model is not None and selector.pattern in ("mfu", "hfu"):
            continue
        elif not selector.pattern.startswith("warmup.") and not (
            selector.is_glob and any(map(selector.matches_metric, ruleset.metrics))
        ):
            yield selector


def _absent(rule: Rule, selector: Selector, names: Collection[str], *, is_hinted: bool) -> Problem:
    """Return the warning about one metric; with `is_hinted`, it proposes the nearest names."""
    name, words = selector.pattern, [word for word in re.split(r"[^a-z0-9]+", selector.pattern.lower()) if word]
    close = get_close_matches(name, sorted(names)[:_MOST_COMPARED], n=3, cutoff=0.5) if is_hinted else []
    same = known_name(words, names) if words and is_hinted else None
    near = list(dict.fromkeys([*([same] if same else []), *close]))
    hint = f"the nearest names are {listed(near)}" if near else f"the stored runs have {listed(sorted(names))}"
    return Problem("warning", f"no stored run has {name}: {hint}", rule.at)
