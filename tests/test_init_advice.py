"""`perfgate init` as an adviser: what it says of noise, cost, calls and unknown facts; pairs; one more rule."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import Done, steady, write_log, write_results, write_rules, write_run
from msgspec.structs import replace

from perfgate.analysis.advice import advise
from perfgate.judge.pairs import Pairs, split_pairs
from perfgate.workspace.inputs import read_runs

Command = Callable[..., Done]

WORKFLOW = ".github/workflows/perf.yml"


def noisy(folder: Path, *centres: float, **more: float) -> list[Path]:
    """Runs of one program whose steps take these times, in seconds, and whose memory is always the same."""
    series = [{"metric": name, "unit": "B", "value": value} for name, value in more.items()]
    return [
        write_results(
            folder / f"main-{number}.json",
            {"metric": "step.time", "unit": "s", "values": steady(centre, n=60, seed=number)},
            {"metric": "forward", "unit": "s", "values": steady(centre / 3, n=60, seed=9 + number)},
            *series,
        )
        for number, centre in enumerate(centres, 1)
    ]


def said(done: Done) -> str:
    return " ".join(done.said.split())


def sentences(folder: Path, suite: str = "training") -> list[str]:
    return list(yaml.safe_load((folder / "rules" / f"{suite}.yaml").read_text(encoding="utf-8"))["rules"])


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# --- what each rule will see --------------------------------------------------------------------------------------


def test_a_table_shows_tolerance_smallest_change_and_what_has_no_rule(perfgate: Command, folder: Path) -> None:
    runs = noisy(folder, 0.1, 0.101, 0.1005, loss=3.0)
    done = perfgate("init", *runs)
    assert done.code == 0, done.said
    rows = {line.split("  ")[0]: line.split()[-3:] for line in done.out.splitlines() if " within " in line}
    assert rows["step.time median"] == ["3%", "+5.6%", "0.83%"]
    assert "step.time mean under 130 ms +20.0% budget" in said(done)
    assert "sees: the smallest change that fails (exit 1) in at least 8 of 10 cases." in said(done)
    assert "the runs agree" not in (folder / "rules/training.yaml").read_text()


def test_bytes_that_differ_are_not_said_to_be_equal(perfgate: Command, folder: Path) -> None:
    for number, size in enumerate((4.00e9, 4.01e9, 4.02e9)):
        write_results(folder / f"{number}.json", {"metric": "memory.peak_allocated", "unit": "B", "value": size})
    assert perfgate("init", *(f"{number}.json" for number in range(3))).code == 0
    text = (folder / "rules/training.yaml").read_text()
    assert "exactly the same" not in text
    assert "every change of more than 3% fails" in text


def test_a_step_has_a_cost_and_a_budget(perfgate: Command, folder: Path) -> None:
    """A stall that comes back leaves the median as it is."""
    perfgate("init", *noisy(folder, 0.1, 0.101, 0.1005))
    assert sentences(folder)[:3] == [
        "step.time within 3% of baseline",
        "step.time mean within 3% of baseline",
        "step.time mean under 130 ms",
    ]
    stalls = [0.3 if number % 5 == 4 else value for number, value in enumerate(steady(0.1, n=60, seed=8))]
    for number in range(3):
        series = {"metric": "step.time", "unit": "s", "values": [value * (1 + number / 1000) for value in stalls]}
        forward = {"metric": "forward", "unit": "s", "values": steady(1 / 30, n=60, seed=number)}
        write_results(folder / f"slow{number}.json", series, forward)
    done = perfgate("check", *(f"slow{number}.json" for number in range(3)), "--json", "-")
    found = {one["rule"]: one["outcome"] for one in json.loads(done.out)["verdicts"]}
    assert found["step.time within 3% of baseline"] != "fail"
    assert found["step.time mean within 3% of baseline"] == "fail"


def test_calls_of_a_trace_are_judged_by_their_sum_in_a_step(perfgate: Command, folder: Path) -> None:
    """Twice as many calls of half the length each are no change; one more call of the same length is."""

    def trace(name: str, calls: int, length: float, seed: int) -> Path:
        rng = np.random.default_rng(seed)
        steps = [number for number in range(40) for _ in range(calls)]
        values = [float(length * x) for x in rng.normal(1, 0.002, len(steps))]
        series = [
            {"metric": "step.time", "unit": "s", "values": steady(0.2, n=40, seed=seed), "steps": list(range(40))},
            {"metric": "op.aten::mm", "unit": "s", "values": values, "steps": steps},
        ]
        return write_results(folder / name, *series)

    runs = [trace(f"main-{seed}.json", 4, 0.02, seed) for seed in range(3)]
    assert perfgate("init", *runs).code == 0
    assert "total(op.aten::mm) / count(step.time) within 3% of baseline" in sentences(folder)
    assert not any(sentence.startswith("op.aten::mm") for sentence in sentences(folder))
    split = [trace(f"split-{seed}.json", 8, 0.01, seed + 10) for seed in range(3)]
    more = [trace(f"more-{seed}.json", 5, 0.02, seed + 20) for seed in range(3)]
    assert perfgate("check", *split).code == 0
    done = perfgate("check", *more, "--json", "-")
    found = [one["rule"] for one in json.loads(done.out)["verdicts"] if one["outcome"] == "fail"]
    assert found == ["total(op.aten::mm) / count(step.time) within 3% of baseline"]


def test_a_trace_of_few_steps_gets_the_usual_rules(perfgate: Command, folder: Path) -> None:
    """Three steps are usual for a profiler."""
    for number in range(3):
        values = [0.1 + 0.0001 * (number + step) for step in range(4)]
        write_results(
            folder / f"{number}.json",
            {"metric": "step.time", "unit": "s", "values": [0.2, *values[1:]], "steps": list(range(4))},
        )
    done = perfgate("init", *(f"{number}.json" for number in range(3)))
    assert done.code == 0, done.said
    assert sentences(folder)[:2] == ["step.time within 3% of baseline", "step.time mean within 3% of baseline"]
    assert "no rule compares" not in said(done).lower()


# --- noise that hides the time of a step --------------------------------------------------------------------------


def test_a_step_that_noise_hides_is_said_first_and_nothing_is_written(perfgate: Command, folder: Path) -> None:
    runs = noisy(folder, 0.1, 0.25, 0.16, peak=4e9)
    before = everything(folder)
    done = perfgate("init", *runs)
    assert (done.code, everything(folder)) == (3, before)
    assert done.out.startswith(
        "No rule compares the time of a step (step.time): these runs of one program differ by 150%."
    )
    paired, without = [line for line in done.out.splitlines() if line.startswith("    perfgate init")]
    assert done.out.rstrip().endswith(without)
    assert perfgate(*shlex.split(without)[1:]).code == 0
    assert sentences(folder) == ["peak within 3% of baseline"]
    assert paired == "    perfgate init --paired main-1.json main-2.json main-3.json"


def test_runs_that_agree_by_chance_on_a_busy_machine_are_no_baseline(perfgate: Command, folder: Path) -> None:
    """Their medians agree within 1 %, but steps of equal work take up to three times as long: others use the CPUs."""
    for number in range(3):
        source = np.random.default_rng(number)
        values = [0.1 * (1 if x < 0.7 else 3) * (1 + 0.01 * number / 3) for x in source.random(60)]
        write_results(folder / f"{number}.json", {"metric": "step.time", "unit": "s", "values": values})
    done = perfgate("init", *(f"{number}.json" for number in range(3)))
    assert done.code == 3
    assert "the time of equal steps varies by a factor of" in said(done)


def test_steps_of_different_lengths_are_not_noise(perfgate: Command, folder: Path) -> None:
    """Every fourth step updates the weights, in every run."""
    for number in range(3):
        values = [x * (3 if step % 4 == 3 else 1) for step, x in enumerate(steady(0.1, n=60, seed=number))]
        write_results(folder / f"{number}.json", {"metric": "step.time", "unit": "s", "values": values})
    assert perfgate("init", *(f"{number}.json" for number in range(3))).code == 0


def test_a_gate_without_the_step_does_not_end_as_if_all_were_well(perfgate: Command, folder: Path) -> None:
    done = perfgate("init", "--without-step", *noisy(folder, 0.1, 0.25, 0.16, peak=4e9))
    assert done.code == 0
    assert said(done).startswith("No rule compares the time of a step (step.time):")
    assert said(done).endswith("This gate stays green if steps become slower.")


def test_runs_without_any_time_say_so(perfgate: Command, folder: Path) -> None:
    for number in range(3):
        write_results(folder / f"{number}.json", {"metric": "peak", "unit": "B", "value": 4e9 + number})
    done = perfgate("init", *(f"{number}.json" for number in range(3)))
    assert done.code == 0
    assert said(done).startswith("No rule sees a slowdown: these runs have no time.")
    assert said(done).endswith("This gate stays green if steps become slower.")


def test_pairs_get_a_workflow_of_their_own_and_no_baseline(perfgate: Command, folder: Path) -> None:
    command = "python train.py {results}/run.json --number {run}"
    done = perfgate("init", "--paired", "--command", command, *noisy(folder, 0.1, 0.25, 0.16, peak=4e9))
    assert done.code == 0, done.said
    assert sentences(folder) == ["step.time within 10% of baseline", "peak within 3% of baseline"]
    assert perfgate("rules", "check").code == 0
    assert not (folder / "baselines").exists()
    gate = yaml.safe_load((folder / WORKFLOW).read_text())["jobs"]["gate"]["steps"][-1]["with"]
    assert gate == {
        "paired": True,
        "pairs": 10,
        "run": "python train.py $PERFGATE_RESULTS/run.json --number $PERFGATE_RUN",
    }
    assert f"    perfgate run --paired --base-ref HEAD -- {command}\n" in done.out
    assert "not covered: what both sides of a pair share" in said(done)


def test_pairs_on_a_calm_machine_get_a_smaller_tolerance_and_a_budget(perfgate: Command, folder: Path) -> None:
    perfgate("init", "--paired", *noisy(folder, 0.1, 0.101, 0.1005))
    assert sentences(folder) == ["step.time within 5% of baseline", "step.time mean under 130 ms"]


def test_pairs_of_a_log_without_whole_steps_judge_its_parts(perfgate: Command, folder: Path) -> None:
    parts = {"forward": 100, "backward": 200, "step": 30}
    logs = [
        write_log(folder / f"{seed}.log", **{name: steady(ms, seed=seed + ms) for name, ms in parts.items()})
        for seed in range(3)
    ]
    done = perfgate("init", "--paired", *logs)
    assert done.code == 0
    assert sentences(folder)[:3] == [f"{name} within 5% of baseline" for name in ("backward", "forward", "step")]
    assert "no GPU is known" not in said(done)  # there is no baseline that could lack it


def test_one_run_does_not_show_that_a_machine_is_calm(perfgate: Command, folder: Path) -> None:
    perfgate("init", "--paired", *noisy(folder, 0.1))
    assert sentences(folder) == ["step.time within 10% of baseline"]


def test_pairs_need_no_run(perfgate: Command, folder: Path) -> None:
    done = perfgate("init", "--paired")
    assert (done.code, sentences(folder)) == (0, ["step.time within 10% of baseline"])
    assert "    perfgate run --paired --base-ref HEAD -- COMMAND\n" in done.out


@pytest.mark.parametrize("words", [("--command", "x"), ("--paired", "--command", "x\ny")])
def test_a_command_is_one_line_and_for_pairs(perfgate: Command, folder: Path, words: tuple[str, ...]) -> None:
    done = perfgate("init", *words)
    assert (done.code, everything(folder)) == (2, [])
    assert "--command needs --paired, and is one line" in done.err


# --- a dry run, and unknown facts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--paired",)])
def test_a_dry_run_prints_all_and_writes_nothing(perfgate: Command, folder: Path, words: tuple[str, ...]) -> None:
    runs = noisy(folder, 0.1, 0.101, 0.1005)
    before = everything(folder)
    dry = perfgate("init", "--dry-run", *words, *runs)
    assert (dry.code, everything(folder)) == (0, before)
    assert perfgate("init", *words, *runs).code == 0
    for name in ("rules/training.yaml", WORKFLOW):
        assert f"would write {name}\n" in dry.out
        for line in (folder / name).read_text().splitlines():
            assert line in dry.out
    again = perfgate("init", "--dry-run", *words, *runs)
    assert "without --dry-run nothing would be written, because these exist" in said(again)


def test_an_unknown_gpu_is_said_when_baselines_are_written(perfgate: Command, folder: Path) -> None:
    logs = [write_log(folder / f"{seed}.log", forward=steady(100, seed=seed)) for seed in range(6)]
    warning = "warning: no GPU is known"
    assert warning in said(perfgate("init", *logs[:3]))
    assert warning in said(perfgate("baseline", "add", logs[3]))
    assert warning in said(perfgate("baseline", "approve", logs[4], "--reason", "new"))
    assert warning not in said(perfgate("baseline", "approve", logs[5], "--reason", "new", "--env", "gpu=H200"))


def test_a_program_without_a_gpu_is_not_asked_for_one(perfgate: Command, folder: Path) -> None:
    done = perfgate("init", *noisy(folder, 0.1, 0.101, 0.1005))
    assert "GPU" not in done.out


# --- one more rule ------------------------------------------------------------------------------------------------

MINE = """\
# My rules.
version: 1
suite: mine   # my suite

rules:
  - forward within 3% of baseline   # keep this
  - id: two
    assert: forward under 1 s
    why: it has to end
  # - forward under 2 s

# The end.
defaults:
  severity: error
"""


def test_a_rule_is_added_and_every_other_line_stays(perfgate: Command, folder: Path) -> None:
    runs = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(3)]
    (folder / "rules").mkdir()
    path = folder / "rules" / "mine.yaml"
    path.write_text(MINE)
    done = perfgate("init", "--add", "backward", *runs)
    assert done.code == 0, done.said
    before, rule, after = path.read_text().partition("  - backward within 3% of baseline\n")
    assert before.startswith(MINE[: MINE.index("\n# The end.")])
    assert rule
    assert after.endswith(MINE[MINE.index("\n# The end.") :])
    kept = [line for line in path.read_text().splitlines() if line in MINE.splitlines()]
    assert [line for line in kept if line] == [line for line in MINE.splitlines() if line]
    assert perfgate("rules", "check").out == "rules/mine.yaml: 3 rules\n"
    (command,) = [line for line in done.out.splitlines() if line.startswith("    perfgate")]
    assert perfgate("baseline", "approve", runs[0], "--reason", "first").code == 0
    assert perfgate(*shlex.split(command)[1:]).code == 0


@pytest.mark.parametrize(
    "text",
    [
        "version: 1\nrules:\n- forward under 1 s\n",
        "version: 1\nrules:\n  - forward under 1 s",
        "version: 1\r\nrules:\r\n    - assert: forward under 1 s\r\n      why: x\r\n",
    ],
    ids=["no indentation", "no last line break", "windows"],
)
def test_a_rule_is_added_in_the_style_of_the_file(perfgate: Command, folder: Path, text: str) -> None:
    runs = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(3)]
    (folder / "rules").mkdir()
    path = folder / "rules" / "mine.yaml"
    path.write_bytes(text.encode())
    assert perfgate("init", "--add", "backward", *runs).code == 0
    found = path.read_bytes().decode()
    assert found.startswith(text)
    assert perfgate("rules", "check").out == "rules/mine.yaml: 2 rules\n"
    assert ("\r\n" in text) == (found.count("\n") == found.count("\r\n"))


@pytest.mark.parametrize(
    ("text", "words", "code", "hint"),
    [
        (MINE, ["--add", "backwrd"], 2, "the runs have no metric backwrd: the nearest names are backward"),
        (MINE, ["--add", "forward"], 2, "forward has a rule already, at rules/mine.yaml:6:5"),
        ("version: 1\nrules: [forward under 1 s]\n", ["--add", "backward"], 2, "- backward within 3% of baseline"),
        ("version: 1\nrules: [forward undr 1 s]\n", ["--add", "backward"], 2, "rules/mine.yaml:2"),
        (None, ["--add", "backward"], 2, "write the first rules with `perfgate init RUN...`"),
    ],
    ids=["no such metric", "a rule already", "a list in one line", "mistakes", "no rules"],
)
def test_a_rule_that_cannot_be_added_changes_nothing(
    perfgate: Command, folder: Path, text: str | None, words: list[str], code: int, hint: str
) -> None:
    runs = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(3)]
    if text is not None:
        (folder / "rules").mkdir()
        (folder / "rules/mine.yaml").write_text(text)
    done = perfgate("init", *words, *runs)
    assert done.code == code
    assert hint in done.err
    assert text is None or (folder / "rules/mine.yaml").read_text() == text


def test_a_rule_is_added_from_the_stored_runs(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 3% of baseline", name="rules/mine.yaml")
    runs = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(3)]
    assert perfgate("init", "--add", "backward").code == 2
    assert perfgate("baseline", "approve", *runs, "--reason", "first").code == 0
    done = perfgate("init", "--add", "backward", "--dry-run")
    assert (done.code, "would add to rules/mine.yaml" in done.out) == (0, True), done.said
    assert perfgate("init", "--add", "backward").code == 0
    assert [*sentences(folder, "mine")][-1] == "backward within 3% of baseline"


def test_a_metric_that_is_too_noisy_is_added_for_pairs(perfgate: Command, folder: Path) -> None:
    runs = noisy(folder, 0.1, 0.25, 0.16)
    assert perfgate("init", "--paired", *runs).code == 0
    done = perfgate("init", "--add", "forward", *runs)
    assert (done.code, "pairs may show it: `perfgate init --paired --add forward RUN...`" in done.err) == (3, True)
    assert perfgate("init", "--paired", "--add", "forward", *runs).code == 0
    assert sentences(folder) == ["step.time within 10% of baseline", "forward within 10% of baseline"]


def test_labels_that_differ_have_a_budget_each(folder: Path, perfgate: Command) -> None:
    def requests(path: Path, seed: int) -> Path:
        took = {"GET": steady(4.0, spread=0.002, seed=seed), "POST": steady(9.0, spread=0.002, seed=seed)}
        series = [{"metric": "took", "unit": "ms", "labels": {"method": name}, "values": took[name]} for name in took]
        return write_results(path, *series)

    assert perfgate("init", *(requests(folder / f"{seed}.json", seed) for seed in range(3))).code == 0
    text = (folder / "rules" / "training.yaml").read_text()
    assert """- 'took{method="GET"} mean under 4.9 ms'""" in text
    assert """- 'took{method="POST"} mean under 11 ms'""" in text


def _pairs_of(folder: Path, format: str, noise: float) -> Pairs:
    """Three pairs of a program with itself, whose CPU time is steady."""
    paths = []
    for number in (1, 2, 3):
        rows = []
        for side, level in (("base", 1.0), ("new", 1.0 + noise * (-1) ** number)):
            labels = {"side": side, "pair": str(number), "pairing": "whole-runs"}
            rows.append({"metric": "took", "unit": "ms", "labels": labels, "values": steady(50 * level, seed=number)})
            rows.append({"metric": "command.cpu_time", "unit": "s", "labels": labels, "value": 4 + 0.01 * number})
        environment = {} if format == "perfgate" else {"written_as": format}
        paths.append(str(write_results(folder / f"pair-{number}.json", *rows, environment=environment)))
    found = split_pairs(read_runs(tuple(paths)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("format", "noise", "ruled"),
    [
        ("mapped", 0.3, True),
        ("mapped", 0.01, False),  # the times are as steady
        ("pytest-benchmark", 0.3, False),  # it measures for a time
        ("perfgate", 0.3, False),  # a Recorder's steps take turns
    ],
)
def test_on_a_busy_machine_the_cpu_time_is_judged_beside_the_times(
    folder: Path, format: str, noise: float, ruled: bool
) -> None:
    pairs = _pairs_of(folder, format, noise)
    times = [replace(run, series=run.series[:1]) for run in pairs.base]
    rules = [rule.sentence for rule in advise(times, date(2026, 1, 1), is_paired=True, pairs=pairs).rules]
    assert ("command.cpu_time within 5% of baseline" in rules) == ruled, rules


def test_pairs_judge_the_longest_part_also_where_it_is_not_steady(folder: Path) -> None:
    paths = [
        write_results(
            folder / f"{number}.json",
            {"metric": "forward", "unit": "s", "values": steady(0.015, n=40, seed=number)},
            {"metric": "backward", "unit": "s", "values": steady(0.03 * level, n=40, seed=9 + number)},
        )
        for number, level in enumerate((0.8, 1.0, 1.2))
    ]
    runs = read_runs(tuple(map(str, paths)))
    rules = [rule.subject for rule in advise(runs, date(2026, 1, 1), is_paired=True).rules]
    assert rules[:2] == ["backward median", "forward median"]


def test_runs_differ_by_what_the_same_request_differs(folder: Path, perfgate: Command) -> None:
    def requests(path: Path, level: float, seed: int) -> Path:
        took = {"GET": steady(4 * level, seed=seed), "POST": steady(40 * level, seed=seed)}
        series = [{"metric": "took", "unit": "ms", "labels": {"method": name}, "values": took[name]} for name in took]
        return write_results(path, *series)

    levels = enumerate((1.0, 1.5, 2.0))
    done = perfgate("init", *(requests(folder / f"{seed}.json", level, seed) for seed, level in levels))
    assert "these runs of one program differ by 99.8%" in said(done), done.said


def test_the_cpu_time_of_a_command_has_one_rule(folder: Path) -> None:
    paths = []
    for number, sides in enumerate(((16.49, 18.87), (18.99, 16.1), (22.2, 19.0)), 1):
        rows = []
        for side, took in zip(("base", "new"), sides, strict=True):
            labels = {"side": side, "pair": str(number), "pairing": "whole-runs"}
            times = {"time": took, "cpu_time": 7 + 0.0123 * number}
            rows += [{"metric": f"command.{of}", "unit": "s", "labels": labels, "value": times[of]} for of in times]
        paths.append(str(write_results(folder / f"{number}.json", *rows, environment={"written_as": "command"})))
    pairs = split_pairs(read_runs(tuple(paths)))
    assert pairs is not None
    subjects = [rule.subject for rule in advise(pairs.base, date(2026, 1, 1), is_paired=True, pairs=pairs).rules]
    assert sorted(subjects) == ["command.cpu_time mean", "command.time mean"]
