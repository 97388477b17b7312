import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, said

from perfgate.readers import Source, recognise

TITLE = "Processing [r.sqlite] with [/opt/nsight-systems/reports/{0}.py]...\n\n ** Some Summary ({0}):\n\n"
KERNELS = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
CALLS = KERNELS.replace("Instances", "Num Calls")
RANGES = KERNELS.replace("Name", "Style,Range")
MEMORY = KERNELS.replace("Instances", "Count").replace("Name", "Operation")
SIZES = "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
ROW = '95.6,2000548,8,250068.5,249601.0,227873,271585,21636.6,"void fft<float, 2>(float *, int)"\n'
FFT = "kernel.void fft<float, 2>(float *, int)"
NUMBERS = "50.0,4000,4,1000.0,900.0,500,1700,50.5"
NAMES = ("total", "count", "mean", "median", "min", "max", "stddev")


def aggregates(run):
    return {series.key.metric: dict(series.aggregate) for series in run.series}


def seconds(*numbers, per=1e9):
    """A row's statistics in base units: total, count, mean, ..., printed so that `per` of them are one."""
    return {name: x if name == "count" else x / per for name, x in zip(NAMES, numbers, strict=False)}


def table(rows, *, box=False, indent=" "):
    """Rows of cells, the header first, as `nsys stats` lays them out: numbers to the right, names to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    lines = [
        [cell.ljust(w) if i == last else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    ruler = ["-" * width for width in widths]
    if not box:
        return "".join(indent + "  ".join(line) + "\n" for line in [lines[0], ruler, *lines[1:]])
    edge = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    body = ["| " + " | ".join(line) + " |\n" for line in lines]
    return edge + body[0] + edge + "".join(body[1:]) + edge


def test_one_kernel():
    run = run_of(KERNELS + ROW)
    (series,) = run.series
    assert (str(series.key), series.unit, series.kind, series.values.size) == (FFT, "s", "aggregate", 0)
    assert dict(series.aggregate) == {
        "total": 0.002000548,
        "count": 8,
        "mean": 250068.5 / 1e9,
        "median": 0.000249601,
        "min": 0.000227873,
        "max": 0.000271585,
        "stddev": 21636.6 / 1e9,
    }
    assert run.problems == ()
    assert not series.values.flags.writeable


@pytest.mark.parametrize(
    ("text", "metric", "unit"),
    [
        (KERNELS + NUMBERS + ",k\n", "kernel.k", "s"),
        (CALLS + NUMBERS + ",cudaMalloc\n", "api.cudaMalloc", "s"),
        (CALLS + NUMBERS + ",cuInit\n", "api.cuInit", "s"),
        (CALLS + NUMBERS + ",poll\n", "os.poll", "s"),
        (TITLE.format("osrt_sum") + CALLS + NUMBERS + ",cuckoo\n", "os.cuckoo", "s"),
        (TITLE.format("cuda_api_sum") + CALLS + NUMBERS + ",poll\n", "api.poll", "s"),
        ("[8/8] Executing 'osrt_sum' stats report\n\n" + CALLS + NUMBERS + ",cudart\n", "os.cudart", "s"),
        (MEMORY + NUMBERS + ",[CUDA memcpy HtoD]\n", "memcpy.[CUDA memcpy HtoD]", "s"),
        (RANGES + NUMBERS + ",PushPop,:step 1\n", "range.:step 1", "s"),
        (RANGES + NUMBERS + ",PushPop,NCCL:ncclAllReduce\n", "range.NCCL:ncclAllReduce", "s"),
        (TITLE.format("gpukernsum") + KERNELS + NUMBERS + ",k\n", "kernel.k", "s"),
    ],
)
def test_reports(text, metric, unit):
    run = run_of(text)
    assert aggregates(run) == {metric: seconds(4000, 4, 1000.0, 900.0, 500, 1700, 50.5)}
    assert (run.series[0].unit, run.problems) == (unit, ())


def test_sizes_are_bytes_beside_times():
    run = run_of(
        MEMORY + NUMBERS + ",[CUDA memset]\n\n" + SIZES + "8.389,2,4.194,4.194,4.194,4.194,0.000,[CUDA memset]\n"
    )
    assert [(series.key.metric, series.unit) for series in run.series] == [
        ("memcpy.[CUDA memset]", "s"),
        ("memcpy.[CUDA memset].size", "B"),
    ]
    assert dict(run.series[1].aggregate) == pytest.approx(
        {"total": 8389e3, "count": 2, "mean": 4194e3, "median": 4194e3, "min": 4194e3, "max": 4194e3, "stddev": 0}
    )


#: Every version of a table: its text, and what it holds.
TABLES = {
    "2020": (
        "CUDA Kernel Statistics:\n\n"
        " Time(%)  Total Time (ns)  Instances   Average   Minimum  Maximum      Name     \n"
        " -------  ---------------  ---------  ---------  -------  -------  -------------\n"
        "   100.0          222,080          1  222,080.0  222,080  222,080  add(int *, T1)\n",
        {
            "kernel.add(int *, T1)": {
                "total": 222080e-9,
                "count": 1,
                "mean": 222080e-9,
                "min": 222080e-9,
                "max": 222080e-9,
            }
        },
    ),
    "2020, sizes": (
        "CUDA Memory Operation Statistics (by size in KiB):\n\n"
        "   Total     Operations   Average   Minimum   Maximum       Operation     \n"
        " ----------  ----------  ---------  -------  ---------  ------------------\n"
        " 11,718.754           4  2,929.688    0.004  3,906.250  [CUDA memcpy HtoD]\n",
        {
            "memcpy.[CUDA memcpy HtoD].size": {
                "total": 11718.754 * 1024,
                "count": 4,
                "mean": 2929.688 * 1024,
                "min": 0.004 * 1024,
                "max": 3906.25 * 1024,
            }
        },
    ),
    "2021, with units": (
        "CUDA API Statistics:\n\n"
        "Time(%)  Total Time (ns)  Num Calls  Average (ns)   Minimum (ns)  Maximum (ns)  StdDev (ns)       Name\n"
        "-------  ---------------  ---------  -------------  ------------  ------------  -----------  --------------\n"
        "   42.7    2,127,723,623    136,038       15,640.7         3,630    10,224,640     59,860.5  cuLaunchKernel\n",
        {
            "api.cuLaunchKernel": {
                "total": 2.127723623,
                "count": 136038,
                "mean": 15640.7e-9,
                "min": 3630e-9,
                "max": 10224640e-9,
                "stddev": 59860.5e-9,
            }
        },
    ),
    "2022, in ms, by grid, in a comment": (
        "#  ** CUDA GPU Kernel Summary (gpukernsum):\n\n"
        "#  Time (%)  Total Time (ms)  Instances  Avg (ms)      GridXYZ          BlockXYZ      Name   \n"
        "#  --------  ---------------  ---------  --------  ----------------  --------------  --------\n"
        "#      85.3           0.1992          2    0.0996  125000    1    1    32    1    1  cudapy a\n",
        {"kernel.cudapy a": {"total": 0.0001992, "count": 2, "mean": 0.0000996}},
    ),
    "in seconds": (
        " ** GPU MemOps Summary (by Time) (gpumemtimesum):\n\n"
        "Time (%)  Total Time (sec)  Count  Avg (sec)      Operation     \n"
        "--------  ----------------  -----  ---------  ------------------\n"
        "    83.3            2.5000      2     1.2500  [CUDA memcpy HtoD]\n",
        {"memcpy.[CUDA memcpy HtoD]": {"total": 2.5, "count": 2, "mean": 1.25}},
    ),
    "2024, in a box": (
        " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        "+----------+-----------------+-----------+----------+-----------------+\n"
        "| Time (%) | Total Time (ns) | Instances | Avg (ns) |      Name       |\n"
        "+----------+-----------------+-----------+----------+-----------------+\n"
        "|     30.0 |      11,294,113 |       144 | 78,431.3 | void f<(int)1, … |\n".replace("… |", "…|")
        + "+----------+-----------------+-----------+----------+-----------------+\n",
        {"kernel.void f<(int)1, …": {"total": 0.011294113, "count": 144, "mean": 78431.3e-9}},
    ),
    "2026, without commas": (
        " ** NVTX Range Summary (nvtx_sum):\n\n"
        " Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)   Style   Range \n"
        " --------  ---------------  ---------  --------  --------  -------  ------\n"
        "    100.0          8206975        300   27356.6   26330.0  PushPop  :a b  \n",
        {"range.:a b": {"total": 0.008206975, "count": 300, "mean": 27356.6e-9, "median": 26330e-9}},
    ),
    "tsv": (
        "Time (%)\tTotal Time (us)\tInstances\tName\n95.6\t2000.5\t8\tvoid f(int, int)\n",
        {"kernel.void f(int, int)": {"total": 2000.5e-6, "count": 8}},
    ),
    "2021, csv": (
        '"Time(%)","Total Time","Calls","Average","Minimum","Maximum","Name"\n50.0,3000,3,1000.0,900,1100,cuInit\n',
        {"api.cuInit": {"total": 3e-6, "count": 3, "mean": 1e-6, "min": 0.9e-6, "max": 1.1e-6}},
    ),
}


@pytest.mark.parametrize("version", TABLES)
@pytest.mark.parametrize("prefix", ["", "    ", "0: ", "> "])
def test_versions(version, prefix):
    text, expected = TABLES[version]
    tabular = version not in ("tsv", "2021, csv")
    run = run_of("".join(prefix * tabular + line for line in text.splitlines(keepends=True)))
    assert run.format == "nsys"
    assert {name: pytest.approx(values, rel=1e-12) for name, values in expected.items()} == aggregates(run)
    assert run.problems == ()


def test_a_whole_output():
    """Notices, a report without data, reports that are not read, and foreign text between tables."""
    text = (
        "Generating '/tmp/nsys-report-38ad.qdstrm'\n[1/8] [=====100%] report3.nsys-rep\n"
        "[3/8] Executing 'nvtx_sum' stats report\nSKIPPED: r.sqlite does not contain NV Tools Extension (NVTX) data.\n"
        "[4/8] Executing 'osrt_sum' stats report\n\n"
        + table([["Time (%)", "Total Time (ns)", "Num Calls", "Name"], ["73.1", "511,907,520", "8", "sem_wait"]])
        + "\n[5/8] Executing 'cuda_api_sum' stats report\n\n"
        + table([["Time (%)", "Total Time (ns)", "Num Calls", "Name"], ["9.1", "1,920", "2", "cudaFree"]])
        + "Generated:\n    /home/ada/report3.nsys-rep\n"
        "[6/8] Executing 'openmp_sum' stats report\n\n"
        + table([["Time (%)", "Total Time (ns)", "Count", "Name"], ["1.0", "5", "1", "region"]])
        + "[8/8] Executing 'um_sum' stats report\nSKIPPED: r.sqlite does not contain CUDA Unified Memory data.\n"
    )
    run = run_of(text)
    assert aggregates(run) == {
        "os.sem_wait": {"total": 0.511907520, "count": 8},
        "api.cudaFree": {"total": 1920e-9, "count": 2},
    }
    assert said(run) == [
        "train.log:4: warning: nsys skipped a report: no NV Tools Extension (NVTX) data",
        "train.log:21: warning: the report openmp_sum is not read",
    ]


def test_only_skipped():
    run = run_of("SKIPPED: /x/r.sqlite does not contain CUDA kernel data.\n")
    assert said(run) == [
        "train.log:1: warning: nsys skipped a report: no CUDA kernel data",
        "train.log: error: no measurements",
    ]


@pytest.mark.parametrize("bad", ["nan", "inf", "-1", "1e999", "1,23", "12x", "NULL"])
def test_values_that_cannot_be_true(bad):
    run = run_of(KERNELS + f'50.0,4000,4,"{bad}",900.0,500,1700,50.5,k\n' + ROW)
    assert [*aggregates(run)] == ["kernel.k", FFT]
    assert aggregates(run)["kernel.k"].keys() == {*NAMES} - {"mean"}
    (problem,) = run.problems
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 2, "kernel.k")


def test_an_empty_cell_is_not_available():
    run = run_of(KERNELS + "50.0,4000,4,1000.0,,500,1700,,k\n")
    assert aggregates(run) == {"kernel.k": {"total": 4e-6, "count": 4, "mean": 1e-6, "min": 5e-7, "max": 1.7e-6}}
    assert run.problems == ()


def test_a_name_that_comes_again_is_kept_apart():
    run = run_of(KERNELS + "50.0,4000,4,1.0,1.0,1,1,0.0,k\n50.0,2000,2,1.0,1.0,1,1,0.0,k\n")
    assert {name: values["count"] for name, values in aggregates(run).items()} == {"kernel.k": 4, "kernel.k#2": 2}
    assert said(run) == ["train.log:3: warning: a name occurs again: kernel.k is named kernel.k#2 here"]


def test_many_odd_rows_are_said_some_times():
    run = run_of(KERNELS + ROW * 300 + "1.0,2\n" * 300)
    assert [*aggregates(run)][-1] == f"{FFT}#300"
    assert len(run.problems) == 22


@pytest.mark.parametrize(
    "text",
    [
        KERNELS + ROW + "\n" + KERNELS + ROW,
        "Processing [a.sqlite] with [reports/cuda_gpu_kern_sum.py]...\n" + KERNELS + ROW
        + "\nProcessing [b.sqlite] with [reports/cuda_gpu_kern_sum.py]...\n" + KERNELS + ROW,
        "Processing [a.sqlite] with [reports/cuda_api_sum.py]...\n" + CALLS + NUMBERS + ",cuInit\n"
        + "\nProcessing [b.sqlite] with [reports/cuda_gpu_kern_sum.py]...\n" + KERNELS + ROW,
    ],
    ids=["the same report again", "two exports", "two exports, one report of each"],
)  # fmt: skip
def test_several_runs(text):
    runs = runs_of(text)
    assert [run.part for run in runs] == [1, 2]
    assert FFT in aggregates(runs[1])
    assert all("this file has 2 runs" in " ".join(said(run)) for run in runs)


def test_reports_of_one_run_are_one_run():
    text = (
        KERNELS
        + ROW
        + "\n"
        + CALLS
        + NUMBERS
        + ",cuInit\n\n"
        + CALLS
        + NUMBERS
        + ",poll\n\n"
        + RANGES
        + NUMBERS
        + ",x,:a\n"
    )
    assert [*aggregates(run_of(text))] == [FFT, "api.cuInit", "os.poll", "range.:a"]


@pytest.mark.parametrize(
    ("text", "message", "severity"),
    [
        (
            "Time (%),Total Time (parsec),Instances,Name\n1.0,2,3,k\n",
            "'Total Time (parsec)' has no known unit",
            "error",
        ),
        ("Total,Operations,Average,Operation\n1.0,2,3,k\n", "'Total' has no known unit", "error"),
        (KERNELS.replace("Avg (ns)", "Avg (old units)") + NUMBERS + ",k\n", "has no known unit", "error"),
        (KERNELS.replace("Total Time (ns)", "Total Time (old units)") + NUMBERS + ",k\n", "has no known unit", "error"),
        (
            KERNELS.replace("Name", "Category,Operation") + NUMBERS + ",x,k\n",
            "the column 'Category' is not read",
            "warning",
        ),
        (KERNELS.replace("Instances", "Count") + NUMBERS + ",k\n", "a table of unknown calls is not read", "warning"),
    ],
)
def test_tables_that_are_not_read(text, message, severity):
    run = run_of(text)
    assert run.series == ()
    assert message in str(run.problems[0])
    assert run.problems[0].severity == severity


def test_a_row_that_does_not_fit_is_left_out_and_said():
    run = run_of(KERNELS + "50.0,4000,4,void f(int, int)\n" + ROW + "Done, at last\n" + ROW)
    assert [*aggregates(run)] == [FFT]
    assert said(run) == ["train.log:2: warning: the row does not match the table's header; left out"]


def test_a_last_row_without_a_line_end_is_left_out_and_said():
    run = run_of(KERNELS + ROW + "1.0,1234")
    assert [*aggregates(run)] == [FFT]
    assert said(run) == ["train.log:3: warning: the last row may be cut off; left out"]


ROWS = [
    {
        "Time (%)": 95.6,
        "Total Time (ns)": 2000548,
        "Instances": 8,
        "Avg (ns)": 250068.5,
        "StdDev (ns)": None,
        "Name": "f(int, int)",
    },
    {"Time (%)": 4.4, "Total Time (ns)": 92896, "Instances": 1, "Avg (ns)": 92896.0, "StdDev (ns)": None, "Name": "g"},
]
OF_ROWS = {
    "kernel.f(int, int)": {"total": 2000548e-9, "count": 8, "mean": 250068.5e-9},
    "kernel.g": {"total": 92896e-9, "count": 1, "mean": 92896e-9},
}


@pytest.mark.parametrize("indent", [None, 0, 2])
def test_json(indent):
    run = run_of(json.dumps(ROWS, indent=indent))
    assert aggregates(run) == {name: pytest.approx(values, rel=1e-12) for name, values in OF_ROWS.items()}
    assert run.problems == ()
    assert run.recognised_by == "a JSON list of rows with 'Total Time (ns)'"


@pytest.mark.parametrize("notice", [TITLE.format("cuda_gpu_kern_sum"), ""])
def test_several_json_lists(notice):
    calls = [{"Total Time (ns)": 5, "Num Calls": 1, "Name": "cuInit"}]
    run = run_of(
        f"{notice}{json.dumps(ROWS, indent=1)}\n\n{notice and TITLE.format('cuda_api_sum')}{json.dumps(calls)}\n"
    )
    assert [*aggregates(run)] == [*OF_ROWS, "api.cuInit"]
    assert run.problems == ()


def test_json_values_that_cannot_be_true():
    text = json.dumps([{**ROWS[0], "Avg (ns)": float("nan")}, {**ROWS[1], "Avg (ns)": True}], indent=1)
    run = run_of(text)
    assert {name: [*values] for name, values in aggregates(run).items()} == {
        name: ["total", "count"] for name in OF_ROWS
    }
    assert [(problem.severity, problem.at.line, str(problem.key)) for problem in run.problems] == [
        ("error", 2, "kernel.f(int, int)"),
        ("error", 10, "kernel.g"),
    ]


def test_cut_json_keeps_the_rows_before_the_cut():
    text = json.dumps(ROWS, indent=1)
    run = run_of(text[:-30])
    assert [*aggregates(run)] == ["kernel.f(int, int)"]
    assert [problem.key for problem in run.problems] == [None]
    assert "cut off" in errors(run)[0]


def test_cut_json_behind_a_notice_is_an_error():
    run = run_of(TITLE.format("cuda_gpu_kern_sum") + json.dumps(ROWS, indent=1)[:-30])
    assert "train.log:5: error: the document that begins here is cut off at the end of the file" in errors(run)


def test_other_files_are_not_taken():
    for text in (
        "| Action | Mean duration (s) | Num calls | Total time (s) | Percentage % |\n",
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n",
        '[{"name": "a", "times": [1.0]}]',
        '[{"Total": 3, "Name": "x"}]',
        "Total files,Count of things\n",
    ):
        assert recognise(Source("f", [text.encode()])).format != "nsys"


NAME = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)
WORDS = st.lists(NAME, min_size=1, max_size=3).map(" ".join)
NUMBER = st.one_of(st.integers(0, 10**13), st.floats(0, 1e9).map(lambda x: round(x, 1)))
CONTENT = st.dictionaries(WORDS, st.tuples(*[NUMBER] * 3), min_size=1, max_size=5)
HEADER = ["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Name"]


def written(content, form):
    """A kernel summary of random rows in one of the shapes."""
    rows = [["1.0", *map(repr, numbers), name] for name, numbers in content.items()]
    if form == "json":
        return json.dumps([dict(zip(HEADER, [1.0, *numbers, name], strict=True)) for name, numbers in content.items()])
    if form == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([HEADER, *rows])
        return out.getvalue()
    if form == "commas":
        rows = [["1.0", *(f"{number:,}" for number in numbers), name] for name, numbers in content.items()]
    return table([HEADER, *rows], box=form == "box")


def plain(content):
    """Return whether every number is printed without an exponent."""
    return all("e" not in repr(x) for row in content.values() for x in row)


@given(
    content=CONTENT.filter(plain),
    form=st.sampled_from(["csv", "json", "commas", "columns", "box"]),
    chunk=st.integers(1, 99),
)
def test_what_is_written_is_read(content, form, chunk):
    run = run_of(written(content, form), "nsys", chunk)
    assert {name.removeprefix("kernel."): values for name, values in aggregates(run).items()} == {
        name: {"total": total / 1e9, "count": count, "mean": mean / 1e9}
        for name, (total, count, mean) in content.items()
    }
    assert run.problems == ()


WHOLE = {
    "csv": KERNELS + ROW + NUMBERS + ",k\n\n" + CALLS + NUMBERS + ",cuInit\n" + NUMBERS + ",cuFree\n",
    "table": TITLE.format("cuda_gpu_kern_sum")
    + table([HEADER, ["95.6", "2,000,548", "1,008", "250,068.5", "f a b"], ["4.4", "92,896", "1", "92,896.0", "g"]]),
    "json": json.dumps(ROWS, indent=1),
}


@pytest.mark.parametrize("form", WHOLE)
def test_a_cut_never_changes_a_value(form):
    whole = aggregates(run_of(WHOLE[form]))
    for end in range(len(WHOLE[form])):
        for run in runs_of(WHOLE[form][:end], "nsys"):
            assert aggregates(run).items() <= whole.items()
            assert run.series or errors(run)


@given(
    data=st.sampled_from([text.encode() for text in WHOLE.values()]),
    at=st.integers(0, 600),
    other=st.binary(max_size=6),
    length=st.integers(0, 9),
)
def test_damage_never_raises(data, at, other, length):
    for run in runs_of(data[:at] + other + data[at + length :], "nsys"):
        assert run.series or errors(run)


@given(st.binary(max_size=300))
def test_any_bytes_never_raise(data):
    runs_of(data or b" x", "nsys")


def test_the_calls_of_a_range_of_pytorch_are_one_metric():
    """`emit_nvtx` numbers every call of an operator, so that each was a metric of its own."""
    rows = [
        "40.0,4000,1,4000.0,4000.0,4000,4000,0.0,PushPop,:aten::mm, seq = 7, op_id = 30",
        "30.0,1000,1,1000.0,1000.0,1000,1000,0.0,PushPop,:aten::mm, op_id = 4",
        "20.0,3000,1,3000.0,3000.0,3000,3000,0.0,PushPop,:aten::mm, seq = 8, op_id = 31",
        '10.0,500,1,500.0,500.0,500,500,0.0,PushPop,"MmBackward0, stashed seq = 7, op_id = 9, input_op_ids = (3,0)"',
        "10.0,500,1,500.0,500.0,500,500,0.0,PushPop,:aten::add, seq = 9",
        "10.0,900,3,300.0,200.0,100,600,1.0,PushPop,:step, of a user",
    ]
    quoted = [row if '"' in row else row.replace(":", '":', 1) + '"' for row in rows]
    run = run_of(RANGES + "\n".join(quoted) + "\n")
    found = aggregates(run)
    assert [*found] == ["range.:step, of a user", "range.:aten::mm", "range.MmBackward0", "range.:aten::add"]
    mean, spread = pytest.approx(8e-6 / 3), pytest.approx(1.5275252316519468e-6)
    assert found["range.:aten::mm"] == {
        "count": 3,
        "total": pytest.approx(8e-6),
        "mean": mean,
        "median": pytest.approx(3e-6),
        "min": pytest.approx(1e-6),
        "max": pytest.approx(4e-6),
        "stddev": spread,
    }
    assert run.problems == ()


def test_the_calls_of_a_range_of_several_instances_have_no_median():
    row = '{},{},{},{},{},{},{},1.0,PushPop,"aten::mm, op_id = {}"\n'
    run = run_of(
        RANGES + row.format(50, 4000, 4, 1000, 900, 500, 1700, 1) + row.format(50, 1000, 1, 1000, 1000, 1000, 1000, 2)
    )
    assert aggregates(run)["range.aten::mm"] == {
        "count": 5, "total": pytest.approx(5e-6), "mean": pytest.approx(1e-6),
        "min": pytest.approx(0.5e-6), "max": pytest.approx(1.7e-6),
    }  # fmt: skip


def test_a_call_without_a_time_leaves_the_others_without_a_total():
    row = '50.0,{0},1,{0},100,100,100,0.0,PushPop,"aten::mm, op_id = {1}"\n'
    run = run_of(RANGES + row.format("inf", 1) + row.format(200, 2))
    assert aggregates(run)["range.aten::mm"] == {
        "count": 2, "min": pytest.approx(1e-7), "max": pytest.approx(1e-7),
    }  # fmt: skip
    assert [problem.partition("aten::mm: ")[2] for problem in errors(run)] == [
        "total: inf is not a finite number; left out",
        "mean: inf is not a finite number; left out",
    ]
