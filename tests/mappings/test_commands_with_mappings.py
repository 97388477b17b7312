"""Each command that reads runs uses the mappings of the rule folder; a pull request cannot change them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, write_rules

Command = Callable[..., Done]
MANY = ", ".join(f"a{number}: b" for number in range(60))
MAPPING = "mappings:\n  - files: 'bench*.json'\n    json: $.{metric}\n    unit: ms\n"


def write_bench(folder: Path, *forwards: float) -> list[str]:
    """Result files of a tool of the team, each with one time in ms."""
    for number, forward in enumerate(forwards):
        (folder / f"bench{number}.json").write_text(json.dumps({"forward": forward, "backward": 2 * forward}))
    return [f"bench{number}.json" for number in range(len(forwards))]


def write_mapping(folder: Path, text: str = MAPPING) -> None:
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules/perfgate.yaml").write_text(text)


def test_check_judges_a_mapped_file(folder: Path, perfgate: Command) -> None:
    write_rules(folder, "forward under 15 ms", "backward under 20 ms")
    write_mapping(folder)
    done = perfgate("check", *write_bench(folder, 12.5))
    assert (done.code, "forward" in done.out, "25 ms" in done.out) == (1, True, True), done.said


def test_inspect_needs_no_rules(folder: Path, perfgate: Command) -> None:
    write_mapping(folder)
    done = perfgate("inspect", *write_bench(folder, 12.5))
    assert done.code == 0
    assert done.out.startswith("bench0.json: bench, through the mapping bench (rules/perfgate.yaml:2)\n")


def test_a_mapping_beside_a_rule_file_that_is_named(folder: Path, perfgate: Command) -> None:
    rules = write_rules(folder, "forward under 15 ms", name="perf/a.yaml")
    (folder / "perf/perfgate.yaml").write_text(MAPPING)
    assert perfgate("check", *write_bench(folder, 12.5), "--rules", rules).code == 0


def test_the_working_folder_may_have_the_rules(folder: Path, perfgate: Command) -> None:
    (folder / "perfgate.yaml").write_text(MAPPING)
    write_rules(folder, "forward under 15 ms", name="a.yaml")
    done = perfgate("check", *write_bench(folder, 12.5), "--rules", ".")
    assert done.code == 0, done.said


def test_compare_uses_mappings_and_their_labels(folder: Path, perfgate: Command) -> None:
    write_mapping(folder, "mappings: [{files: '*.json', json: $, metrics: {t: ms}, labels: [seed_model]}]\n")
    for name, model in (("a", "llama"), ("b", "llama"), ("c", "qwen")):
        (folder / f"{name}.json").write_text(json.dumps({"t": 12.5 + (name == "b"), "seed_model": model}))
    assert "+8.0%" in perfgate("compare", "a.json", "--new", "b.json").out
    other = perfgate("compare", "a.json", "--new", "c.json")
    assert other.code == 3
    assert "seed_model is llama in the base and qwen in the new runs" in " ".join(other.said.split())


def test_approve_stores_mapped_runs_and_init_proposes_rules_for_them(folder: Path, perfgate: Command) -> None:
    write_mapping(folder)
    files = write_bench(folder, *(12.5 + 0.01 * (number % 3) + number / 1e4 for number in range(12)))
    made = perfgate("init", *files[:11])
    assert (made.code, (folder / "rules/training.yaml").exists()) == (0, True), made.said
    assert perfgate("check", files[11]).code == 0
    assert perfgate("history", "add", files[0]).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mappings: [{files: a.json, json: $, metrics: {x: furlong}}]\n", "'furlong' is not a unit"),
        ("mappings:\n- {fils: a.json}\n", "did you mean 'files'?"),
        ("", "the file is empty"),
        (
            f"mappings: [{{files: a.json, json: $, metrics: {{x: ms}}, facts: {{{MANY}}}}}]",
            "facts must have at most 50 fields",
        ),
        ("mappings: *x\n", "rules/perfgate.yaml:1:11"),
    ],
)
@pytest.mark.parametrize("words", [("check", "bench0.json"), ("inspect", "bench0.json"), ("rules", "check")])
def test_a_mistake_in_a_mapping_is_an_error_with_its_place(
    folder: Path, perfgate: Command, words: tuple[str, ...], text: str, said: str
) -> None:
    write_rules(folder, "forward under 15 ms")
    write_mapping(folder, text)
    write_bench(folder, 12.5)
    done = perfgate(*words)
    assert (done.code, said in done.said, "rules/perfgate.yaml:" in done.said) == (2, True, True), done.said


def test_rules_check_counts_mappings(folder: Path, perfgate: Command) -> None:
    write_rules(folder, "forward under 15 ms")
    write_mapping(folder)
    assert perfgate("rules", "check").out == "rules/rules.yaml: 1 rule\nrules/perfgate.yaml: 1 mapping\n"


def test_a_rule_takes_the_better_direction_of_a_mapping(folder: Path, perfgate: Command) -> None:
    write_mapping(
        folder, "mappings: [{files: '*.json', json: $, metric: score, value: s, unit: none, better: higher}]\n"
    )
    write_rules(folder, "score within 5% of baseline", head="suite: scores\n")
    for number in range(10):
        (folder / f"{number}.json").write_text(json.dumps({"s": 100 + number % 2 / 10 + number / 1000}))
    assert perfgate("baseline", "approve", *(f"{n}.json" for n in range(10)), "--reason", "first").code == 0
    (folder / "new.json").write_text('{"s": 50}')
    done = perfgate("check", "new.json")
    assert (done.code, "-50" in done.out.replace("\u2212", "-")) == (1, True), done.said


def test_a_suite_may_be_called_perfgate(folder: Path, perfgate: Command) -> None:
    write_rules(folder, "forward under 15 ms", name="rules/perfgate.yaml", head="suite: perfgate\n")
    (folder / "run.json").write_text(
        '{"schema": "perfgate.results/1", "series": [{"metric": "forward", "unit": "s", "value": 0.005}]}'
    )
    assert perfgate("check", "run.json").code == 0
    assert perfgate("rules", "check").out == "rules/perfgate.yaml: 1 rule\n"
    write_rules(folder, "forward under 15 ms", name="rules/other.yaml")
    alone = perfgate("check", "run.json", "--rules", "rules/other.yaml")
    assert (alone.code, "PASS  1 rule" in alone.out) == (0, True)
    assert "rules/ has other.yaml, perfgate.yaml" in perfgate("init", "run.json").said
    (folder / "rules/perfgate.yaml").unlink()
    (folder / "rules/other.yaml").unlink()
    write_mapping(folder)
    assert "rules has no rule file" in perfgate("check", "run.json").said


def git(*words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


@pytest.mark.parametrize("words", [(), ("--paired",)], ids=["stored", "pairs"])
def test_init_uses_the_better_direction_of_a_mapping(folder: Path, perfgate: Command, words: tuple[str, ...]) -> None:
    metrics = "score: {unit: none, better: higher}, seed: {unit: none, better: neither}, other: none"
    write_mapping(folder, f"mappings: [{{files: 's*.json', json: $, metrics: {{{metrics}}}}}]\n")
    for number in range(5):
        (folder / f"s{number}.json").write_text(json.dumps({"score": 100.5 + number / 10, "seed": 7.5, "other": 1.5}))
    runs = [f"s{number}.json" for number in range(5)]
    done = perfgate("init", *words, *runs)
    said = " ".join(done.said.split())
    if words:
        assert "few rules need few pairs: add one with `perfgate init --paired --add METRIC RUN...`: score" in said
        return
    assert "score mean within 3%" in said, done.said
    assert "score over " in (folder / "rules/training.yaml").read_text()
    assert "without a rule (their mapping says that neither direction is better): seed" in said
    assert "(unknown which direction is better (set `better:` in a rule)): other" in said
    (folder / "new.json").write_text('{"score": 50.5, "seed": 9.5, "other": 1.5}')
    (folder / "s9.json").write_text('{"score": 100.75, "seed": 7.5, "other": 1.5}')
    assert perfgate("check", "s9.json").code == 0
    assert perfgate("history", "add", *runs).code == 0
    found = json.loads(perfgate("history", "show", "--json").out)["series"]
    assert {one["metric"]: one["better"] for one in found} == {"score": "higher", "seed": "neither", "other": "neither"}


def test_history_imports_every_version_of_a_mapped_file(folder: Path, perfgate: Command) -> None:
    write_mapping(folder)
    write_bench(folder, 12.5)
    alone = perfgate("history", "import", "bench0.json")
    assert (alone.code, "bench0.json: error: has no time of its own: give it with --time" in alone.err) == (3, True)
    git("init", "-q", "-b", "main")
    for time in (12.5, 13.5, "slow"):
        (folder / "bench0.json").write_text(json.dumps({"forward": time, "backward": 25.5}))
        git("add", "bench0.json")
        git("commit", "-qm", str(time))
    done = perfgate("history", "import", ".")
    assert "imported 3 runs with 2 metrics" in done.out
    assert (done.code, 'bench0.json:1:13: error: forward: "slow" is not a number' in done.err) == (3, True), done.said
    found = json.loads(perfgate("history", "show", "--json").out)["series"]
    assert {one["metric"]: one["values"] for one in found} == {"backward": [0.0255] * 3, "forward": [0.0125, 0.0135]}
    given = perfgate("history", "import", "bench0.json", "--format", "bench", "--time", "2026-01-01T00:00:00Z")
    assert "imported 1 run with 1 metric, 2026-01-01" in given.out


def test_a_pull_request_cannot_change_how_its_numbers_are_read(folder: Path, perfgate: Command) -> None:
    write_rules(folder, "forward under 15 ms")
    write_mapping(folder)
    files = write_bench(folder, 20.0)
    git("init", "-q", "-b", "main")
    git("add", "rules")
    git("commit", "-qm", "rules")
    write_mapping(folder, MAPPING.replace("unit: ms", "unit: us"))
    assert perfgate("check", *files).code == 0
    done = perfgate("check", *files, "--policy-ref", "refs/heads/main")
    assert done.code == 1
    assert "changes how files are read: the mapping bench" in done.said
    alone = perfgate("check", *files, "--policy-ref", "refs/heads/main", "--rules", "rules/rules.yaml")
    assert alone.code == 1
