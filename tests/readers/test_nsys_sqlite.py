"""Exports of Nsight Systems, made here as its schema reference describes them."""

import gzip
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import errors, run_of, runs_of, said, values_of

from perfgate.commands.report_details import causes_of

SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  bytes INTEGER NOT NULL, value INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
  nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL, nameId INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, textId INTEGER,
  globalTid INTEGER, domainId INTEGER);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
"""
ROWS = """
INSERT INTO StringIds VALUES (1, 'void gemm<float>(int, float *)'), (2, 'cudaLaunchKernel_v7000'), (3, 'poll'),
  (4, 'forward'), (5, 'cuMemAlloc_v2');
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device');
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3'), (1, 'NVIDIA H100 80GB HBM3');
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (3000, 3750, 0, 7, 2, 1, 1, 1), (1000, 1500, 0, 7, 1, 1, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 350, 0, 4096, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (400, 402, 0, 64, 0);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 1000, 16777217, 2, 0), (10, 20, 16777217, 5, 0);
INSERT INTO OSRT_API VALUES (0, 5000, 3);
INSERT INTO NVTX_EVENTS VALUES (0, NULL, 75, 'NCCL', NULL, 16777217, 9), (0, NULL, 75, 'other', NULL, 33554433, 9),
  (1000, 4000, 59, NULL, 4, 16777217, 0), (5000, 5100, 60, 'ncclAllReduce', NULL, 16777218, 9),
  (6000, NULL, 34, 'a mark', NULL, 16777217, 0);
"""
EXPECTED = {
    "kernel.void gemm<float>(int, float *)": [500e-9, 750e-9],
    "memcpy.[CUDA memcpy Host-to-Device]": [250e-9],
    "memcpy.[CUDA memcpy Host-to-Device].size": [4096],
    "memcpy.[CUDA memset]": [2e-9],
    "memcpy.[CUDA memset].size": [64],
    "api.cudaLaunchKernel": [100e-9],
    "api.cuMemAlloc_v2": [10e-9],
    "os.poll": [5000e-9],
    "range.:forward": [3000e-9],
    "range.NCCL:ncclAllReduce": [100e-9],
}


def database(tmp_path, *scripts):
    path = tmp_path / "trace.sqlite"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    for script in scripts:
        connection.executescript(script)
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize("chunk", [None, 4096, 1000])
def test_every_activity_is_a_sample_in_order_of_start(tmp_path, chunk):
    run = run_of(database(tmp_path, SCHEMA, ROWS), chunk=chunk)
    assert (run.format, run.recognised_by, run.problems) == ("nsys", "the file begins with 'SQLite format 3'", ())
    assert values_of(run) == {name: pytest.approx(values, rel=1e-12) for name, values in EXPECTED.items()}
    assert {(s.unit, s.kind) for s in run.series} == {("s", "samples"), ("B", "samples")}
    assert dict(run.environment) == {"gpu": "NVIDIA H100 80GB HBM3"}
    assert run_of(gzip.compress(database(tmp_path, SCHEMA, ROWS))).series[0].values.size == 2


def test_names_are_those_of_the_summaries(tmp_path):
    """A rule for the tables of `nsys stats` reads the export, too."""
    summary = (
        " ** CUDA API Summary (cuda_api_sum):\n\n"
        " Time (%)  Total Time (ns)  Num Calls  Avg (ns)        Name       \n"
        " --------  ---------------  ---------  --------  ----------------\n"
        "    100.0              100          1     100.0  cudaLaunchKernel\n"
    )
    (printed,) = run_of(summary).series
    assert str(printed.key) in values_of(run_of(database(tmp_path, SCHEMA, ROWS)))


def test_several_devices_are_labels(tmp_path):
    other = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (7000, 7100, 1, 7, 3, 1, 1, 1);"
    values = values_of(run_of(database(tmp_path, SCHEMA, ROWS, other)))
    assert values['kernel.void gemm<float>(int, float *){device="1"}'] == [100 / 1e9]
    assert len(values['kernel.void gemm<float>(int, float *){device="0"}']) == 2
    assert "memcpy.[CUDA memset]" in values


def test_two_ids_of_one_name_are_one_series(tmp_path):
    again = """INSERT INTO StringIds VALUES (6, 'poll'); INSERT INTO OSRT_API VALUES (9000, 9001, 6);"""
    assert values_of(run_of(database(tmp_path, SCHEMA, ROWS, again)))["os.poll"] == [5000 / 1e9, 1 / 1e9]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("INSERT INTO OSRT_API VALUES (9, 5, 3)", "error: OSRT_API: 1 activities without a start"),
        ("INSERT INTO OSRT_API VALUES ('x', 5, 3)", "error: OSRT_API: 1 activities without a start"),
        ("INSERT INTO OSRT_API VALUES (-9223372036854775808, 9223372036854775807, 3)", "error: OSRT_API: 1 activities"),
        ("INSERT INTO OSRT_API VALUES (1, 2, 99)", "error: OSRT_API: 1 activities without a name in the file"),
        (
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1, 2, 0, 1, 99)",
            "error: CUPTI_ACTIVITY_KIND_MEMCPY: 1 activities without a name",
        ),
        (
            "INSERT INTO NVTX_EVENTS VALUES (1, NULL, 59, 'x', NULL, 1, 0)",
            "warning: NVTX_EVENTS: 1 activities without an end are left out",
        ),
        ("DROP TABLE StringIds", "error: CUPTI_ACTIVITY_KIND_KERNEL: 2 activities without a name"),
    ],
)
def test_rows_that_mean_nothing_are_said(tmp_path, script, message):
    run = run_of(database(tmp_path, SCHEMA, ROWS, script))
    assert message in said(run)[0]
    assert "memcpy.[CUDA memset]" in values_of(run)


def test_columns_that_a_version_does_not_have_are_not_needed(tmp_path):
    old = "CREATE TABLE OSRT_API (start, end, nameId); INSERT INTO OSRT_API VALUES (1, 3, 1);"
    names = "CREATE TABLE StringIds (id, value); INSERT INTO StringIds VALUES (1, 'read');"
    assert values_of(run_of(database(tmp_path, old, names))) == {"os.read": [2 / 1e9]}


def test_a_database_of_another_tool_is_an_error(tmp_path):
    run = run_of(database(tmp_path, "CREATE TABLE rocpd_op (id INTEGER)"))
    assert "without the tables of Nsight Systems: CUPTI_ACTIVITY_KIND_KERNEL" in errors(run)[0]
    assert "no measurements" in errors(run_of(database(tmp_path, SCHEMA)))[0]


COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


@pytest.mark.parametrize(
    "script",
    [
        f"DROP TABLE OSRT_API; CREATE VIEW OSRT_API AS {COUNTING} SELECT i AS start, i AS end, 3 AS nameId FROM n",
        "DROP TABLE OSRT_API; CREATE VIEW OSRT_API AS SELECT writefile('/tmp/x', start) AS start, end FROM StringIds",
        "DROP TABLE OSRT_API; CREATE VIRTUAL TABLE OSRT_API USING fts5(start, end, nameId)",
        "DROP TABLE OSRT_API; CREATE TABLE OSRT_API (start, end AS (length(zeroblob(start))), nameId);"
        "INSERT INTO OSRT_API VALUES (900000000, 3)",
    ],
    ids=["endless view", "writing view", "virtual table", "function"],
)
def test_a_hostile_schema_runs_nothing(tmp_path, script):
    run = run_of(database(tmp_path, SCHEMA, ROWS, script))
    assert "os.poll" not in values_of(run)
    assert "memcpy.[CUDA memset]" in values_of(run)


def test_work_is_bounded_by_the_size_of_the_file(tmp_path, monkeypatch):
    import perfgate.readers.sqlite_file as file

    monkeypatch.setattr(file, "_LEAST_STEPS", 1)
    monkeypatch.setattr(file, "_STEPS_PER_BYTE", 0)
    monkeypatch.setattr(file, "_STEPS_AT_ONCE", 10)
    run = run_of(database(tmp_path, SCHEMA, ROWS))
    assert "takes too much work for a file of its size" in errors(run)[0]


def test_a_database_that_is_too_large_is_refused(tmp_path, monkeypatch):
    import perfgate.readers.sqlite_file as file

    monkeypatch.setattr(file, "MAX_BYTES", 4096)
    assert "a database of more than" in errors(run_of(database(tmp_path, SCHEMA, ROWS)))[0]


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    run_of(database(tmp_path, SCHEMA, ROWS))
    run_of(b"SQLite format 3\0" + b"x" * 5000)
    assert not list((tmp_path / "t").iterdir())


@pytest.mark.parametrize("size", [16, 100, 4000, 9000, 30000])
def test_a_cut_database_is_an_error(tmp_path, size):
    whole = database(tmp_path, SCHEMA, ROWS)
    assert errors(run_of(whole[: min(size, len(whole) - 1)]))


@given(st.lists(st.tuples(st.integers(0, 40_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6))
def test_damage_never_raises(tmp_path_factory, changes):
    data = bytearray(database(tmp_path_factory.getbasetemp(), SCHEMA, ROWS))
    for at, piece in changes:
        begin = 16 + at % (len(data) - 16)
        data[begin : begin + len(piece)] = piece
    run = run_of(bytes(data))
    assert run.series or errors(run)
    assert all((series.values >= 0).all() for series in run.series)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("trace.nsys-rep", "nsys export --type sqlite FILE"),
        ("trace.qdrep", "nsys export --type sqlite FILE"),
        ("kernels.ncu-rep", "ncu --import FILE --csv --page raw"),
    ],
)
def test_reports_in_a_form_of_their_own_are_refused_with_the_command_that_exports_them(name, command):
    for format in (None, "nsys"):
        (run,) = runs_of(b"\x01\x00\x02\x00 time (ms) | fwd: 1.00\n", format, name=name)
        assert not run.series
        assert command in errors(run)[0]
    (text,) = runs_of("[Rank 0] time (ms) | fwd: 1.00\n", name=name)  # a name alone means nothing
    assert text.format == "deepspeed"


def test_the_calls_of_a_range_of_pytorch_are_one_metric(tmp_path):
    calls = ",".join(
        f"({at}, {at + 10}, 59, 'aten::mm, seq = {at}, op_id = {at + 1}, sizes = [[4, 4], [4, 4]]', NULL, 1, 0)"
        for at in (30, 10, 20)
    )
    run = run_of(database(tmp_path, SCHEMA, f"INSERT INTO NVTX_EVENTS VALUES {calls};"))
    assert values_of(run) == {"range.:aten::mm": pytest.approx([10e-9] * 3)}


#: Two steps; all the device does is late, in the second one. The threads 16777217 and 16777218 are of one process.
STEPS = """
DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY; DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME;
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, correlationId, demangledName, gridX, gridY, gridZ);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, correlationId, bytes, copyKind);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000'), (3, 'cudaStreamSynchronize_v3020'),
  (4, 'cudaMemcpyAsync_v3020'), (5, 'cudaMalloc_v3020'), (6, 'iteration_8'), (7, 'cudaGraphLaunch_v10000');
INSERT INTO NVTX_EVENTS VALUES (0, 100, 59, 'step 7', NULL, 16777217, 0), (110, 210, 59, NULL, 6, 16777217, 0),
  (10, 20, 59, 'optimizer step', NULL, 16777217, 0), (120, 130, 59, 'step 3', NULL, 16777217, 0);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (-5, -4, 16777217, 1, 2), (10, 11, 16777217, 2, 2),
  (105, 106, 16777217, 3, 4), (120, 121, 16777217, 4, 2), (121, 122, 16777217, 5, 7), (122, 123, 16777218, 6, 3),
  (123, 124, 16777217, 7, 5), (250, 251, 16777217, 8, 3), (125, 126, 33554433, 9, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 8, 0, 1, 1, 1, 1, 1), (130, 135, 0, 2, 1, 2, 3, 4),
  (140, 145, 0, 4, 1, 2, 3, 4), (150, 155, 0, 5, 1, 2, 3, 4), (160, 165, 0, 5, 1, 2, 3, 4),
  (170, 175, 0, 9, 1, 9, 9, 9);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (136, 138, 0, 3, 64, 2);
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (2, '', 'Device-to-Host');
"""


def work(tmp_path, *scripts):
    values = values_of(run_of(database(tmp_path, SCHEMA, *scripts)))
    return {name.removeprefix("work."): found for name, found in values.items() if name.startswith("work.")}


def test_the_work_of_a_step_follows_its_calls(tmp_path):
    """Not the place at which the device did it. The other process, and what is outside of the steps, do not count."""
    found = work(tmp_path, STEPS)
    kinds = {f'{name}{{device="0", kind="{kind}"}}' for name in ("copies", "copied_bytes") for kind in ("HtoD", "DtoD")}
    assert all(found.pop(name) == [0, 0] for name in kinds)
    assert found.pop('device_time{device="0"}') == pytest.approx([7e-9, 15e-9])
    assert found == {
        "launches": [1, 1],
        "graph_launches": [0, 1],
        "syncs": [0, 1],
        "allocations": [0, 1],
        'kernels{device="0"}': [1, 3],
        'blocks{device="0"}': [24, 72],
        'memsets{device="0"}': [0, 0],
        'copies{device="0", kind="DtoH"}': [1, 0],
        'copied_bytes{device="0", kind="DtoH"}': [64, 0],
    }
    series = [one for one in run_of(database(tmp_path, SCHEMA, STEPS)).series if one.key.metric == "work.kernels"]
    assert series[0].steps.tolist() == [7, 8]


def test_the_device_of_another_process_does_not_count_under_a_call_with_the_same_number(tmp_path):
    """CUPTI numbers the calls of each process. The id of a process is that of its threads, with bits of the machine."""
    columns = [f"ALTER TABLE CUPTI_ACTIVITY_KIND_{name} ADD globalPid INTEGER;" for name in ("KERNEL", "MEMCPY")]
    known = [f"UPDATE CUPTI_ACTIVITY_KIND_{name} SET globalPid = 16777216;" for name in ("KERNEL", "MEMCPY")]
    other = """INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (180, 185, 0, 4, 1, 9, 9, 9, 33554432);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (190, 195, 0, 4, 64, 2, 33554432);"""
    assert work(tmp_path, STEPS, *columns, *known, other) == work(tmp_path, STEPS)


ABSENT = {
    "no steps": ("DELETE FROM NVTX_EVENTS;", 0, []),
    "graphs as a whole": ("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end);", 4, ["--cuda-graph-trace=node"]),
    "two processes with steps": (
        "INSERT INTO NVTX_EVENTS VALUES (0, 100, 59, 'step 7', NULL, 33554433, 0);",
        0,
        ["export one process"],
    ),
    "no numbers of calls": ("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = NULL;", 4, []),
    "no calls": ("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME;", 0, []),
    "a kernel without an end": (
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = NULL WHERE start = 130;",
        13,
        ["1 activities without an end"],
    ),
    "no sizes of grids": ("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 'x' WHERE start = 130;", 13, []),
}


@pytest.mark.parametrize("case", ABSENT)
def test_work_that_an_export_cannot_show_is_absent(tmp_path, case):
    script, count, messages = ABSENT[case]
    assert len(work(tmp_path, STEPS, script)) == count
    problems = said(run_of(database(tmp_path, SCHEMA, STEPS, script)))
    assert len(problems) == len(messages)
    assert all(message in problem for message, problem in zip(messages, problems, strict=True))


def training(slow: bool) -> str:
    """Eight steps: kernels of forward, those of backward on a thread without ranges, and perhaps a copy to the host."""
    ranges, calls, kernels = [], [], []
    for step in range(8):
        at, late = step * 1_000_000, 50_000 if slow else 0
        ranges += [(at, at + 800_000 + late, f"step {step}"), (at, at + 300_000 + late, "forward")]
        ranges += [(at + 310_000 + late, at + 600_000 + late, "backward")]
        for thread, begin, name in ((16777217, at + 1_000, 11), (16777218, at + 320_000 + late, 12)):
            number = 10 * step + name
            calls.append((begin, begin + 5_000, thread, number, 2))
            kernels.append((begin + 10_000, begin + 200_000 + 7 * step, 0, number, name, 8, 2, 1))
        if slow:
            calls.append((at + 220_000, at + 270_000, 16777217, -1, 3))
    tables = {"KERNEL": kernels, "RUNTIME": calls}
    rows = [f"INSERT INTO CUPTI_ACTIVITY_KIND_{name} VALUES {row};" for name, some in tables.items() for row in some]
    rows += [f"INSERT INTO NVTX_EVENTS VALUES ({a}, {b}, 59, '{text}', NULL, 16777217, 0);" for a, b, text in ranges]
    names = "DELETE FROM StringIds; INSERT INTO StringIds VALUES (11, 'gelu'), (12, 'gelu_backward'),"
    names += " (2, 'cudaLaunchKernel_v7000'), (3, 'cudaStreamSynchronize_v3020');"
    tables_of_calls = "".join(line for line in STEPS.splitlines(keepends=True) if "TABLE" in line)
    return f"DELETE FROM NVTX_EVENTS; {tables_of_calls} {names} {''.join(rows)}"


def test_a_step_is_divided_as_in_a_trace(tmp_path):
    """Its ranges are `step.time`, and what a thread without ranges launches belongs to the range that waits for it."""
    run = run_of(database(tmp_path, SCHEMA, training(slow=False)))
    found = values_of(run)
    assert found["step.time"] == pytest.approx([8e-4] * 8)
    assert found["step.kernel"][0] == pytest.approx(3.8e-4)
    assert not [name for name in found if name.startswith("range.:step")]
    (tree,) = run.call_trees
    paths = {(tree.nodes[node.parent].name, node.name) for node in tree.nodes if node.kind == "kernel"}
    assert paths == {("forward", "gelu"), ("backward", "gelu_backward")}


def test_a_kernel_without_an_end_leaves_the_times_of_the_device_unknown(tmp_path):
    """A device that works for an unknown time was reported as idle."""
    endless = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = NULL WHERE start = 11000;"
    run = run_of(database(tmp_path, SCHEMA, training(slow=False), endless))
    found = values_of(run)
    assert found["step.time"] == pytest.approx([8e-4] * 8)
    assert not [name for name in found if name.startswith(("gpu.", "step.")) and name != "step.time"]
    assert found['work.kernels{device="0"}'] == [2] * 8
    assert run.call_trees == ()


def test_the_cause_of_a_change_is_named_in_its_range(tmp_path):
    base, new = (run_of(database(tmp_path, SCHEMA, training(slow))) for slow in (False, True))
    report = causes_of([base], [new])
    assert [(cause.kind, cause.where) for cause in report.causes] == [("sync", ("forward", "cudaStreamSynchronize"))]
    assert report.causes[0].change_per_step == pytest.approx(5e-5, rel=0.1)


def test_a_range_without_a_text_is_no_caller(tmp_path):
    nameless = "INSERT INTO NVTX_EVENTS VALUES (5, 90, 59, NULL, NULL, 16777217, 0);"
    (tree,) = run_of(database(tmp_path, SCHEMA, STEPS, nameless)).call_trees
    assert "None" not in {node.name for node in tree.nodes}
