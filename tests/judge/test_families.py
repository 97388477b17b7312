"""Globs over many metrics: chance failures become suspicions, real ones stay failures."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from scipy import stats
from single import compare_once

from perfgate import judge_change
from perfgate.core import Baseline, Key, Location, Run, Series, Verdict
from perfgate.judge.decide.outcome import p_beyond
from perfgate.judge.evidence import Case
from perfgate.judge.terms import ChangeTerms
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.grammar import parse_sentence


def verdicts(
    sentence: str, metrics: int, slower: dict[int, float], *, seed: int = 1, new_runs: int = 1, strict: bool = False
) -> tuple[Verdict, ...]:
    """Five base runs of so many metrics, and new runs of which some are slower by a factor; 1 % from run to run."""
    rng = np.random.default_rng(seed)

    def run(i: int, factors: dict[int, float]) -> Run:
        values = [float(np.exp(0.01 * rng.standard_normal())) * factors.get(m, 1.0) for m in range(metrics)]
        rows = [Series(Key(f"op{m:03}"), "s", "value", np.array([v])) for m, v in enumerate(values)]
        return Run(f"run{i}", "test", tuple(rows))

    baseline = Baseline("s/e/l", tuple(run(i, {}) for i in range(5)))
    new = tuple(run(9 + i, slower) for i in range(new_runs))
    rule = Rule(parse_sentence(sentence), Location("rules.yaml", 1))
    return judge(Case(Ruleset("default", (rule,), {}), new, baseline, date(2026, 1, 1), strict=strict))


def failed(found: tuple[Verdict, ...]) -> list[str]:
    return [verdict.metric for verdict in found if verdict.outcome == "fail"]


def test_chance_among_many_metrics_is_a_suspicion() -> None:
    """At tolerance 0 one comparison in twenty fails by chance: of 60 metrics some do, and no verdict fails."""
    found = verdicts("op* within 0% of baseline", 60, {})
    suspects = [verdict for verdict in found if verdict.outcome == "undecided" and verdict.change.low > 0]
    assert suspects
    assert failed(found) == []
    assert all(
        (v.exit_code, v.suspect, "give all 3 runs together" in v.next_step.text) == (3, True, True) for v in suspects
    )


def test_a_real_change_among_many_metrics_still_fails() -> None:
    assert failed(verdicts("op* within 5% of baseline", 60, {7: 1.5})) == ["op007"]


@pytest.mark.parametrize(
    ("sentence", "metrics", "held"),
    [
        ("op* within 5% of baseline", 11, True),
        ("op* within 5% of baseline", 10, False),
        ("op* within 2% of baseline", 2, True),
        ("op* within 2% of baseline", 1, False),
        ("op* within 3% of baseline", 2, False),
        ("op003 within 2% of baseline", 12, False),
    ],
)
def test_which_families_are_corrected(sentence: str, metrics: int, held: bool) -> None:
    found = verdicts(sentence, metrics, dict.fromkeys(range(metrics), 1.5))
    assert {verdict.outcome for verdict in found} == {"fail"}
    assert any("Benjamini-Hochberg" in note for verdict in found for note in verdict.notes) == held


def test_three_runs_or_strict_confirm_a_failure() -> None:
    for options in ({"new_runs": 3}, {"strict": True}):
        assert failed(verdicts("op* within 0% of baseline", 60, {}, **options))


def test_limits_of_a_glob_are_left_alone() -> None:
    assert len(failed(verdicts("op* under 1 ms", 20, {}))) == 20


def test_the_probability_is_that_of_the_interval() -> None:
    """Against scipy.stats.t: below 1 - confidence exactly where the bound is beyond the tolerance."""
    rng = np.random.default_rng(3)
    for better, sign in (("lower", 1), ("higher", -1)):
        for shift in np.linspace(0, 0.2, 40):
            base, new = list(100 * np.exp(0.02 * rng.standard_normal(5))), [100 * np.exp(sign * shift)]
            terms = ChangeTerms(tolerance=0.05, better=better)
            found = compare_once(base, new, tolerance=0.05, better=better)
            edge = np.log(1.05) if better == "lower" else np.log(0.95)
            expected = stats.t.sf(sign * (found.log_change - edge) / found.standard_error, found.degrees_of_freedom)
            p = p_beyond(found, terms)
            assert p == pytest.approx(expected, rel=1e-9)
            assert (p < 0.05) == (found.outcome == "fail")


def test_where_both_directions_are_bad_the_likelier_one_counts() -> None:
    terms = ChangeTerms(tolerance=0.05, two_sided=True)
    for new in (80.0, 120.0):
        found = judge_change([99.0, 100.0, 101.0], [new], tolerance=0.05, two_sided=True)
        edge = np.log(1.05) - found.log_change if new > 100 else found.log_change - np.log(0.95)
        expected = stats.t.sf(-edge / found.standard_error, found.degrees_of_freedom)
        assert p_beyond(found, terms) == pytest.approx(expected, rel=1e-9)
