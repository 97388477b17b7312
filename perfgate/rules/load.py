"""Load rule files into a ruleset; every mistake becomes a problem with file:line:column, and all are reported.

If a file is not valid YAML, only its YAML mistakes are reported. Clashes between rules are only reported if no file has
a mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.documents.yaml import load_document
from perfgate.rules.rule_file import RuleFile
from perfgate.rules.ruleset import DEFAULT_IDENTITY, DerivedMetric, Ruleset


def load_rules(
    files: Iterable[tuple[str, bytes]], suite: str | None = None, limits: Limits = DEFAULT
) -> tuple[Ruleset | None, list[Problem]]:
    """Load the rule files (name, bytes) of one suite; `suite` chooses one if the files contain several.

    Returns the ruleset and all problems; the ruleset is None if any problem is an error.
    """
    loaders, problems = _load_files(files, limits)
    if not loaders:
        return None, [Problem("error", "there are no rule files: `perfgate init` writes one", Location("rules"))]
    suites = sorted({loader.suite for loader in loaders})
    if not problems and suite is None and len(suites) > 1:
        message = f"the rule files contain several suites ({', '.join(suites)}): choose one with --suite"
        problems.append(Problem("error", message, Location(loaders[0].document.name)))
    if problems:  # so far, all are errors
        return None, problems
    chosen = [loader for loader in loaders if suite is None or loader.suite == suite]
    if not chosen:
        message = f"there are no rules for suite {suite!r}: the rule files contain {', '.join(suites)}"
        return None, [Problem("error", message, Location(loaders[0].document.name))]
    ruleset, clashes = _merge(chosen)
    return (None if any(clash.severity == "error" for clash in clashes) else ruleset), clashes


def check_rules(
    files: Iterable[tuple[str, bytes]], limits: Limits = DEFAULT, metrics: Collection[str] = ()
) -> tuple[dict[str, int], list[Problem]]:
    """Validate rule files of any suites; return the number of rules in each valid file, and all problems.

    `metrics`: the names of known metrics, which the proposed sentences in problems use.
    """
    loaders, problems = _load_files(files, limits, metrics)
    for suite in sorted({loader.suite for loader in loaders}) if not problems else ():
        problems += _merge([loader for loader in loaders if loader.suite == suite])[1]
    return {loader.document.name: len(loader.rules) for loader in loaders if not loader.problems}, problems


def readable_rulesets(files: Iterable[tuple[str, bytes]], limits: Limits = DEFAULT) -> list[Ruleset]:
    """Return one ruleset for each suite. A file with mistakes contributes the rules that can be read.

    A file that is not valid YAML belongs to the suite `default`, and contributes none.
    """
    loaders = _load_files(files, limits)[0]
    suites = dict.fromkeys(loader.suite for loader in loaders)
    return [_merge([loader for loader in loaders if loader.suite == suite])[0] for suite in suites]


def readable_suite(files: Iterable[tuple[str, bytes]]) -> str:
    """Return the suite of rule files with mistakes; empty if they have several, or if none can be read."""
    found = [load_document(name, data).data for name, data in files]
    suites = [data.get("suite", "default") for data in found if isinstance(data, dict)]
    first = suites[0] if suites else ""
    return first if isinstance(first, str) and suites.count(first) == len(suites) else ""


def _load_files(
    files: Iterable[tuple[str, bytes]], limits: Limits, metrics: Collection[str] = ()
) -> tuple[list[RuleFile], list[Problem]]:
    """Load each file; return all of them, also those with mistakes, and the problems in the order of the lines."""
    documents = [load_document(name, data, limits) for name, data in files]
    loaders = [RuleFile(document, list(document.problems), metrics) for document in documents]
    problems = []
    for loader in loaders:
        if not loader.problems:
            loader.load()
        problems += sorted(loader.problems, key=lambda problem: (problem.at.line or 0, problem.at.column or 0))
    return loaders, problems


def _merge(loaders: list[RuleFile]) -> tuple[Ruleset, list[Problem]]:
    """Return one ruleset of the files of a suite, and the problems of `_clashes`."""
    metrics: dict[str, DerivedMetric] = {}
    for metric in (metric for loader in loaders for metric in loader.metrics.values()):
        metrics.setdefault(metric.name, metric)
    ruleset = Ruleset(
        loaders[0].suite,
        tuple(rule for loader in loaders for rule in loader.rules),
        metrics,
        next((loader.identity for loader in loaders if loader.identity), DEFAULT_IDENTITY),
        files=tuple(loader.document.name for loader in loaders),
        pairs=next((loader.pairs for loader in loaders if loader.pairs), None),
        conditions=tuple(dict.fromkeys(name for loader in loaders for name in loader.measured_under)),
        unread=next((loader.unread for loader in loaders if loader.unread), "warn"),
        renames={old: new for loader in loaders for old, new in loader.renames.items()},
        model=next((loader.model for loader in loaders if loader.model), None),
    )
    return ruleset, [*_clashes(loaders, metrics)]


def _clashes(loaders: list[RuleFile], metrics: Mapping[str, DerivedMetric]) -> Iterator[Problem]:
    """Yield a problem for each rule, id or model that occurs twice, and for definitions and settings that differ."""
    ids: dict[str | None, Location] = {}
    places: dict[object, Location] = {}
    for rule in (rule for loader in loaders for rule in loader.rules):
        words = tuple(rule.sentence.text.split())
        about = words, rule.settings, rule.when, rule.better, rule.expect_fail, rule.quarantine
        if about in places:
            yield Problem("warning", f"the same rule is at {places[about]}: remove one of them", rule.at)
        if rule.id is not None and rule.id in ids:
            message = f"the id {rule.id!r} is already used at {ids[rule.id]}: choose another id"
            yield Problem("error", message, rule.at)
        places.setdefault(about, rule.at)
        ids.setdefault(rule.id, rule.at)
    for metric in (metric for loader in loaders for metric in loader.metrics.values()):
        known = metrics[metric.name]
        if known.text != metric.text:
            message = f"{metric.name!r} has another definition at {known.at}: keep one of them"
            yield Problem("error", message, metric.at)
    models = [loader.model for loader in loaders if loader.model is not None]
    for model in models[1:]:
        yield Problem("error", f"the suite has another `model` at {models[0].at}: keep one of them", model.at)
    # The name of a field of `RuleFile`, and the key of the file that it is read from.
    for name, key in (("identity", "environment"), ("pairs", "pairs"), ("unread", "unread")):
        given = [loader for loader in loaders if getattr(loader, name)]
        if len({getattr(loader, name) for loader in given}) > 1:
            message = f"the files of one suite have different values of `{name}`: write the same value in each"
            yield Problem("error", message, given[-1].document.location((key,)))
