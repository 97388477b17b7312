"""The lines of `perfgate explain`: recomputed with plain arithmetic and scipy, they give the printed outcome."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, approve_steady, steady, write_log, write_results, write_rules
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import beta, t
from stories import bare, run_of, series

from perfgate.core import CalibratedPrior, Key, Verdict
from perfgate.judge.verdicts import judge
from perfgate.reporters import json_report, stored_report
from perfgate.words.calculation import calculation

Command = Callable[..., Done]
_NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
_BOUND = re.compile(
    rf"(?P<question>[^?]+)\? standard error {_NUMBER}, {_NUMBER} degrees of freedom: t\({_NUMBER}\) = {_NUMBER}\n"
    rf"    {_NUMBER}(?: \([^)]*\))? ([+-]) {_NUMBER} x {_NUMBER} = {_NUMBER}, (above|below) (.+): (yes|no)"
)


def verdict_on(rule: str, new: Sequence[float], base: Sequence[float] = (), n: int = 60, **fields: Any) -> Verdict:
    metric = "rate" if "rate " in rule else "x"
    unit = "1/s" if metric == "rate" else "s"
    sides = (
        [
            run_of(series(metric, unit, steady(value, n=n, seed=10 * k + i)), source=f"{k}-{i}")
            for i, value in enumerate(side)
        ]
        for k, side in enumerate((new, base))
    )
    (found,) = judge(bare(rule, *sides, **fields))
    return found


def edge_of(text: str) -> float:
    """The number behind `ln(1 + 0.1) = 0.0953`, computed again, or a plain number."""
    found = re.fullmatch(rf"ln\(1 ([+-]) {_NUMBER}\) = {_NUMBER}", text)
    if found is None:
        return float(text)
    again = math.log(1 + float(found[1] + found[2]))
    assert again == pytest.approx(float(found[3]), rel=1e-4)
    return again


def answers(text: str) -> dict[str, bool]:
    """Each question with its answer, recomputed from the printed numbers; fails if the printed answer is another."""
    found = {}
    for match in _BOUND.finditer(text):
        error, df, level, quantile = (float(match[i]) for i in (2, 3, 4, 5))
        again = 0.0 if level == 0.5 else float(t.ppf(level, df))
        assert again == pytest.approx(quantile, rel=2e-3)
        bound = float(match[6]) + {"+": 1, "-": -1}[match[7]] * again * error
        assert bound == pytest.approx(float(match[10]), rel=1e-3, abs=1e-7)
        edge = edge_of(match[12])
        is_yes = bound > edge if match[7] == "-" else bound < edge
        assert is_yes == (match[13] == "yes")
        found[match["question"].strip().splitlines()[-1]] = is_yes
    return found


def outcome_of(text: str) -> str:
    """The outcome of the numbers, from the answers alone."""
    given = answers(text)
    if any(question.startswith(("is there", "is it beyond", "last look")) for question in given):
        return "fail" if all(given.values()) else "suspect"
    if any(question.startswith("is it on the bad side") for question in given):
        return "fail"
    if any(question.startswith("is it on the good side") for question in given):
        return "pass" if all(given.values()) else "open"
    excluded, within = (next(yes for asked, yes in given.items() if asked.startswith(w)) for w in ("is a ", "is it "))
    return "pass" if excluded and within else "open" if excluded else "cannot-exclude"


KNOWN = (CalibratedPrior(Key("x"), "median", "worst", 0.01, 20.0, 43, learned_from="main"),)
CASES: dict[str, tuple[Verdict, str]] = {
    "unchanged": (verdict_on("x within 5% of baseline", [1.001], [1, 1.004, 0.997, 1.002, 0.999]), "pass"),
    "slower": (verdict_on("x within 5% of baseline", [1.3, 1.31], [1, 1.004, 0.997]), "fail"),
    "slower at the last look": (
        verdict_on("x within 5% of baseline", [1.12, 1.2, 1.16], [1, 1.03, 0.97, 1.02, 0.98]),
        "fail",
    ),
    "one slower run": (verdict_on("x within 5% of baseline", [1.2], [1, 1.004, 0.997]), "suspect"),
    "noisy": (verdict_on("x within 5% of baseline", [1.0], [1, 1.2, 0.85]), "cannot-exclude"),
    "faster": (verdict_on("x within 5% of baseline", [0.8], [1, 1.004, 0.997]), "pass"),
    "both sides": (verdict_on("x within ±5% of baseline", [0.7, 0.7, 0.71], [1, 1.004, 0.997]), "fail"),
    "a rate": (verdict_on("rate at least 95% of baseline", [1.001], [1, 1.004, 0.997]), "pass"),
    "the noise of the history": (verdict_on("x within 5% of baseline", [1.2], [1.0, 1.01], priors=KNOWN), "fail"),
    "the history, unchanged": (verdict_on("x within 5% of baseline", [1.0], [1.0, 1.01], priors=KNOWN), "pass"),
    "pairs, slower": (
        verdict_on("x within 5% of baseline", [1.2, 1.21, 1.19], [1, 1.01, 0.99], pairing="in-turn"),
        "fail",
    ),
    "pairs": (verdict_on("x within 5% of baseline", [1, 1.01, 0.99], [1, 1.01, 0.99], pairing="in-turn"), "pass"),
    "a mean": (verdict_on("x mean under 1.5 s", [1.0]), "pass"),
    "a broken mean": (verdict_on("x mean under 0.8 s", [1.0, 1.02]), "fail"),
    "an open mean": (verdict_on("{assert: x mean under 1.001 s, on_inconclusive: error}", [1.0], n=8), "open"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_lines_give_the_printed_outcome(name: str) -> None:
    verdict, expected = CASES[name]
    lines = list(calculation(verdict))
    assert len(lines) <= 10
    assert outcome_of("\n".join(lines)) == expected, "\n".join(lines)
    outcome = {"pass": "pass", "fail": "fail"}.get(expected, "undecided")
    assert (verdict.calculation is not None and verdict.calculation.outcome) == outcome
    assert f"{verdict.outcome.upper()} (exit {verdict.exit_code})" in lines[0]
    assert verdict.outcome.upper() in lines[-1]


@pytest.mark.parametrize("name", [name for name, (one, _) in CASES.items() if one.kind == "change"])
def test_the_printed_means_give_the_printed_change(name: str) -> None:
    text = "\n".join(calculation(CASES[name][0]))
    found = re.search(rf"change: ln\({_NUMBER} / {_NUMBER}\) = {_NUMBER}, which is ([+-][\d.]+|0)%", text)
    if found is None:
        assert "mean of ln(new / base) of the pairs" in text
        return
    new, base, d = (float(found[i]) for i in (1, 2, 3))
    assert math.log(new / base) == pytest.approx(d, abs=1e-6)
    assert 100 * math.expm1(d) == pytest.approx(float(found[4]), rel=0.02, abs=0.006)
    values = re.search(r"^new: ([^;\n]*?)(?: m?s| /s)?(?:;.*)?$", text, re.MULTILINE)
    assert values is not None
    logs = [math.log(float(one)) for one in values[1].split(", ")]
    assert math.exp(sum(logs) / len(logs)) == pytest.approx(new, rel=1e-6)


@pytest.mark.parametrize(("rule", "outcome"), [("x p90 under 2 s", "pass"), ("x p90 under 0.9 s", "fail")])
def test_a_percentile_is_a_share_with_binomial_bounds(rule: str, outcome: str) -> None:
    verdict = verdict_on(rule, [1.0, 1.0], n=80)
    text = "\n".join(calculation(verdict))
    k, n = (float(one) for one in re.findall(rf"[kn] = {_NUMBER}", text)[:2])
    found = re.search(rf"highest share, beta\({_NUMBER}; k \+ 1, n - k\): {_NUMBER}; up to {_NUMBER}", text)
    assert found is not None
    level, high, allowed = map(float, found.groups())
    assert (float(beta.ppf(level, k + 1, n - k)) if k < n else 1.0) == pytest.approx(high, rel=1e-3)
    low = float(beta.ppf(1 - level, k, n - k + 1)) if k else 0.0
    assert ("pass" if high <= allowed else "fail" if low > allowed else "open") == verdict.outcome == outcome


@pytest.mark.parametrize(
    ("rule", "varies", "told"),
    [
        ("no more work than baseline", (False,), ["counts are compared exactly: one more fails"]),
        ("same work as baseline", (False,), ["counts are compared exactly: one more or fewer fails"]),
        ("no more work than baseline", (True,), ["counts that vary between runs are compared by the mean"]),
        (
            "no more work than baseline",
            (True, False),
            ["counts are compared exactly: one more fails", "counts that vary between runs are compared by the mean"],
        ),
        ("no more work than baseline", (), ["no count differs: MESSAGE"]),
    ],
)
def test_it_says_how_the_counts_that_differ_are_compared(rule: str, varies: Sequence[bool], told: list[str]) -> None:
    counts = [run_of(series("work.kernels", "count", [kernels] * 4), source=str(kernels)) for kernels in (250.0, 251.0)]
    (verdict,) = judge(bare(rule, counts[1:], counts[:1]))
    work = tuple(replace(verdict.work[0], varies=one) for one in varies)
    lines = list(calculation(replace(verdict, work=work, message="MESSAGE")))
    assert lines[1 + len(varies) : -1] == told


def test_exact_work_and_exact_sizes_are_compared_as_they_are() -> None:
    counts = [run_of(series("work.kernels", "count", [kernels] * 4), source=str(kernels)) for kernels in (250.0, 251.0)]
    (verdict,) = judge(bare("no more work than baseline", counts[1:], counts[:1]))
    lines = list(calculation(verdict))
    assert (verdict.outcome, lines[1]) == ("fail", "work.kernels in a step: 250 → 251, more")
    sizes = [run_of(series("m", "B", [size] * 4), source=str(size)) for size in (1e9, 1.1e9)]
    (verdict,) = judge(bare("m within 5% of baseline", sizes[1:], sizes[:1]))
    assert "without noise: 953.7 MiB → 1.024 GiB, +10.0%; allowed: 5%" in list(calculation(verdict))


ZEROS = [0.0, 0.001, 0.0]
OPEN = "the numbers leave it open, and `on_inconclusive` of the rule decides: PASS"
LINES = [
    # the rule, the new and the base values; a line, which stands for the last one if it has an outcome
    ("x mean under 0.99 s", [1.0], [], "nothing outranks the numbers: UNDECIDED (one run is not proof)"),
    ("x p90 under 0.99 s", [1.0], [], "nothing outranks the numbers: UNDECIDED (one run is not proof)"),
    (
        "x mean under 1.0006 s",
        [1.0],
        [],
        "nothing outranks the numbers: UNDECIDED (the estimate is on the bad side of the bound)",
    ),
    ("x p95 under 1.05 s", [1.0], [], OPEN),
    ("x within 5% and 2 ms of baseline", ZEROS[:2], ZEROS, OPEN),
    *(
        (
            f"x within {tolerance} of baseline",
            ZEROS[:2],
            ZEROS,
            f"a ratio does not exist, so the differences are compared; allowed: within {tolerance} of baseline",
        )
        for tolerance in ("2 ms", "5% and 2 ms")
    ),
    ("x within 5% of baseline", [1.0], [], "not judged: there is no baseline to compare x with"),
]


@pytest.mark.parametrize(("rule", "new", "base", "line"), LINES)
def test_a_line_says_why_it_is_open_or_not_judged(rule: str, new: list[float], base: list[float], line: str) -> None:
    lines = list(calculation(verdict_on(rule, new, base)))
    assert line in lines, "\n".join(lines)
    assert not line.startswith(("nothing", "the numbers", "not judged")) or lines[-1] == line


@given(
    new=st.lists(st.floats(0.8, 1.4), min_size=1, max_size=3),
    base=st.lists(st.floats(0.95, 1.05), min_size=1, max_size=5),
    rule=st.sampled_from(["x within 5% of baseline", "x within ±10% of baseline", "rate at least 95% of baseline"]),
)
def test_every_printed_answer_is_right(new: list[float], base: list[float], rule: str) -> None:
    verdict = verdict_on(rule, new, base, n=20)
    answers("\n".join(calculation(verdict)))
    if verdict.calculation is not None and verdict.calculation.outcome == "fail":
        assert outcome_of("\n".join(calculation(verdict))) == "fail"


def test_a_stored_report_has_the_same_numbers(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    approve_steady(perfgate, write_log(folder / "base.log", forward=steady(100)), 5)
    write_log(folder / "new.log", forward=steady(130, seed=3))
    perfgate("check", "new.log", "--json", "report.json")
    done = perfgate("explain", "forward")
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("forward median on rank 0 within 5% of baseline: ")
    assert "from report.json" in done.out
    assert outcome_of(done.out) == "suspect" or "FAIL" in done.out
    report, problems = stored_report.read((folder / "report.json").read_bytes(), "report.json")
    assert report is not None, problems
    assert json_report.render(report) == (folder / "report.json").read_text()
    unknown = perfgate("explain", "forwrd", "report.json")
    assert (unknown.code, "did you mean 'forward'?" in unknown.err) == (2, True)


def test_without_a_report_it_says_how_to_write_one(perfgate: Command, folder: Path) -> None:
    write_results(folder / "x.json", {"metric": "forward", "unit": "ms", "values": [1, 2]})
    done = perfgate("explain", "forward")
    assert (done.code, "perfgate check --json" in done.err) == (2, True)
