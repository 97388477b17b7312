"""Databases of rocpd, made here as its schema 3.0 describes them (`rocpd_tables.sql`)."""

import sqlite3

import pytest
from reading import errors, run_of, said, values_of

ID = "_00000a1b_00d1_7aaa_8bbb_0123456789ab"
SCHEMA = """
CREATE TABLE `rocpd_metadata{id}` (id INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT, value TEXT);
CREATE TABLE `rocpd_string{id}` (id INTEGER PRIMARY KEY AUTOINCREMENT, guid TEXT, string TEXT NOT NULL UNIQUE);
CREATE TABLE `rocpd_info_agent{id}` (id INTEGER PRIMARY KEY, guid TEXT, type TEXT, absolute_index INTEGER,
  type_index INTEGER, name TEXT, product_name TEXT);
CREATE TABLE `rocpd_info_kernel_symbol{id}` (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT);
CREATE TABLE `rocpd_info_pmc{id}` (id INTEGER PRIMARY KEY, guid TEXT, name TEXT NOT NULL);
CREATE TABLE `rocpd_event{id}` (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, extdata JSONB DEFAULT '{{}}');
CREATE TABLE `rocpd_pmc_event{id}` (id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER NOT NULL, value REAL);
CREATE TABLE `rocpd_region{id}` (id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT, name_id INTEGER, event_id INTEGER);
CREATE TABLE `rocpd_kernel_dispatch{id}` (id INTEGER PRIMARY KEY, agent_id INTEGER, kernel_id INTEGER, start BIGINT,
  "end" BIGINT, event_id INTEGER);
CREATE TABLE `rocpd_memory_copy{id}` (id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT, name_id INTEGER);
CREATE VIEW `rocpd_string` AS SELECT * FROM `rocpd_string{id}`;
CREATE VIEW `kernels` AS SELECT * FROM `rocpd_kernel_dispatch{id}`;
"""
ROWS = """
INSERT INTO `rocpd_string{id}` VALUES (1, '', 'hipLaunchKernel'), (2, '', 'HIP_RUNTIME_API_EXT'),
  (3, '', 'roctxRangePushA'), (4, '', 'MARKER_CORE_API'), (5, '', 'MEMORY_COPY_HOST_TO_DEVICE');
INSERT INTO `rocpd_info_agent{id}` VALUES (1, '', 'CPU', 0, 0, 'x86', ''), (5, '', 'GPU', 1, 0, 'gfx942', 'MI300X'),
  (6, '', 'GPU', 2, 1, 'gfx942', 'MI300X');
INSERT INTO `rocpd_info_kernel_symbol{id}` VALUES (3, '', '_Z3add.kd', 'add(float*)');
INSERT INTO `rocpd_info_pmc{id}` VALUES (7, '', 'SQ_WAVES');
INSERT INTO `rocpd_event{id}` VALUES (1, '', 2, '{{}}'), (2, '', 4, '{{"message": "forward"}}'), (3, '', NULL, '{{}}');
INSERT INTO `rocpd_region{id}` VALUES (1, 900, 1000, 1, 1), (2, 800, 2800, 3, 2);
INSERT INTO `rocpd_kernel_dispatch{id}` VALUES (1, 5, 3, 3000, 3750, 3), (2, 5, 3, 1000, 1500, NULL),
  (3, {second}, 3, 5000, 5001, NULL);
INSERT INTO `rocpd_pmc_event{id}` VALUES (1, 3, 7, 10.0), (2, 3, 7, 6.0);
INSERT INTO `rocpd_memory_copy{id}` VALUES (1, 10, 35, 5);
"""


def database(tmp_path, script):
    path = tmp_path / "results.db"
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize("id", [ID, ""], ids=["of a process", "without an id"])
def test_every_call_is_a_sample_in_order_of_start(tmp_path, id):
    schema = SCHEMA.replace("CREATE VIEW `rocpd_string`", "CREATE VIEW `rocpd_strings`")
    run = run_of(database(tmp_path, (schema + ROWS).format(id=id, second=5)))
    assert (run.format, said(run), dict(run.environment)) == ("rocprof", [], {"gpu": "MI300X"})
    assert "SQLite" in run.recognised_by
    assert values_of(run) == {
        "kernel.add(float*)": pytest.approx([500e-9, 750e-9, 1e-9]),
        "kernel.add(float*).SQ_WAVES": [16],
        "memcpy.MEMORY_COPY_HOST_TO_DEVICE": pytest.approx([25e-9]),
        "api.hipLaunchKernel": pytest.approx([100e-9]),
        "range.forward": pytest.approx([2000e-9]),
    }


@pytest.mark.parametrize("second", [1, 99, "NULL"], ids=["the CPU", "unknown", "none"])
def test_launches_without_a_gpu_replace_no_others(tmp_path, second):
    values = values_of(run_of(database(tmp_path, (SCHEMA + ROWS).format(id=ID, second=second))))
    assert values['kernel.add(float*){device="0"}'] == pytest.approx([500e-9, 750e-9])
    assert values["kernel.add(float*)"] == pytest.approx([1e-9])


def test_a_call_without_a_start_leaves_the_others_in_order(tmp_path):
    more = f"INSERT INTO `rocpd_memory_copy{ID}` VALUES (2, 500, 504, 5), (3, NULL, 9, 5), (4, 100, 107, 5);"
    run = run_of(database(tmp_path, (SCHEMA + ROWS).format(id=ID, second=5) + more))
    assert values_of(run)["memcpy.MEMORY_COPY_HOST_TO_DEVICE"] == pytest.approx([25e-9, 7e-9, 4e-9])
    assert "None to 9 is not a time in ns" in said(run)[0]


def test_a_message_that_is_nested_too_deeply_is_no_name(tmp_path):
    rows = ROWS.replace('{{"message": "forward"}}', "[" * 100_000)
    assert "range.roctxRangePushA" in values_of(run_of(database(tmp_path, (SCHEMA + rows).format(id=ID, second=5))))


def test_several_gpus_are_told_apart(tmp_path):
    run = run_of(database(tmp_path, (SCHEMA + ROWS).format(id=ID, second=6)))
    names = [name for name in values_of(run) if name.startswith("kernel") and "WAVES" not in name]
    assert names == ['kernel.add(float*){device="0"}', 'kernel.add(float*){device="1"}']


def test_a_view_and_a_foreign_table_are_never_read(tmp_path):
    script = "CREATE TABLE other (start, end); CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM other;"
    assert errors(run_of(database(tmp_path, script), "rocprof")) == [
        "train.log: error: an SQLite database without the tables of rocpd",
        "train.log: error: no measurements",
    ]


def test_a_damaged_database_is_an_error(tmp_path):
    data = database(tmp_path, (SCHEMA + ROWS).format(id=ID, second=5))
    for size in range(100, len(data), 1777):
        for run in (run_of(data[:size]), run_of(data[:size] + b"\xff" * (len(data) - size), "rocprof")):
            assert run.series or errors(run)


def test_times_of_several_passes_are_means():
    header = "Dispatch_ID,GPU_ID,Kernel_Name,SQ_WAVES,Start_Timestamp,End_Timestamp\n"
    text = f"{header}0,0,k,8.0,41551804869817.5,41551804870817.5\n"
    assert values_of(run_of(text)) == {"kernel.k": [1e-6], "kernel.k.SQ_WAVES": [8]}


def test_copies_of_rocprof_are_no_kernels():
    text = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"CopyDeviceToHost",1,885689740,885689740,100\n'
    assert [one.key.metric for one in run_of(text).series] == ["memcpy.CopyDeviceToHost"]
