"""The call tree of a stored run: causes against it are those against its trace, whatever its size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import pytest
from conftest import Done, write_rules
from made_traces import GPU_JOB, Job, write
from msgspec.structs import replace
from test_causes import CASES, runs_of, shown

from perfgate.baselines.contents import Wanted, contents
from perfgate.baselines.stored_trees import write_tree
from perfgate.causes.find import find_causes
from perfgate.causes.merged import with_pools
from perfgate.core import Key, Run, Series
from perfgate.core.call_trees import CallNode, CallTree
from perfgate.documents import tree_texts
from perfgate.documents.tree_texts import StoredTrees, read_tree
from perfgate.workspace.inputs import read_runs

Command = Callable[..., Done]

_ROOM = 256 << 10
_FOUR = GPU_JOB.but(ranks=4)
_SLOWER = GPU_JOB.edited("aten::mm", us=4500)


def stored(trees: tuple[CallTree, ...], room: int = _ROOM) -> tuple[CallTree, ...]:
    """The trees after storing and reading them."""
    text = write_tree(trees, room)
    assert text is not None
    assert len(json.dumps(text)) <= room
    return tuple(StoredTrees(text))


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("unchanged-cpu", "other-steps")])
def test_a_stored_base_has_the_same_causes(name: str, tmp_path: Path) -> None:
    job, other = CASES[name]
    base, new = runs_of(job, tmp_path / "base"), runs_of(other, tmp_path / "new", first_seed=101)
    other_device = len({run.environment.get("gpu") for run in (*base, *new)}) > 1
    sides = [run.call_trees for run in base], [run.call_trees for run in new]
    from_trace = find_causes(*sides, other_device=other_device)
    from_store = find_causes([stored(tuple(trees)) for trees in sides[0]], sides[1], other_device=other_device)
    assert shown(from_store) == shown(from_trace)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
@pytest.mark.parametrize(
    ("job", "kinds"),
    [(_FOUR, []), (_FOUR.edited("aten::mm", us=4500), ["slower"]), (_FOUR.but(slow=((2, 1.2),)), ["slow rank"])],
    ids=["unchanged", "slower", "slow rank"],
)
def test_pooled_calls_never_appear(job: Job, kinds: list[str], share: float, tmp_path: Path) -> None:
    (base,), (new,) = runs_of(_FOUR, tmp_path / "base"), runs_of(job, tmp_path / "new", first_seed=101)
    (whole,) = stored(tuple(base.call_trees))
    small = with_pools(whole, share)
    assert small.pooled
    np.testing.assert_allclose(small.step_times, whole.step_times)
    for sides in (([[small]], [new.call_trees]), ([[small], [whole]], [new.call_trees])):
        found = find_causes(*sides)
        assert [cause.kind for cause in found.causes] == kinds
        explained = sum(cause.change_per_step for cause in found.causes)
        assert explained + found.rest == pytest.approx(found.new_step - found.base_step)


@pytest.mark.parametrize("part", [0.9, 0.3])
def test_a_cut_trace_has_no_invented_causes(part: float, tmp_path: Path) -> None:
    (base,) = runs_of(GPU_JOB, tmp_path / "base")
    trace = write(GPU_JOB.but(seed=101), tmp_path / "new") / "rank0.json"
    text = trace.read_text(encoding="utf-8")
    trace.write_text(text[: int(part * len(text))], encoding="utf-8")
    (new,) = read_runs([str(trace)])
    assert find_causes([stored(tuple(base.call_trees))], [new.call_trees]).causes == ()


def _large(ranks: int, nodes: int) -> tuple[CallTree, ...]:
    """The trees of a large job in which every rank differs everywhere, and one is slow in one place."""
    random = np.random.default_rng(1)
    places = [CallNode("step", "step", -1)]
    places += [CallNode(f"aten::operator_number_{at}", "operator", (at - 1) // 4) for at in range(1, nodes)]
    size = random.lognormal(0, 2, nodes)[:, None] / nodes / 100
    walls = [size * random.normal(1, 0.02, (nodes, 12)) for _ in range(ranks)]
    first = np.arange(nodes) * 1e-6
    walls[ranks // 2][int(np.argmax(size))] *= 1.5
    return tuple(
        CallTree(str(rank), tuple(places), np.ones((nodes, 12)), wall, wall, first=first)
        for rank, wall in enumerate(walls)
    )


@pytest.mark.parametrize(("ranks", "nodes", "room"), [(1, 4000, _ROOM), (64, 800, 64 << 10), (1024, 60, 96 << 10)])
def test_a_tree_shrinks_until_it_fits(ranks: int, nodes: int, room: int) -> None:
    trees = _large(ranks, nodes)
    (tree,) = stored(trees, room)
    mean = np.mean([one.step_times.mean() for one in trees])
    assert tree.step_times.mean() == pytest.approx(mean, rel=1e-5)
    assert len(tree.ranks) == ranks
    by_rank = {rank: float(wall.sum()) for rank, wall in (tree.rank_wall or {}).items()}
    assert max(by_rank, key=lambda rank: by_rank[rank]) == str(ranks // 2)


@pytest.mark.parametrize(("ranks", "nodes"), [(64, 800), pytest.param(1024, 60, marks=pytest.mark.slow)])
def test_the_stored_run_of_a_trace_has_at_most_half_a_mebibyte(ranks: int, nodes: int) -> None:
    values = np.random.default_rng(1).normal(0.1, 0.01, (3, ranks, 30))
    series = [
        Series(Key.of(f"range.part{part}", rank=str(rank)), "s", "samples", values[part, rank], np.arange(30))
        for part in range(3)
        for rank in range(ranks)
    ]
    run = Run("new", "torch-trace", tuple(series), call_trees=_large(ranks, nodes))
    found = contents(run, Wanted(lambda key: key.metric != "range.part2", lambda key: True, lambda metric: ("median",)))
    assert found.call_tree is not None
    rows = [found.call_tree, found.series, found.summaries]
    assert sum(len(msgspec.json.encode(row)) for row in rows) + (16 << 10) <= 512 << 10


def test_a_trace_of_very_many_files_is_stored_without_a_rule_about_it() -> None:
    """The names of its files alone need more bytes than a run usually has."""
    series = Series(Key.of("range.forward", rank="0"), "s", "samples", np.ones(3), np.arange(3))
    run = Run("new", "torch-trace", (series,), call_trees=_large(1, 100))
    found = contents(run, Wanted(lambda key: False, lambda key: True, lambda metric: (), head_bytes=600 << 10))
    assert found.call_tree is not None
    assert found.series == []


def test_nothing_is_stored_where_nothing_fits() -> None:
    assert write_tree(_large(1, 100), 200) is None


_NO_SUCH_CALLER = {
    "ranks": [""],
    "steps": 1,
    "groups": 1,
    "names": [["step", "step"]],
    "parents": [-1, 9],
    "called": [0, 0],
    "first": [0, 0],
    "counts": [1, 1],
    "busy": [0, 0],
    "wall": [1, 1],
}


_DEEP = {
    **_NO_SUCH_CALLER,
    "parents": list(range(-1, 999)),
    **{name: [0] * 1000 for name in ("called", "first", "counts", "busy", "wall")},
}
_SOUND = {**_NO_SUCH_CALLER, "parents": [-1, 0]}
_HUGE = 10**400
_FORGED = (
    *({**_SOUND, name: [1, _HUGE]} for name in ("first", "busy", "wall")),
    *({**_SOUND, name: [[1, _HUGE]]} for name in ("memory", "blocks")),
    {**_SOUND, "counts": [1, 1e308]},
    {**_SOUND, "steps": _HUGE},
    {**_SOUND, "ranks": ["0"], "rank_nodes": [1], "rank_walls": [[_HUGE]]},
)
_DAMAGED = (_NO_SUCH_CALLER, _DEEP, {**_SOUND, "groups": 1_000_000_000})


@pytest.mark.parametrize("text", ["", "[1", "{}", '{"ranks":["0"]}', *map(json.dumps, _DAMAGED)])
def test_a_damaged_tree_is_no_tree(text: str) -> None:
    assert read_tree(text) is None
    assert not StoredTrees(text)


@pytest.mark.parametrize("number", range(len(_FORGED)))
def test_a_tree_with_numbers_that_no_step_has_is_no_tree(number: int) -> None:
    """Each was an internal error of `check`, or took all memory."""
    assert read_tree(json.dumps(_SOUND)) is not None
    assert read_tree(json.dumps(_FORGED[number])) is None


def test_a_tree_of_more_cells_than_fit_in_memory_is_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    forged = json.dumps({**_SOUND, "ranks": [str(rank) for rank in range(8)]})  # of two nodes each
    monkeypatch.setattr(tree_texts, "_MOST_CELLS", 16)
    assert read_tree(forged) is not None
    monkeypatch.setattr(tree_texts, "_MOST_CELLS", 15)
    assert read_tree(forged) is None


def _approved(perfgate: Command, folder: Path, *rules: str) -> Path:
    """A folder with rules, three stored runs, and their traces."""
    write_rules(folder, *rules)
    places = [write(GPU_JOB.but(seed=seed), folder / f"main-{seed}") for seed in (1, 2, 3)]
    assert perfgate("baseline", "approve", *(place.name for place in places), "--reason", "first").code == 0
    return folder


def test_check_finds_the_cause_in_the_stored_base(perfgate: Command, folder: Path) -> None:
    _approved(perfgate, folder, "step.time within 5% of baseline", "kernel.* within 5% of baseline")
    write(_SLOWER.but(seed=101), folder / "new")
    done = perfgate("check", "new", "--json", "report.json")
    report = json.loads((folder / "report.json").read_text())
    (cause,) = report["causes"]
    assert (cause["kind"], cause["where"]) == ("slower", "backward/aten::mm/sm90_gemm_nt")
    assert set(cause["verdicts"]) == {
        "step.time within 5% of baseline",
        "kernel.* within 5% of baseline: kernel.sm90_gemm_nt within 5% of baseline",
    }
    assert (done.code, report["exit_code"]) == (3, 3)  # one new run: undecided, with or without causes


def test_a_replaced_kernel_is_one_cause_and_nothing_to_approve(perfgate: Command, folder: Path) -> None:
    _approved(perfgate, folder, "kernel.* within 5% of baseline")
    write(GPU_JOB.edited("aten::linear", kernel="cutlass_gemm_simt", us=2600).but(seed=101), folder / "new")
    done = perfgate("check", "new", "--json", "report.json")
    report = json.loads((folder / "report.json").read_text())
    (cause,) = report["causes"]
    assert (done.code, cause["kind"]) == (3, "replaced")
    absent = [verdict for verdict in report["verdicts"] if verdict["outcome"] == "error"]
    assert [verdict["id"] for verdict in absent] == cause["verdicts"]
    for verdict in absent:
        assert verdict["next_step"].startswith(("find the new call", "find what removed the call"))
        assert verdict["next"]["action"] == "find-cause"
    assert report["approve_command"] is None
    assert "baseline" not in "".join(verdict["next_step"] for verdict in absent).replace("baseline add", "")


def test_a_check_that_passes_decodes_no_tree(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _approved(perfgate, folder, "step.time within 50% of baseline")
    write(GPU_JOB.but(seed=101), folder / "new")
    monkeypatch.setattr("perfgate.documents.tree_texts.read_tree", lambda text: pytest.fail("decoded"))
    done = perfgate("check", "new", "--json", "report.json")
    assert (done.code, "causes" in json.loads((folder / "report.json").read_text())) == (0, False)


def test_a_stored_trace_has_the_form_of_the_schema(perfgate: Command, folder: Path) -> None:
    _approved(perfgate, folder, "step.time within 5% of baseline")
    schema = json.loads(perfgate("schema", "baseline").out)
    for path in (folder / "baselines").rglob("*.json"):
        jsonschema.validate(json.loads(path.read_text()), schema)
    assert schema["properties"]["call_tree"]["type"] == "string"
    assert perfgate("baseline", "verify").code == 0


def test_add_completes_a_run_that_has_no_tree(perfgate: Command, folder: Path) -> None:
    _approved(perfgate, folder, "step.time within 5% of baseline")
    _without_trees(folder)
    assert "filled in" in (done := perfgate("baseline", "add", "main-1")).out
    assert "the call tree" in done.out
    assert sum('"call_tree"' in path.read_text() for path in (folder / "baselines").rglob("*.json")) == 1


def test_a_base_without_trees_says_how_to_get_causes(perfgate: Command, folder: Path) -> None:
    _approved(perfgate, folder, "step.time within 5% of baseline")
    _without_trees(folder)
    write(_SLOWER.but(seed=101), folder / "new")
    said = " ".join(perfgate("check", "new").out.split())
    assert "no causes: the stored runs have no call tree" in said
    assert "perfgate baseline add main-1" in said


def _without_trees(folder: Path) -> None:
    """Make the stored runs those of an older version."""
    from perfgate.baselines.files import STORED_RUN

    for path in (folder / "baselines").rglob("*.json"):
        file, _ = STORED_RUN.decode(path.name, path.read_bytes())
        assert file is not None
        path.write_bytes(STORED_RUN.encode(msgspec.structs.replace(file, call_tree=msgspec.UNSET)))


def test_the_same_traces_give_the_same_bytes(tmp_path: Path) -> None:
    (run,) = runs_of(_FOUR, tmp_path / "a")
    (again,) = runs_of(_FOUR, tmp_path / "b")
    assert write_tree(tuple(run.call_trees), _ROOM) == write_tree(tuple(again.call_trees), _ROOM)
    one = stored(tuple(run.call_trees))
    assert write_tree(one, _ROOM) == write_tree(tuple(run.call_trees), _ROOM)
    assert replace(one[0], rank_wall=None).ranks == ("",)
