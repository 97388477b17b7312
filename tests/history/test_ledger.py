"""The error ledger: what rules answered on main, what later showed the truth, and how often each was wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules, write_run
from histories import MemoryStore, at, sha
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy.stats import binomtest

from perfgate.baselines.ledger import (
    LEDGER_FILE,
    LedgerFile,
    compact_ledger,
    ledger_of,
    read_ledger,
    record_evidence,
    suites_of_ledger,
)
from perfgate.baselines.stores import open_store
from perfgate.commands.ledger import evidence_of
from perfgate.core import Key
from perfgate.core.history_events import EventChange, HistoryEvent, LedgerAnswer, LedgerEntry, RuleAnswer
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel
from perfgate.rules.load import readable_rulesets

Command = Callable[..., Done]
RULE = "forward within 5% of baseline"
_ANSWERS = {"R": "red", "G": "green", "-": "open"}


def entries(story: str) -> list[LedgerEntry]:
    """The entries of words such as `R3` (commit 3 was red), `G3@b` (in environment b) and `found:3,4`, by time."""
    found = []
    for hour, word in enumerate(story.split()):
        kind, _, rest = word.partition(":")
        name, _, place = (rest if rest or ":" in word else word).partition("@")
        if ":" in word:
            commits = [sha(int(one)) for one in name.split(",") if one.isdigit()]
            metrics = [one for one in name.split(",") if one and not one.isdigit()]
            found.append(LedgerEntry(kind, commits, metrics, place, time=at(hour), id=str(hour)))  # type: ignore[arg-type]
        else:
            answer = RuleAnswer(RULE, _ANSWERS[name[0]], ["forward"])  # type: ignore[arg-type]
            found.append(LedgerEntry("check", [sha(int(name[1:]))], [], place, "", [answer], at(hour), str(hour)))
    return found


@pytest.mark.parametrize(
    ("story", "right", "wrong_reds", "wrong_greens", "unknown"),
    [
        ("R1", 0, 0, 0, 1),
        ("G1 G2 G3", 1, 0, 0, 2),  # the two after it confirm the first
        ("G1 -2 G3 -4 G5", 1, 0, 0, 2),
        ("G1 G1 G2", 0, 0, 0, 3),  # the same commit again is no later commit
        ("G1 R2 G3 G4", 0, 0, 0, 4),  # a fix proves nothing
        ("R1 G1", 0, 1, 0, 1),  # measured again, otherwise
        ("R1 G1 R1", 0, 0, 0, 3),  # back and forth
        ("G1 R1", 0, 0, 0, 2),
        ("R1 -1", 0, 0, 0, 1),
        ("R1 approved:", 1, 0, 0, 0),
        ("G1 R2 R3 approved: G4", 2, 0, 0, 2),  # the reds since the last green
        ("R1 G2 R3 approved:", 1, 0, 0, 2),
        ("R1 approved:other*", 0, 0, 0, 1),  # of another metric
        ("R1 approved:forw*", 1, 0, 0, 0),
        ("R1@a approved:@b", 0, 0, 0, 1),  # of another environment
        ("R1@a approved:@a", 1, 0, 0, 0),
        ("G1 approved:", 0, 0, 0, 1),  # says nothing about greens
        ("R1 approved: G1", 1, 0, 0, 1),  # a person outranks the new measurement
        ("G1 G2 R3 found:2,3 cleared:1", 2, 0, 1, 0),
        ("R1 R2 R3 found:3 cleared:1,2", 1, 2, 0, 0),
        ("R3 not-reproduced:3", 0, 1, 0, 0),
        ("R3 approved: not-reproduced:3", 0, 1, 0, 0),  # a measurement outranks a person
        ("R1 approved: G2 found:1,2", 1, 0, 0, 1),  # later checks compare with the approved level
        ("R3 reverted:3 false-alarm:3", 0, 0, 0, 1),  # people disagree
        ("G1 G2 G3 event:1", 0, 0, 1, 2),  # the history outranks later greens
        ("R1 false-alarm:1", 0, 1, 0, 0),
        ("R1 event:1 false-alarm:1", 0, 1, 0, 0),
        ("-1 found:1", None, None, None, None),  # no answer is in no count
    ],
)
def test_what_counts(story: str, right: int, wrong_reds: int, wrong_greens: int, unknown: int) -> None:
    found = ledger_of(entries(story))
    if right is None:
        assert found == {}
        return
    one = found[RULE]
    assert (one.right, one.wrong_reds, one.wrong_greens, one.unknown) == (right, wrong_reds, wrong_greens, unknown)


def test_an_approval_of_a_metric_that_the_rule_got_later_ends_evidence() -> None:
    """With and without an older check of another metric, the green of commit 2 is not wrong, see `found:1,2` above."""
    older, *story = entries("-5 R1 approved:forward G2 found:1,2")
    older = replace(older, answers=[replace(older.answers[0], metrics=["load"])])
    for known in (story, [older, *story]):
        record = ledger_of(known)[RULE]
        assert (record.right, record.wrong_greens, record.unknown) == (1, 0, 1)


@pytest.mark.parametrize("answer", ["red", "green"])
def test_years_of_checks_are_counted(answer: LedgerAnswer) -> None:
    """The time grows with the number of checks, not with its square: red answers would take nine seconds."""
    rows = [RuleAnswer("step", answer, ["forward"])]
    long = [LedgerEntry("check", [f"{i:012x}"], id=str(i), time=f"{i:06}", answers=rows) for i in range(20_000)]
    assert ledger_of(long)["step"].unknown == (20_000 if answer == "red" else 2)


def test_much_evidence_about_years_of_checks_is_counted() -> None:
    """It takes minutes if each piece of evidence looks at all checks, not only at those of its commits."""
    rows = [RuleAnswer("step", "green", ["forward"])]
    long = [LedgerEntry("check", [f"{i:012x}"], id=str(i), time=f"{i:06}", answers=rows) for i in range(20_000)]
    long += [LedgerEntry("event", [f"{i:012x}"], id=f"e{i}", time=f"{i:06}") for i in range(0, 20_000, 5)]
    assert ledger_of(long)["step"].wrong_greens == 4_000


def test_an_entry_that_is_there_twice_counts_once() -> None:
    story = entries("R1 approved:")
    assert ledger_of([*story, *story]) == ledger_of(story)


@given(st.lists(st.sampled_from(["R1", "G1", "G2", "R2", "-2", "G3", "approved:", "event:1", "found:2", "cleared:1"])))
def test_every_answer_is_counted_once(words: list[str]) -> None:
    found = ledger_of(entries(" ".join(words)))
    answers = sum(word[0] in "RG" for word in words)
    assert sum(one.right + one.wrong + one.unknown for one in found.values()) == answers


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    story = entries(
        " ".join(f"R{n}" for n in range(214)) + " reverted:" + ",".join(map(str, range(213))) + " false-alarm:213"
    )
    one = ledger_of(story)[RULE]
    exact = binomtest(1, 214, alternative="less").proportion_ci(0.95).high
    assert (one.wrong, one.known, round(one.highest, 6)) == (1, 214, round(exact, 6))


@pytest.fixture
def main(repository: Repository, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """The repository of the story, with a history of main, in a job of main."""
    hours = iter(range(1, 999))

    def job(*words: str | Path) -> Done:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + 3600 * next(hours)))
        return perfgate(*words)

    repository.job = job  # type: ignore[attr-defined]
    assert job("history", "add", write_run(folder / "first.json", seed=50)).code == 0
    monkeypatch.setenv("CI", "true")
    return repository


def measured(repository: Repository, seed: int, forward: float = 100.0, *, again: bool = False) -> Path:
    """The run of a new commit, or of the same one again."""
    if not again:
        repository.commit(f"Change {seed}")
    return write_run(repository.folder / f"run{seed}.json", forward, seed=seed)


def recorded(folder: Path) -> list[LedgerEntry]:
    suite = next(iter((folder / "baselines/_history/_ledger").iterdir())).name
    return sorted(read_ledger(open_store(str(folder / "baselines")), suite)[0], key=lambda one: one.time)


def test_the_story_of_a_regression_on_main(main: Repository, folder: Path) -> None:
    job = main.job  # type: ignore[attr-defined]
    write_rules(folder, RULE, "backward within 5% of baseline")
    assert job("check", measured(main, 11)).code == 0
    assert job("check", measured(main, 12)).code == 0
    assert job("check", "run12.json").code == 0  # the same runs again are no new check
    assert job("check", measured(main, 13, 125.0)).code == 1
    assert job("check", measured(main, 14, 125.0, again=True)).code == 1
    found = recorded(folder)
    assert [[one.answer for one in entry.answers] for entry in found] == [["green"] * 2] * 2 + [["red", "green"]] * 2
    assert [entry.commits for entry in found[2:]] == [[main.git("rev-parse", "HEAD")]] * 2

    assert "On main: 4 checks, not known whether right or wrong." in job("rules", "explain", RULE).out
    assert job("baseline", "approve", "run13.json", "--reason", "rotary embeddings", "--reset-anchor").code == 0
    assert "On main: wrong in 0 of 2 checks, at most 78%; 2 more are not known." in job("rules", "explain", RULE).out
    backward = job("rules", "explain", "backward within 5% of baseline").out
    assert "On main: wrong in 0 of 1 check, at most 95%; 3 more are not known." in backward  # the first is confirmed

    assert job("history", "report", "--html", "t.html").code == 0
    page = (folder / "t.html").read_text()
    assert page.index("<h2>Rules</h2>") < page.index("wrong in 0 of 2 checks, at most 78%; 2 more are not known")
    assert job("history", "compact", "--all").out.count("ledger of") == 1
    assert len(list((folder / "baselines/_history/_ledger").rglob("*.json"))) == 1
    assert len(recorded(folder)) == 5
    assert job("history", "compact", "--all").out == "nothing to compact: every month that is over is one file\n"
    assert job("baseline", "verify").code == 0
    assert job("history", "show").code == 0


@pytest.mark.parametrize("where", ["desk", "branch", "pull request", "no history"])
def test_only_a_job_of_main_is_recorded(
    main: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    run, words = measured(main, 11), []
    if where == "desk":
        monkeypatch.delenv("CI")
    if where == "branch":
        main.git("checkout", "-q", "-b", "feature")
    if where == "pull request":
        words = ["--policy-ref", "main"]
    if where == "no history":
        for path in sorted((folder / "baselines/_history").rglob("*.json")):
            path.unlink()
    assert main.job("check", run, *words).code == 0  # type: ignore[attr-defined]
    assert not (folder / "baselines/_history/_ledger").exists()


def test_run_and_baseline_add_record_what_they_judge(main: Repository, folder: Path) -> None:
    job = main.job  # type: ignore[attr-defined]
    measured(main, 11)
    assert job("run", "--runs", "1", "--", "cat", "run11.json").code == 0
    assert job("baseline", "add", measured(main, 12)).code == 0
    assert job("baseline", "add", measured(main, 13, 125.0)).code == 1
    answers = [entry.answers[0].answer for entry in recorded(folder)]
    assert answers == ["green", "green", "red"]


def test_a_bisect_says_who_was_wrong(main: Repository, folder: Path) -> None:
    job = main.job  # type: ignore[attr-defined]
    program = """\
import json, os, random
value = {ms} * random.Random(os.environ["PERFGATE_RUN"] + "x").gauss(1, 0.01)
series = [{{"metric": "forward", "unit": "ms", "value": value}}]
with open(os.environ["PERFGATE_RESULTS"] + "/r.json", "w") as file:
    json.dump({{"schema": "perfgate.results/1", "series": series}}, file)
"""
    commits = []
    for seed, ms, seen in ((20, 100, 100.0), (21, 100, 125.0), (22, 125, 100.0), (23, 125, 125.0)):
        (folder / "bench.py").write_text(program.format(ms=ms) + f"# {seed}\n")
        main.git("add", "bench.py")
        main.git("commit", "-q", "-m", f"Change {seed}")
        commits.append(main.git("rev-parse", "HEAD"))
        job("check", measured(main, seed, seen, again=True))
    assert len(recorded(folder)) == 4
    words = ("--metric", "forward", "--whole-runs", "--", sys.executable, "bench.py")
    done = job("bisect", "--good", commits[0], *words)
    assert (done.code, done.err.count("recorded as evidence")) == (0, 2), done.said
    assert (
        "On main: wrong in 2 of 3 checks (1 red, 1 green), at most 98%; 1 more is not known."
        in job("rules", "explain").out
    )
    assert job("bisect", "--good", commits[0], *words).err.count("recorded as") == 0  # known already


RUNS = [HistoryRun(str(i), at(i), sha(i)) for i in range(6)]
CHANGE = EventChange("s", "a", SeriesName(Key("forward"), "median"), "s", 0.1, 0.108, 0.08, 0.07, 0.09, True)
EVENT = HistoryEvent("7f3a91c2", "code", "open", RUNS[0], RUNS[2], RUNS[2], 2, (CHANGE,))
APPROVAL = ApprovedLevel("new", at(4), sha(4), "carol", "rotary embeddings", 7, (), False)


@pytest.mark.parametrize(
    ("rule", "event", "commits"),
    [
        (RULE, EVENT, [2, 3, 4, 5]),
        ("forward within 10% of baseline", EVENT, []),  # the change is within its tolerance
        ("forward within 20 ms of baseline", EVENT, []),
        ("forward within 2% and 20 ms of baseline", EVENT, []),
        ("forward within 2 ms of baseline", EVENT, [2, 3, 4, 5]),
        ("forward under 50 ms", EVENT, []),  # the level is not what a limit is about
        ("backward within 5% of baseline", EVENT, []),
        (RULE, replace(EVENT, changes=(replace(CHANGE, low=-0.2),)), []),  # perhaps no change at all
        (RULE, replace(EVENT, kind="machine"), []),
        (RULE, replace(EVENT, state="reverted", ended=RUNS[4]), [2, 3]),
        (RULE, replace(EVENT, state="approved", approval=APPROVAL), [2, 3]),
        (RULE, replace(EVENT, ended=HistoryRun("x", at(9), "f" * 40)), []),  # nobody knows where it ended
    ],
)
def test_what_a_change_of_the_history_proves(rule: str, event: HistoryEvent, commits: list[int]) -> None:
    line = CommitLine.of("main", [CommitNote(str(run.commit), run.time, "ada", "Change") for run in RUNS])
    [ruleset] = readable_rulesets([("r.yaml", f"version: 1\nsuite: s\nrules:\n  - {rule}\n".encode())])
    found = [entry.commits for entry in evidence_of([event], line, ruleset)]
    assert found == ([[sha(one) for one in commits]] if commits else [])
    assert list(evidence_of([event], None, ruleset)) == []


def test_evidence_without_checks_is_not_kept(main: Repository, folder: Path) -> None:
    assert record_evidence(open_store(str(folder / "baselines")), "gate", LedgerEntry("event", [sha(1)])) is None
    assert not (folder / "baselines/_history/_ledger").exists()


def test_a_damaged_ledger_is_said_and_not_compacted(main: Repository, folder: Path) -> None:
    job = main.job  # type: ignore[attr-defined]
    for seed in (11, 12):
        assert job("check", measured(main, seed)).code == 0
    path = sorted((folder / "baselines/_history/_ledger").rglob("*.json"))[0]
    path.write_text(path.read_text().replace("green", "red"))
    for words in (("history", "compact", "--all"), ("rules", "explain"), ("baseline", "verify")):
        assert "was altered after it was written" in job(*words).err
    assert len(list((folder / "baselines/_history/_ledger").rglob("*.json"))) == 2


def test_a_store_that_cannot_be_written_changes_no_answer(
    main: Repository, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("perfgate.baselines.stores.DirectoryStore.write", full)
    done = main.job("check", measured(main, 11))  # type: ignore[attr-defined]
    assert (done.code, "warning: the answers were not recorded" in done.err) == (0, True)


def test_a_bucket_has_the_same_files(folder: Path) -> None:
    store = open_store(f"file://{folder}/bucket")
    store.write("_history/_ledger/gpt/2026-01/a.json", b"{}")
    assert [problem.at.file.endswith("2026-01/a.json") for problem in compact_ledger(store)[1]] == [True]
    store.remove("_history/_ledger/gpt/2026-01/a.json")
    assert json.dumps(compact_ledger(store)[0]) == "[]"


STRAY = ("README.md", "notes.json", "gpt/README.md", "gpt/2026-01/notes.txt", "gpt/2026-01/old/a.json")


def test_other_files_beside_a_ledger_stay_and_are_no_suite() -> None:
    stray = {f"_history/_ledger/{name}": b"a note" for name in STRAY}
    store = MemoryStore(stray)
    assert (suites_of_ledger(store), compact_ledger(store), dict(store)) == ([], ([], []), stray)
    store["_history/_ledger/bert/2026-01/a.json"] = ledger_file(LedgerEntry("found", time=at(0), id="a"))
    store["_history/_ledger/bert/2026-01/b.json"] = ledger_file(LedgerEntry("found", time=at(1), id="b"))
    assert suites_of_ledger(store) == ["bert"]
    assert compact_ledger(store) == (["ledger of bert, 2026-01: 2 records in one file"], [])
    assert (len(store), stray.items() <= store.items()) == (len(stray) + 1, True)


def ledger_file(entry: LedgerEntry) -> bytes:
    return LEDGER_FILE.encode(LedgerFile(LEDGER_FILE.schema, "a test", "bert", [entry]))
