"""The causes of tables: kernels and operators of torch, and reports of Nsight Systems."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from perfgate.commands.report_details import causes_of
from perfgate.core import Run
from perfgate.core.causes import CauseReport
from perfgate.workspace.inputs import read_runs

#: The time in us and the calls of each row.
Rows = Mapping[str, tuple[float, int]]
OPERATORS: Rows = {
    "aten::mm": (4000.0, 60),
    "aten::addmm": (3000.0, 40),
    "aten::softmax": (1200.0, 20),
    "aten::layer_norm": (900.0, 40),
    "aten::gelu": (800.0, 20),
    "aten::add_": (600.0, 200),
    "aten::copy_": (500.0, 60),
    "aten::item": (40.0, 10),
}
KERNELS: Rows = {
    "sm90_gemm_tn": (5200.0, 60),
    "sm90_gemm_nt": (3100.0, 40),
    "softmax_kernel": (1300.0, 20),
    "layer_norm_kernel": (950.0, 40),
    "gelu_kernel": (700.0, 20),
    "multi_tensor_apply": (1500.0, 40),
    "reduce_kernel": (400.0, 20),
}


def _varied(rows: Rows, seed: int) -> dict[str, tuple[float, int]]:
    chance = random.Random(seed)
    return {name: (time * chance.gauss(1, 0.01), calls) for name, (time, calls) in rows.items()}


def _torch(cpu: Rows, device: Rows) -> str:
    """A table as torch 2.x prints it: operators with the time of their kernels, then the kernels."""
    names = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "Self CUDA", "Self CUDA %")
    header = [*names, "CUDA total", "CUDA time avg", "# of Calls"]
    lines = []
    rows = [("ProfilerStep*", 50.0, 0.0, 10), *((name, time, 0.0, calls) for name, (time, calls) in cpu.items())]
    rows += [(name, 0.0, time, calls) for name, (time, calls) in device.items()]
    for name, own, device_time, calls in rows:
        cells = ["1.00%", f"{own:.3f}us", "1.00%", f"{own:.3f}us", f"{own / calls:.3f}us", f"{device_time:.3f}us"]
        cells += ["1.00%", f"{device_time:.3f}us", f"{device_time / calls:.3f}us", str(calls)]
        lines.append("  ".join((name.rjust(40), *(cell.rjust(13) for cell in cells))))
    rule = "  ".join(("-" * 40, *("-" * 13 for _ in header)))
    head = "  ".join(("Name".rjust(40), *(cell.rjust(13) for cell in header)))
    return "\n".join((rule, head, rule, *lines, rule)) + "\n"


def _cpu_table(rows: Rows, seed: int) -> str:
    return _torch(_varied(rows, seed), {})


def _gpu_table(rows: Rows, seed: int) -> str:
    return _torch(_varied(OPERATORS, seed + 50), _varied(rows, seed))


def _nsys(rows: Rows, seed: int) -> str:
    lines = ["Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"]
    for name, (time, calls) in _varied(rows, seed).items():
        total = round(time * 1000)
        lines.append(f'1.0,{total},{calls},{total / calls:.1f},{total / calls:.1f},1,2,0.5,"{name}"')
    return "\n".join(lines) + "\n"


def _but(rows: Rows, **changes: tuple[float, int] | None) -> Rows:
    new = {name.replace("__", "::"): row for name, row in changes.items()}
    merged = {**rows, **{name: row for name, row in new.items() if row is not None}}
    return {name: row for name, row in merged.items() if new.get(name, row) is not None}


def _twice(rows: Rows) -> Rows:
    return {name: (2 * time, 2 * calls) for name, (time, calls) in rows.items()}


Table = Callable[[Rows, int], str]
_SYNC = _but(OPERATORS, aten__item=(1900.0, 210))
CASES: dict[str, tuple[Table, Rows, Rows, list[tuple[str, str, int]]]] = {
    "unchanged operators": (_cpu_table, OPERATORS, OPERATORS, []),
    "slower operator": (_cpu_table, OPERATORS, _but(OPERATORS, aten__mm=(5200.0, 60)), [("slower", "aten::mm", 120)]),
    "more calls": (
        _cpu_table,
        OPERATORS,
        _but(OPERATORS, aten__softmax=(2400.0, 40)),
        [("more calls", "softmax", 120)],
    ),
    "a new wait": (_cpu_table, OPERATORS, _SYNC, [("sync", "aten::item", 186)]),
    "operators of a GPU job": (_gpu_table, KERNELS, KERNELS, []),
    "replaced kernel": (
        _gpu_table,
        KERNELS,
        {**_but(KERNELS, softmax_kernel=None), "fused_softmax": (2100.0, 20)},
        [("replaced", "fused_softmax", 80)],
    ),
    "nsys: slower kernel": (
        _nsys,
        KERNELS,
        _but(KERNELS, layer_norm_kernel=(1500.0, 40)),
        [("slower", "layer_norm_kernel", 550)],
    ),
    "nsys: kernel appeared": (_nsys, KERNELS, _but(KERNELS, nan_check=(900.0, 20)), [("appeared", "nan_check", 900)]),
    "nsys: kernel vanished": (_nsys, KERNELS, _but(KERNELS, gelu_kernel=None), [("vanished", "gelu_kernel", -700)]),
    "nsys: twice as many steps": (_nsys, KERNELS, _twice(KERNELS), []),
    "nsys: twice as many steps, one slower": (
        _nsys,
        KERNELS,
        _twice(_but(KERNELS, sm90_gemm_nt=(4300.0, 40))),
        [("slower", "sm90_gemm_nt", 1200)],
    ),
}


def _run(table: Table, rows: Rows, path: Path, seed: int) -> tuple[Run, ...]:
    path.write_text(table(rows, seed), encoding="utf-8")
    return read_runs([str(path)], None, "corrected")


def _report(name: str, folder: Path) -> CauseReport:
    table, base, new, _ = CASES[name]
    found = causes_of(_run(table, base, folder / "base.txt", 1), _run(table, new, folder / "new.txt", 2))
    assert found is not None
    return found


@pytest.mark.parametrize("name", CASES)
def test_causes_of_tables(name: str, tmp_path: Path) -> None:
    report = _report(name, tmp_path)
    found = [(cause.kind, cause.where[-1]) for cause in report.causes]
    assert len(found) == len(CASES[name][3]), found
    for (kind, place, size), cause in zip(CASES[name][3], report.causes, strict=True):
        assert (cause.kind, place in cause.where[-1]) == (kind, True)
        assert cause.low <= size / 1e6 <= cause.high
    times = sum(cause.change_per_step for cause in report.causes)
    assert times + report.rest == pytest.approx(report.new_step - report.base_step, abs=1e-12)


#: Operators with the time of their own kernels, on the host and on the device, and their calls.
_OF_DEVICE: Mapping[str, tuple[float, float, int]] = {
    "aten::copy_": (90.0, 67.4, 1253),
    "aten::mm": (30.0, 59.2, 408),
    "aten::addmm": (100.0, 27.5, 192),
    "aten::sum": (20.0, 9.3, 192),
    "aten::cat": (4.0, 9.2, 48),
    "aten::mul": (8.0, 6.1, 288),
}
_MUL = "void at::native::vectorized_elementwise_kernel<8, at..."
_KERNELS_OF: Mapping[str, tuple[float, int]] = {
    "Memcpy HtoD (Pageable -> Device)": (67.4, 77),
    "nvjet_sm90_tst_256x128": (59.2, 408),
    "nvjet_sm90_tst_256x128_bias": (27.5, 192),
    "void at::native::reduce_kernel<128, 4, at::native::R...": (9.3, 192),
    "void at::native::(anonymous namespace)::CatArrayBatc...": (9.2, 48),
}


def _limited(
    operators: Mapping[str, tuple[float, float, int]],
    kernels: Mapping[str, tuple[float, int]],
    forward: float,
    *,
    least: float = 8.0,
    steps: int = 0,
) -> str:
    """A table in ms that ends at `least`, with the device row of a range whose CPU row is below that, and the sum."""
    rows = [(name, *row) for name, row in operators.items()]
    rows += [(name, 0.0, *row) for name, row in kernels.items()] + [("forward", 0.0, forward, 8)]
    rows = [row for row in rows if row[2] >= least] + ([("ProfilerStep*", 1.0, 0.0, steps)] if steps else [])
    whole = sum(device for _, device, _ in operators.values())
    header = ["Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "Self CUDA", "Self CUDA %"]
    header += ["CUDA total", "CUDA time avg", "# of Calls"]
    lines = []
    for name, own, device, calls in sorted(rows, key=lambda row: -row[2]):
        cells = ["1.00%", f"{own:.3f}ms", "1.00%", f"{own:.3f}ms", "1.000us", f"{device:.3f}ms", "1.00%"]
        lines.append(
            "  ".join((name.rjust(55), *(cell.rjust(13) for cell in [*cells, "1.000ms", "1.000us", str(calls)])))
        )
    rule = "  ".join(("-" * 55, *("-" * 13 for _ in header)))
    head = "  ".join(("Name".rjust(55), *(cell.rjust(13) for cell in header)))
    sums = f"Self CPU time total: 1.588s\nSelf CUDA time total: {whole:.3f}ms\n"
    return "\n".join((rule, head, rule, *lines, rule)) + "\n" + sums


def _of_tables(folder: Path, base: str, new: str) -> CauseReport:
    (folder / "base.txt").write_text(base)
    (folder / "new.txt").write_text(new)
    sides = (read_runs([str(folder / name)], None, "corrected") for name in ("base.txt", "new.txt"))
    report = causes_of(*sides)
    assert report is not None
    return report


@pytest.mark.parametrize(("steps", "metric"), [(0, "total time"), (4, "time")])
def test_a_table_with_a_limit_of_rows(tmp_path: Path, steps: int, metric: str) -> None:
    """Ranges are not kernels, an operator may come from below the last row, and the sum is that of the table."""
    base = _limited(_OF_DEVICE, _KERNELS_OF, 351.6, steps=steps)
    operators = {**_OF_DEVICE, "aten::mul": (29.0, 83.0, 720)}
    new = _limited(operators, {**_KERNELS_OF, _MUL: (83.0, 720)}, 156.9, steps=steps)
    report = _of_tables(tmp_path, base, new)
    (cause,) = report.causes
    assert (cause.kind, cause.where, cause.metric) == ("slower", ("aten::mul",), metric)
    each = 1e3 * max(steps, 1)
    assert report.base_step == pytest.approx(178.7 / each)
    assert report.new_step == pytest.approx(255.6 / each)
    assert cause.low < (83.0 - 6.1) / each < cause.high


def test_rows_beyond_the_last_one_are_one_cause(tmp_path: Path) -> None:
    """Three operators of one change; copies of pageable memory took longer, as many as before."""
    base = _limited(_OF_DEVICE, _KERNELS_OF, 351.6)
    operators = {**_OF_DEVICE, "aten::mul": (29.0, 83.0, 720), "aten::add_": (3.0, 31.2, 288)}
    operators |= {"aten::add": (4.0, 25.0, 192), "aten::copy_": (90.0, 94.3, 1253)}
    kernels = {**_KERNELS_OF, _MUL: (83.0, 720), "Memcpy HtoD (Pageable -> Device)": (94.3, 77)}
    report = _of_tables(tmp_path, base, _limited(operators, kernels, 156.9))
    (cause,) = report.causes
    assert [name for name, _ in cause.come] == ["aten::mul", "aten::add_", "aten::add"]
    assert report.rest == pytest.approx((94.3 - 67.4 - 6.1) / 1e3)


def test_rows_of_one_name_below_the_last_row_are_no_cause(tmp_path: Path) -> None:
    """Grouped by shapes: two of three rows of an operator are below the last row on one side."""
    shapes = {"aten::mm": (30.0, 16.2, 96), "aten::addmm": (100.0, 27.5, 192), "aten::copy_": (90.0, 67.4, 1253)}
    rows = "\n".join(_limited({"aten::mm": (9.0, time, 48)}, {}, 0.0).splitlines()[3] for time in (8.1, 8.05))
    base = _limited(shapes, {}, 0.0).splitlines()
    base[3:3] = rows.splitlines()
    totals = ["Self CUDA time total: 160.000ms", ""]
    new = _limited(shapes, {}, 0.0).splitlines()
    report = _of_tables(tmp_path, "\n".join([*base[:-1], *totals]), "\n".join([*new[:-1], *totals]))
    assert report.causes == ()


def test_a_table_without_steps_says_what_is_compared(tmp_path: Path) -> None:
    report = _report("nsys: twice as many steps", tmp_path)
    note = "neither side counts steps; nearly all rows have 2 times as many calls: compared per call"
    assert report.notes == (note,)
    assert report.new_step == pytest.approx(report.base_step, rel=0.05)
