"""Runs of known making, and the judge's verdicts on them as golden files that are read before a commit.

A golden file has keys and numbers: a block for a verdict, a line for a proof or a plan, without empty fields, the
numbers to five digits. The sentences are in tests/words/golden. UPDATE_GOLDEN=1 writes the files anew.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from conftest import steady
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import NO_STEP, Baseline, CalibratedPrior, Key, Location, NextStep, Problem, Run, Series, read_only
from perfgate.judge.ask import ask
from perfgate.judge.decide.outcome import decide
from perfgate.judge.evidence import Case, Evidence
from perfgate.judge.subjects import JudgedRuns, find_subjects
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset

GOLDEN = Path(__file__).parent / "golden"

HEAD = """\
version: 1
suite: gpt
metrics:
  comm_share: backward_allreduce / (forward + backward)
  both: forward + backward
rules:
"""
RULES = {
    "changes": """\
  - forward within 5% of baseline and within 12% of anchor
  - {id: tail, assert: forward p90 within 8% of baseline, why: stalls hurt, on_inconclusive: fail}
  - {assert: backward within 5% and 2 ms of baseline, severity: warning}
  - forward_backward within 5% of baseline
  - step.time within 5% of baseline
  - samples_per_second at least 95% of baseline
  - memory within 1% of baseline
  - memory within 1 MB of baseline
  - comm_share within 10% of baseline
  - comm_share within 2 pp of baseline
  - both within 5% of baseline
  - timer.* within 5% of baseline
  - timer.0? within 2% of baseline
  - loss within ±5% of baseline
  - {assert: loss within 5% of baseline, better: lower}
  - samples_per_second within 100% of baseline
  - becoming within 5% of baseline
  - zero within 5% of baseline
  - {assert: retries within 1% of baseline, better: lower}
  - work within ±1% of baseline
  - forward count within ±5% of baseline
  - {assert: zero within 1 ms of baseline}
  - {assert: load within 5% of baseline, confidence: 90%, power: 0.9}
  - fast within 5% of baseline
  - modes within 5% of baseline
  - gpu.utilization within 1 pp of baseline
  - '* within 1 ms of baseline'
""",
    "limits": """\
  - both under 1 s
  - backward p90 under 212 ms
  - gpu.utilization at least 85%
  - p90(forward) / p50(forward) under 1.1
  - p95(backward) under 300 ms
  - forward mean under 100 ms
  - forward p95 under 101 ms
  - forward p99 under 1 s
  - forward p10 over 90 ms
  - forward max under 1 s
  - forward min at least 0.2 s
  - forward stddev under 3 ms
  - load mean at most 200 ms
  - load p95 under 1 s
  - load count at least 40
  - '[bls]* under 1 h'
""",
    "policies": """\
  - {assert: slow within 5% of baseline, expect_fail: {reason: known, until: "2026-06-01"}}
  - {assert: fast within 5% of baseline, on_improvement: fail}
  - {assert: slow within 5% of baseline, expect_fail: {reason: known, until: "2025-06-01"}}
  - {assert: forward under 50 ms, when: {gpu: "*A100*"}}
  - {assert: forward under 150 ms, when: {gpu: "*H100*", world_size: ">= 2"}}
  - {assert: forward under 150 ms, when: {colour: red}}
  - {assert: gone under 1 s, on_missing: warn}
  - {assert: gone within 5% of baseline, on_missing: skip}
  - forwrd within 5% of baseline
  - 'forward{stage="x"} under 1 s'
  - {assert: forward within 5% of baseline, min_runs: 9}
  - {assert: young within 5% of baseline}
  - damaged within 5% of baseline
  - fresh within 5% of baseline
  - fresh within 5% of anchor
  - partly within 5% of baseline
  - {assert: forward count at least 40, min_samples: 60}
  - memory under 1 s
  - forward under 50
  - forward at least 95% of baseline
  - damaged under 1 s
  - flipped within 5% of baseline
""",
    "ranks": """\
  - backward on the slowest rank at most 1.02x the median rank
  - backward on the fastest rank within 5% of the median rank
  - backward on the median rank within ±1% of the slowest rank
  - backward on each rank within 5% of baseline
  - backward on the median rank within 5% of baseline
  - backward across ranks p90 under 300 ms
  - backward on the fastest rank under 190 ms
""",
}


def ruleset(text: str) -> Ruleset:
    """The rules of one file."""
    found, problems = load_rules([("rules.yaml", (HEAD + text).encode())])
    assert found is not None, problems
    return found


def series(metric: str, unit: str, values: list[float], **labels: str) -> Series:
    """Samples in order of time."""
    return Series(Key.of(metric, **labels), unit, "samples", read_only(np.array(values)))


def run(seed: int, *, ranks: int = 3, slower: float = 1.0, faster: float = 1.0, new: bool = False, n: int = 60) -> Run:
    """A run of a training job, with all kinds of metrics; `slower` and `faster` scale some of them."""
    between = float(np.exp(0.004 * np.random.default_rng(seed).standard_normal()))

    def times(centre: float, of: int, spread: float = 0.01) -> list[float]:
        return [3 * centre, *steady(centre * between, n=n, spread=spread, seed=100 * seed + of)]

    inner, reduce = times(0.15, 0), times(0.05 * slower, 1)
    rows = [series("forward", "s", times(0.1, r + 2), rank=str(r)) for r in range(ranks)]
    rows += [series("backward", "s", times(0.2 * (1 + 0.03 * r), r + 7), rank=str(r)) for r in range(ranks)]
    rows += [series("backward_allreduce", "s", times(0.04 * slower, r + 12), rank=str(r)) for r in range(ranks)]
    rows += [
        series("step.kernel", "s", inner),
        series("step.communication", "s", reduce),
        series("step.time", "s", [a + b for a, b in zip(inner, reduce, strict=True)]),
        series("forward_backward", "s", times(0.3 * slower, 20)),
        series("samples_per_second", "1/s", times(900 / slower, 21)),
        series("memory", "B", [4e9 * slower] * n),
        series("loss", "1", times(3.3, 22)),
        series("zero", "s", [0.0] * n),
        series("slow", "s", times(0.01 * slower, 23)),
        series("fast", "s", times(0.01 / faster, 24)),
        series("gpu.utilization", "1", times(0.9 / slower, 25, 0.002)),
        series("flipped", "s" if new else "1/s", times(1, 26)),
        series("becoming", "s", [0.5 if new else 0.0] * n),
        series("retries", "1", [7.0] * n),
        series("work", "FLOP", [3e12] * n),
        series("young", "s", times(0.005, 27)[: 20 if new else n]),
        series("modes", "s", [0.1 + 0.02 * (i % 2) for i in range(n)]),
    ]
    rows += [series(f"timer.{i:02}", "s", times(0.001 * (1 + i), 30 + i, 0.03)) for i in range(12)]
    printed = {"mean": 0.2 * slower * between, "count": 40.0, "total": 8.0}
    rows.append(Series(Key("load"), "s", "aggregate", read_only(np.array([])), aggregate=printed))
    if new or seed == 1:
        rows.append(series("partly", "s", times(1, 50)))
    if new:
        rows.append(series("fresh", "s", times(1, 51)))
        rows.append(series("damaged", "s", [1.0, 2.0, 1.0, 1.0, 1.0]))
    problem = Problem("error", "NaN", Location("new.json", 7), Key("damaged"))
    return Run(f"gpt/h100/level/run{seed}.json", "test", tuple(rows), (problem,) if new else ())


FACTS = {"gpu": "NVIDIA H100", "world_size": 3, "clocks_locked": False}
TODAY = date(2026, 1, 1)


def case(rules: str, *new: Run, runs: int = 5, **fields: Any) -> Case:
    """Rules, new runs, and a level of stored ones of which the first two are the anchor."""
    stored = tuple(run(seed) for seed in range(runs))
    baseline = Baseline("gpt/h100/level", stored, stored[:2], unknown_facts=("driver",))
    return Case(ruleset(rules), new, baseline, TODAY, facts=FACTS, **fields)


def run_of(*rows: Series, source: str = "new.json", **fields: Any) -> Run:
    """A run of these series alone."""
    return Run(source, "test", rows, **fields)


def bare(rules: str, new: Sequence[Run], base: Sequence[Run] = (), **fields: Any) -> Case:
    """One rule or several, new runs and stored ones; `fields` are those of the baseline."""
    text = "".join(f"  - {rule}\n" for rule in rules.splitlines())
    return Case(ruleset(text), tuple(new), Baseline("gpt/h100/level", tuple(base), **fields), TODAY)


def told(value: Any) -> Any:
    """What is not empty of a verdict, a proof or a plan; numbers to five digits, as other libraries may round."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {str(name): told(one) for name, one in value.items() if one not in (None, False, (), [], {})}
    return [told(one) for one in value] if isinstance(value, list | tuple) else value


def block(row: Any) -> str:
    """Return a row of a golden file: the answer of a verdict, its next step, then its numbers; no sentence."""
    fields = told(row)
    if not isinstance(fields, dict) or "outcome" not in fields:
        return _plain(fields)
    where = fields.pop("at", {})
    answer = f"{fields.pop('outcome')} ({fields.pop('reason')}, exit {fields.pop('exit_code', 0)})"
    lines = [f"{answer}: {fields.pop('rule')}  [{where.get('line')}:{where.get('column')}]"]
    step = NextStep(**fields.pop("next_step", {}))
    lines += [" ".join(filter(None, ("→", step.action, *_others(step), step.command)))] if step != NO_STEP else []
    fields.pop("calculation", None)  # test_calculation.py
    del fields["message"]
    fields["notes"] = len(fields.pop("notes", ()))
    usual = {"severity": "error", "confidence": 0.95, "notes": 0, "dropped": 0}
    shown = [f"{name} {_plain(value)}" for name, value in fields.items() if usual.get(name) != value]
    return "\n    ".join([*lines, "; ".join(shown)]) + "\n"


def _others(step: NextStep) -> list[str]:
    """Return who takes a step and where, if it is not the user in the working tree."""
    usual = NextStep()
    return [f"({step.who}, {step.where})"] if (step.who, step.where) != (usual.who, usual.where) else []


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} {_plain(one)}" for name, one in value.items()) + "}"
    if not isinstance(value, list):
        return str(value)
    words = [_plain(one) for one in value]
    if len(words) > 12 and all(isinstance(one, int | float) for one in value):  # the ends, how many, and their sum
        words = [*words[:3], f"... {len(value)} with the sum {sum(value):.8g} ...", words[-1]]
    return "[" + ", ".join(words) + "]"


def check_golden(name: str, *rows: Any) -> None:
    """Compare with a golden file, a block or a line for each row."""
    path, text = GOLDEN / f"{name}.txt", "".join(f"{block(row)}\n" for row in rows)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


def as_dict(value: Any) -> Any:
    """The fields of a struct by name, and so for what it contains."""
    if isinstance(value, Struct):
        return {name: as_dict(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {name: as_dict(one) for name, one in value.items()}
    return type(value)(map(as_dict, value)) if isinstance(value, list | tuple) else value


def verdicts(asked: Case) -> list[dict[str, Any]]:
    """Return the fields of the verdicts; of the runs behind each, their number and the values dropped as warm-up."""
    return [
        {**as_dict(one), "runs": len(one.runs), "dropped": sum(run.dropped for run in one.runs), "why": one.why}
        for one in judge(asked)
    ]


SHORT = """\
  - forward within 5% of baseline and within 12% of anchor
  - step.time within 5% of baseline
  - slow within 4% and 0.4 ms of baseline
  - gpu.utilization within 5% of baseline
  - memory within 1% of baseline
  - backward p90 under 212 ms
  - backward on the slowest rank at most 1.02x the median rank
  - young within 5% of baseline
"""

CALIBRATED = tuple(
    CalibratedPrior(Key(metric), "median", "worst", 0.004, 6.0, 5) for metric in ("forward", "step.time", "slow")
)


def evidence_of(asked: Case) -> Evidence:
    """The evidence of a case with one rule and one metric, for the first clause."""
    rule, ruleset = asked.ruleset.rules[0], asked.ruleset
    runs = JudgedRuns.of(asked.new, asked.baseline, ruleset.metrics, ruleset.conditions)
    (subject,) = find_subjects(rule.sentence, runs)
    return Evidence.of(rule, rule.clauses[0], subject, asked, runs)


def question_of(asked: Case) -> Any:
    """The question of such a case."""
    return ask(evidence_of(asked))


def answered(asked: Case, **changes: Any) -> tuple[Evidence, Any, Any]:
    """The evidence, the question and the answer of such a case, with changes to the answer; nothing outranks it."""
    evidence = evidence_of(asked)
    question = ask(evidence)
    return evidence, question, replace(decide([question])[0], **{"outranked": None, **changes})
