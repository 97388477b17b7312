"""A team's months with its baselines, in a real git repository, with the commands that people type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import Done, Repository, write_rules, write_run

Command = Callable[..., Done]
Clock = Callable[[], None]


def words(done: Done) -> str:
    return " ".join(done.said.split())


def test_the_story(repository: Repository, perfgate: Command, folder: Path, clock: Clock) -> None:
    _ten_merges(repository, perfgate, folder, clock)
    _an_approved_change(repository, perfgate, folder, clock)
    _a_creeping_series(perfgate, folder, clock)
    _a_pull_request_that_edits_its_own_rules(repository, perfgate, folder)
    _two_branches_that_each_add(repository, perfgate, folder, clock)
    _two_branches_that_each_approve(repository, perfgate, folder, clock)
    _an_intended_slowdown(repository, perfgate, folder, clock)
    _an_upgrade_of_torch(perfgate, folder, clock)
    _another_gpu(perfgate, folder)
    assert perfgate("baseline", "verify").code == 0


def _ten_merges(repository: Repository, perfgate: Command, folder: Path, clock: Clock) -> None:
    for i in range(10):
        clock()
        run = write_run(folder / f"merge{i}.json", seed=10 + i)
        assert perfgate("check", run).code == 0
        assert perfgate("baseline", "add", run, *(["--rotate"] if i >= 7 else [])).code == 0
        repository.commit(f"merge {i}")
    assert "backward within 5% of baseline" in (folder / "rules/rules.yaml").read_text()


def _an_approved_change(repository: Repository, perfgate: Command, folder: Path, clock: Clock) -> None:
    """A faster attention kernel, which trades some time of the forward pass for more of the backward pass."""
    clock()
    run = write_run(folder / "attention.json", 108, 150, seed=30)
    assert perfgate("check", run).code == 1
    approved = perfgate("baseline", "approve", run, "--reason", "new attention kernel", "--pr", "41")
    assert approved.code == 0
    assert perfgate("check", write_run(folder / "after.json", 108, 150, seed=31)).code == 0
    history = words(perfgate("baseline", "list"))
    assert "approved by ada in #41: new attention kernel changed: backward -25.0 %, forward +8.0 %" in history
    repository.commit("new attention kernel")


def _a_creeping_series(perfgate: Command, folder: Path, clock: Clock) -> None:
    """Each step is within what the rule allows; all of them are not."""
    clock()
    run = write_run(folder / "creep.json", 112.3, 150, seed=40)
    refused = perfgate("baseline", "approve", run, "--reason", "only four per cent more")
    assert refused.code == 1
    assert "further from the anchor than the rules allow" in words(refused)
    assert "--reset-anchor" in words(refused)


def _a_pull_request_that_edits_its_own_rules(repository: Repository, perfgate: Command, folder: Path) -> None:
    repository.git("checkout", "-q", "-b", "slow")
    write_rules(folder, "forward within 50% of baseline", "backward within 5% of baseline")
    run = write_run(folder / "slow.json", 130, 150, seed=50)
    assert perfgate("baseline", "approve", run, "--reason", "it is fine").code == 0
    repository.commit("loosen the rules")
    run = write_run(folder / "again.json", 130, 150, seed=51)
    assert perfgate("check", run).code == 0
    judged = perfgate("check", run, "--policy-ref", "main")
    assert judged.code == 1
    said = words(judged)
    assert "within 5% of baseline" in said
    assert "under the base's rules: fail; under its own: pass" in said
    assert "it is fine; not used: the base's baselines decide" in said
    assert "with the policy of the working tree the outcome would be: pass" in said
    difference = words(perfgate("rules", "diff", "main"))
    assert "forward within 50% of baseline" in difference
    repository.git("checkout", "-q", "main")


def _two_branches_that_each_add(repository: Repository, perfgate: Command, folder: Path, clock: Clock) -> None:
    for name, seed in (("one", 60), ("other", 61)):
        clock()
        repository.git("checkout", "-q", "-b", name, "main")
        run = write_run(folder / f"{name}.json", 108, 150, seed=seed)
        assert perfgate("baseline", "add", run).code == 0
        repository.commit(f"measured on {name}")
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-edit", "one")
    repository.git("merge", "-q", "--no-edit", "other")
    done = perfgate("check", write_run(folder / "merged.json", 108, 150, seed=62), "--policy-ref", "main")
    assert done.code == 0
    shown = perfgate("check", "merged.json", "--json", "-")
    assert '"runs": 3' in shown.out


def _two_branches_that_each_approve(repository: Repository, perfgate: Command, folder: Path, clock: Clock) -> None:
    for name, seed in (("left", 70), ("right", 71)):
        clock()
        repository.git("checkout", "-q", "-b", name, "main")
        run = write_run(folder / f"{name}.json", 108, 140, seed=seed)
        assert perfgate("baseline", "approve", run, "--reason", f"faster on the {name}").code == 0
        repository.commit(name)
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-edit", "left")
    repository.git("merge", "-q", "--no-edit", "right")
    both = write_run(folder / "both.json", 108, 132, seed=72)
    forked = perfgate("check", both, "--policy-ref", "HEAD")
    assert forked.code == 3
    assert "two approvals do not follow each other" in words(forked)
    assert "approve new runs on HEAD, to replace both" in words(forked)
    clock()
    assert perfgate("baseline", "approve", both, "--reason", "both together").code == 0
    repository.commit("both together")
    assert perfgate("check", write_run(folder / "calm.json", 108, 132, seed=73), "--policy-ref", "HEAD").code == 0


def _an_intended_slowdown(repository: Repository, perfgate: Command, folder: Path, clock: Clock) -> None:
    clock()
    repository.git("checkout", "-q", "-b", "longer-context")
    head = repository.commit("longer context")
    run = write_run(folder / "longer.json", 108, 158, seed=80)
    assert perfgate("check", run, "--policy-ref", "main", "--head", head).code == 1
    repository.git("checkout", "-q", "main")
    permission = ["--metric", "backward", "--up-to", "25%", "--reason", "longer context", "--expires", "2026-12-31"]
    assert perfgate("baseline", "allow", "--head", head, *permission, "--by", "grace").code == 0
    repository.commit("allow longer context")
    repository.git("checkout", "-q", "longer-context")
    allowed = perfgate("check", run, "--policy-ref", "main", "--head", head, "--verbose")
    assert allowed.code == 0
    assert "allowed up to 25% by grace until 2026-12-31 (longer context)" in words(allowed)
    pushed = repository.commit("something else")
    assert perfgate("check", run, "--policy-ref", "main", "--head", pushed).code == 1
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-edit", head)
    assert perfgate("baseline", "add", run).code == 1
    assert perfgate("baseline", "add", run, "--merged", head).code == 0
    repository.commit("measured after the merge")
    after = write_run(folder / "afterwards.json", 108, 158, seed=81)
    assert perfgate("check", after, "--policy-ref", "main").code == 0
    assert "adopts backward" in words(perfgate("baseline", "list"))
    assert perfgate("check", write_run(folder / "worse.json", 130, 158, seed=82)).code == 1


def _an_upgrade_of_torch(perfgate: Command, folder: Path, clock: Clock) -> None:
    """Versions are context: the upgrade is judged like any other change."""
    clock()
    upgraded = write_run(folder / "upgraded.json", 108, 158, seed=90, torch="2.13.0")
    assert perfgate("check", upgraded).code == 0
    assert perfgate("baseline", "add", upgraded).code == 0
    assert "torch 2.13.0" in words(perfgate("baseline", "show"))


def _another_gpu(perfgate: Command, folder: Path) -> None:
    """Another GPU is another environment: nothing is compared, and the nearest is named."""
    run = write_run(folder / "b200.json", 60, 80, seed=95, gpu="B200")
    done = perfgate("check", run)
    assert done.code == 3
    assert "gpu is B200, in the baseline H200" in words(done)
    assert perfgate("baseline", "approve", run, "--reason", "new machines").code == 0
    second = write_run(folder / "b200-2.json", 60, 80, seed=96, gpu="B200")
    young = perfgate("check", second)  # two runs do not show the noise of the new machines
    assert (young.code, "do not show the noise between runs" in words(young)) == (3, True)
    assert perfgate("baseline", "add", second).code == 0
    assert perfgate("check", write_run(folder / "b200-3.json", 60, 80, seed=97, gpu="B200")).code == 0
    assert perfgate("check", "afterwards.json").code == 0
