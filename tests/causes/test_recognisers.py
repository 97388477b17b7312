"""How allocations, zeroed gradients and checkpointing are recognised, at the edges of their definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from made_changes import Call, changed, full_path, shown

from perfgate.causes import recognised as module
from perfgate.causes.align import Finding
from perfgate.causes.recognised import _allocator, _Change, _repeated, _zeroed, is_backward, recognised

#: The paths of the calls that came and went, and of the node that leads a finding; None if there is none.
Shown = tuple[list[str], list[str], list[str]] | None

# --- what all recognisers see ----------------------------------------------------------------------------------------


def test_the_numbers_of_calls_change_by_more_than_rounding() -> None:
    change = changed({"a": (0, 1e-9), "b": (0, 0.9e-9), "c": (1, 1.5), "d": (3, 1)})
    assert change.gained.tolist() == [0, 1e-9, 0, 0.5, -2]


@pytest.mark.parametrize(
    ("kinds", "is_device", "growth"),
    [("(k)", [False, False, True], [2, 2, 2]), ("(n)", [False, False, True], [2, 2, 2]), ("()", [True] * 3, [7, 7, 2])],
)
def test_the_work_of_a_device_is_all_work_without_one(kinds: str, is_device: list[bool], growth: list[float]) -> None:
    change = changed({"f": (1, 1, 1, 6), f"f/g{kinds}": (1, 1, 1, 3)})
    assert change.is_device.tolist() == is_device
    assert change.growth.tolist() == growth


BACKWARD = [
    ("AddmmBackward0", True),
    ("autograd::engine::evaluate_function: AddBackward0", True),
    ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", True),
    ("torch::autograd::CppFunction", True),
    ("autograd::whatever", True),
    ("AddmmBackward0x", False),
    ("aten::mm_backward", False),
    ("aten::linear", False),
]


@pytest.mark.parametrize(("name", "is_one"), BACKWARD)
def test_the_calls_of_the_backward_pass(name: str, is_one: bool) -> None:
    assert bool(is_backward(name)) is is_one
    calls = {name: (1, 1), f"{name}/mm": (1, 1), f"{name}/mm/gemm(k)": (1, 1), "aten::add": (1, 1)}
    assert changed(calls).in_backward.tolist() == [False, is_one, is_one, is_one, False]


def test_a_finding_has_all_below_its_calls_and_is_led_by_the_largest_change() -> None:
    calls = {
        "g": (1, 0),
        "g/k(k)": (1, 0, 9, 0),
        "f/a": (0, 1),
        "f/a/k(k)": (0, 1, 0, 3),
        "f/b": (0, 1),
        "f/b/k(k)": (0, 1, 0, 3),
        "f/c(k)": (1, 1, 5, 1),
    }
    change = changed(calls)
    for more, lead in (((), 4), ((8,), 8)):
        found = change.finding("replaced", [1], [6, 4], more)
        assert found == Finding("replaced", frozenset({1, 2, 4, 5, 6, 7, *more}), lead, (3, 0), (1,), (6, 4))
    assert [edit.nodes for edit in change.edits] == [(1,), (4, 6)]
    assert [edit.nodes for edit in changed(calls, ["g"]).edits] == [(4, 6)]


def test_a_node_belongs_to_the_first_recogniser_that_claims_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []

    def recogniser(*nodes: int) -> Any:
        def recognise(change: _Change) -> Finding | None:
            seen.append({*change.claimed})
            return Finding("appeared", frozenset(nodes), nodes[0], ()) if nodes else None

        return recognise

    change = changed({"f": (1, 1)})
    monkeypatch.setattr(module, "_RECOGNISERS", (recogniser(), recogniser(1), recogniser(2, 3), recogniser(4)))
    found = recognised(change.alignment, [7], change.noise)
    assert [one.nodes for one in found] == [{1}, {2, 3}, {4}]
    assert seen == [{7}, {7}, {1, 7}, {1, 2, 3, 7}]


# --- allocations -----------------------------------------------------------------------------------------------------

ALLOCATOR: list[tuple[Mapping[str, Call], Shown]] = [
    ({"f/cudaMalloc()": (0, 1)}, (["f/cudaMalloc()"], [], ["f/cudaMalloc()"])),
    ({"f/cudaMalloc()": (3, 3.75)}, None),
    ({"cudaMalloc()": (0, 0.5), "cudaFree()": (1, 1.5)}, (["cudaMalloc()", "cudaFree()"], [], ["cudaMalloc()"])),
    ({"cudaMalloc()": (0, 2, 0, 1), "cudaFree()": (0, 1, 0, 3)}, (["cudaMalloc()", "cudaFree()"], [], ["cudaFree()"])),
    # allocations that moved to another place, and one more than that
    ({"f/cudaFree()": (5, 0), "g/cudaFree()": (0, 5.5)}, None),
    ({"f/cudaFree()": (5, 0), "g/cudaFree()": (0, 6)}, (["g/cudaFree()"], [], ["g/cudaFree()"])),
    # below other calls that came; what was called before is not part of it
    ({"f": (1, 2), "f/hipMalloc()": (1, 1), "f/hipFree()": (0, 1)}, (["f/hipFree()"], [], ["f/hipFree()"])),
    ({"f/cudaLaunchKernel()": (0, 9), "aten::empty": (0, 9)}, None),
    ({"cudaMalloc": (0, 5), "cudaFree(k)": (0, 5)}, None),
    ({"cudaMalloc": (0, 5), "cudaMalloc/cudaMalloc()": (0, 0.5)}, None),
]


@pytest.mark.parametrize(("calls", "expected"), ALLOCATOR)
def test_more_allocations(calls: Mapping[str, Call], expected: Shown) -> None:
    change = changed(calls)
    found = _allocator(change)
    assert shown(found, change) == expected
    assert found is None or found.kind == "allocator"


# --- zeroed gradients ------------------------------------------------------------------------------------------------

_ADD, _GRAD = "backward/torch::autograd::AccumulateGrad/aten::add_", "backward/torch::autograd::AccumulateGrad"
_ZERO = "optimizer/aten::_foreach_zero_"
ADDED: Mapping[str, Call] = {_ADD: (0, 1), f"{_ADD}/add(k)": (0, 1, 0, 2)}
ZEROED: list[tuple[Mapping[str, Call], Shown]] = [
    ({**ADDED, _ZERO: (0, 1)}, ([_ADD, _ZERO], [], [_ADD])),
    ({**ADDED, "aten::fill_": (0, 1), "aten::mm": (0, 4)}, ([_ADD, "aten::fill_"], [], [_ADD])),
    (
        {**ADDED, f"{_GRAD}/aten::detach": (1, 0), f"{_GRAD}/aten::mul": (0, 1), "aten::zero_": (2, 4)},
        ([_ADD, "aten::zero_"], [f"{_GRAD}/aten::detach"], [_ADD]),
    ),
    (ADDED, None),
    ({_ZERO: (0, 1)}, None),
    ({**ADDED, _ZERO: (1, 0)}, None),
    ({**ADDED, "backward/AddBackward0/aten::zero_": (0, 1)}, None),
    ({**ADDED, "optimizer/aten::zeros": (0, 1)}, None),
    ({"backward/AddBackward0/aten::add_": (0, 1), _ZERO: (0, 1)}, None),
    ({f"{_GRAD}/aten::mul": (0, 1), _ZERO: (0, 1)}, None),
]


@pytest.mark.parametrize(("calls", "expected"), ZEROED)
def test_gradients_that_are_set_to_zero(calls: Mapping[str, Call], expected: Shown) -> None:
    change = changed(calls)
    found = _zeroed(change)
    assert shown(found, change) == expected
    assert found is None or found.kind == "zeroed"


# --- checkpointing ---------------------------------------------------------------------------------------------------

_GELU = "backward/GeluBackward0"


def checkpointed(*times: float, names: str = "abc", called: float = 2) -> dict[str, Call]:
    """Calls of the forward pass, made twice a step, which the backward pass makes again, with these times."""
    forward: dict[str, Call] = {f"forward/{name}": (2, 2) for name in names}
    calls = {f"{_GELU}/{name}": (0, called) for name in names}
    kernels = {f"{_GELU}/{name}/k(k)": (0, 1, 0, time) for name, time in zip(names, times, strict=False)}
    return forward | calls | kernels


def came(names: Iterable[str], *, lead: str, gone: Iterable[str] = ()) -> Shown:
    return [f"{_GELU}/{name}" for name in names], [f"{_GELU}/{name}" for name in gone], [f"{_GELU}/{lead}"]


ABC = came("abc", lead="a")
REPEATED: list[tuple[Mapping[str, Call], Shown]] = [
    (checkpointed(0.25, 0.125, 0.125), ABC),
    (checkpointed(2, 9, 4), came("abc", lead="b")),
    (checkpointed(0.25, 0.125, names="ab"), None),
    (checkpointed(0.25, 0.125, 0.125, called=2.5), None),
    (checkpointed(0, 0, 0), None),
    (checkpointed(1, 1, -3), None),
    # at least 0.8 of the new work, of 20 s, is work of the forward pass
    (checkpointed(8, 4, 4) | {f"{_GELU}/d(k)": (0, 1, 0, 4)}, came(["a", "b", "c", "d(k)"], lead="a")),
    (checkpointed(8, 4, 3.9) | {f"{_GELU}/d(k)": (0, 1, 0, 4.1)}, None),
    # the work that went is at most 0.05 of it
    (checkpointed(8, 8, 4) | {f"{_GELU}/d(k)": (1, 0, 1, 0)}, came("abc", lead="a", gone=["d(k)"])),
    (checkpointed(8, 8, 4) | {f"{_GELU}/d(k)": (1, 0, 1.1, 0)}, None),
    # the forward pass makes its calls as before, if not at the same place
    (checkpointed(8, 8, 4) | {"forward/a": (2, 0)}, None),
    (checkpointed(8, 8, 4) | {"forward/a": (2, 3)}, None),
    (checkpointed(8, 8, 4) | {"forward/a": (2, 0), "block/a": (0, 2)}, ABC),
    (checkpointed(8, 8, 4) | {"block/a": (0, 0.9e-6)}, ABC),
    (checkpointed(8, 8, 4) | {"block/a": (0, 1e-6)}, None),
    # calls that changed together with others outside of the backward pass are another edit
    (checkpointed(8, 8, 4) | {"MulBackward0(k)": (0, 1, 0, 50), "e(k)": (0, 1, 0, 50)}, ABC),
    (checkpointed(8, 8, 4) | {"MulBackward0(k)": (0, 1, 0, 50)}, None),
]


@pytest.mark.parametrize(("calls", "expected"), REPEATED)
def test_calls_that_the_backward_pass_repeats(calls: Mapping[str, Call], expected: Shown) -> None:
    change = changed(calls)
    found = _repeated(change)
    assert shown(found, change) == expected
    assert found is None or found.kind == "repeated"
    assert found is None or f"{_GELU}/a/k(k)" in {full_path(change.alignment, node) for node in found.nodes}
