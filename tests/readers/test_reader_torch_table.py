import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, SHARED, errors, run_of, said

from perfgate.readers import FORMATS

REAL = json.loads((FIXTURES / "real_torch_tables.json").read_text())


def table_of(headers, rows, widths=None, left=(), strip=False):
    """A table as `_build_table` formats it."""
    widths = widths or [30] + [12] * (len(headers) - 1)
    signs = ["<" if at in left else ">" for at in range(len(headers))]
    form = "".join(f"{{: {sign}{width}}}  " for sign, width in zip(signs, widths, strict=True))
    rule = "".join("-" * width + "  " for width in widths)
    lines = [rule, form.format(*headers), rule, *(form.format(*row) for row in rows), rule, "Self CPU time total: 1us"]
    return "".join((line.rstrip() if strip else line) + "\n" for line in lines)


def aggregates(run):
    """Every series of a row with what it holds: (statistic, value) pairs of an aggregate, or the one value."""
    rows = (series for series in run.series if not series.key.metric.startswith("table"))
    return {str(series.key): dict(series.aggregate) or series.values.tolist() for series in rows}


CPU = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
OLD_CPU = ["Name", "Self CPU total %", "Self CPU total", "CPU total %", "CPU total", "CPU time avg"]
CUDA = ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
MEMORY = ["CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem"]
MM = ["aten::mm", "53.46%", "48.972ms", "70.85%", "64.896ms", "21.632ms"]
MM_CPU = {
    "aten::mm.self_cpu_time": {"total": 0.048972, "count": 3},
    "aten::mm.cpu_time": {"total": 0.064896, "mean": 0.021632, "count": 3},
    "aten::mm.calls": [3],
}
MM_CUDA = {
    "aten::mm.self_device_time": {"total": 1.5, "count": 3},
    "aten::mm.device_time": {"total": 1.6, "mean": 0.53333, "count": 3},
}
CUDA_CELLS = ["1.500s", "12.15%", "1.600s", "533.330ms"]


def without_count(series):
    return {
        key: {name: value for name, value in held.items() if name != "count"}
        for key, held in series.items()
        if isinstance(held, dict)
    }


VERSIONS = {
    "1.5, left-aligned": (
        table_of(
            [*OLD_CPU, "CUDA total %", "CUDA total", "CUDA time avg", "Number of Calls", "Input Shapes"],
            [[*MM, "9.00%", "1.600s", "533.330ms", "3", "[]"]],
            [15] * 11,
            range(11),
        ),
        {**MM_CPU, "aten::mm.device_time": MM_CUDA["aten::mm.device_time"]},
    ),
    "documentation, without calls": (table_of(CPU, [MM], left=range(6)), without_count(MM_CPU)),
    "1.7": (table_of([*CPU, *CUDA, "# of Calls"], [[*MM, *CUDA_CELLS, "3"]]), {**MM_CPU, **MM_CUDA}),
    "trailing blanks stripped": (
        table_of([*CPU, *CUDA, "# of Calls"], [[*MM, *CUDA_CELLS, "3"]], strip=True),
        {**MM_CPU, **MM_CUDA},
    ),
    "1.8, FLOPS are per second": (table_of([*CPU, "# of Calls", "GFLOPS"], [[*MM, "3", "1.5"]]), MM_CPU),
    "memory and flops": (
        table_of(
            [*CPU, *MEMORY, "# of Calls", "Total MFLOPs"],
            [[*MM, "0 b", "-512 b", "72.12 Mb", "-112.00 Kb", "3", "22548.578"]],
        ),
        {
            **MM_CPU,
            "aten::mm.cpu_memory": {"total": 0, "count": 3},
            "aten::mm.self_cpu_memory": {"total": -512, "count": 3},
            "aten::mm.device_memory": {"total": 72.12 * 2**20, "count": 3},
            "aten::mm.self_device_memory": {"total": -112 * 1024, "count": 3},
            "aten::mm.flops": {"total": pytest.approx(22548.578e6, rel=1e-12), "count": 3},
        },
    ),
    "newer units of memory": (
        table_of([*CPU, "CPU Mem", "# of Calls"], [[*MM, "1.50 GB", "3"]]),
        {**MM_CPU, "aten::mm.cpu_memory": {"total": 1.5 * 2**30, "count": 3}},
    ),
    "no flops": (table_of([*CPU, "# of Calls", "Total FLOPs"], [[*MM, "3", "--"]]), MM_CPU),
    "an asynchronous event": (
        table_of([*CPU, "# of Calls"], [["nccl:x", "NaN", "0.000us", "0", "425.000us", "425.000us", "1"]]),
        {
            "nccl:x.self_cpu_time": {"total": 0, "count": 1},
            "nccl:x.cpu_time": {"total": 0.000425, "mean": 0.000425, "count": 1},
            "nccl:x.calls": [1],
        },
    ),
    "an overload": (
        table_of(["Name", "Overload Name", *CPU[1:], "# of Calls"], [["aten::mm", "out", *MM[1:], "3"]]),
        {key.replace("mm.", "mm.out."): value for key, value in MM_CPU.items()},
    ),
    "no overload": (
        table_of(["Name", "Overload Name", *CPU[1:], "# of Calls"], [["aten::mm", "", *MM[1:], "3"]]),
        MM_CPU,
    ),
    "node ids and shapes": (
        table_of([*CPU, "# of Calls", "Node ID", "Input Shapes"], [[*MM, "3", "-1", "[[6, 4], [4,  2]]"]]),
        MM_CPU,
    ),
    "a stack": (
        table_of(
            [*CPU, "# of Calls", "Source Location"],
            [[*MM, "3", "a.py(1): f"], [""] * 7 + ["b.py(2): g"], [""] * 8],
            [30] + [12] * 6 + [40],
            [7],
        ),
        MM_CPU,
    ),
    "a stack and flops, in the other order": (
        table_of(
            [*CPU, "# of Calls", "Source Location", "Total KFLOPs"],
            [[*MM, "3", "   5.000", "a_long_name.py(100): function"], [""] * 8 + ["b.py(2): g"], [""] * 9],
            [30] + [12] * 6 + [40, 12],
            [7],
        ),
        {**MM_CPU, "aten::mm.flops": {"total": 5000, "count": 3}},
    ),
    "cells wider than their columns": (
        table_of([*CPU, "# of Calls"], [[*MM[:2], "123456789.123us", "1000000.00%", *MM[4:], "3"]]),
        {**MM_CPU, "aten::mm.self_cpu_time": {"total": 123.456789123, "count": 3}},
    ),
    "a table that an editor has narrowed": (
        "\n".join(
            line if line.startswith("-") else "  ".join(line.split())
            for line in table_of(
                ["Name", "Self", "CPU", "3", "4", "5"], [["mm", "5%", "4.500ms", "7%", "6.500ms", "2.000ms"]]
            ).split("\n")
        ).replace("Self  CPU  3  4  5", "Self CPU %  Self CPU  CPU total %  CPU total  CPU time avg"),
        {"mm.self_cpu_time": {"total": 0.0045}, "mm.cpu_time": {"total": 0.0065, "mean": 0.002}},
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("prefix", ["", "    ", "> ", "2026-01-01 10:00:00 INFO - ", "\ufeff"])
def test_versions(version, prefix):
    text, expected = VERSIONS[version]
    run = run_of(prefix + text if prefix == "\ufeff" else "".join(prefix + line + "\n" for line in text.split("\n")))
    assert run.format == "torch-table"
    assert aggregates(run) == expected
    assert said(run) == []


@pytest.mark.parametrize("device", ["CUDA", "XPU", "HPU", "MTIA", "NPU", "PRIVATEUSE1", "None"])
def test_every_device_is_called_device(device):
    headers = [name.replace("CUDA", device) for name in [*CPU, *CUDA, *MEMORY, "# of Calls"]]
    run = run_of(table_of(headers, [[*MM, *CUDA_CELLS, "1 b", "2 b", "3 b", "4 b", "3"]]))
    found = aggregates(run)
    assert found.items() >= {**MM_CPU, **MM_CUDA}.items()
    assert found["aten::mm.self_device_memory"] == {"total": 4, "count": 3}


@pytest.mark.parametrize("prefix", ["", "2026-01-01 10:00:00 INFO - "])
def test_the_sums_below_a_table(prefix):
    """A table with a limit of rows prints the sum of all rows below them."""
    table = table_of([*CPU, *CUDA, "# of Calls"], [[*MM, *CUDA_CELLS, "3"]]) + "Self CUDA time total: 271.242ms\n"
    text = "Self CPU time total: 7ms\n" + table + "epoch 1: Self CPU time total: many\n" + table
    run = run_of("".join(prefix + line for line in text.splitlines(keepends=True)))
    sums = {str(one.key): (one.unit, *one.values.tolist()) for one in run.series if one.key.metric.startswith("table")}
    assert sums == {
        "table.self_cpu_time": ("s", 1e-6),
        "table.self_device_time": ("s", 0.271242),
        "table#2.self_cpu_time": ("s", 1e-6),
        "table#2.self_device_time": ("s", 0.271242),
    }
    assert errors(run) == []


def test_of_two_devices_the_first_is_read():
    xpu = [name.replace("CUDA", "XPU") for name in CUDA]
    run = run_of(
        table_of([*CPU, *CUDA, *xpu, "# of Calls"], [[*MM, *CUDA_CELLS, "7.000us", "1%", "7.000us", "7.000us", "3"]])
    )
    assert aggregates(run) == {**MM_CPU, **MM_CUDA}
    assert said(run) == ["train.log:2: warning: only CUDA is read, because the table has CUDA and XPU"]


def test_units_and_kinds():
    run = run_of(VERSIONS["memory and flops"][0])
    rows = [series for series in run.series if series.key.metric.startswith("aten")]
    assert {series.key.metric.split(".")[1]: (series.unit, series.kind) for series in rows} == {
        "calls": ("1", "value"),
        **dict.fromkeys(("self_cpu_time", "cpu_time"), ("s", "aggregate")),
        **dict.fromkeys(("cpu_memory", "self_cpu_memory", "device_memory"), ("B", "aggregate")),
        "self_device_memory": ("B", "aggregate"),
        "flops": ("FLOP", "aggregate"),
    }
    assert run.environment == {}


def test_names_that_are_printed_again_are_numbered():
    row = ["void k<4, at...", "0.00%", "1.000us", "0.00%", "1.000us", "1.000us", "1"]
    text = table_of([*CPU, "# of Calls"], [row, row, row])
    run = run_of(text + "\n" + text)
    found = [*aggregates(run)]
    assert found[::3] == ["void k<4, at....calls"] + [f"void k<4, at...#{number}.calls" for number in range(2, 7)]
    assert said(run) == ["train.log:5: warning: a name occurs again: void k<4, at... is named void k<4, at...#2 here"]


@pytest.mark.parametrize(
    ("at", "cell", "concerned"),
    [
        (2, "nanus", "self_cpu_time"),
        (4, "-1.000us", "cpu_time"),
        (5, "infs", "cpu_time"),
        (4, "1.2.3ms", "cpu_time"),
        (4, "12.000xs", "cpu_time"),
        (2, "9" * 400 + "us", "self_cpu_time"),
        (6, "1e3.5", "calls"),
    ],
)
def test_cells_that_cannot_be_true(at, cell, concerned):
    row = [*MM, "3"]
    row[at] = cell
    run = run_of(table_of([*CPU, "# of Calls"], [[*MM, "3"], row]))
    (problem,) = (problem for problem in run.problems if problem.severity == "error")
    assert (problem.at.line, str(problem.key)) == (5, f"aten::mm#2.{concerned}")
    kept = aggregates(run)
    for metric, expected in MM_CPU.items():
        assert kept[metric] == expected
        other = kept.get(metric.replace("mm.", "mm#2."), {})
        assert isinstance(other, list) or all(expected[name] == value for name, value in other.items())


def test_lines_of_other_writers_are_passed_over():
    lines = table_of([*CPU, "# of Calls"], [[*MM, "3"], ["aten::t", *MM[1:], "3"]]).split("\n")
    lines[4:4] = ["/usr/lib/python3/x.py:10: UserWarning: something  happened", "", "Epoch 1:  50%|####    | 1/2"]
    assert len(aggregates(run_of("\n".join(lines)))) == 6
    assert said(run_of("\n".join(lines))) == []
    lines[4] = "  aten::mm  53.46%  48.972ms   # "
    assert errors(run_of("\n".join(lines))) == ["train.log:5: error: a row of the table cannot be read"]


def test_a_header_that_does_not_fit_its_rule_is_an_error():
    text = table_of([*CPU, "# of Calls"], [[*MM, "3"]]).replace("Self CPU %", "          ")
    run = run_of(text, "torch-table")
    assert "6 headers over 7 columns" in errors(run)[0]
    assert run.series == ()


def test_a_table_without_its_end_is_a_warning():
    text = table_of([*CPU, "# of Calls"], [[*MM, "3"], ["aten::t", *MM[1:], "30"]])
    lines = text.split("\n")
    assert said(run_of("\n".join(lines[:5]) + "\n")) == [
        "train.log:5: warning: the table has no rule at its end: rows may be missing"
    ]
    run = run_of("\n".join(lines[:5])[:-3])
    assert said(run) == ["train.log:5: warning: the last row is cut off; left out"]
    assert aggregates(run) == MM_CPU


@pytest.mark.parametrize("document", [one for one in REAL if one["rows"] and "cpu_time_total" in one["rows"][0]])
def test_tables_of_a_real_torch(document):
    """The numbers that torch printed are those that it had, to the last digit of each cell."""
    run = run_of(document["text"])
    found = {series.key: series for series in run.series}
    by_row = {}
    for key, series in found.items():
        name, metric = key.metric.rsplit(".", 1)
        by_row.setdefault(name, {})[metric] = series
    by_row.pop("table", None)
    assert len(by_row) == len(document["rows"])
    assert errors(run) == []
    unit = 1e-3 if "fixed" in document["name"] else 0
    for (name, metrics), truth in zip(by_row.items(), document["rows"], strict=True):
        assert truth["name"].startswith(name.split("#")[0].removesuffix("..."))
        assert metrics["calls"].values.tolist() == [truth["count"]]
        for metric, field in (("self_cpu_time", "self_cpu_time_total"), ("cpu_time", "cpu_time_total")):
            total = metrics[metric].aggregate["total"]
            assert total == pytest.approx(truth[field] / 1e6, rel=6e-4, abs=0.51 * max(unit, 1e-9))
        if "cpu_memory" in metrics:
            assert metrics["cpu_memory"].aggregate["total"] == pytest.approx(truth["cpu_memory_usage"], abs=6)
            assert metrics["self_cpu_memory"].aggregate["total"] == pytest.approx(truth["self_cpu_memory_usage"], abs=6)
        if "flops" in document["name"]:
            assert ("flops" in metrics) == (truth["flops"] > 0)
        if "flops" in metrics:
            assert metrics["flops"].aggregate["total"] == truth["flops"]


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20).filter(
    lambda name: name.strip("-") and not name.startswith("\ufeff")
)
TIMES = st.tuples(
    st.integers(0, 10**9).map(lambda n: f"{n / 1000:.3f}"), st.sampled_from([("us", -6), ("ms", -3), ("s", 0)])
)
ROWS = st.lists(
    st.tuples(NAMES, TIMES, TIMES, TIMES, st.integers(0, 10**6)), min_size=1, max_size=6, unique_by=lambda r: r[0]
)


@given(rows=ROWS, chunk=st.integers(1, 400), stripped=st.booleans())
def test_what_is_written_is_read(rows, chunk, stripped):
    cells = [
        [name, "1.00%", own[0] + own[1][0], "NaN", total[0] + total[1][0], mean[0] + mean[1][0], str(calls)]
        for name, own, total, mean, calls in rows
    ]
    run = run_of(table_of([*CPU, "# of Calls"], cells, strip=stripped), "torch-table", chunk)
    expected = {}
    for name, own, total, mean, calls in rows:
        values = [float(f"{text}e{unit[1]}") for text, unit in (own, total, mean)]
        expected[f"{name}.calls"] = [calls]
        expected[f"{name}.self_cpu_time"] = {"total": values[0], "count": calls}
        expected[f"{name}.cpu_time"] = {"total": values[1], "mean": values[2], "count": calls}
    assert aggregates(run) == expected
    assert said(run) == []


WHOLE = (
    VERSIONS["memory and flops"][0] + VERSIONS["1.7"][0] + VERSIONS["a stack and flops, in the other order"][0]
).encode()


@given(cut=st.integers(0, len(WHOLE)))
def test_a_cut_never_changes_a_value(cut):
    whole = aggregates(run_of(WHOLE))
    assert aggregates(run_of(WHOLE[:cut], "torch-table")).items() <= whole.items()


@given(
    edits=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=8)), max_size=6),
    chunk=st.integers(1, 99),
)
def test_mutations_never_raise(edits, chunk):
    data = bytearray(WHOLE)
    for at, new in edits:
        data[at : at + len(new)] = new
    run = run_of(bytes(data), "torch-table", chunk)
    assert run.series or errors(run)
    assert aggregates(run) == aggregates(run_of(bytes(data), "torch-table"))


@pytest.mark.parametrize("start", ["", VERSIONS["1.7"][0][:900]])
@pytest.mark.parametrize("piece", ["---  ", "-", "  ", "1  ", "---  --- ", "Name  ", "Self CPU %  ", "1.0ms "])
def test_no_line_takes_long(start, piece):
    for known in FORMATS:
        if known.name in ("torch-table", "lightning"):
            run_of(start + piece * (200_000 // len(piece)) + "\n" + piece * 1000 + "\n", known.name)
            run_of(start + (piece * 20 + "\n") * 2000, known.name)


# --- files of the project's shared folder, read by eye ------------------------------------------------------------

#: How many rows each file has, and some of what stands in them.
CORPUS = {
    "gpumode_lecture4.txt": (
        6,
        {
            "cudaLaunchKernel.cpu_time": {"total": 0.032585, "mean": 3.259e-6, "count": 10000},
            "cudaLaunchKernel#2.self_cpu_time": {"total": 0.042183, "count": 10000},
            "rgb_to_grayscale_kernel(unsigned char*, unsigned cha....device_time": {
                "total": 0.269413,
                "mean": 2.6941e-5,
                "count": 10000,
            },
            "my_empty_kernel(float*, float*, int).self_device_time": {"total": 0.03, "count": 10000},
            "cudaDeviceSynchronize#2.calls": [10001],
        },
    ),
    "id13133451093_cudagraph_kernels.txt": (
        20,
        {
            "spmm_kernel.device_time": {"total": 0.071163, "mean": 0.001186, "count": 60},
            "void at::native::vectorized_elementwise_kernel<4, at....self_device_time": {
                "total": 0.001309,
                "count": 30,
            },
            "void at::native::vectorized_elementwise_kernel<4, at...#5.self_device_time": {"total": 2e-5, "count": 20},
            "Memset (Unknown).calls": [30],
            "cudaDeviceSynchronize.self_cpu_time": {"total": 0.111332, "count": 1},
        },
    ),
    "id29964644629_memory_flops.txt": (
        10,
        {
            "torch_feed_forward.device_time": {"total": 0.010502, "mean": 0.010502, "count": 1},
            "torch_feed_forward#2.device_memory": {"total": 16.12 * 2**20, "count": 1},
            "torch_feed_forward#2.self_device_memory": {"total": -112 * 2**20, "count": 1},
            "custom_feed_forward#2.cpu_time": {"total": 0.016131, "mean": 0.016131, "count": 1},
            "void bmm_broadcast_B<float, 16, float>(float const*,....device_time": {
                "total": 0.010114,
                "mean": 0.003371,
                "count": 3,
            },
            "aten::mm.flops": {"total": 22548578000, "count": 3},
            "cudaDeviceSynchronize.self_device_time": {"total": 0.000494623, "count": 6},
        },
    ),
    "id5100024993_T4_memory.txt": (
        10,
        {
            "aten::ones.device_memory": {"total": 256 * 2**20, "count": 1},
            "aten::ones.self_device_memory": {"total": 0, "count": 1},
            "aten::sum.self_device_memory": {"total": 512, "count": 1},
            "cudaLaunchKernel.calls": [11],
            "aten::pow.self_device_time": {"total": 0.002167, "count": 1},
        },
    ),
    "id70883536583_XPU.txt": (
        12,
        {
            "aten::mm.self_device_time": {"total": 0.00082992, "count": 1},
            "gemm_kernel.device_time": {"total": 0.00081808, "mean": 0.00081808, "count": 1},
            "aten::empty.cpu_time": {"total": 0.00039141, "mean": 0.000195705, "count": 2},
        },
    ),
}


def close(found, expected):
    if isinstance(expected, list):
        return found == expected
    return found == {name: pytest.approx(value, rel=1e-12, abs=1e-300) for name, value in expected.items()}


@pytest.mark.shared
@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name):
    run = run_of((SHARED / "corpus/torch-table" / name).read_bytes())
    rows, expected = CORPUS[name]
    found = aggregates(run)
    assert sum(key.endswith(".calls") for key in found) == rows
    for key, value in expected.items():
        assert close(found[key], value), key
    assert errors(run) == []


@pytest.mark.shared
def test_seed_004():
    run = run_of(next((SHARED / "seeds").glob("004_*")).read_bytes())
    found = aggregates(run)
    assert sum(key.endswith(".calls") for key in found) == 84
    assert said(run) == []
    assert close(found["train_step-0.cpu_time"], {"total": 3.916, "mean": 3.916, "count": 1})
    assert close(found["nccl:_all_gather_base.cpu_time"], {"total": 3.758, "mean": 1.879, "count": 2})
    assert close(found["cudaLaunchKernel.cpu_time"], {"total": 3.771, "mean": 0.003268, "count": 1154})
    assert close(found["nccl:reduce_scatter.cpu_time"], {"total": 425e-6, "mean": 425e-6, "count": 1})
    assert close(found["Optimizer.step#Adam.step.device_time"], {"total": 0.003065, "mean": 0.003065, "count": 1})
    assert close(found["EmbeddingBackward.cpu_time"], {"total": 0.044893, "mean": 0.044893, "count": 1})


@pytest.mark.shared
def test_inductor_output_is_no_table():
    (path,) = (SHARED / "corpus/other-text").glob("test_attn*")
    run = run_of(path.read_bytes())
    assert (run.format, run.series) == ("unknown", ())


def test_a_rule_may_call_the_device_by_its_name(tmp_path, monkeypatch):
    """`cuda_time` and `xpu_time` are `device_time`, in single names and in globs; a bad cell still reaches the rule."""
    import numpy as np

    from perfgate.core import Key, Run, Series
    from perfgate.judge.derived import RunView, component_names
    from perfgate.judge.measure import Method
    from perfgate.rules.syntax.grammar import parse_expression
    from perfgate.rules.syntax.sentence import Selector

    key = Key("aten::mm.self_device_time")
    series = Series(key, "s", "aggregate", np.empty(0), aggregate={"total": 1.0, "count": 2.0})
    view = RunView(Run("t", "torch-table", (series,)), {})
    for name in ("aten::mm.self_cuda_time", "aten::mm.self_xpu_time", "aten::mm.self_device_time"):
        (found,) = view.select(Selector(name)).values()
        assert Method("mean").measure(found).value == 0.5
        assert key.metric in component_names(parse_expression(name), {})
    assert [k.metric for k in view.select(Selector("*.self_cuda_time"))] == [key.metric]
    assert not view.select(Selector("aten::mm.cuda_time"))
