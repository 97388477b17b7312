"""`perfgate init`: from runs to a gate that passes, over nothing that is there, whatever metrics are called."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Done, same_code, steady, write_log, write_results, write_rules, write_run
from hypothesis import given
from hypothesis import strategies as st

from perfgate.rules.load import load_rules
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.syntax.sentence import Selector
from perfgate.rules.write import WrittenRule, render, sentence_of

Command = Callable[..., Done]


def everything(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def sentences(folder: Path) -> list[str]:
    (path,) = (folder / "rules").iterdir()
    return list(yaml.safe_load(path.read_text(encoding="utf-8"))["rules"])


def usual(folder: Path) -> list[str]:
    """The sentences without the cost and the budget of a step."""
    return [sentence for sentence in sentences(folder) if " mean " not in sentence]


def test_a_check_right_after_passes_and_slower_runs_fail(perfgate: Command, folder: Path) -> None:
    runs = [write_run(folder / f"main-{seed}.json", seed=seed) for seed in range(3)]
    done = perfgate("init", *runs)
    assert done.code == 0
    assert "rules/training.yaml" in done.out
    assert sentences(folder) == [
        "backward within 3% of baseline",
        "backward mean within 3% of baseline",
        "backward mean under 250 ms",
        "forward within 3% of baseline",
    ]
    assert perfgate("rules", "check").out == "rules/training.yaml: 4 rules\n"
    assert perfgate("rules", "diff", "rules", "rules").code == 0
    for new in (runs, *([run] for run in runs)):
        assert "nothing was measured" in perfgate("check", *new).out
    assert perfgate("check", write_run(folder / "same.json", seed=9)).code == 0
    slow = [write_run(folder / f"slow{seed}.json", forward=110, seed=seed) for seed in (10, 11, 12)]
    assert [perfgate("check", *slow[:1]).code, perfgate("check", *slow).code] == [3, 1]


@pytest.mark.parametrize(("runs", "added"), [(1, 2), (2, 1), (3, 0)])
def test_with_fewer_than_three_runs_it_says_how_to_store_more(
    perfgate: Command, folder: Path, runs: int, added: int
) -> None:
    given = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(runs)]
    done = perfgate("init", *given, "--env", "site=a b")
    assert ("a check needs 3 runs of both sides together, or it ends in exit 3" in " ".join(done.out.split())) == bool(
        added
    )
    more = [write_run(folder / f"more{seed}.json", seed=10 + seed) for seed in range(added + 1)]
    steps = [shlex.split(line)[1:] for line in done.out.splitlines() if line.startswith("    perfgate ")]
    assert [words[:2] for words in steps[:-2]] == ([["baseline", "add"]] if added else [])
    left = iter(more)
    for words in steps:  # as a user types them: with own files
        assert perfgate(*(next(left) if word == "RUN" else word for word in words)).code == 0, words
    new = write_run(folder / "new.json", seed=9)
    assert perfgate("check", new, "--env", "site=a b").code == 0


def test_the_file_says_what_the_tolerance_rests_on(perfgate: Command, folder: Path) -> None:
    runs = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(3)]
    said = {}
    for number in (1, 3):
        here = folder / str(number)
        here.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(here)
            assert perfgate("init", *runs[:number], "--suite", "gpt").code == 0
        text = (here / "rules" / "gpt.yaml").read_text()
        assert max(map(len, text.splitlines())) <= 120
        assert "  # - forward p95 under 130 ms\n" in text
        said[number] = " ".join(text.replace("\n  # ", " ").replace("\n# ", " ").split())
        assert "Exit code 0 promises that a change of `at_worst` or more is excluded." in said[number]
    assert "1 run: one run probably differs from the next by 1%, which is a guess until 3 runs" in said[1]
    assert "Exit 0 promises that a change of 10% or more is excluded. - forward within 5% of baseline" in said[1]
    assert "3 runs: one run differs from the next by 0.71%. +3.9% fails in 8 of 10 cases, in up to 3 new" in said[3]
    assert "new runs. Exit 0 promises that a change of 6% or more is excluded." in said[3]
    assert "The cost: a mean includes the stalls, which a median ignores. 3 runs:" in said[3]
    assert "A budget: no run may be slower, whatever the baseline is" in said[3]


def test_every_proposed_limit_holds_when_it_is_made_a_rule(perfgate: Command, folder: Path) -> None:
    runs = same_code(write_run(folder / "one.json"), 3)
    perfgate("init", *runs)
    path = folder / "rules" / "training.yaml"
    path.write_text(path.read_text().replace("  # - ", "  - "))
    assert perfgate("rules", "check").out == "rules/training.yaml: 6 rules\n"
    assert perfgate("check", write_run(folder / "new.json", seed=9)).code == 0


def test_the_commands_to_try_next_name_the_facts_that_the_runs_do_not_hold(perfgate: Command, folder: Path) -> None:
    runs = same_code(write_log(folder / "one.log", forward=steady(100)), 3)
    done = perfgate("init", *runs, "--env", "gpu=NVIDIA H200")
    shown = [shlex.split(line)[1:] for line in done.out.splitlines() if line.startswith("    perfgate ")]
    assert [words[0] for words in shown] == ["check", "rules"]
    new = str(write_log(folder / "new.log", forward=steady(100, seed=2)))
    assert [perfgate(*(new if word == "RUN" else word for word in words)).code for words in shown] == [0, 0]


@pytest.mark.parametrize(
    "there", ["rules/mine.yaml", "baselines/README.md", ".github/workflows/perf.yml", "rules", "baselines"]
)
def test_nothing_that_is_there_is_overwritten(perfgate: Command, folder: Path, there: str) -> None:
    write_run(folder / "one.json")
    (folder / there).parent.mkdir(parents=True, exist_ok=True)
    (folder / there).write_text("mine\n")
    before = everything(folder)
    for words in (["one.json"], []):
        done = perfgate("init", *words)
        assert (done.code, everything(folder)) == (2, before)
        assert Path(there).name in done.err


def test_other_workflows_and_empty_folders_are_left_alone(perfgate: Command, folder: Path) -> None:
    write_run(folder / "one.json")
    (folder / ".github" / "workflows").mkdir(parents=True)
    (folder / ".github" / "workflows" / "ci.yml").write_text("mine\n")
    (folder / "rules").mkdir()
    assert perfgate("init", "one.json").code == 0
    assert (folder / ".github" / "workflows" / "ci.yml").read_text() == "mine\n"


def test_a_file_that_cannot_be_written_leaves_none(perfgate: Command, folder: Path) -> None:
    write_run(folder / "one.json")
    (folder / ".github").write_text("a file where a folder is wanted\n")
    before = everything(folder)
    done = perfgate("init", "one.json")
    assert (done.code, "nothing was written" in done.err) == (2, True)
    assert everything(folder) == before
    assert not (folder / "rules").exists()


STEADY = {"metric": "forward", "unit": "s", "values": steady(0.1)}


@pytest.mark.parametrize(
    ("runs", "code", "said"),
    [
        ([[STEADY], [{**STEADY, "metric": "backward"}]], 3, "not in every run: forward, backward"),
        ([[{**STEADY, "unit": "1", "metric": "loss"}]], 3, "which direction is better"),
        ([[{**STEADY, "values": [0.0] * 20}]], 3, "no relative change"),
        ([[{**STEADY, "values": [*steady(0.1, n=60), "slow"]}]], 3, "not a number"),
        ([[]], 3, "no measurements"),
    ],
    ids=["nothing in common", "no direction", "zeros", "not a number", "no series"],
)
def test_runs_that_no_rule_can_hold_write_nothing(
    perfgate: Command, folder: Path, runs: list[list[dict[str, Any]]], code: int, said: str
) -> None:
    for number, series in enumerate(runs):
        write_results(folder / f"{number}.json", *series)
    before = everything(folder)
    done = perfgate("init", *(f"{number}.json" for number in range(len(runs))))
    assert done.code == code, done.said
    assert said in done.err
    assert everything(folder) == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["absent.log"], 3, "absent.log"),
        (["one.json", "one.json"], 2, "given twice"),
        (["one.json", "other.json"], 3, "gpu is"),
        (["one.json", "--suite", "../up"], 2, "'../up'"),
        (["rank0.log", "rank1.log"], 1, "give their folder"),
    ],
)
def test_what_cannot_become_a_baseline_writes_nothing(
    perfgate: Command, folder: Path, words: list[str], code: int, said: str
) -> None:
    write_run(folder / "one.json")
    write_run(folder / "other.json", seed=2, gpu="A100")
    for rank in (0, 1):
        log = write_log(folder / f"rank{rank}.log", forward=steady(100, seed=rank))
        log.write_text(log.read_text().replace("[Rank 0]", f"[Rank {rank}]"))
    before = everything(folder)
    done = perfgate("init", *words)
    assert (done.code, everything(folder)) == (code, before), done.said
    assert said in done.err


def test_the_main_metrics_come_first_and_thousands_of_kernels_do_not(perfgate: Command, folder: Path) -> None:
    kernels = [{"metric": f"kernel.k{i}", "unit": "s", "values": steady(9 + 0.1 * i, n=20)} for i in range(40)]
    parts = [{"metric": f"part{i}", "unit": "s", "values": steady(0.01 * 1.1**i, seed=i)} for i in range(9)]
    rest = [
        {"metric": "step.time", "unit": "s", "values": steady(0.3)},
        {"metric": "tokens_per_second", "unit": "tokens/s", "values": steady(5e4)},
        {"metric": "memory.peak_allocated", "unit": "B", "values": [4e9] * 50},
        {"metric": "load", "unit": "s", "aggregate": {"mean": 0.2, "count": 40, "total": 8.0}},
        {"metric": "step.copy", "unit": "s", "values": steady(0.3005)},
    ]
    *runs, new = same_code(write_results(folder / "one.json", *kernels, *parts, *rest), 4)
    perfgate("init", *runs)
    named = [sentence.split()[0] for sentence in usual(folder)]
    assert named == [
        "step.copy", "part8", "part7", "part6", "part5", "part4", "tokens_per_second", "memory.peak_allocated"
    ]  # fmt: skip
    text = (folder / "rules" / "training.yaml").read_text()
    assert "within 2% of a metric that has a rule): step.time" in text
    assert "It is compared without noise: every change of more than 3% fails." in text
    assert perfgate("check", new).code == 0


def test_a_noisy_metric_gets_a_wider_tolerance_or_none(perfgate: Command, folder: Path) -> None:
    series = [
        {"metric": "noisy", "unit": "s", "values": steady(0.7, n=12, spread=0.2)},
        {"metric": "wild", "unit": "s", "values": [float(2 ** (7 * i % 11)) for i in range(12)]},
        {"metric": "calm", "unit": "s", "values": steady(0.5, spread=0.001, seed=3)},
    ]
    write_results(folder / "one.json", *series)
    perfgate("init", "one.json")
    found = dict(sentence.replace("%", "").split()[0:3:2] for sentence in usual(folder))
    assert set(found) == {"noisy", "calm"}
    assert int(found["noisy"]) > int(found["calm"]) == 5
    assert "their noise is more than 50%" in (folder / "rules" / "training.yaml").read_text()


def test_the_workflow_is_valid_and_gives_nothing_away(perfgate: Command, folder: Path) -> None:
    assert perfgate("init").code == 0
    document = yaml.safe_load((folder / ".github" / "workflows" / "perf.yml").read_text())
    assert document["permissions"] == {}
    (job,) = document["jobs"].values()
    assert "if" not in job  # a job that is skipped satisfies a required check
    checkout, gate = job["steps"]
    assert len(checkout["uses"].split("@")[1]) == 40
    assert gate == {
        "uses": "OWNER/perfgate@COMMIT",
        "with": {"run": "python train.py > train.log", "results": "train.log"},
    }


def test_without_runs_there_is_a_rule_to_change(perfgate: Command, folder: Path) -> None:
    done = perfgate("init")
    assert (done.code, "baseline approve" in done.out) == (0, True)
    assert not (folder / "baselines").exists()
    assert perfgate("rules", "check").code == 0
    write_run(folder / "one.json")
    assert perfgate("check", "one.json").code == 3  # a rule about nothing never passes


# --- hostile names -----------------------------------------------------------------------------------------------

NAMES = [
    "a b", "*", "a*b?[c]", "-", "a: b", "a #b", "# a", 'say "x"', "it's", "x\ny", "\u2028", "\x85x", "p95", "median",
    "p95 of x", "x{rank=\"0\"}", "%", "@a", "!!tag", "&a", "a - b", "a/b", "1", "1e3", "null", "within", "under 5 ms",
    "a`b", "{", "[a]", "x under 1 s\n  - y", "]]>", "\U0001f600", "\ufeff", "é" * 300, "yes", "a\\b", "\x1b[31m", "'",
]  # fmt: skip


def test_hostile_names_are_quoted_and_judged(perfgate: Command, folder: Path) -> None:
    for start in range(0, len(NAMES), 6):
        here = folder / str(start)
        here.mkdir()
        series = [
            {"metric": name, "unit": "s", "values": steady(0.1 * 1.2**i, seed=i)}
            for i, name in enumerate(NAMES[start : start + 6])
        ]
        *runs, new = same_code(write_results(here / "one.json", *series), 4)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(here)
            assert perfgate("init", *runs).code == 0
            assert perfgate("rules", "check").code == 0
            assert perfgate("rules", "diff", "rules", "rules").code == 0
            assert perfgate("check", new).code == 0
            subjects = [parse_sentence(sentence).subject for sentence in sentences(here)]
            assert {s.pattern for s in subjects if isinstance(s, Selector)} == set(NAMES[start : start + 6])


def test_a_name_that_nothing_can_quote_is_said(perfgate: Command, folder: Path) -> None:
    write_results(folder / "one.json", STEADY, {**STEADY, "metric": '"`', "values": steady(9)})
    perfgate("init", "one.json")
    assert usual(folder) == ["forward within 5% of baseline"]
    assert 'a rule cannot name them): "`.' in (folder / "rules" / "training.yaml").read_text()


@given(name=st.text(min_size=1, max_size=30), comment=st.text(max_size=200))
def test_what_is_written_is_what_is_read(name: str, comment: str) -> None:
    sentence = sentence_of(name, "within 5% of baseline")
    if sentence is None:
        return
    text = render("default", [WrittenRule(sentence, [comment], [sentence])], [comment, name])
    ruleset, problems = load_rules([("rules.yaml", text.encode())])
    assert problems == []
    assert ruleset is not None
    (rule,) = ruleset.rules
    assert isinstance(rule.sentence.subject, Selector)
    assert (rule.sentence.text, rule.sentence.subject.pattern) == (sentence, name)
    assert not rule.sentence.subject.is_glob


def test_rules_that_are_there_are_named_first(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    done = perfgate("init", "absent.log")
    assert (done.code, "rules.yaml" in done.err) == (2, True)


@pytest.mark.parametrize("suite", ["true", "Null", "on"])
def test_a_suite_may_be_a_word_of_yaml(perfgate: Callable[..., Done], folder: Path, suite: str) -> None:
    runs = [write_run(folder / f"{seed}.json", seed=seed) for seed in range(3)]
    assert perfgate("init", *runs, "--suite", suite).code == 0
    assert perfgate("check", runs[0]).code in (0, 3)
    assert perfgate("rules").code == 0
