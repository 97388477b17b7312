"""Attacks on rules and workflows, in memory: each case by what it hides, each workflow by its keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import bare, run_of, series

from perfgate.analysis import attacks
from perfgate.analysis.attacks import rule_attacks
from perfgate.analysis.workflows import judges_pull_requests, workflow_attacks
from perfgate.core import Key, Location, Series, Verdict, read_only
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge

# --- rules -----------------------------------------------------------------------------------------------------------

X = run_of(series("x", "s", [1.0] * 20, rank="0"))
FASTER = run_of(series("x", "s", [0.97] * 20, rank="0"))
NOISY = [run_of(series("x", "s", steady(1.0, n=20, spread=0.01, seed=seed))) for seed in range(4)]
WITHOUT, RENAMED = "a run without the metric passes", "a run with the metric under another name passes"
NAN, INFINITE = "a run with values that are not numbers passes", "a run with infinite values passes"
EMPTY, UNIT = "a run with no values passes", "a run with another unit passes"
HIDDEN = [WITHOUT, RENAMED, NAN, INFINITE, EMPTY, UNIT]
COPY = "a copy of a stored run passes as a new one"


def claim(fact: str) -> str:
    return f"a run that claims another `{fact}` passes: give the true one with --env, as the action does"


def test_each_attack_hides_what_the_rule_reads() -> None:
    read = replace(series("x", "s", [1.0, 2.0], kind="k"), steps=read_only(np.array([1, 2])))
    printed = Series(Key("x"), "B", "aggregate", read_only(np.empty(0)), aggregate={"mean": 2.0, "count": 4.0})
    other = series("other", "s", [7.0])
    found = dict(attacks._attacks(bare("x under 9 s", [run_of(read, printed, other)])))
    assert list(found) == HIDDEN
    held = {what: asked.new[0].series for what, asked in found.items()}
    assert all(rows[-1] is other for rows in held.values())
    assert held[WITHOUT] == (other,)
    assert [str(one.key) for one in held[RENAMED]] == ['x.hidden{kind="k"}', "x.hidden", "other"]
    for what, number in ((NAN, np.nan), (INFINITE, np.inf)):
        first, second, _ = held[what]
        assert np.array_equal(first.values, [number] * 2, equal_nan=True)
        assert np.array_equal([*second.aggregate.values()], [number] * 2, equal_nan=True)
    first, second, _ = held[EMPTY]
    assert (len(first.values), first.steps, len(second.aggregate)) == (0, None, 0)
    assert [one.unit for one in held[UNIT]] == ["B", "s", "s"]


def test_a_copy_is_tried_of_stored_runs_and_for_changes() -> None:
    def copies(rule: str, **fields: Any) -> list[Case]:
        return [asked for what, asked in attacks._attacks(bare(rule, [X], [X], **fields)) if what == COPY]

    ((copy,),) = (asked.new for asked in copies("x within 5% of baseline and under 9 s"))
    assert (copy.source, copy.series) == ("copy", X.series)
    assert not copies("x under 9 s")
    assert not copies("x within 5% of baseline", pairing="one-process")
    assert not [what for what, _ in attacks._attacks(replace_baseline(bare("x within 5% of baseline", [X])))][6:]


def replace_baseline(asked: Case) -> Case:
    """The same without a place of stored runs."""
    return replace(asked, baseline=replace(asked.baseline, place=None))


CLAIMS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    # the facts of the runs, those that only the runs claim, and the facts of the rule that another run can claim
    ({}, [], ["gpu", "site"]),
    ({"gpu": "H100", "site": "here"}, [], []),
    ({"gpu": "H100", "site": "here"}, ["site"], ["site"]),
    ({"gpu": "H100"}, ["gpu"], ["gpu", "site"]),
]


@pytest.mark.parametrize(("facts", "claimed", "attacked"), CLAIMS)
def test_a_fact_that_only_a_run_claims_is_claimed_away(
    facts: dict[str, Any], claimed: list[str], attacked: list[str]
) -> None:
    rule = '{assert: x under 9 s, when: {site: here, gpu: "*H100*"}}'
    asked = bare(rule, [replace(X, environment={"site": "here", "host": "a"})])
    found = list(attacks._attacks(replace(asked, facts=facts, claimed=frozenset(claimed))))[6:]
    assert [what for what, _ in found] == [claim(fact) for fact in attacked]
    for fact, (_, one) in zip(attacked, found, strict=True):
        assert one.facts == {**facts, fact: "another"}
        assert one.new[0].environment == {"site": "here", "host": "a", fact: "another"}


RULES: list[tuple[str, dict[str, Any], list[str], int]] = [
    # a rule, the runs, the attacks that work, and how many are tried
    ("x under 9 s", {"new": [X]}, [], 6),
    ("x within 5% of baseline", {"new": [NOISY[0]], "base": NOISY}, [], 7),
    ("x within 5% of baseline", {"new": [X], "base": [X] * 5}, [COPY], 7),  # equal values are no sign of a copy
    ("x within 5% of baseline", {"new": [X] * 5, "base": [X] * 5, "pairing": "one-process"}, [], 6),
    ("x over 0.1 s and under 9 s", {"new": [X]}, [], 6),
    # a copy of a stored run passes one clause alone
    ("x under 0.98 s and within 5% of baseline", {"new": [FASTER], "base": [X] * 5}, [], 7),
    ("{assert: x under 9 s, severity: warning}", {"new": [X]}, [], 0),
    ("x min over 0 s", {"new": [X]}, [], 0),
]


@pytest.mark.parametrize(("rule", "runs", "working", "count"), RULES)
def test_the_attacks_that_work(rule: str, runs: dict[str, Any], working: list[str], count: int) -> None:
    found, tried = rule_attacks(bare(rule, **runs))
    assert ([(one.what, one.at.line) for one in found], tried) == ([(what, 7) for what in working], count)


def test_a_rule_for_one_place_does_not_judge_a_run_that_claims_another() -> None:
    asked = bare("{assert: x under 9 s, when: {site: here}}", [replace(X, environment={"site": "here"})])
    found, tried = rule_attacks(replace(asked, facts={"site": "here"}, claimed=frozenset(["site"])))
    assert ([one.what for one in found], tried) == ([claim("site")], 7)


def test_a_missing_metric_that_is_skipped_hides_a_run_beside_other_metrics() -> None:
    asked = bare("{assert: x under 9 s, on_missing: skip}\ny under 9 s", [run_of(*X.series, series("y", "s", [1.0]))])
    found, tried = rule_attacks(asked)
    assert ([(one.what, one.at.line) for one in found], tried) == ([(WITHOUT, 7), (RENAMED, 7)], 12)


@pytest.mark.parametrize(("runs", "pairs"), [(1, 10), (2, 10), (3, 12), (11, 11)])
def test_runs_are_repeated_as_a_gate_measures_again(monkeypatch: pytest.MonkeyPatch, runs: int, pairs: int) -> None:
    seen: list[tuple[int, int]] = []

    def keep(asked: Case) -> tuple[Verdict, ...]:
        seen.append((len(asked.new), len(asked.baseline.runs)))
        return judge(asked)

    monkeypatch.setattr(attacks, "judge", keep)
    rule_attacks(bare("x within 5% of baseline", [X] * runs, [X] * 5))
    assert seen == [*[(3 * runs, 5)] * 8, (1, 5)]  # unchanged, worse, six attacks, and a copy
    seen.clear()
    rule_attacks(bare("x within 5% of baseline", [X] * runs, [X] * runs, pairing="one-process"))
    assert seen == [(pairs, pairs)] * 8
    assert rule_attacks(bare("x within 5% of baseline", [], [X])) == ([], 0)


@pytest.mark.parametrize(("values", "least", "tried"), [(10, 8, 6), (15, 7, 6), (10, 1, 0)])
def test_smaller_amounts_tell_where_the_largest_is_an_error(values: int, least: int, tried: int) -> None:
    held = run_of(series("x", "s", [1.0] * values))
    assert rule_attacks(bare(f"{{assert: x count at least {least}, min_samples: 5}}", [held]))[1] == tried


# --- workflows -------------------------------------------------------------------------------------------------------

READ, GATE = {"contents": "read"}, {"uses": "me/perfgate@v1", "with": {"policy-ref": "main"}}
CHECK, CHECKOUT = {"run": "perfgate check new --policy-ref $BASE"}, {"uses": "actions/checkout@v4"}
FIRST = ("jobs", "perf", "steps", 0)


def located(path: tuple[str | int, ...]) -> Location:
    return Location("/".join(map(str, path)))


def workflow(*steps: Any, on: Any = "pull_request", rights: Any = READ, **job: Any) -> dict[str, Any]:
    return {"on": on, "permissions": rights, "jobs": {"perf": {"steps": list(steps), **job}}}


def attacked(document: Any) -> list[tuple[str, str]]:
    """The attacks on a workflow, and their places in its job or its first step."""
    found = workflow_attacks(document, located)
    return [(one.what, one.at.file.removeprefix("jobs/perf/").removeprefix("steps/0/")) for one in found]


NO_REF = "a pull request is judged by its own rules: the command has no --policy-ref"
DROPPED = "the script drops the exit code of the gate"
LONG = "only 20,000 characters of this script are read"
MANY = "a script with more than 50 gates is not read"
PIPE = "a pipe drops the exit code of the gate: `shell: bash` of the step keeps it"
MOVED = "an earlier step can move the ref of the rules: resolve it before, and give its hash"
WRITTEN = "a title or branch name becomes a command of your script"
UNPROTECTED = "a branch that nobody protects has the rules that judge"
LENIENT = "results that claim another environment have no baseline, and pass"
SKIPPED_STEP = "a skipped step is green: a pull request that `if` leaves out is not judged"
GOES_ON = "the job goes on if the gate fails"
HASH = 40 * "a"

SCRIPTS: list[tuple[str, list[str]]] = [
    # the script of a step, and what is wrong with it
    ("perfgate check new --policy-ref $BASE", []),
    ("perfgate check new --policy-ref main", []),
    ("perfgate check new", [NO_REF]),
    ("perfgate run -- python train.py", [NO_REF]),
    ("perfgate report new.json", []),
    ("perfgate init", []),
    ("myperfgate check new", []),
    ("perfgate checks", []),
    ("perfgate check new \\\n  --policy-ref $BASE", []),
    ("perfgate check new\necho --policy-ref", [NO_REF]),
    ("perfgate check new; echo --policy-ref", [NO_REF]),
    ("perfgate check new & echo --policy-ref", [DROPPED, NO_REF]),
    ("perfgate check new | tee --policy-ref", [PIPE, NO_REF]),
    ("perfgate check a --policy-ref $BASE; perfgate check b", [NO_REF]),
    ("perfgate check new --policy-ref $BASE || true", [DROPPED]),
    ("perfgate check new --policy-ref $BASE ||:", [DROPPED]),
    ("perfgate run --policy-ref $BASE ||\texit 0", [DROPPED]),
    ("perfgate report new.json || echo failed", [DROPPED]),
    ("perfgate report new.json || exit 1", []),
    ("perfgate report new.json; false || true", []),
    ("perfgate check slow || code=$?; test $code -eq 1", []),
    ('perfgate check slow; test "${code}" = 3', []),
    ('perfgate check slow; test "$code" = 0', [NO_REF]),
    ("! perfgate check slow", []),
    ("perfgate check new --policy-ref $BASE --missing-baseline warn", [LENIENT]),
    ("perfgate check new --policy-ref $BASE --missing-baseline=skip", [LENIENT]),
    ("perfgate check new --policy-ref $BASE --missing-baseline fail", []),
    ('echo "${{ github.head_ref }}"', [WRITTEN]),
    ('echo "${{ github.event.pull_request.title }}"', [WRITTEN]),
    ('echo "${{ github.event.pull_request.body }}"', [WRITTEN]),
    ('echo "${{ github.event.pull_request.head.ref }}"', [WRITTEN]),
    ('echo "${{ github.event.pull_request.head.label }}"', [WRITTEN]),
    ('echo "${{ github.event.comment.body }}"', [WRITTEN]),
    ('echo "${{ github.event.issue.title }}"', [WRITTEN]),
    ('echo "${{ github.event.pull_request.head.sha }}"', []),
    ('echo "${{ github.sha }} github.head_ref"', []),
    ("echo \"${{ format('{0}', github.head_ref) }}\"", [WRITTEN]),
    ('echo "${{ ' * 3000, [LONG]),
    ("#" * 20_000, []),
    ("#" * 20_001, [LONG]),
    ("perfgate report new.json;" * 51, [MANY]),
]


@pytest.mark.parametrize(("script", "wrong"), SCRIPTS)
def test_scripts(script: str, wrong: list[str]) -> None:
    assert attacked(workflow({"run": script})) == [(what, "run") for what in wrong]


MOVABLE: list[tuple[list[dict[str, Any]], bool]] = [
    # steps, and whether one of them may move the ref of the rules
    ([{"run": "make"}, {"run": "perfgate check --policy-ref main"}], True),
    ([{"run": "make"}, {"run": "perfgate check --policy-ref=main"}], True),
    ([{"run": "make"}, {"run": "perfgate check --policy-ref 'main'"}], True),
    ([{"run": "make"}, {"run": 'perfgate check --policy-ref "main"'}], True),
    ([{"run": "make"}, {"run": "perfgate check --policy-ref $BASE"}], False),
    ([{"run": "make"}, {"run": f"perfgate check --policy-ref {HASH}"}], False),
    ([{"run": "perfgate check --policy-ref main"}], False),
    ([CHECK, {"run": "perfgate check --policy-ref main"}], False),
    ([{"uses": "actions/cache@v4"}, {"run": "perfgate check --policy-ref main"}], False),
    ([{"run": "make"}, {"uses": "x"}, {"run": "perfgate check --policy-ref main"}], True),
]


@pytest.mark.parametrize(("steps", "is_movable"), MOVABLE)
def test_an_earlier_step_may_move_a_branch(steps: list[dict[str, Any]], is_movable: bool) -> None:
    assert attacked(workflow(*steps)) == [(MOVED, f"steps/{len(steps) - 1}/run")] * is_movable


SHELLS: list[tuple[Any, Any, Any, list[str]]] = [
    # the default shell of the workflow and of the job, the shell of the step, and what is wrong with a pipe
    (None, None, None, [PIPE]),
    ("bash", None, None, []),
    (None, "bash", None, []),
    ("bash", "sh", None, [PIPE]),
    ("sh", "sh", "bash", []),
    ("bash", "bash", "sh", [PIPE]),
    (None, None, "bash -eo pipefail {0}", []),
    (None, None, "pwsh", []),
]


@pytest.mark.parametrize(("of_all", "of_job", "own", "wrong"), SHELLS)
def test_the_shell_decides_about_a_pipe(of_all: Any, of_job: Any, own: Any, wrong: list[str]) -> None:
    step = {"run": f"{CHECK['run']} | tee log"} | ({"shell": own} if own else {})
    document = workflow(step, defaults={"run": {"shell": of_job}}) | {"defaults": {"run": {"shell": of_all}}}
    assert attacked(document) == [(what, "run") for what in wrong]
    assert attacked(workflow(step, **{"runs-on": "windows-2025"})) == ([] if own != "sh" else [(PIPE, "run")])


IMPORTS = "`python -m perfgate` imports modules of the pull request: use `perfgate`, or give python -I"
CALLS: list[tuple[str, list[str]]] = [
    # how a step calls perfgate in a checkout of the pull request, and what is wrong with that
    ("", []),
    ("python -m ", [IMPORTS]),
    ("/usr/bin/python3.12 -X utf8 -m ", [IMPORTS]),
    ("python -I -m ", []),
    ("python3 -W ignore -m ", [IMPORTS]),
    ("python -BP -m ", []),
    ("PYTHONSAFEPATH=1 python -m ", []),
]


@pytest.mark.parametrize(("call", "wrong"), CALLS)
def test_a_call_that_imports_the_code_of_a_pull_request(call: str, wrong: list[str]) -> None:
    step = {"run": f"{call}{CHECK['run']}"}
    assert attacked(workflow(CHECKOUT, step)) == [(what, "steps/1/run") for what in wrong]
    assert attacked(workflow(step)) == []
    assert attacked(workflow(CHECKOUT, {**step, "env": {"PYTHONSAFEPATH": 1}})) == []


STEPS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    # a step, and what is wrong with it, and where
    (GATE, []),
    ({**GATE, "continue-on-error": True}, [(GOES_ON, "continue-on-error")]),
    ({**GATE, "continue-on-error": "${{ x }}"}, [(GOES_ON, "continue-on-error")]),
    ({**GATE, "continue-on-error": False}, []),
    ({**CHECK, "continue-on-error": True}, [(GOES_ON, "continue-on-error")]),
    ({"run": "make", "continue-on-error": True}, []),
    ({"uses": "other/action@v1", "continue-on-error": True}, []),
    ({"uses": "me/perfgate/action@v1", "continue-on-error": True}, [(GOES_ON, "continue-on-error")]),
    ({"uses": "me/perfgate/other@v1", "continue-on-error": True}, []),
    ({"uses": "./", "continue-on-error": True}, [(GOES_ON, "continue-on-error")]),
    ({"uses": "./other", "continue-on-error": True}, []),
    (
        {"uses": "./", "with": {"policy-ref": ""}},
        [("a pull request is judged by its own rules: policy-ref is empty", "with/policy-ref")],
    ),
    ({"uses": "./", "with": {"policy-branches": "main\n * "}}, [(UNPROTECTED, "with/policy-branches")]),
    ({"uses": "./", "with": {"policy-branches": "**"}}, [(UNPROTECTED, "with/policy-branches")]),
    ({"uses": "./", "with": {"policy-branches": "main\nrelease/*"}}, []),
    ({"uses": "./", "with": {"missing-baseline": "warn"}}, [(LENIENT, "with/missing-baseline")]),
    ({"uses": "./", "with": {"missing-baseline": "skip"}}, [(LENIENT, "with/missing-baseline")]),
    ({"uses": "./", "with": {"missing-baseline": "fail"}}, []),
    ({"uses": "./", "with": "no mapping"}, []),
    ({**GATE, "if": "failure()"}, [(SKIPPED_STEP, "if")]),
    ({**CHECK, "if": "${{ github.event_name == 'push' }}"}, [(SKIPPED_STEP, "if")]),
    ({**CHECK, "if": "${{ always() && github.event_name == 'pull_request' }}"}, []),
    ({**CHECK, "if": True}, []),
    ({**CHECK, "if": "success()"}, []),
    ({**CHECK, "if": "success() && github.actor == 'me'"}, [(SKIPPED_STEP, "if")]),
]


@pytest.mark.parametrize(("step", "wrong"), STEPS)
def test_steps(step: dict[str, Any], wrong: list[tuple[str, str]]) -> None:
    assert attacked(workflow(step)) == wrong


UNSET = "your workflow sets no permissions, so it may give a token that writes to {}"
WRITES = "your workflow gives a token that may write to {}"
OURS, FORKS = "the code of pull requests", "pull requests of forks"
WRITE = {"checks": "read", "contents": "write"}
TOKENS: list[tuple[Any, dict[str, Any], list[tuple[str, str]]]] = [
    # the permissions of the workflow and keys of the job, and what is wrong with them, and where
    (READ, {}, []),
    ("read-all", {}, []),
    ({}, {}, []),
    ({"security-events": "write"}, {}, []),
    (None, {}, [(UNSET.format(OURS), "jobs/perf")]),
    ("write-all", {}, [(WRITES.format(OURS), "permissions")]),
    (WRITE, {}, [(WRITES.format(OURS), "permissions/contents")]),
    (WRITE, {"permissions": READ}, []),
    (None, {"permissions": READ}, []),
    (READ, {"permissions": "write-all"}, [(WRITES.format(OURS), "permissions")]),
    (READ, {"permissions": None}, [(UNSET.format(OURS), "jobs/perf")]),
    (
        READ,
        {"permissions": {"security-events": "write", "statuses": "write"}},
        [(WRITES.format(OURS), "permissions/statuses")],
    ),
]


@pytest.mark.parametrize(("rights", "job", "wrong"), TOKENS)
def test_tokens(rights: Any, job: dict[str, Any], wrong: list[tuple[str, str]]) -> None:
    assert attacked(workflow(CHECKOUT, rights=rights, **job)) == wrong
    assert attacked(workflow({"run": "make"}, rights=rights, **job)) == []


def test_the_place_of_a_token() -> None:
    of_all = workflow_attacks(workflow(CHECKOUT, rights={"statuses": "write"}), located)
    of_job = workflow_attacks(workflow(CHECKOUT, permissions={"statuses": "write"}), located)
    assert [one.at.file for one in (*of_all, *of_job)] == ["permissions/statuses", "jobs/perf/permissions/statuses"]


RIGHTS = "your workflow runs the code of a pull request with the rights of the base"
FETCHING: list[tuple[dict[str, Any], str]] = [
    # a step of a workflow with the rights of the base, and the place at which it fetches the code of a pull request
    (CHECKOUT, ""),
    ({**CHECKOUT, "with": {"ref": "main"}}, ""),
    ({**CHECKOUT, "with": {"ref": "${{ github.head_ref }}"}}, "with/ref"),
    ({**CHECKOUT, "with": {"ref": "${{ github.event.pull_request.head.sha }}"}}, "with/ref"),
    ({**CHECKOUT, "with": {"ref": "${{ github.event.workflow_run.head_sha }}"}}, "with/ref"),
    ({**CHECKOUT, "with": {"ref": "refs/pull/7/merge"}}, "with/ref"),
    ({**CHECKOUT, "with": {"ref": "pr-${{ github.event.issue.number }}"}}, "with/ref"),
    ({"uses": "other/checkout@v4", "with": {"ref": "${{ github.head_ref }}"}}, ""),
    ({"run": "gh pr checkout 7"}, "run"),
    ({"run": "git fetch origin pull/7/head"}, "run"),
    ({"run": "git fetch origin main"}, ""),
]


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run", "issue_comment"])
@pytest.mark.parametrize(("step", "place"), FETCHING)
def test_the_rights_of_the_base(step: dict[str, Any], place: str, event: str) -> None:
    assert attacked(workflow(step, on=event)) == ([(RIGHTS, place)] if place else [])
    writes = attacked(workflow({"run": "make"}, step, on=[event], rights="write-all"))
    assert writes == ([(RIGHTS, f"steps/1/{place}"), (WRITES.format(FORKS), "permissions")] if place else [])
    unset = attacked(workflow(step, on={event: None}, rights=None))
    assert unset == ([(RIGHTS, place), (UNSET.format(FORKS), "jobs/perf")] if place else [])


def test_a_usual_checkout_of_a_pull_request_comes_before_its_scripts() -> None:
    assert attacked(workflow({"run": "gh pr checkout 7"}, rights="write-all")) == []
    both = workflow(CHECKOUT, on=["pull_request", "pull_request_target"], rights="write-all")
    assert attacked(both) == []


IGNORES = "the workflow goes on if the gate fails"
SKIPPED = "a skipped check is green: a pull request that `if` leaves out is not judged"
MISSED = "a measuring job that is skipped is not missed: the input needs is not given"
REPORT = {"uses": "./", "with": {"report": "r.json"}}
ASKS = {"uses": "./", "with": {"needs": "${{ toJSON(needs) }}"}}
SKIPPING: list[tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    # the steps and keys of a job, other jobs, and what is wrong, and where
    ([GATE], {}, {}, []),
    ([GATE], {"continue-on-error": True}, {}, [(IGNORES, "continue-on-error")]),
    ([GATE], {"continue-on-error": False}, {}, []),
    ([GATE], {"continue-on-error": None}, {}, []),
    ([{"run": "make"}], {"continue-on-error": True, "if": "x"}, {}, []),
    ([GATE], {"if": "github.actor != 'bot'"}, {}, [(SKIPPED, "if")]),
    ([GATE], {"if": "always() && x"}, {}, [(SKIPPED, "if")]),
    ([GATE], {"if": "${{ always() }}"}, {}, []),
    ([GATE], {"if": "${{ always() || x }}"}, {}, []),
    ([GATE], {"if": "x || always() && true"}, {}, []),
    ([GATE], {"if": "x || always() && y"}, {}, [(SKIPPED, "if")]),
    ([GATE], {"if": "(x || always() || y) && z"}, {}, [(SKIPPED, "if")]),
    ([GATE], {"if": "github.event_name == 'pull_request'"}, {}, []),
    ([GATE], {"if": "github.event_name == 'push' || github.event_name == 'pull_request'"}, {}, []),
    ([GATE], {"if": "github.event_name == 'pull_request_target'"}, {}, [(SKIPPED, "if")]),
    ([{**GATE, "if": "x"}, REPORT], {}, {}, []),
    ([GATE], {"if": "x"}, {"last": {"needs": ["perf"], "steps": [ASKS]}}, []),
    ([GATE], {"if": "x"}, {"last": {"needs": "perf", "steps": [{"run": "make"}, ASKS]}}, []),
    ([GATE], {"if": "x"}, {"last": {"needs": ["other"], "steps": [ASKS]}}, [(SKIPPED, "if")]),
    ([GATE], {"if": "x"}, {"last": {"needs": ["perf"], "steps": [GATE]}}, [(SKIPPED, "if")]),
    (
        [GATE],
        {"if": "x"},
        {"last": {"needs": ["perf"], "steps": [{"uses": "other/a@v1", "with": ASKS["with"]}]}},
        [(SKIPPED, "if")],
    ),
    ([REPORT], {}, {}, []),
    ([REPORT], {"needs": "measure"}, {}, [(MISSED, "steps/0")]),
    ([{"run": "make"}, REPORT], {"needs": "measure"}, {}, [(MISSED, "steps/1")]),
    ([REPORT, ASKS], {"needs": "measure"}, {}, []),
    ([GATE], {"needs": "measure"}, {}, []),
    ([GATE, {"uses": "other/a@v1", "with": {"report": "x"}}], {"needs": "measure"}, {}, []),
]


@pytest.mark.parametrize(("steps", "job", "others", "wrong"), SKIPPING)
def test_gates_that_are_skipped(
    steps: list[dict[str, Any]], job: dict[str, Any], others: dict[str, Any], wrong: list[tuple[str, str]]
) -> None:
    document = workflow(*steps, **job)
    document["jobs"] |= others
    assert attacked(document) == wrong


@pytest.mark.parametrize(
    ("event", "asked", "is_skipped"),
    [
        ("pull_request_target", "pull_request_target", False),
        ("pull_request_target", "pull_request", True),
        ("workflow_run", "workflow_run", False),
        (["push", "pull_request"], "push", True),
        (["pull_request", "pull_request_target"], "pull_request", False),
    ],
)
def test_a_condition_about_another_event_skips_the_gate(event: Any, asked: str, is_skipped: bool) -> None:
    document = workflow(GATE, on=event, **{"if": f"github.event_name == '{asked}'"})
    assert attacked(document) == [(SKIPPED, "if")] * is_skipped


NO_JOBS: list[Any] = [
    # workflows that judge no pull request
    None,
    [],
    workflow(GATE, on="push"),
    workflow(GATE, on=None),
    workflow(GATE, on=["push", "schedule"]),
    workflow(GATE, on=5),
    workflow({"run": "make"}),
    {"on": "pull_request"},
    {"on": "pull_request", "jobs": ["perf"]},
    {"on": "pull_request", "jobs": {"perf": "no job"}},
    {"on": "pull_request", "jobs": {"perf": {"steps": GATE}}},
    {"on": "pull_request", "jobs": {"perf": {"steps": ["perfgate check"]}}},
    {"on": "pull_request", "jobs": {"perf": {}}},
]


@pytest.mark.parametrize("document", NO_JOBS)
def test_workflows_that_judge_no_pull_request(document: Any) -> None:
    assert not judges_pull_requests(document)
    assert attacked(document) == []


@pytest.mark.parametrize("on", ["pull_request", ["push", "pull_request"], {"pull_request": None}, "issue_comment"])
@pytest.mark.parametrize("step", [GATE, CHECK, {"run": "perfgate report x"}, {"run": "perfgate run -- x"}])
def test_workflows_that_judge_pull_requests(on: Any, step: dict[str, Any]) -> None:
    assert judges_pull_requests(workflow({"run": "make"}, step, on=on))
    other = {"on": on, "jobs": {"lint": {"steps": [{"run": "ruff"}]}, "perf": {"steps": [step]}}}
    assert judges_pull_requests(other)
