"""Allowances, adoptions, anchors: what each of them may decide, and what not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules, write_run

Command = Callable[..., Done]
HEAD = "1" * 40


def allow(perfgate: Command, **given: str) -> Done:
    options = {
        "head": HEAD,
        "metric": "forward",
        "up-to": "25%",
        "reason": "meant",
        "expires": "2026-06-30",
        **{name.replace("_", "-"): value for name, value in given.items()},
    }
    return perfgate("baseline", "allow", *(word for name, value in options.items() for word in (f"--{name}", value)))


def check(perfgate: Command, path: Path, head: str = HEAD) -> Done:
    return perfgate("check", path, "--head", head, "--only", "forward*", "--verbose")


@pytest.fixture
def rules(repository: Repository, folder: Path) -> Path:
    """The repository, whose rules ask nothing of the anchor."""
    return write_rules(folder, "forward within 5% of baseline", "backward within 5% of baseline")


# --- allowances --------------------------------------------------------------------------------------------------


def test_an_allowance_stands_in_for_the_tolerance(rules: Path, perfgate: Command, folder: Path) -> None:
    slow = write_run(folder / "slow.json", 115)
    assert check(perfgate, slow).code == 1
    assert allow(perfgate).code == 0
    done = check(perfgate, slow)
    assert done.code == 0
    assert "allowed up to 25% by ada until 2026-06-30 (meant)" in " ".join(done.out.split())
    assert "note: allowed by ada: meant" in " ".join(perfgate("check", slow, "--head", HEAD).out.split())
    report = json.loads(perfgate("check", slow, "--head", HEAD, "--json", "-").out)
    forward = next(verdict for verdict in report["verdicts"] if verdict["metric"] == "forward")
    assert (forward["outcome"], forward["reason"], forward["allowed_by"]) == ("pass", "allowed", "ada")


def test_an_allowance_is_for_one_commit_one_metric_and_so_much(rules: Path, perfgate: Command, folder: Path) -> None:
    allow(perfgate)
    assert check(perfgate, write_run(folder / "slow.json", 115), head="2" * 40).code == 1
    worse = check(perfgate, write_run(folder / "worse.json", 160))
    assert worse.code == 1
    assert "the allowance of 25% by ada is not enough" in " ".join(worse.out.split())
    other = perfgate("check", write_run(folder / "other.json", 100, 260), "--head", HEAD)
    assert other.code == 1


@pytest.mark.parametrize(
    ("settings", "forward", "outcome", "at_worst"),
    [
        ("", 115, "pass", 0.5),  # twice what is allowed, as it was twice the tolerance
        ("", 125, "pass", 0.5),
        ("at_worst: 8%", 115, "pass", 0.25),  # less than what is allowed, and no reason to refuse that
        ("at_worst: 30%", 115, "pass", 0.3),
    ],
)
def test_an_allowance_widens_what_must_be_excluded(
    rules: Path, perfgate: Command, folder: Path, settings: str, forward: float, outcome: str, at_worst: float
) -> None:
    rules.write_text(f"version: 1\nrules:\n  - assert: forward within 5% of baseline\n    {settings}\n")
    slow = write_run(folder / "slow.json", forward)
    assert check(perfgate, slow).code == 1
    assert allow(perfgate).code == 0
    report = json.loads(perfgate("check", slow, "--head", HEAD, "--json", "-").out)
    (verdict,) = report["verdicts"]
    assert (report["exit_code"], verdict["outcome"], verdict["allowed_by"]) == (0, outcome, "ada")
    assert verdict["at_worst"] == pytest.approx(at_worst)


def test_an_allowance_expires(rules: Path, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(perfgate)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1782864001")  # 2026-07-01
    done = check(perfgate, write_run(folder / "slow.json", 115))
    assert done.code == 1
    assert "expired on 2026-06-30" in " ".join(done.out.split())


def test_an_allowance_does_not_stand_in_for_a_limit_or_a_budget(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    write_rules(folder, "forward under 110 ms", "forward within 12% of anchor")
    allow(perfgate, up_to="90%")
    assert check(perfgate, write_run(folder / "slow.json", 160)).code == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"head": "abc123"}, "40 hexadecimal digits"),
        ({"up_to": "22"}, "percentage"),
        ({"up_to": "-5%"}, "--up-to"),
        ({"up_to": "5 ms"}, "percentage"),
        ({"reason": " "}, "needs a reason"),
        ({"expires": "soon"}, "YYYY-MM-DD"),
        ({"expires": "2020-01-01"}, "that day is over"),
    ],
)
def test_what_cannot_be_allowed(rules: Path, perfgate: Command, folder: Path, given: dict[str, str], said: str) -> None:
    done = allow(perfgate, **given)
    assert (done.code, said in done.err) == (2, True), done
    assert not list(folder.glob("baselines/*/_allowances/*"))


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"schema": "perfgate.allowance/2"}'])
def test_a_damaged_allowance_is_never_skipped(rules: Path, perfgate: Command, folder: Path, damage: bytes) -> None:
    allow(perfgate)
    (path,) = folder.glob("baselines/default/_allowances/*.json")
    for data in (damage, path.read_bytes().replace(b"0.25", b"0.95")):
        path.write_bytes(data)
        done = check(perfgate, write_run(folder / "run.json"))
        assert done.code == 3
        assert path.name in "".join(done.said.split())
        assert perfgate("baseline", "verify").code == 3


# --- adopting some metrics ---------------------------------------------------------------------------------------


def test_an_adopted_metric_has_a_new_level_and_the_others_keep_theirs(
    rules: Path, perfgate: Command, folder: Path
) -> None:
    run = write_run(folder / "adopted.json", 120, 400, seed=5)
    assert perfgate("baseline", "approve", run, "--reason", "forward only", "--adopt", "forward").code == 0
    report = json.loads(perfgate("check", write_run(folder / "new.json", 120, 200, seed=6), "--json", "-").out)
    runs = {verdict["metric"]: verdict["base"]["runs"] for verdict in report["verdicts"]}
    assert (report["outcome"], runs) == ("pass", {"forward": 1, "backward": 3})
    assert perfgate("baseline", "add", "new.json").code == 0
    report = json.loads(perfgate("check", write_run(folder / "third.json", 120, 200, seed=7), "--json", "-").out)
    runs = {verdict["metric"]: verdict["base"]["runs"] for verdict in report["verdicts"]}
    assert runs == {"forward": 2, "backward": 4}
    assert "adopts forward" in perfgate("baseline", "list").out


def test_what_no_run_holds_cannot_be_adopted(rules: Path, perfgate: Command, folder: Path) -> None:
    run = write_run(folder / "adopted.json", 120)
    done = perfgate("baseline", "approve", run, "--reason", "x", "--adopt", "fxrward")
    assert (done.code, "no run has such a metric" in done.err) == (1, True)


# --- the anchor --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [(104, 108, 112.5), (103, 106, 109, 113), (113,)])
def test_a_chain_of_approvals_ends_at_the_budget_however_it_is_cut(
    repository: Repository, perfgate: Command, folder: Path, clock: Callable[[], None], steps: tuple[float, ...]
) -> None:
    codes = []
    for i, forward in enumerate(steps):
        clock()
        run = write_run(folder / f"step{i}.json", forward, seed=20 + i)
        codes.append(perfgate("baseline", "approve", run, "--reason", f"step {i}").code)
    assert codes == [0] * (len(steps) - 1) + [1]
    clock()
    reset = perfgate("baseline", "approve", run, "--reason", "the new normal", "--reset-anchor")
    assert reset.code == 0
    assert perfgate("check", write_run(folder / "after.json", steps[-1], seed=40)).code == 0


def test_a_metric_that_came_later_has_its_first_runs_for_an_anchor(
    repository: Repository, perfgate: Command, folder: Path, clock: Callable[[], None]
) -> None:
    write_rules(folder, "forward within 12% of anchor", "late within 12% of anchor")
    for i, late in enumerate((10, 10.8)):
        clock()
        path = write_run(folder / f"late{i}.json", seed=30 + i)
        document = json.loads(path.read_text())
        document["series"].append({"metric": "late", "unit": "ms", "values": [late + 0.001 * j for j in range(50)]})
        path.write_text(json.dumps(document))
        assert perfgate("baseline", "approve", path, "--reason", f"late {i}").code == 0
    report = json.loads(perfgate("check", path, "--json", "-").out)
    change = next(verdict["change"] for verdict in report["verdicts"] if verdict["metric"] == "late")
    assert change["estimate"] == pytest.approx(0.08, abs=0.01)


# --- the machine -------------------------------------------------------------------------------------------------


def test_throttling_is_said_refused_by_a_rule_and_never_added(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    (folder / "before.json").write_text('{"throttle_reasons": "gpu_idle"}')
    (folder / "after.json").write_text('{"throttle_reasons": "hw_thermal_slowdown", "clocks_locked": false}')
    run = write_run(folder / "hot.json", seed=9)
    env = ["--env", "before.json", "--env", "after.json"]
    done = perfgate("check", run, *env, "--verbose")
    said = " ".join(done.out.split())
    assert done.code == 0
    assert "the GPU was throttled: hw_thermal_slowdown" in said
    assert "clocks are not locked" in said
    refused = perfgate("baseline", "add", run, *env)
    assert (refused.code, "throttled" in refused.err) == (1, True)
    rule = "forward within 5% of baseline"
    (folder / "rules/rules.yaml").write_text(f"version: 1\nrules:\n  - assert: {rule}\n    on_throttled: error\n")
    assert perfgate("check", run, *env).code == 3
    assert perfgate("check", run, "--env", "throttle_reasons=sw_power_cap").code == 3
    assert perfgate("check", run, "--env", "throttle_reasons=none").code == 0
