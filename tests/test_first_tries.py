"""Sessions of a new user: what a first gate says when a file, a name or a definition is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from conftest import Done

Command = Callable[..., Done]


def write_results(path: str, series: Mapping[str, Sequence[float]]) -> None:
    """Write results with these metrics in ms."""
    entries = [{"metric": name, "unit": "ms", "values": list(values)} for name, values in series.items()]
    Path(path).write_text(json.dumps({"schema": "perfgate.results/1", "series": entries}))


def write_rules(*rules: str, metrics: str = "") -> None:
    """Write rules/t.yaml with these sentences."""
    Path("rules").mkdir(exist_ok=True)
    Path("rules/t.yaml").write_text("\n".join(["version: 1", "suite: t", metrics, "rules:", *rules, ""]))


def wave(centre: float, phase: int) -> list[float]:
    """Return 40 values around a centre, up to 10 % away from it, in an order that depends on the phase."""
    return [centre * (0.9 + 0.2 * ((i * 7 + phase * 13) % 40) / 40) for i in range(40)]


def test_init_has_a_rule_for_each_metric_whose_total_is_equal_by_coincidence(perfgate: Command) -> None:
    for i in range(3):
        write_results(f"{i}.json", {"allreduce": wave(5, i), "step": wave(5, i + 1), "step_micro": wave(5, i + 1)})
    done = perfgate("init", "0.json", "1.json", "2.json", "--dry-run")
    assert "step median" in done.out
    assert "allreduce median" in done.out
    assert "without a rule (within 2% of a metric that has a rule): step_micro" in done.out


def test_init_reads_values_whose_sum_is_too_large_without_a_warning_of_numpy(perfgate: Command) -> None:
    write_results("a.json", {"a": [1e308] * 5, "b": wave(5, 0)})
    Path("a.json").write_text(Path("a.json").read_text().replace('"ms"', '"s"'))
    assert "Warning" not in perfgate("init", "a.json", "--dry-run", "--without-step").said


def test_a_file_that_is_not_there_is_said_once(perfgate: Command) -> None:
    write_results("a.json", {"forward": wave(5, 0), "backward": wave(9, 0)})
    write_rules("  - forward within 30% of baseline", "  - backward within 30% of baseline")
    perfgate("baseline", "approve", "a.json", "--reason", "first")
    done = perfgate("check", "b.json")
    assert done.code == 3
    assert "b.json: error: cannot be read: file not found; did you mean a.json?" in done.out
    assert "nothing was measured: 2 rules not judged" in done.out
    assert "no longer written" not in done.out


def test_the_part_that_a_derived_metric_lacks_is_named(perfgate: Command) -> None:
    write_results("a.json", {"forward": wave(5, 0), "backward": wave(9, 0)})
    write_rules("  - ratio under 30%", metrics="metrics: {share: forward / bckward, ratio: share * 2}")
    done = perfgate("check", "a.json")
    assert done.code == 3
    said = "no run has bckward, which ratio is computed from: the nearest names are backward"
    assert said in " ".join(done.out.split())


def test_a_misspelt_statistic_is_corrected(perfgate: Command) -> None:
    write_rules("  - forward medain under 3 ms")
    assert "did you mean `forward median under 3 ms`?" in perfgate("rules", "check").said


def test_compare_never_says_approve(perfgate: Command) -> None:
    write_results("a.json", {"forward": wave(5, 0)})
    write_results("b.json", {"forward": wave(5, 0)[:4]})
    done = perfgate("compare", "a.json", "--new", "b.json")
    assert "the job seems to have died early: run it again to its end" in " ".join(done.out.split())
    assert "approve" not in done.out


def test_proposed_mappings_of_two_files_work_together(perfgate: Command) -> None:
    Path("t.csv").write_text("step,fwd_ms\n" + "".join(f"{i},{10 + i % 3}\n" for i in range(20)))
    Path("t.jsonl").write_text("".join(f'{{"step": {i}, "tok/s": {1000 + i % 3}}}\n' for i in range(20)))
    write_rules("  - fwd_ms under 1 s")
    Path("rules/perfgate.yaml").write_text(perfgate("inspect", "--suggest", "t.csv", "t.jsonl").out)
    assert perfgate("rules", "check").out.endswith("rules/perfgate.yaml: 2 mappings\n")
    assert perfgate("inspect", "t.csv", "t.jsonl").code == 0


def test_equal_proposals_are_one_also_after_they_got_a_name_of_their_own(perfgate: Command) -> None:
    Path("t.csv").write_text("step,fwd_ms\n1,10\n2,11\n")
    for folder in (Path("a"), Path("b")):
        folder.mkdir()
        (folder / "t.jsonl").write_text('{"step": 1, "tok/s": 1000}\n{"step": 2, "tok/s": 1001}\n')
    done = perfgate("inspect", "--suggest", "t.csv", "a/t.jsonl", "b/t.jsonl")
    assert done.out.count("- files: ") == 2, done.said


def test_records_with_step_numbers_are_steps(perfgate: Command) -> None:
    Path("t.csv").write_text("step,fwd_ms\n" + "".join(f"{i},{10 + i % 3}\n" for i in range(20)))
    write_rules("  - fwd_ms under 1 s")
    mapping = "mappings:\n  - {files: t.csv, csv: comma, metrics: {fwd_ms: ms}}\n"
    Path("rules/perfgate.yaml").write_text(mapping)
    done = perfgate("inspect", "t.csv")
    assert "write `step: step` if each record is a step of one run" in done.out
    Path("rules/perfgate.yaml").write_text(mapping.replace("csv: comma", "csv: comma, step: step"))
    assert perfgate("inspect", "t.csv").code == 0


def test_faults_of_files_are_told_without_numbers_of_the_system(perfgate: Command) -> None:
    write_results("a.json", {"forward": wave(5, 0)})
    write_rules("  - forward under 1 s")
    assert perfgate("check", "a.json", "--env", "gpu.json").err == (
        "error: --env gpu.json: neither a JSON file of facts nor KEY=VALUE (No such file or directory)\n"
    )
    assert "but there is 1\n" in perfgate("rules", "--calibrate", "a.json").err


def test_a_chart_of_microseconds_names_their_unit(perfgate: Command) -> None:
    for name, centre in {"a": 0.005, "b": 0.0051, "new": 0.009}.items():
        write_results(f"{name}.json", {"forward": wave(centre, 0)})
    done = perfgate("compare", "a.json", "b.json", "--new", "new.json", "--markdown", "-")
    assert 'y-axis "us"' in done.out


def test_more_ranks_than_the_baseline_has_are_noted(perfgate: Command) -> None:
    def write(path: str, ranks: int) -> None:
        entries = [
            {"metric": "forward", "unit": "ms", "labels": {"rank": str(rank)}, "values": wave(5, 0)}
            for rank in range(ranks)
        ]
        Path(path).write_text(json.dumps({"schema": "perfgate.results/1", "series": entries}))

    write("a.json", 2)
    write("b.json", 4)
    write_rules("  - forward within 30% of baseline")
    perfgate("baseline", "approve", "a.json", "--reason", "first")
    note = "more ranks than in the baseline: 4 instead of 2"
    assert [note in perfgate("check", path).out for path in ("b.json", "a.json")] == [True, False]


def test_a_wrong_schema_is_answered_with_the_right_one(perfgate: Command) -> None:
    write_results("a.json", {"forward": wave(5, 0)})
    text = Path("a.json").read_text()
    Path("a.json").write_text(text.replace("results/1", "results/2"))
    assert "this version of perfgate reads 'perfgate.results/1'" in perfgate("inspect", "a.json").out
    Path("a.json").write_text(text.replace("results/1", "result/1"))
    said = "the schema 'perfgate.result/1' is unknown; did you mean 'perfgate.results/1'?"
    assert said in perfgate("inspect", "a.json").out


def test_the_counted_problems_are_those_that_are_shown(perfgate: Command) -> None:
    Path("a.json").write_text('{"schema": "perfgate.results/1", "series": [{"metric": "a", "unit": "ms", "val')
    write_rules("  - a under 1 s")
    done = perfgate("check", "a.json")
    assert done.out.count(": error: ") == 1
    assert done.out.endswith("ERROR  1 error, 1 problem (exit 3)\n")


def test_explain_asked_for_a_metric_names_its_rule(perfgate: Command) -> None:
    write_rules("  - forward within 30% of baseline")
    assert perfgate("rules", "explain", "forward").out.startswith("forward within 30% of baseline  (rules/t.yaml:")


def test_another_name_of_a_judged_metric_is_not_listed_as_unruled(perfgate: Command) -> None:
    for i in range(3):
        write_results(f"{i}.json", {"forward": wave(5, i), "forward_micro": wave(4.97, i), "load": wave(5.3, i)})
    write_results("new.json", {"forward": wave(8, 0), "forward_micro": wave(7.96, 0), "load": wave(8.4, 0)})
    write_rules("  - forward within 30% of baseline")
    perfgate("baseline", "approve", "0.json", "1.json", "2.json", "--reason", "first")
    out = perfgate("check", "new.json").out
    assert "forward_micro" not in out.partition("Changed, and no rule looks")[2]


def test_the_step_after_a_refused_value_is_something_to_do(perfgate: Command) -> None:
    write_results("a.json", {"forward": wave(5, 0), "backward": wave(9, 0)})
    write_rules("  - forward within 30% of baseline")
    perfgate("baseline", "approve", "a.json", "--reason", "first")
    text = Path("a.json").read_text()
    Path("b.json").write_text(text.replace(text[text.index("[", 60) : text.index("]") + 1], "[NaN, NaN]"))
    out = perfgate("check", "b.json").out
    assert "b.json has no metric forward; forward: nan is not a finite number" in out
    assert "→ fix that first" in out
