import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import SHARED, errors, run_of, runs_of, said, values_of

from perfgate.readers import Source, recognise
from perfgate.readers.kit import in_base
from perfgate.readers.nvidia.ncu import decimal_mark, readings, unit_of

LAUNCH = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
]
DETAILS = [*LAUNCH, "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
ADVICE = [*DETAILS, "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"]
PROF = (
    "==PROF== Connected to process 4711 (/usr/bin/python3)\nstep 1, loss 2.5\n==PROF== Disconnected from process 4711\n"
)
REPLAY = "train.log:{}: warning: ncu replays kernels at fixed clocks: durations differ from a real run"
GEMM = "kernel.void gemm<float, 2>(float *, int)."


def quoted(*rows):
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def launch(number, kernel="void gemm<float, 2>(float *, int)"):
    return [str(number), "4711", "python3", "host", kernel, "1", "7", "(256, 1, 1)", "(80, 1, 1)", "0", "9.0"]


def details(*rows, header=DETAILS):
    """A details page of (launch, section, metric, unit, value)."""
    return quoted(header, *([*launch(number), *rest] for number, *rest in rows))


def raw(metrics, units, *rows):
    """A raw page: one list of values a launch."""
    header = [*LAUNCH, "Device", "CC", *metrics]
    return quoted(header, [""] * 11 + units, *([*launch(number), *values] for number, values in enumerate(rows)))


def one(metric, unit, text, also=()):
    """One value on a details page, after others of a metric that nobody asks for."""
    rows = [(0, "s", "other", "", other) for other in also]
    return run_of(details(*rows, (0, "s", metric, unit, text)))


def test_inspect_shows_the_main_metrics_of_a_raw_page(perfgate, folder):
    """A raw page has hundreds of metrics of each kernel, and names of kernels of a thousand characters."""
    others = [f"sm__counter_{number}.sum" for number in range(80)]
    main = [
        "gpu__time_duration.sum",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "launch__registers_per_thread",
    ]
    units = ["ns", "%", "register/thread", *([""] * 80)]
    page = raw(
        [*main, *others], units, ["41280", "40.5", "168", *(["1"] * 80)], ["41290", "42.5", "168", *(["1"] * 80)]
    )
    (folder / "ncu.csv").write_text(page.replace("void gemm<float, 2>", f"void gemm<{'float, ' * 200}2>"))
    lines = perfgate("inspect", "ncu.csv").out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line.startswith(("gpu__", "sm__", "launch__"))}
    assert list(rows) == main
    assert ["-" in rows[name] for name in main] == [False, True, True]  # a gauge has no total
    assert max(map(len, lines)) < 170
    assert "--verbose shows all 83 metrics, with the whole names of kernels" in lines
    assert sum("sm__counter_" in line for line in perfgate("inspect", "-v", "ncu.csv").out.splitlines()) == 80


def test_a_page_of_chosen_metrics_is_shown_whole(perfgate, folder):
    (folder / "ncu.csv").write_text(raw(["gpu__time_duration.sum", "own.sum"], ["ns", ""], ["41280", "7"]))
    assert "own.sum" in perfgate("inspect", "ncu.csv").out


def test_details_page():
    run = run_of(
        PROF
        + details(
            (0, "SOL", "Duration", "usecond", "41.28"),
            (0, "SOL", "DRAM Frequency", "cycle/nsecond", "1.25"),
            (0, "Launch", "Registers Per Thread", "register/thread", "128"),
            (0, "Launch", "Function Cache Configuration", "", "CachePreferNone"),
            (1, "SOL", "Duration", "msecond", "1,205.50"),
            (1, "SOL", "DRAM Frequency", "n/a", "n/a"),
        )
    )
    assert values_of(run) == {
        GEMM + "Duration": [41.28e-6, 1.2055],
        GEMM + "DRAM Frequency": [1.25e9],
        GEMM + "Registers Per Thread": [128.0],
    }
    assert {series.unit for series in run.series} == {"s", "1/s", "1"}
    assert {series.kind for series in run.series} == {"samples"}
    assert said(run) == [REPLAY.format(5), "train.log:10: warning: values printed as n/a (not available): 1"]
    assert run.recognised_by == "found 'Kernel Name' on line 4"


def test_raw_page():
    metrics = ["gpu__time_duration.sum", "dram__bytes.sum", "sm__throughput.avg.pct", "launch__func", "x:y:z"]
    run = run_of(
        PROF
        + raw(
            metrics,
            ["us", "Mbyte", "%", "", ""],
            ["41.28", "2,000.5", "62.5", "gemm", "1"],
            ["43", "n/a", "61", "", ""],
        )
    )
    assert values_of(run) == {
        GEMM + "gpu__time_duration.sum": [41.28e-6, 43e-6],
        GEMM + "dram__bytes.sum": [2000.5e6],
        GEMM + "sm__throughput.avg.pct": [0.625, 0.61],
    }
    assert [series.unit for series in run.series] == ["s", "B", "1"]
    assert said(run)[1:] == ["train.log:7: warning: values printed as n/a (not available): 1"]


def test_the_gpu_is_a_fact_and_other_metadata_is_nothing():
    metrics = ["device__attribute_display_name", "device__attribute_pci_bus_id", "a__b.sum"]
    run = run_of(raw(metrics, ["", "", "inst"], ["NVIDIA H200", "7", "3"]))
    assert run.environment == {"gpu": "NVIDIA H200"}
    assert values_of(run) == {GEMM + "a__b.sum": [3.0]}


def test_rows_of_advice_are_passed_over():
    advice = '"0","4711","p","h","k","1","7","1","1","0","9.0","SOL","","","","Rule","OPT","Look\n"0" on","",""\n'
    row = [*launch(0, "k"), "SOL", "Duration", "ns", "32"]
    text = quoted(ADVICE, [*row, *[""] * 5]) + advice + quoted([*row[:-1], "64"])[:-1] + ",\n"
    text += quoted([*row[:-1], "96", "Rule"])[:-1] + ',"goes on\n'
    run = run_of(text)
    assert values_of(run) == {
        "kernel.k.Duration": [32e-9],
        "kernel.k.Duration#2": [64e-9],
        "kernel.k.Duration#3": [96e-9],
    }
    assert not errors(run)


def test_a_metric_in_two_sections_is_two_metrics():
    run = run_of(
        details(
            (0, "SOL", "Memory Throughput", "%", "45.7"),
            (0, "Memory", "Memory Throughput", "Gbyte/second", "1.5"),
            (1, "Memory", "Memory Throughput", "Tbyte/second", "1.25"),
            (1, "SOL", "Memory Throughput", "%", "50.5"),
        )
    )
    assert {name: pytest.approx(values) for name, values in values_of(run).items()} == {
        GEMM + "Memory Throughput": [0.457, 0.505],
        GEMM + "Memory Throughput#2": [1.5e9, 1.25e12],
    }
    assert said(run)[1:] == [
        f"train.log:3: warning: a name occurs again: {GEMM}Memory Throughput is named {GEMM}Memory Throughput#2 here"
    ]


@pytest.mark.parametrize(
    ("unit", "base", "one_is"),
    [
        ("second", "s", 1),
        ("msecond", "s", 1e-3),
        ("usecond", "s", 1e-6),
        ("nsecond", "s", 1e-9),
        ("us", "s", 1e-6),
        ("byte", "B", 1),
        ("Kbyte", "B", 1e3),
        ("Gbyte", "B", 1e9),
        ("Kbyte/block", "B", 1e3),
        ("byte/second", "B/s", 1),
        ("Tbyte/s", "B/s", 1e12),
        ("byte/nsecond", "B/s", 1e9),
        ("%", "1", 0.01),
        ("hz", "1/s", 1),
        ("Ghz", "1/s", 1e9),
        ("GHz", "1/s", 1e9),
        ("Mhz", "1/s", 1e6),
        ("cycle/second", "1/s", 1),
        ("cycle/nsecond", "1/s", 1e9),
        ("sector/usecond", "1/s", 1e6),
        ("cycle", "1", 1),
        ("inst", "1", 1),
        ("Kinst", "1", 1e3),
        ("inst/cycle", "1", 1),
        ("register/thread", "1", 1),
        ("", "1", 1),
        ("(!) n/a", "1", 1),
    ],
)
def test_units(unit, base, one_is):
    known, per = unit_of(unit)
    assert (known, in_base(1.0, per)) == (base, one_is)


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("12", 12, 12),
        ("12.5", 12.5, None),
        ("12,5", None, 12.5),
        ("1,234", 1234, 1.234),
        ("117.344", 117.344, 117344),
        ("0.125", 0.125, None),
        ("1234.567", 1234.567, None),
        ("53,261,312", 53261312, None),
        ("27.595.520", None, 27595520),
        ("1,205.00", 1205, None),
        ("1.205,00", None, 1205),
        ("1 205,5", None, 1205.5),
        ("1\u202f205", 1205, 1205),
        ("4.0e-05", 4e-5, None),
        ("1,23,4", None, None),
        ("1..2", None, None),
        ("0x1f", None, None),
    ],
)
def test_readings_of_a_number(text, point, comma):
    found = {mark: float(reading) for mark, reading in readings(text).items()}
    assert (found.get("."), found.get(",")) == (point, comma)


def test_the_sum_of_a_counter_gives_the_decimal_mark_away():
    marks = [decimal_mark("8,192"), decimal_mark("8,192", whole=True), decimal_mark("8.192", whole=True)]
    assert marks == [None, ".", ","]
    assert values_of(one("dram__bytes.sum", "byte", "27.595")) == {GEMM + "dram__bytes.sum": [27595]}
    assert values_of(one("sm__inst.sum", "inst", "8,192")) == {GEMM + "sm__inst.sum": [8192]}
    assert values_of(one("gpu__time.sum", "second", "1.234")) == {}


@pytest.mark.parametrize(
    ("also", "text", "expected"),
    [
        (["65,77"], "117.344", 117344),
        (["65.77"], "117.344", 117.344),
        (["65.77"], "1,234", 1234),
        (["65,77"], "1,234", 1.234),
        (["27.595.520", "24"], "1.024", 1024),
        (["12"], "128", 128),
    ],
)
def test_the_first_number_that_leaves_no_doubt_tells_the_locale(also, text, expected):
    run = one("launch__x", "block", text, also)
    assert values_of(run)[GEMM + "launch__x"] == [expected]
    assert not errors(run)


@pytest.mark.parametrize(
    ("also", "text", "message"),
    [
        ([], "117.344", "117.344 is ambiguous: its separator may be a decimal mark"),
        (["24"], "1,234", "1,234 is ambiguous: its separator may be a decimal mark"),
        (["65.77"], "65,77", "65,77 does not use '.'"),
        (["65,77"], "1,205.00", "1,205.00 does not use ','"),
        (["65.77"], "-1.5", "-1.5 is negative"),
        (["65.77"], "nan", "nan is not a finite number"),
        (["65.77"], "inf", "inf is not a finite number"),
        (["65.77"], "1e999", "1e999 is not a finite number"),
        (["65.77"], "12x", "'12x' is not a number"),
        (["65.77"], "1,23,4", "'1,23,4' is not a number"),
    ],
)
def test_numbers_that_may_be_misread_or_cannot_be_true_are_refused(also, text, message):
    run = one("launch__x", "block", text, also)
    assert GEMM + "launch__x" not in values_of(run)
    (problem,) = [problem for problem in run.problems if problem.key]
    assert (problem.severity, problem.at.line, str(problem.key)) == ("error", 2 + len(also), GEMM + "launch__x")
    assert message in problem.message


def test_a_metric_that_changes_its_kind_of_unit_is_refused():
    run = run_of(details((0, "s", "m", "usecond", "1.5"), (1, "s", "m", "%", "1.5")))
    assert values_of(run) == {GEMM + "m": [1.5e-6]}
    message = "the unit of 1.5 % does not match the launches before; left out"
    assert errors(run) == [f"train.log:3: error: {GEMM}m: {message}"]


def test_a_header_that_comes_again_is_another_run():
    page = PROF + details((0, "s", "m", "us", "1.5"))
    runs = runs_of(page + page)
    assert [(run.part, values_of(run)) for run in runs] == [(1, {GEMM + "m": [1.5e-6]}), (2, {GEMM + "m": [1.5e-6]})]
    assert "2 runs; new runs begin at line 10" in said(runs[1])[1]


def test_an_error_of_ncu_is_an_error():
    run = run_of(details((0, "s", "m", "us", "1.5")) + "==ERROR== The application returned an error code (1).\n")
    assert errors(run) == ["train.log:3: error: ncu reports an error here; launches may be missing"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            quoted(["ID", "Kernel Name", "Metric Name", "Metric Value"], ["0", "k", "m", "1.5"]),
            "no column 'Metric Unit'",
        ),
        (quoted(["ID", "Kernel Name", "a__b"], ["0", "k", "1.5"]), "no row of units"),
    ],
)
def test_tables_without_units_are_not_read(text, message):
    run = run_of(text)
    assert run.series == ()
    assert message in errors(run)[0]


@pytest.mark.parametrize("layout", ["indented", "unquoted", "with CRLF", "glued to text"])
def test_layouts(layout):
    page = details((0, "s", "m", "us", "1.5"))
    text = {
        "indented": "".join("    " + line for line in page.splitlines(keepends=True)),
        "unquoted": "ID,Kernel Name,Metric Name,Metric Unit,Metric Value\n"
        '0,"void gemm<float, 2>(float *, int)",m,us,1.5\n',
        "with CRLF": page.replace("\n", "\r\n"),
        "glued to text": "done: " + page,
    }[layout]
    assert values_of(run_of(text)) == {GEMM + "m": [1.5e-6]}


def test_a_cut_row_is_left_out_and_said():
    page = details((0, "s", "m", "us", "1.5"), (1, "s", "m", "us", "12.5"))
    for end in (1, 3, 12):
        run = run_of(page[:-end])
        assert values_of(run) == {GEMM + "m": [1.5e-6]}
        assert said(run)[1:] == ["train.log:3: warning: the row is cut off; left out"]


def test_other_files_are_not_taken():
    for text in (
        "model_name,kernel_name,kernel_category,size_hints,ncu_duration_us\n,triton_poi_0,pointwise,[524288],16.93\n",
        '"Index","KernelName","DurationNs"\n"0","k","5"\n',
        "==PROF== Connected to process 1\n",
    ):
        assert recognise(Source("f", [text.encode()])).format == "unknown"


@pytest.mark.shared
def test_a_table_made_from_ncu_is_not_misread():
    data = (SHARED / "corpus/ncu/ncu_metric_out.csv").read_bytes()
    assert recognise(Source("f", [data])).format == "unknown"
    (run,) = runs_of(data, "ncu")
    assert run.series == ()
    assert errors(run)


KERNEL = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="\u2028\u2029"), min_size=1, max_size=12
)
METRIC = st.from_regex(r"[a-z]{1,5}__[a-z_]{1,9}\.(?:sum|avg)", fullmatch=True).filter(
    lambda name: "device" not in name
)
NUMBER = st.integers(0, 10**12).map(lambda cents: cents / 100)


def localised(number, comma):
    """A number as ncu prints it: thousands grouped, two decimals; whole ones without."""
    text = f"{number:,.0f}" if number == int(number) and number < 1000 else f"{number:,.2f}"
    return text.translate(str.maketrans(",.", ".,")) if comma else text


@given(
    kernels=st.lists(KERNEL, min_size=1, max_size=5),
    metrics=st.lists(METRIC, min_size=1, max_size=3, unique=True),
    comma=st.booleans(),
    page=st.sampled_from(["raw", "details"]),
    chunk=st.integers(1, 99),
    data=st.data(),
)
def test_what_is_written_is_read(kernels, metrics, comma, page, chunk, data):
    numbers = [[data.draw(NUMBER) for _ in metrics] for _ in kernels]
    printed = [[localised(number, comma) for number in row] for row in numbers]
    if page == "raw":
        rows = [[*launch(at, kernel), *row] for at, (kernel, row) in enumerate(zip(kernels, printed, strict=True))]
        units = [*[""] * 11, *["inst"] * len(metrics)]
        text = quoted([*LAUNCH, "Device", "CC", *metrics], units, *rows)
    else:
        text = quoted(DETAILS) + "".join(
            quoted([*launch(at, kernel), "s", metric, "inst", cell])
            for at, (kernel, row) in enumerate(zip(kernels, printed, strict=True))
            for metric, cell in zip(metrics, row, strict=True)
        )
    expected: dict[str, list[float]] = {}
    for kernel, row in zip(kernels, numbers, strict=True):
        for metric, number in zip(metrics, row, strict=True):
            expected.setdefault(f"kernel.{kernel}.{metric}", []).append(number)
    run = run_of(PROF + text, "ncu", chunk)
    assert values_of(run) == expected
    assert not errors(run)


PAGES = {
    "details": PROF
    + details(
        (0, "SOL", "Duration", "usecond", "1,041.28"),
        (0, "Memory", "a__b.sum", "byte", "8,192"),
        (1, "SOL", "Duration", "msecond", "1.205"),
        (1, "Memory", "a__b.sum", "Kbyte", "8.5"),
    ),
    "raw": PROF + raw(["a__b.sum", "c__d.avg"], ["byte", "%"], ["8.192", "65,7"], ["16.384", "n/a"]),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_prefix_never_has_another_value(page):
    whole = values_of(run_of(PAGES[page]))
    for end in range(len(PAGES[page])):
        (run,) = runs_of(PAGES[page][:end] or " ", "ncu")
        assert all(values == whole[name][: len(values)] for name, values in values_of(run).items())
        assert run.series or errors(run)


@given(
    page=st.sampled_from([page.encode() for page in PAGES.values()]),
    at=st.integers(0, 700),
    other=st.binary(max_size=6),
    length=st.integers(0, 9),
)
def test_damage_never_raises(page, at, other, length):
    for run in runs_of(page[:at] + other + page[at + length :], "ncu"):
        assert run.series or errors(run)


@given(st.binary(max_size=300))
def test_any_bytes_never_raise(data):
    runs_of(data or b" x", "ncu")
