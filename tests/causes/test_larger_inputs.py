"""Larger and smaller inputs, at the edges of their definition, and the number types of matrix products."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pytest
from made_changes import Call, changed, full_path
from msgspec.structs import replace

from perfgate.causes import recognised as module
from perfgate.causes.kinds import Edit
from perfgate.causes.recognised import _has_other_kernels, _larger, _type, types_of

#: A kernel with twice as many blocks, which takes twice as long.
TWICE: Call = (1, 1, 0.25, 0.5, 100, 200)
HALF: Call = (1, 1, 0.5, 0.25, 200, 100)


def kernel(before: float, after: float, few: float = 100, many: float = 200) -> Call:
    return 1, 1, before, after, few, many


#: The calls, the nodes of the finding that are no `f/k(k)`, the node that leads it, and the factor; None if none is.
Expected = tuple[Collection[str], str, float] | None
FOUND: Expected = ((), "f", 2)
LARGER: list[tuple[Mapping[str, Call], Expected]] = [
    ({"f/k(k)": TWICE}, FOUND),
    ({"f/k(k)": HALF}, ((), "f", 0.5)),
    ({"f/k(k)": kernel(0.25, 0.5, 0.5, 1)}, FOUND),  # called at every second step
    ({"k(k)": TWICE}, (["k(k)"], "k(k)", 2)),
    ({"f/k(c)": TWICE}, None),
    ({"f/k(k)": (1, 2, 0.25, 0.5, 100, 200)}, None),
    ({"f/k(k)": kernel(0.25, 0.5, 100, 100)}, None),
    ({"f/k(k)": kernel(0.25, 0.5, 0, 100)}, None),
    ({"f/k(k)": kernel(0.25, 0.5, 100, 0)}, None),
    ({"f/k(k)": kernel(0.25, 0.375, 100, 101)}, None),  # the logarithm is 0.01
    ({"f/k(k)": kernel(4, 4.125, 100, 103)}, ((), "f", 1.03)),
    # the change of time is more than 0.5, and less than 2 times what the blocks predict
    ({"f/k(k)": kernel(4, 6)}, None),
    ({"f/k(k)": kernel(4, 6.01)}, FOUND),
    ({"f/k(k)": kernel(4, 11.99)}, FOUND),
    ({"f/k(k)": kernel(4, 12)}, None),
    ({"f/k(k)": kernel(4, 3)}, None),
    ({"f/k(k)": kernel(0.5, 1), "g/k(k)": kernel(0.5, 0)}, FOUND),
    ({"f/k(k)": kernel(0.5, 1), "g/k(k)": kernel(0, 0.5)}, FOUND),
    # several kernels: the one with the largest change leads; those with fewer blocks are not part of it
    ({"f/k(k)": kernel(0.25, 0.5), "g/k(k)": kernel(1, 3, 100, 300)}, (["g/k(k)"], "g", 3)),
    ({"f/k(k)": kernel(0.25, 0.5), "g/k(k)": kernel(0.125, 0.0625, 200, 100)}, FOUND),
    # kernels with as many blocks: a logarithm of up to 1.3 times that of the blocks, 0.901
    ({"f/k(k)": TWICE, "g/k(k)": kernel(1, 2.4, 7, 7)}, (["g/k(k)"], "f", 2)),
    ({"f/k(k)": TWICE, "g/k(k)": kernel(1, 2.5, 7, 7)}, FOUND),
    ({"f/k(k)": TWICE, "g/k(k)": kernel(1, 1.1, 0, 7)}, (["g/k(k)"], "f", 2)),
    ({"f/k(k)": TWICE, "g/k(k)": kernel(1, 0.9, 7, 7), "h": (1, 1, 1, 2), "i/k(k)": kernel(0, 1, 7, 7)}, FOUND),
    ({"f/k(k)": HALF, "g/k(k)": kernel(1, 0.9, 7, 7), "h": (1, 1, 2, 1)}, (["g/k(k)"], "f", 0.5)),
    ({"f/k(k)": HALF, "g/k(k)": kernel(1, 1.1, 7, 7)}, ((), "f", 0.5)),
    # operators that run other kernels, whose time changed alike
    ({"f/k(k)": TWICE, "g/old(k)": (1, 0, 1, 0), "g/new(k)": (0, 1, 0, 2)}, (["g/old(k)", "g/new(k)"], "f", 2)),
    ({"f/k(k)": TWICE, "g/old(k)": (1, 0, 0.5, 0), "g/new(k)": (0, 1, 0, 0.5)}, FOUND),
    # no other edit has a larger cost
    ({"f/k(k)": TWICE, "g": (1, 2), "g/k(k)": (1, 2, 0.25, 0.5)}, FOUND),
    ({"f/k(k)": TWICE, "g": (1, 2), "g/k(k)": (1, 2, 0.25, 0.51)}, None),
    ({"f/k(k)": TWICE, "g": (2, 1), "g/k(k)": (2, 1, 0.51, 0.25)}, None),
    ({"f/k(k)": TWICE, "g/h": (1, 2), "g/h/k(k)": (1, 2, 0.25, 0.51), "i/j": (0, 1), "i/j/k(k)": (0, 1, 0, 0.1)}, None),
]


@pytest.mark.parametrize(("calls", "expected"), LARGER)
def test_inputs_of_another_size(calls: Mapping[str, Call], expected: Expected) -> None:
    change = changed(calls)
    found = _larger(change)
    if found is None or expected is None:
        assert (found, expected) == (None, None)
        return
    more, lead, factor = expected
    nodes = {full_path(change.alignment, node) for node in found.nodes}
    assert nodes == {*more, *({"f/k(k)"} & calls.keys())}
    assert found.kind == ("larger" if factor > 1 else "smaller")
    assert full_path(change.alignment, found.lead) == lead
    assert found.factor == pytest.approx(factor)


def test_without_known_blocks_nothing_is_said_of_inputs() -> None:
    change = changed({"f/k(k)": TWICE})
    base, new = change.alignment.sides
    for at, side in (("base", base), ("new", new)):
        assert _larger(replace(change, alignment=replace(change.alignment, **{at: replace(side, blocks=None)}))) is None


def test_a_kernel_of_another_finding_is_not_part_of_larger_inputs() -> None:
    found = _larger(changed({"f/k(k)": TWICE, "g/k(k)": TWICE}, ["g/k(k)"]))
    assert found is not None
    assert found.nodes == {2}
    assert _larger(changed({"f/k(k)": TWICE}, ["f/k(k)"])) is None


@pytest.mark.parametrize(("after", "is_clear"), [(1.75, False), (1.7500001, True)])
def test_times_that_changed_alike_are_clearly_no_noise(after: float, is_clear: bool) -> None:
    steps = (1, 1, (0.75, 1.25), (after, after), 7, 7)  # a standard error of 0.25 s
    found = _larger(changed({"f/k(k)": TWICE, "g/k(k)": steps}, steps=2))
    assert found is not None
    assert found.nodes == ({2, 4} if is_clear else {2})


def test_changes_at_the_edge_are_not_part_of_larger_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OTHERS", 1.0)
    found = _larger(changed({"f/k(k)": TWICE, "g/k(k)": kernel(1, 2, 7, 7)}))
    assert found is not None
    assert found.nodes == {2}
    calls = {"f/k(k)": TWICE, "g/k(k)": kernel(1, 1.5, 10, 15)}
    monkeypatch.setattr(module, "_BLOCKS", float(np.log(np.full(5, 1.5))[0]))
    monkeypatch.setattr(module, "_OTHERS", 0.1)
    found = _larger(changed(calls))
    assert found is not None
    assert found.nodes == {2}


#: The largest logarithm of a change of time, and a change of that size.
MOST, AT_MOST = float(np.log(1.5)), 1.5
OTHER_KERNELS = [
    ("f", ["old(k)", "new(k)"], (0.5, 0.625), 1, True),
    ("forward", ["old(k)", "new(k)"], (0.5, 0.625), 1, True),
    ("f", ["old(c)", "new(n)", "cudaLaunchKernel()"], (0.5, 0.625), 1, True),
    ("f", ["old(k)", "new(k)", "aten::add"], (0.5, 0.625), 1, False),
    ("f()", ["old(k)", "new(k)"], (0.5, 0.625), 1, False),
    ("f(k)", ["old(k)", "aten::add"], (0.5, 0.625), 1, False),
    ("f", ["old(k)", "new(k)"], (0.5, 0.5), 1, False),
    ("f", ["old(k)", "new(k)"], (0.5, 0.75), 1, False),
    ("f", ["old(k)", "new(k)"], (0.5, 0.74), 1, True),
    ("f", ["old(k)", "new(k)"], (0.5, 0.375), 1, False),
    ("f", ["old(k)", "new(k)"], (0.5, 0.375), -1, True),
    ("f", ["old(k)", "new(k)"], (0.5, 0.625), -1, False),
    ("f", ["old(k)", "new(k)"], (0.0, 0.625), 1, False),
    ("f", ["old(k)", "new(k)"], (0.5, 0.0), -1, False),
    ("f", ["old(k)", "new(k)"], (4.0, 5.0), 1, True),
]


@pytest.mark.parametrize(("parent", "names", "times", "sign", "expected"), OTHER_KERNELS)
def test_a_call_that_runs_other_kernels(
    parent: str, names: list[str], times: tuple[float, float], sign: float, expected: bool
) -> None:
    old, new = (f"{parent}/{name}" for name in names[:2])
    calls: dict[str, Call] = {old: (1, 0, times[0], 0), new: (0, 1, 0, times[1])}
    calls |= {f"{parent}/{name}": (0, 1, 0, 64) for name in names[2:]}  # no work of the device
    change = changed({parent: (1, 1, 64, 1), **calls, "other(k)": (1, 1, 8, 1)})
    edit = Edit(1, (2,), tuple(range(3, 2 + len(names))))
    assert bool(_has_other_kernels(edit, change, sign, MOST)) is expected


# --- the number types of matrix products -----------------------------------------------------------------------------

#: Kernels of cuBLAS and CUTLASS in public profiles; None if the name does not show the type.
TYPES = {
    "nvjet_sm90_qqtst_128x128_64x6_2x1_v_bz_TNT": "fp8",
    "sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x64": "fp8",
    "cutlass_gemm_e5m2": "fp8",
    "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT": "bf16",
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn": "bf16",
    "ampere_bf16_s1688gemm_bf16_128x64": "bf16",
    "cutlass_75_tensorop_s1688gemm_bf16_64x64_tn_align1": "bf16",
    "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize96x128x32": "bf16",
    "nvjet_hsh_192x192_64x4_1x2_h_bz_coopB_TNT": "fp16",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32": "fp16",
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn": "fp16",
    "ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_nt": "fp16",
    "turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn": "fp16",
    "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn": "fp16",
    "void cutlass::Kernel<cutlass_75_tensorop_f16_s1688gemm_f16_64x64_tn_align1>": "fp16",
    "ampere_h16816gemm_256x128_ldg8_stages_64x3_nt": "fp16",
    "turing_h1688gemm_128x128_ldg8_nn": "fp16",
    "volta_h884gemm_64x128_ldg8_nn": "fp16",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x32": "tf32",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4>": "tf32",
    "nvjet_sm100_sss_128x64": "tf32",
    "ampere_sgemm_128x64_tn": "fp32",
    "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_simt_kernel": "fp32",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>": "fp32",
    "cublas_ffma": "fp32",
    "triton_tem_fused_matmul_3": None,
    "vectorized_elementwise_kernel_f16": None,
}


@pytest.mark.parametrize(("name", "kind"), TYPES.items())
def test_the_name_of_a_kernel_shows_the_type_of_its_inputs(name: str, kind: str | None) -> None:
    for path, expected in ((f"f/{name}(k)", kind), (f"f/{name}", None)):
        alignment = changed({path: (1, 0, 0.25, 0)}).alignment
        assert _type([1, 2], alignment, -alignment.busier) == expected
        assert _type([1, 2], alignment, alignment.busier) is None


WIDER = [("fp8", "bf16"), ("fp8", "fp16"), ("fp8", "tf32"), ("fp8", "fp32"), ("bf16", "tf32"), ("bf16", "fp32")]
WIDER += [("fp16", "tf32"), ("fp16", "fp32"), ("tf32", "fp32")]
NAMES = {kind: f"{kind}_gemm(k)" for kind in ("bf16", "fp16", "tf32")}
NAMES |= {"fp8": "e4m3_gemm(k)", "fp32": "sgemm(k)", "": "gemm(k)"}


@pytest.mark.parametrize("before", NAMES)
@pytest.mark.parametrize("after", NAMES)
def test_only_wider_types_are_named(before: str, after: str) -> None:
    change = changed({f"f/{NAMES[before]}": (1, 0, 1, 0), f"g/{NAMES[after]}": (0, 1, 0, 2)})
    found = types_of(range(5), change.alignment)
    assert found == ((before, after) if (before, after) in WIDER else None)


@pytest.mark.parametrize(("own", "kind"), [(6.0, "bf16"), (5.9, None), (4.1, None), (4.0, "fp16")])
def test_a_type_has_most_of_the_time(own: float, kind: str | None) -> None:
    alignment = changed({"f/bf16_gemm(k)": (0, 1, 0, own), "f/fp16_gemm(k)": (0, 1, 0, 10 - own)}).alignment
    assert _type([2, 3], alignment, alignment.busier) == kind


def test_products_with_the_same_time_have_no_type() -> None:
    alignment = changed({"f/bf16_gemm(k)": (1, 1, 1, 1), "f/tf32_gemm(k)": (0, 1, 0, 1)}).alignment
    assert types_of([2, 3], alignment) is None
