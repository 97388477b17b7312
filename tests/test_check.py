"""`perfgate check`, as a user meets it: every outcome, every exit code, and what the reports say."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, approve_steady, steady, write_log, write_results, write_rules

Command = Callable[..., Done]


def report(perfgate: Command, *words: str | Path) -> tuple[int, dict[str, Any]]:
    """A check's exit code and its JSON report."""
    done = perfgate("check", *words, "--json", "report.json")
    return done.code, json.loads(Path("report.json").read_text())


def verdict(perfgate: Command, *words: str | Path) -> dict[str, Any]:
    """The only verdict of a check."""
    _, found = report(perfgate, *words)
    (only,) = found["verdicts"]
    return only


@pytest.fixture
def based(perfgate: Command, folder: Path) -> Command:
    """A command line in a folder with rules on `forward` and ten base runs of 100 ms."""
    write_rules(folder, "forward within 5% of baseline")
    for seed in range(1, 11):
        write_log(folder / f"base{seed}.log", forward=steady(100, seed=seed))
    assert perfgate("baseline", "approve", "base1.log", "--reason", "first").code == 0
    assert perfgate("baseline", "add", *(f"base{seed}.log" for seed in range(2, 11))).code == 0
    return perfgate


# --- outcomes and exit codes -------------------------------------------------------------------------------------

LIMITS = [
    ("forward median under 120 ms", "pass", 0),
    ("forward median under 80 ms", "fail", 1),
    ("forward p95 under 101.7 ms", "pass", 0),
    ("forward p99 under 120 ms", "pass", 0),  # 200 values are too few to be sure of it, and it says so
    ("forward mean at most 0.12 s", "pass", 0),
    ("forward max under 104 ms", "pass", 0),
    ("forward min over 90 ms", "pass", 0),
    ("forward count at least 150", "pass", 0),
    ("forward cv under 5%", "pass", 0),
    ("forward total over 1 h", "fail", 1),
    ("p99(forward) / p50(forward) under 3", "pass", 0),
    ("forward p95 under 50", "error", 2),  # no unit
    ("forward p95 under 50 GB", "error", 3),
    ("forwrad p95 under 50 ms", "error", 3),
    ("forward within 5% of baseline", "error", 3),
    ("forward at least 95% of baseline", "error", 2),  # bounds the improving side
]


@pytest.mark.parametrize(("sentence", "outcome", "code"), LIMITS, ids=[row[0] for row in LIMITS])
def test_one_rule_on_one_run(perfgate: Command, folder: Path, sentence: str, outcome: str, code: int) -> None:
    write_rules(folder, sentence)
    write_log(folder / "new.log", forward=steady(100))
    got, found = report(perfgate, "new.log")
    assert (found["verdicts"][0]["outcome"], got, found["exit_code"]) == (outcome, code, code)


CHANGES = [(1.00, "pass", 0), (0.97, "pass", 0), (1.04, "pass", 0), (1.06, "undecided", 3), (1.20, "fail", 1)]


@pytest.mark.parametrize(("factor", "outcome", "code"), CHANGES)
def test_a_change_against_the_baseline(based: Command, folder: Path, factor: float, outcome: str, code: int) -> None:
    write_log(folder / "new.log", forward=steady(100 * factor, spread=0.06, seed=9))
    got, found = report(based, "new.log")
    assert (found["verdicts"][0]["outcome"], got) == (outcome, code)


@pytest.mark.parametrize(("centre", "outcome"), [(110, "fail"), (105, "undecided")])
def test_three_new_runs_settle_a_suspicion_only_if_they_agree_clearly(
    based: Command, folder: Path, centre: float, outcome: str
) -> None:
    """One run of 106.5 ms is a suspicion; with two of 110 ms it fails, and with two of hardly more than 105 ms not."""
    first = write_log(folder / "new1.log", forward=steady(106.5, spread=0.06, seed=10))
    others = [write_log(folder / f"new{s}.log", forward=steady(centre, spread=0.06, seed=s)) for s in (9, 11)]
    assert verdict(based, first)["suspect"]
    assert verdict(based, first, "--strict")["outcome"] == "fail"
    assert verdict(based, first, *others)["outcome"] == outcome


def test_one_stored_run_promises_nothing_until_more_are_added(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    runs = [write_log(folder / f"{seed}.log", forward=steady(100, seed=seed)) for seed in range(4)]
    perfgate("baseline", "approve", runs[0], "--reason", "first")
    code, found = report(perfgate, runs[1])
    assert (code, found["verdicts"][0]["reason"]) == (3, "noise-unknown")
    added = perfgate("baseline", "add", runs[2])
    assert (added.code, "widens" in added.out) == (0, False)
    assert perfgate("check", runs[1]).code == 0


def test_a_noisy_run_of_the_same_code_can_be_added(perfgate: Command, folder: Path) -> None:
    """A baseline without the runs that are further away would look less noisy than it is."""
    write_rules(folder, "forward within 5% of baseline")
    runs = [write_log(folder / f"{ms}.log", forward=steady(ms, seed=ms)) for ms in (97, 103, 104, 94)]
    perfgate("baseline", "approve", *runs[:2], "--reason", "first")
    assert verdict(perfgate, runs[2])["reason"] == "cannot-exclude"
    added = perfgate("baseline", "add", runs[2])
    assert (added.code, "widens every later interval" in " ".join(added.said.split())) == (0, True)


def test_an_improvement_is_noted_and_never_fails(based: Command, folder: Path) -> None:
    write_log(folder / "new.log", forward=steady(80, seed=9))
    found = verdict(based, "new.log")
    assert (found["outcome"], found["improved"]) == ("pass", True)
    assert "approve it to keep the gain" in found["next_step"]


@pytest.mark.parametrize(
    ("sentences", "code"),
    [
        (["forward under 1 s"], 0),
        (["forward under 1 s", "forward under 1 ms"], 1),
        (["forward under 1 s", "nothing under 1 ms"], 3),
        (["forward under 1 ms", "nothing under 1 ms"], 1),
        (["forward under 1 ms", "nothing under 1 ms", "forward under 5"], 2),
    ],
)
def test_the_worst_verdict_gives_the_exit_code(
    perfgate: Command, folder: Path, sentences: list[str], code: int
) -> None:
    write_rules(folder, *sentences)
    write_log(folder / "new.log", forward=steady(100))
    assert perfgate("check", "new.log").code == code


def test_a_warning_is_said_and_does_not_block(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 ms", head="defaults: {severity: warning}\n")
    write_log(folder / "new.log", forward=steady(100))
    done = perfgate("check", "new.log")
    assert done.code == 0
    assert "fail" in done.out


@pytest.mark.parametrize(("policy", "code"), [("warn", 0), ("fail", 1), ("error", 3)])
def test_on_inconclusive_says_what_not_knowing_means(perfgate: Command, folder: Path, policy: str, code: int) -> None:
    write_rules(folder, "forward p99 under 120 ms", head=f"defaults: {{on_inconclusive: {policy}}}\n")
    write_log(folder / "new.log", forward=steady(100))
    assert perfgate("check", "new.log").code == code


def test_a_tail_that_is_too_thin_blocks_unless_the_rule_says_otherwise(perfgate: Command, folder: Path) -> None:
    write_log(folder / "run.log", forward=steady(100, n=30))
    for head, code in (("", 3), ("defaults: {on_inconclusive: warn}\n", 0)):
        write_rules(folder, "forward p95 within 5% of baseline", head=head)
        perfgate("baseline", "approve", "run.log", "--reason", f"for {code}")
        assert perfgate("check", write_log(folder / "new.log", forward=steady(100, n=30, seed=2))).code == code


# --- what is missing never passes --------------------------------------------------------------------------------


def test_no_baseline_says_which_command_makes_one(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    write_log(folder / "new.log", forward=steady(100))
    done = perfgate("check", "new.log")
    assert done.code == 3
    assert 'perfgate baseline approve new.log --reason "..."' in done.out


def test_the_command_that_approves_gives_no_place_away(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    run = write_log(folder / "new.log", forward=steady(100))
    facts = folder / "facts.json"
    facts.write_text('{"gpu": "NVIDIA H200"}')
    _, found = report(perfgate, run, "--env", facts, "--env", "site=/here")
    command = 'perfgate baseline approve new.log --reason "..." --env facts.json --env site=/here'
    assert found["verdicts"][0]["next_step"] == f"make one: {command}"
    assert found["approve_command"] == command


@pytest.mark.parametrize("policy", ["warn", "skip"])
def test_a_missing_baseline_may_be_accepted(perfgate: Command, folder: Path, policy: str) -> None:
    write_rules(folder, "forward within 5% of baseline", "forward under 1 s")
    write_log(folder / "new.log", forward=steady(100))
    code, found = report(perfgate, "new.log", "--missing-baseline", policy)
    assert (code, [v["outcome"] for v in found["verdicts"]]) == (0, ["skipped", "pass"])


def test_another_machine_is_named_field_by_field(based: Command, folder: Path) -> None:
    write_log(folder / "new.log", forward=steady(100))
    done = based("check", "new.log", "--env", "gpu=NVIDIA A100")
    assert done.code == 3
    assert "gpu is NVIDIA A100, in the baseline unknown" in " ".join(done.out.split())


def test_a_metric_that_disappeared_under_a_glob_is_an_error(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward* within 50% of baseline")
    approve_steady(perfgate, write_log(folder / "base.log", forward=steady(100), forward_late=steady(10)))
    write_log(folder / "new.log", forward=steady(100))
    code, found = report(perfgate, "new.log")
    assert code == 3
    assert {v["metric"]: v["outcome"] for v in found["verdicts"]} == {"forward": "pass", "forward_late": "error"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("absent.log", None, "cannot be read"),
        ("empty.log", "", "empty"),
        ("prose.log", "nothing to see here\n", "format"),
        ("nan.log", "[Rank 0] time (ms) | forward: nan\n" * 3 + "[Rank 0] time (ms) | forward: 3.00\n" * 9, "nan"),
        ("inf.log", "[Rank 0] time (ms) | forward: 3.00\n" * 9 + "[Rank 0] time (ms) | forward: inf\n", "inf"),
        (
            "negative.log",
            "[Rank 0] time (ms) | forward: 3.00\n" * 9 + "[Rank 0] time (ms) | forward: -1.00\n",
            "negative",
        ),
    ],
)
def test_damaged_input_is_never_a_pass(perfgate: Command, folder: Path, name: str, text: str | None, said: str) -> None:
    write_rules(folder, "forward under 1 h")
    if text is not None:
        (folder / name).write_text(text)
    done = perfgate("check", name, "--junit", "junit.xml")
    assert done.code == 3
    assert said in done.out.lower()
    assert "<error" in (folder / "junit.xml").read_text()


def test_a_job_that_died_early_is_not_compared(based: Command, folder: Path) -> None:
    write_log(folder / "new.log", forward=steady(100, n=80))
    found = verdict(based, "new.log")
    assert (found["outcome"], found["reason"]) == ("error", "measured-less")


def test_a_metric_whose_unit_changed_is_not_compared(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    write_results(folder / "base.json", {"metric": "forward", "unit": "s", "values": steady(100)})
    perfgate("baseline", "approve", "base.json", "--reason", "first")
    write_results(folder / "new.json", {"metric": "forward", "unit": "/s", "values": steady(100)})
    found = verdict(perfgate, "new.json")
    assert (found["outcome"], found["reason"]) == ("error", "unit-mismatch")


def test_min_runs_asks_for_more_base_runs(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline", head="defaults: {min_runs: 2}\n")
    write_log(folder / "run.log", forward=steady(100))
    perfgate("baseline", "approve", "run.log", "--reason", "first")
    assert verdict(perfgate, "run.log")["reason"] == "too-few-runs"


# --- ranks -------------------------------------------------------------------------------------------------------

RANKS = [{"forward": steady(centre, seed=i)} for i, centre in enumerate((100, 101, 130, 102))]


@pytest.mark.parametrize(
    ("sentence", "outcomes"),
    [
        ("forward under 120 ms", ["fail"]),
        ("forward on the worst rank under 120 ms", ["fail"]),
        ("forward on the fastest rank under 120 ms", ["pass"]),
        ("forward on the median rank under 120 ms", ["pass"]),
        ("forward across ranks under 120 ms", ["pass"]),
        ("forward on each rank under 120 ms", ["pass", "pass", "fail", "pass"]),
        ('forward{rank="2"} under 120 ms', ["fail"]),
        ('forward{rank!="2"} under 120 ms', ["pass"]),
        ("forward on the slowest rank at most 1.1x the median rank", ["fail"]),
        ("forward on the slowest rank at most 1.5x the median rank", ["pass"]),
        ("forward on the slowest rank within 10% and 50 ms of the fastest rank", ["pass"]),
    ],
)
def test_which_rank_speaks(perfgate: Command, folder: Path, sentence: str, outcomes: list[str]) -> None:
    write_rules(folder, sentence)
    write_log(folder / "new.log", RANKS)
    _, found = report(perfgate, "new.log")
    assert [v["outcome"] for v in found["verdicts"]] == outcomes


def test_the_worst_rank_is_named_and_judged_more_strictly(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 120 ms")
    write_log(folder / "new.log", RANKS)
    found = verdict(perfgate, "new.log")
    assert found["member"] == {"rank": "2"}
    assert found["confidence"] == pytest.approx(1 - 0.05 / 4)


def test_a_rank_that_is_gone_is_an_error(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 50% of baseline")
    write_log(folder / "base.log", RANKS)
    perfgate("baseline", "approve", "base.log", "--reason", "first")
    write_log(folder / "new.log", RANKS[:3])
    found = verdict(perfgate, "new.log")
    assert (found["outcome"], found["reason"]) == ("error", "rank-gone")
    assert "rank 3" in found["message"]


def test_a_folder_is_one_run_of_several_files(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward on each rank under 120 ms")
    for rank in range(2):
        write_results(folder / f"out_rank{rank}.json", {"metric": "forward", "unit": "ms", "values": steady(100)})
    (folder / "run").mkdir()
    for rank in range(2):
        (folder / f"out_rank{rank}.json").rename(folder / "run" / f"out_rank{rank}.json")
    _, found = report(perfgate, "run")
    assert [v["member"] for v in found["verdicts"]] == [{"rank": "0"}, {"rank": "1"}]


def test_a_link_that_leads_out_of_a_folder_is_refused(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "outside.log", forward=steady(100))
    (folder / "run").mkdir()
    (folder / "run" / "a.log").symlink_to(folder / "outside.log")
    done = perfgate("check", "run")
    assert done.code == 3
    assert "leads out of the folder" in done.out


# --- rules that are not judged -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words", "outcome", "code"),
    [
        ("when: {world_size: '>= 8'}", ["--env", "world_size=8"], "pass", 0),
        ("when: {world_size: '>= 8'}", ["--env", "world_size=4"], "skipped", 3),
        ("when: {gpu: '*H100*'}", ["--env", "gpu=NVIDIA H100 80GB"], "pass", 0),
        ("when: {gpu: '*H100*'}", [], "error", 3),
        ("when: {world_size: '>= 8'}", ["--env", "world_size=many"], "error", 3),
        ("expect_fail: {reason: known, until: '2026-01-01'}", [], "skipped", 3),
        ("expect_fail: {reason: known, until: '2025-12-31'}", [], "pass", 0),
    ],
)
def test_when_and_expect_fail(
    perfgate: Command, folder: Path, fields: str, words: list[str], outcome: str, code: int
) -> None:
    (folder / "rules.yaml").write_text(f"version: 1\nrules:\n  - assert: forward under 1 s\n    {fields}\n")
    write_log(folder / "new.log", forward=steady(100))
    got, found = report(perfgate, "new.log", "--rules", "rules.yaml", *words)
    assert (found["verdicts"][0]["outcome"], got) == (outcome, code)


@pytest.mark.parametrize(
    ("words", "said", "is_claimed"),
    [
        ([], "`when` needs gpu == *A100*; here it is H100, claimed only by new.json", True),
        (["--env", "gpu=H100"], "`when` needs gpu == *A100*; here it is H100", False),
    ],
)
def test_a_rule_that_only_the_judged_file_switches_off_names_the_file(
    perfgate: Command, in_short: Command, folder: Path, words: list[str], said: str, is_claimed: bool
) -> None:
    (folder / "rules.yaml").write_text(
        "version: 1\nrules:\n  - {assert: forward under 1 ns, when: {gpu: '*A100*'}}\n  - forward under 1 s\n"
    )
    series = {"metric": "forward", "unit": "ms", "values": steady(100)}
    write_results(folder / "new.json", series, environment={"gpu": "H100"})
    code, found = report(perfgate, "new.json", "--rules", "rules.yaml", *words)
    assert (code, found["verdicts"][0]["outcome"], found["verdicts"][0]["message"]) == (0, "skipped", said)
    shown = perfgate("check", "new.json", "--rules", "rules.yaml", *words).out
    assert said in " ".join(shown.split())
    assert "PASS  1 rule, 1 skipped (exit 0)" in shown
    short = in_short("check", "new.json", "--rules", "rules.yaml", *words).out
    assert (said in " ".join(short.split())) == is_claimed


def test_a_report_whose_rules_are_all_skipped_says_why(in_short: Command, folder: Path) -> None:
    (folder / "rules.yaml").write_text("version: 1\nrules:\n  - {assert: forward under 1 s, when: {gpu: '*A100*'}}\n")
    write_log(folder / "new.log", forward=steady(100))
    done = in_short("check", "new.log", "--rules", "rules.yaml", "--env", "gpu=H100")
    assert done.code == 3
    assert "ERROR  1 skipped (exit 3)" in done.out
    assert "`when` needs gpu == *A100*; here it is H100" in done.out


@pytest.mark.parametrize(
    ("only", "judged"),
    [
        ("forward", ["forward"]),
        ("back*", ["backward"]),
        ("slow", ["backward"]),
        ("*", ["forward", "backward"]),
        ("x", []),
    ],
)
def test_only_chooses_by_rule_and_by_metric(perfgate: Command, folder: Path, only: str, judged: list[str]) -> None:
    (folder / "rules.yaml").write_text(
        "version: 1\nrules:\n  - forward under 1 s\n  - {id: slow, assert: backward under 1 s}\n"
    )
    write_log(folder / "new.log", forward=steady(100), backward=steady(200))
    code, found = report(perfgate, "new.log", "--rules", "rules.yaml", "--only", only)
    assert [v["metric"] for v in found["verdicts"]] == judged
    assert code == (0 if judged else 3)


@pytest.mark.parametrize(
    ("policy", "outcome", "code"), [("error", "error", 3), ("warn", "skipped", 0), ("skip", "skipped", 0)]
)
def test_on_missing(perfgate: Command, folder: Path, policy: str, outcome: str, code: int) -> None:
    write_rules(folder, "optional under 1 s", head=f"defaults: {{on_missing: {policy}}}\n")
    write_log(folder / "new.log", forward=steady(100))
    got, found = report(perfgate, "new.log")
    assert (found["verdicts"][0]["outcome"], got) == (outcome, code)


# --- reports and files -------------------------------------------------------------------------------------------


def test_two_checks_give_the_same_bytes(based: Command, folder: Path) -> None:
    write_log(folder / "new.log", forward=steady(110, spread=0.06))
    seen = []
    for _ in range(2):
        done = based("check", "new.log", "--json", "r.json", "--junit", "r.xml", "--markdown", "r.md")
        seen.append([done.out, *(Path(name).read_bytes() for name in ("r.json", "r.xml", "r.md"))])
    assert seen[0] == seen[1]
    assert all(str(folder) not in str(text) for text in seen[0])


def test_a_mistake_in_the_rules_makes_a_report_too(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward undr 5 ms")
    write_log(folder / "new.log", forward=steady(100))
    code, found = report(perfgate, "new.log", "--junit", "r.xml")
    assert (code, found["outcome"], found["exit_code"]) == (2, "error", 2)
    assert found["problems"][0]["line"] == 3
    assert "<error" in Path("r.xml").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "a", "--junit", "a"],
        ["--json", "new.log"],
        ["--junit", "no/such/folder/r.xml"],
        ["--junit", "rules"],
        ["new.log"],
        ["--rules", "nowhere"],
        ["--env", "no-such-file"],
        ["--missing-baseline", "sometimes"],
    ],
)
def test_usage_errors_are_found_before_anything_is_judged(perfgate: Command, folder: Path, words: list[str]) -> None:
    write_rules(folder, "forward under 1 s")
    log = write_log(folder / "new.log", forward=steady(100))
    before = log.read_bytes()
    done = perfgate("check", "new.log", *words)
    assert (done.code, done.out) == (2, "")
    assert "error" in done.err.lower()
    assert log.read_bytes() == before


def test_json_on_stdout_is_nothing_but_json(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "new.log", forward=steady(100))
    done = perfgate("check", "new.log", "--json", "-")
    assert json.loads(done.out)["schema"] == "perfgate.report/1"


def test_quiet_prints_the_answer_alone(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "new.log", forward=steady(100))
    done = perfgate("check", "new.log", "--quiet")
    assert len(done.out.splitlines()) == 1
    assert "1 rule" in done.out


def test_derived_metrics_are_joined_step_by_step(perfgate: Command, folder: Path) -> None:
    write_rules(
        folder, "share p50 under 35%", "share p50 over 31%", head="metrics: {share: forward / (forward + backward)}\n"
    )
    write_log(folder / "new.log", forward=steady(100), backward=steady(200))
    code, found = report(perfgate, "new.log")
    assert code == 0
    assert found["verdicts"][0]["new"]["estimate"] == pytest.approx(1 / 3, rel=0.02)


# --- the user's own documents ------------------------------------------------------------------------------------


@pytest.fixture
def seed_log(shared: Path) -> Path:
    return next((shared / "seeds").glob("001*.txt"))


@pytest.fixture
def timing_results(shared: Path) -> Path:
    return next((shared / "seeds").glob("002*.txt"))


@pytest.mark.shared
@pytest.mark.parametrize(("bound", "outcome", "code"), [(50, "fail", 1), (75, "pass", 0), (120, "pass", 0)])
def test_the_allreduce_tail_of_a_real_log(
    perfgate: Command, folder: Path, seed_log: Path, bound: int, outcome: str, code: int
) -> None:
    write_rules(folder, f"backward_allreduce p95 under {bound} ms")
    done = perfgate("check", seed_log, "--json", "report.json")
    (found,) = json.loads(Path("report.json").read_text())["verdicts"]
    assert (found["outcome"], done.code) == (outcome, code)
    new = found["new"]
    assert (new["n"], new["estimate"]) == (1662, pytest.approx(0.07261, abs=1e-5))
    assert "p95" in done.out
    assert f"(effective sample size {round(new['n_effective'])})" in " ".join(found["message"].split())
    if bound == 50:
        assert (new["low"], new["high"]) == (pytest.approx(0.0581, abs=1e-4), pytest.approx(0.1231, abs=1e-4))


@pytest.mark.shared
@pytest.mark.parametrize("bound", [50, 75, 120])
def test_a_hundred_steps_cannot_vouch_for_a_p95(perfgate: Command, folder: Path, seed_log: Path, bound: int) -> None:
    (folder / "rules").mkdir()
    rule = f"{{assert: backward_allreduce p95 under {bound} ms, on_inconclusive: error}}"
    (folder / "rules" / "rules.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    lines = seed_log.read_text(errors="replace").splitlines(keepends=True)
    last = [i for i, line in enumerate(lines) if "| forward: " in line][99]
    (folder / "start.log").write_text("".join(lines[: last + 1]))
    assert verdict(perfgate, "start.log")["outcome"] != "pass"


@pytest.mark.shared
def test_timing_results_against_themselves_and_a_slower_version(
    perfgate: Command, folder: Path, timing_results: Path
) -> None:
    write_rules(folder, "forward_backward within 5% of baseline")
    done = perfgate("check", timing_results)
    assert done.code == 3
    assert "perfgate baseline approve" in done.out
    approve_steady(perfgate, shutil.copy(timing_results, folder / "base.json"))
    code, same = report(perfgate, slowed(folder, perfgate, timing_results, 1.0))
    assert (code, {v["outcome"] for v in same["verdicts"]}, len(same["verdicts"])) == (0, {"pass"}, 10)
    code, slower = report(perfgate, slowed(folder, perfgate, timing_results))
    assert (code, {v["outcome"] for v in slower["verdicts"]}) == (1, {"fail"})


def slowed(folder: Path, perfgate: Command, path: Path, factor: float = 1.2) -> Path:
    """The same results measured again, each time 20 % longer; single values differ by up to .1 %."""
    read = json.loads(perfgate("inspect", path, "--json", "--values").out)["runs"][0]["series"]
    series = [
        {k: s[k] for k in ("metric", "labels", "unit")}
        | {"values": [factor * v * (1 + 1e-3 * math.sin(i * 1e5)) for i, v in enumerate(s["values"])]}
        for s in read
    ]
    return write_results(folder / "slower.json", *series)


# --- mistakes that people make -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "target"),
    [
        ("--json", "rules/rules.yaml"),
        ("--json", "rules/new.yaml"),
        ("--markdown", "facts.json"),
        ("--junit", "run/rank0.log"),
        ("--junit", "run/report.xml"),
        ("--json", "baselines/report.json"),
    ],
)
def test_a_report_never_lands_on_or_among_what_is_read(
    perfgate: Command, folder: Path, option: str, target: str
) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "run" / "rank0.log", forward=steady(100))
    (folder / "facts.json").write_text('{"gpu": "X"}')
    (folder / "baselines").mkdir()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = perfgate("check", "run", "--env", "facts.json", option, target)
    assert (done.code, done.out) == (2, "")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("stored", [True, False])
def test_the_files_of_several_ranks_are_no_several_runs(perfgate: Command, folder: Path, stored: bool) -> None:
    write_rules(folder, "forward within 50% of baseline" if stored else "forward under 1 s")
    write_log(folder / "base.log", RANKS)
    if stored:
        perfgate("baseline", "approve", "base.log", "--reason", "first")
    lines = (folder / "base.log").read_text().splitlines(keepends=True)
    files = [folder / f"rank{rank}.log" for rank in range(4)]
    for rank, path in enumerate(files):
        path.write_text("".join(line for line in lines if f"[Rank {rank}]" in line))
    done = perfgate("check", *files)
    assert done.code == 3
    why = "forward: the new runs have different ranks, so they are probably the files of one run"
    assert f"{why} → give their folder: each path on the command line is a run" in " ".join(done.out.split())
    assert perfgate("baseline", "approve", *files, "--reason", "x").code == 1


def test_a_rank_against_a_rank_reads_as_a_change(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward on the slowest rank within 5% of the median rank")
    write_log(folder / "new.log", RANKS)
    found = verdict(perfgate, "new.log")
    assert found["new"]["estimate"] == pytest.approx(0.13, rel=0.01)
    assert found["base"]["estimate"] == pytest.approx(0.101, rel=0.02)
    assert found["change"]["estimate"] == pytest.approx(0.13 / 0.1015 - 1, abs=0.02)


def test_labels_that_match_nothing_are_told_from_a_name_that_does(perfgate: Command, folder: Path) -> None:
    write_rules(folder, 'forward{rank="9"} under 1 s')
    write_log(folder / "new.log", RANKS)
    assert 'it has {rank="0"}' in verdict(perfgate, "new.log")["message"]


def test_shares_are_shown_as_shares(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "gpu.utilization within 2 pp of baseline")
    for name, value in (("base.json", 90), ("new.json", 80)):
        write_results(folder / name, {"metric": "gpu.utilization", "unit": "%", "values": steady(value, spread=0.001)})
    approve_steady(perfgate, folder / "base.json")
    done = perfgate("check", "new.json")
    assert done.code == 1
    assert "90 → 80%" in done.out


def test_a_problem_of_a_metric_that_no_rule_reads_is_one_warning(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    lines = "[Rank 0] time (ms) | forward: 3.00 | other: -1.00\n" * 30
    (folder / "new.log").write_text(lines)
    code, found = report(perfgate, "new.log")
    (problem,) = found["problems"]
    assert (code, problem["severity"]) == (0, "warning")
    assert "more of other" in problem["message"]


def test_a_run_that_is_stored_already_is_said_to_be(based: Command, folder: Path) -> None:
    done = based("check", "base1.log")
    assert (done.code, "this file is in the baseline: nothing was measured" in done.out) == (3, True)


def test_a_command_that_prints_the_same_each_time_is_no_copy(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "command.cpu_time within 8% of baseline")
    for name, took in (("a", 1.0013472), ("b", 1.0028164), ("c", 1.0007391), ("new", 1.0019283)):
        (folder / f"{name}.log").write_text("built\n")
        times = [
            {"metric": f"command.{of}", "unit": "s", "value": took * by}
            for of, by in (("time", 1.2345), ("cpu_time", 1))
        ]
        write_results(folder / f"{name}.log.machine", *times)
    assert perfgate("baseline", "approve", "a.log", "b.log", "c.log", "--reason", "first").code == 0
    assert perfgate("check", "new.log").code == 0
    assert perfgate("baseline", "add", "new.log").code == 0
    copied = perfgate("check", "a.log")
    assert (copied.code, "compared with itself" in copied.out) == (3, True), copied.said


def test_a_rank_that_is_stored_already_is_named(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 5% of baseline")
    for name, seed in (("base", 1), ("new", 3)):
        for rank in range(2):
            series = {"metric": "step.time", "unit": "ms", "values": steady(100, seed=seed + rank)}
            (folder / name).mkdir(exist_ok=True)
            write_results(folder / name / f"rank{rank}.json", series | {"labels": {"rank": str(rank)}})
    assert perfgate("baseline", "approve", "base", "--reason", "first").code == 0
    shutil.copy(folder / "base/rank1.json", folder / "new/rank1.json")
    said = " ".join(perfgate("check", "new").out.split())
    assert "warning: not measured again: new/rank1.json of this run is in the baseline" in said


def test_what_was_measured_is_shown_without_a_baseline(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    write_log(folder / "new.log", forward=steady(100))
    assert verdict(perfgate, "new.log")["new"]["estimate"] == pytest.approx(0.1, rel=0.01)


def test_an_unreadable_file_is_the_reason_given(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    (folder / "new.log").write_text("nothing to see\n")
    found = verdict(perfgate, "new.log")
    assert found["reason"] == "no-data"
    assert "new.log" in found["message"]


# --- attacks -----------------------------------------------------------------------------------------------------


def test_a_series_without_one_good_value_is_not_forgotten(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward* median under 1 s")
    (folder / "new.log").write_text("[Rank 0] time (ms) | forward: 100.00 | forward_inner: nan\n" * 20)
    assert perfgate("check", "new.log").code == 3


def test_a_rank_that_died_early_cannot_hide(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "new.log", [{"forward": steady(100)}, {"forward": steady(100)}, {"forward": steady(90, n=9)}])
    assert verdict(perfgate, "new.log")["reason"] == "too-few-samples"


def test_a_metric_of_a_glob_that_changed_its_unit_is_judged(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward* median under 1 s")
    write_results(folder / "base.json", {"metric": "forward_x", "unit": "s", "values": steady(0.1)})
    perfgate("baseline", "approve", "base.json", "--reason", "first")
    other = {"metric": "forward_y", "unit": "s", "values": steady(0.1)}
    write_results(folder / "new.json", {"metric": "forward_x", "unit": "1", "values": steady(50)}, other)
    assert perfgate("check", "new.json").code == 3


@pytest.mark.parametrize(("copied", "said"), [("base1.log", "in the baseline"), ("new.log", "in new.log")])
def test_a_changed_copy_of_a_run_is_the_same_run(based: Command, folder: Path, copied: str, said: str) -> None:
    write_log(folder / "new.log", forward=steady(100, seed=77))
    (folder / "copy.log").write_bytes((folder / copied).read_bytes() + b" \n")
    done = based("check", "new.log", "copy.log")
    assert done.code == 3
    assert f"the same measurements are {said}" in " ".join(done.out.split())


def test_copies_of_a_run_are_no_runs(based: Command, folder: Path) -> None:
    first = write_log(folder / "new.log", forward=steady(100, seed=9))
    (folder / "copy.log").write_bytes(first.read_bytes())
    done = based("check", "new.log", "copy.log")
    assert (done.code, "is a copy of" in done.err) == (2, True)


def test_both_sides_of_a_rank_ratio_are_judged(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward on the fastest rank within ±10% of the median rank")
    write_log(folder / "new.log", [{"forward": steady(ms, seed=ms)} for ms in (50, 100, 101)])
    assert verdict(perfgate, "new.log")["outcome"] == "fail"


def test_a_bound_is_exact(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "f max under 0.9 ms")
    write_results(folder / "new.json", {"metric": "f", "unit": "ms", "values": [0.9] * 20})
    assert verdict(perfgate, "new.json")["outcome"] == "fail"


def test_what_was_never_called_has_no_mean(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "load mean under 1 s")
    never = {"mean": 0.0, "count": 0, "total": 0.0}
    write_results(folder / "new.json", {"metric": "load", "unit": "s", "aggregate": never})
    assert perfgate("check", "new.json").code == 3


@pytest.mark.parametrize("kind", ["dangling", "pipe"])
def test_a_folder_holds_nothing_but_files(perfgate: Command, folder: Path, kind: str) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "run" / "rank0.log", forward=steady(100))
    odd = folder / "run" / "rank1.log"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(folder / "run" / "nowhere")
    assert perfgate("check", "run").code == 3


def test_the_first_of_two_lists_reading_problems_is_not_forgotten(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "f under 1 s")
    run = {"series": [{"metric": "f", "unit": "s", "values": steady(0.1)}]}
    one, two = json.dumps([run]), json.dumps([run])
    (folder / "new.json").write_text(f'{{"schema": "perfgate.results/1", "runs": {one}, "runs": {two}}}')
    assert perfgate("check", "new.json").code == 3


def test_an_expected_failure_does_not_excuse_an_absent_metric(perfgate: Command, folder: Path) -> None:
    (folder / "rules.yaml").write_text(
        "version: 1\nrules:\n  - {assert: gone under 1 s, expect_fail: {reason: known, until: '2027-01-01'}}\n"
    )
    write_log(folder / "new.log", forward=steady(100))
    assert verdict(perfgate, "new.log", "--rules", "rules.yaml")["outcome"] == "error"


def test_a_thinned_baseline_keeps_its_counts_and_sums(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "f total within 5% of baseline", "f count at least 95% of baseline")
    approve_steady(
        perfgate, write_results(folder / "run.json", {"metric": "f", "unit": "s", "values": steady(0.1, n=40_000)})
    )
    write_results(folder / "new.json", {"metric": "f", "unit": "s", "values": steady(0.1, n=40_000, seed=2)})
    assert perfgate("check", "new.json").code == 0
    write_results(folder / "short.json", {"metric": "f", "unit": "s", "values": steady(0.1, n=9_000)})
    perfgate("check", "short.json", "--json", "report.json")
    found = [one["reason"] for one in json.loads((folder / "report.json").read_text())["verdicts"]]
    assert found == ["measured-less", "exact"]


def test_a_warning_does_not_hide_an_error_of_the_same_series() -> None:
    from perfgate.commands.preparing import reading_problems
    from perfgate.core import Key, Location, Problem, Run
    from perfgate.judge.subjects import naming
    from perfgate.rules.load import load_rules

    ruleset, _ = load_rules([("r.yaml", b"version: 1\nrules:\n  - f under 1 s\n")])
    assert ruleset is not None
    at, key = Location("a.log", 1), Key("f")
    said = (Problem("warning", "odd", at, key), Problem("error", "nan", at, key))
    found = reading_problems([Run("a.log", "timeit", (), said)], naming(ruleset))
    assert [problem.severity for problem in found] == ["warning", "error"]
