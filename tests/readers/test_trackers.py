"""Files of trackers: what the tools wrote (`fixtures/trackers`), and files written here byte by byte."""

import json
import sqlite3
import struct
import zlib
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import FIXTURES, errors, run_of, runs_of, said, steps_of, values_of

from perfgate.core.resource_limits import parse_limits
from perfgate.readers import Source, read
from perfgate.readers.trackers import masked_crc32c
from perfgate.readers.values import unit_of_name, unit_of_text

FILES = FIXTURES / "trackers"
LOSS = [2.5 / (step + 1) for step in range(5)]


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def named(path, name):
    (run,) = runs_of(path.read_bytes(), name=name)
    return run


def test_what_tensorboardx_wrote():
    run = run_of((FILES / "events.out.tfevents").read_bytes())
    assert (run.format, said(run)) == ("tensorboard", [])
    assert values_of(run) == {
        "train/loss": [float32(one) for one in LOSS],
        "time_metrics/end_to_end_s_": [0.25, 1.25, 2.25, 3.25, 4.25],
    }
    assert {series.key.metric: series.unit for series in run.series}["time_metrics/end_to_end_s_"] == "s"
    assert steps_of(run)["train/loss"] == [0, 1, 2, 3, 4]


def test_what_wandb_wrote():
    run = run_of((FILES / "history.wandb").read_bytes())
    assert run.format == "wandb"
    assert values_of(run) == {
        "loss": LOSS,
        "perf/tokens_per_second": [100.5 + step for step in range(5)],
        "nested.a": [0, 1, 2, 3, 4],
    }
    assert steps_of(run)["loss"] == [0, 1, 2, 3, 4]
    assert [one.partition("error: ")[2] for one in said(run)] == [
        "val_loss: nan is not a finite number; left out (record 6)"
    ]


@pytest.mark.parametrize(
    ("path", "name", "metric", "values"),
    [
        ("loss", "mlruns/0/abc/metrics/loss", "loss", LOSS[:4]),
        (
            "perf/step_time_ms",
            "mlruns/0/abc/metrics/perf/step_time_ms",
            "perf/step_time_ms",
            [0.0125, 0.0135, 0.0145, 0.0155],
        ),
        ("loss", "loss", "loss", LOSS[:4]),
        ("loss", "mlruns\\0\\abc\\metrics\\val\\loss", "val/loss", LOSS[:4]),
    ],
)
def test_what_mlflow_wrote(path, name, metric, values):
    run = named(FILES / "metrics" / path, name)
    assert (run.format, said(run)) == ("mlflow", [])
    assert values_of(run) == {metric: values}
    assert steps_of(run) == {metric: [0, 1, 2, 3]}


# --- TensorBoard ----------------------------------------------------------------------------------------------------


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(event):
    length = struct.pack("<Q", len(event))
    checks = [struct.pack("<I", masked_crc32c(part)) for part in (length, event)]
    return length + checks[0] + event + checks[1]


def event(step, *values):
    summary = message(5, b"".join(message(1, value) for value in values))
    return record(b"\x09" + struct.pack("<d", 1.5) + b"\x10" + varint(step) + summary)


def scalar(tag, value):
    return message(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag, kind, content, field=4, shape=b""):
    return message(1, tag.encode()) + message(8, b"\x08" + varint(kind) + message(2, shape) + message(field, content))


HEADER = record(b"\x09" + struct.pack("<d", 1.5) + message(3, b"brain.Event:2"))
EVENTS = HEADER + b"".join(event(step, scalar("loss", 2.5 - step), scalar("time_ms", 5 + step)) for step in range(3))


def test_the_checksum_of_the_standard():
    """RFC 3720, B.4: 32 bytes of zeros; masked as TensorFlow does."""
    assert masked_crc32c(bytes(32)) == ((0x8A9136AA >> 15 | 0x8A9136AA << 17) + 0xA282EAD8) & 0xFFFFFFFF


@given(values=st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=9), first=st.integers(0, 2**40))
def test_events_that_were_written_are_read(values, first):
    data = HEADER + b"".join(event(first + at, scalar("x", value)) for at, value in enumerate(values))
    run = run_of(data, chunk=7)
    assert (run.format, said(run)) == ("tensorboard", [])
    assert values_of(run) == {"x": values}
    assert steps_of(run) == {"x": [first + at for at in range(len(values))]}


TENSORS = {"a": [1.5], "b": [2.5], "c": [-3], "d": [4], "e": [5.5], "f": [6.5], "g": [-7]}


def test_tensors_without_dimensions_are_scalars():
    values = [
        tensor("a", 1, struct.pack("<f", 1.5)),
        tensor("b", 2, struct.pack("<d", 2.5)),
        tensor("c", 3, struct.pack("<i", -3)),
        tensor("d", 9, struct.pack("<q", 4)),
        tensor("e", 1, struct.pack("<f", 5.5), field=5),
        tensor("f", 2, struct.pack("<d", 6.5), field=6),
        tensor("g", 9, varint(-7), field=10),
        tensor("a list", 1, struct.pack("<ff", 1, 2), shape=message(2, b"\x08\x02")),
        tensor("a text", 7, b"hello", field=8),
    ]
    assert values_of(run_of(HEADER + event(0, *values))) == TENSORS


def changed(data, at, by=1):
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (changed(EVENTS, len(EVENTS) - 1), "error: record 4 is damaged: its checksum is wrong; left out"),
        (changed(EVENTS, len(HEADER)), "error: the length of record 2 is damaged; everything behind it is missing"),
        (EVENTS[:-2], "warning: the last record (4) is cut off; left out"),
        (EVENTS[: len(HEADER) + 5], "warning: the last record (2) is cut off; left out"),
        (EVENTS + event(0, scalar("loss", 1)), "error: loss: the step goes back from 2 to 0"),
        (
            EVENTS + event(3, scalar("loss", float("nan"))),
            "error: loss: nan is not a finite number; left out (record 5)",
        ),
        (EVENTS + event(3, scalar("time_ms", -1)), "error: time_ms: -1.0 is negative"),
        (EVENTS + event(3, b"\x0a\xff"), "error: record 5 is damaged: a number is cut off or too long; left out"),
        (HEADER, "error: no measurements"),
    ],
)
def test_damaged_events(data, problem):
    assert problem in said(run_of(data))[0]


@pytest.mark.parametrize("step", [float("nan"), float("inf"), 1e308, 10**300, 2**63])
def test_a_step_that_is_no_number_is_said(step):
    run = run_of(wandb(*(history(at, loss=0.5, _step=step) for at in range(3)), history(9, loss=0.25)))
    assert "the step is not a number that a program counts to; left out (record 1)" in said(run)[0]
    assert values_of(run) == {"loss": [0.25]}


# --- limits ---------------------------------------------------------------------------------------------------------


def beyond(data: bytes, limits: str, name: str) -> list[str]:
    """Return the problems of a file under limits, without the advice to raise them."""
    (run,) = read(Source(name, [data], parse_limits(limits)))
    assert run.series == ()
    return [str(problem).partition(" allows")[0] for problem in run.problems]


def test_logs_of_trackers_beyond_a_limit_are_refused():
    many = wandb(history(1, **{f"metric_{number}": 0.5 for number in range(30)}))
    long = wandb(*(history(step, loss=0.5, note="x" * 500) for step in range(30)))
    events = HEADER + b"".join(event(step, scalar("loss", 0.5)) for step in range(100))
    assert beyond(many, "series=20", "a.wandb") == [
        "a.wandb: error: reading stops here: this file has more series than the limit series=20"
    ]
    assert beyond(long, "document_bytes=400", "a.wandb")[0] == (
        "a.wandb: error: a record is larger than the limit document_bytes=400"
    )
    for name, data in (("a.wandb", long), ("events.out.tfevents", events)):
        assert beyond(data, "inflated_bytes=2KiB", name) == [
            f"{name}: error: this log is larger than the limit inflated_bytes=2KiB"
        ]


def test_a_database_of_mlflow_is_refused_by_name(tmp_path):
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as database:
        for table in ("experiments", "runs", "metrics"):
            database.execute(f"CREATE TABLE {table} (key TEXT, value REAL)")
    run = run_of(path.read_bytes())
    assert (
        errors(run)[0].partition(": ")[2].startswith("error: this is a database of MLflow, which is not read: log with")
    )


# --- Weights & Biases -----------------------------------------------------------------------------------------------

BLOCK = 1 << 15


#: Metrics of the system: one whose value is a word.
STATS = message(7, message(3, message(1, b"gpu.0.name") + message(16, b'"H100"')))


def wandb(*records):
    """The log format of LevelDB, with pieces where a block ends."""
    out = b":W&B\xe1\xbe\x00"
    for whole in records:
        first, data = True, whole
        while True:
            left = BLOCK - len(out) % BLOCK
            if left < 7:
                out += bytes(left)
                continue
            piece, data = data[: left - 7], data[left - 7 :]
            kind = (1 if first else 4) if not data else (2 if first else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            first = False
            if not data:
                break
    return out


def history(step, **values):
    items = [
        message(1, message(1, key.encode()) + message(16, json.dumps(value).encode())) for key, value in values.items()
    ]
    return message(2, b"".join(items) + message(2, b"\x08" + varint(step)))


@pytest.mark.parametrize("size", [1, 32740, 32749, 32750, 32760, 40000, 100000])
def test_history_in_blocks_of_every_fill(size):
    records = [history(step, loss=2.5 - step, time_ms=5 + step, note="x" * size, _runtime=1.0) for step in range(3)]
    run = run_of(wandb(STATS, *records))
    assert (run.format, said(run)) == ("wandb", [])
    assert values_of(run) == {"loss": [2.5, 1.5, 0.5], "time_ms": [0.005, 0.006, 0.007]}
    assert steps_of(run)["loss"] == [0, 1, 2]


def test_numbers_of_every_kind():
    number = message(1, message(1, b"a") + b"\x31" + struct.pack("<d", 1.5))
    integer = message(1, message(2, b"b") + message(2, b"c") + b"\x28" + varint(5))
    run = run_of(wandb(message(2, number + integer)))
    assert values_of(run) == {"a": [1.5], "b.c": [-3]}


def test_what_only_the_summary_of_wandb_has():
    items = {b"loss": b"1.5", b"best_time_ms": b"12.5", b"_runtime": b"9.5", b"table": b'{"_type": "table"}'}
    summary = b"".join(message(1, message(1, key) + message(16, value)) for key, value in items.items())
    run = run_of(wandb(history(0, loss=2.5), history(1, loss=1.5), message(3, summary)))
    assert values_of(run) == {"loss": [2.5, 1.5], "best_time_ms": [0.0125]}


WANDB = wandb(*(history(step, loss=2.5 - step) for step in range(3)))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (changed(WANDB, len(WANDB) - 1), "error: a record before byte"),
        (WANDB[:-2], "warning: the last record is cut off; left out"),
        (wandb(history(1, loss=1), history(0, loss=1)), "error: loss: the step goes back from 1 to 0"),
        (wandb(b"\x12\xff"), "error: record 1 is damaged"),
        (wandb(), "error: no measurements"),
    ],
)
def test_damaged_logs_of_wandb(data, problem):
    assert problem in said(run_of(data))[0]


@pytest.mark.parametrize(("kind", "part"), [(3, 1), (7, 3)])
def test_nothing_of_a_damaged_record_of_wandb_counts(kind, part):
    item = message(part, message(1, b"best") + message(16, b"0.5"))
    run = run_of(wandb(history(0, loss=2.5), message(kind, item + message(part, b"\xff\xff"))))
    assert values_of(run) == {"loss": [2.5]}
    assert "error: record 2 is damaged: a number is cut off or too long; left out" in said(run)[0]


def test_nothing_counts_of_an_event_with_a_damaged_value():
    run = run_of(EVENTS + event(3, scalar("loss", 9.5), b"\x12\xff"))
    assert values_of(run)["loss"] == [2.5, 1.5, 0.5]
    assert "error: record 5 is damaged: a number is cut off" in said(run)[0]


def test_nothing_counts_of_a_record_of_wandb_with_a_damaged_end():
    run = run_of(wandb(history(0, loss=2.5), history(1, loss=1.5) + b"\x12\xff"))
    assert values_of(run) == {"loss": [2.5]}
    assert "error: record 2 is damaged" in said(run)[0]


@given(data=st.binary(max_size=80), begin=st.sampled_from([HEADER, EVENTS, WANDB[:7], WANDB]))
def test_nothing_raises(data, begin):
    (run,) = runs_of(begin + data)
    assert run.series or errors(run)


# --- MLflow, and units ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1795337237512 nan 1\n", "error: loss: nan is not a finite number"),
        ("1795337237512 fast\n", "error: loss: 'fast' is not a number"),
        ("what is this\n", "error: a line is not `timestamp value step`"),
        ("1795337237512 1.0 1", "warning: the last record is cut off"),
        ("1795337237512 1.0 5\n1795337237512 1.0 4\n", "error: loss: the step goes back from 5 to 4"),
    ],
)
def test_damaged_metrics_of_mlflow(line, problem):
    (run,) = runs_of("1795337237512 2.5 0\n" + line, "mlflow", name="metrics/loss")
    assert problem in said(run)[0]


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("ms", ("s", 1e3)),
        ("ns/iter", ("s", 1e9)),
        ("seconds", ("s", 1)),
        ("iter/sec", ("1/s", 1)),
        ("tokens per second", ("1/s", 1)),
        ("GB/s", ("B/s", 1e-9)),
        ("GB/sec", ("B/s", 1e-9)),
        ("MiB per second", ("B/s", 2**-20)),
        ("bytes/s", ("B/s", 1)),
        ("boxes/sec", ("1/s", 1)),
        ("TFLOPS", ("FLOP/s", 1e-12)),
        ("GiB", ("B", 2**-30)),
        ("%", ("1", 100)),
        ("Percent", ("1", 100)),
        ("bananas", None),
        ("", None),
    ],
)
def test_units_as_tools_write_them(text, unit):
    found = unit_of_text(text)
    assert found == (unit and (unit[0], pytest.approx(unit[1])))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("time_metrics/end_to_end(s)", ("s", 1)),
        ("time_metrics/end_to_end_s_", ("s", 1)),
        ("memory/max_active(GiB)", ("B", 2**-30)),
        ("train_step_timing in s", ("s", 1)),
        ("perf/step_time_seconds", ("s", 1)),
        ("perf/per_device_tflops_per_sec", ("FLOP/s", 1e-12)),
        ("perf/per_device_tokens_per_sec", ("1/s", 1)),
        ("train/train_samples_per_second", ("1/s", 1)),
        ("train_runtime", ("s", 1)),
        ("step_time_ms", ("s", 1e3)),
        ("step_time_s", ("s", 1)),
        ("tokens_per_s", ("1/s", 1)),
        ("mfu(%)", ("1", 100)),
        ("throughput(tps)", ("1", 1)),
        ("train/loss", ("1", 1)),
        ("items", ("1", 1)),
        ("params", ("1", 1)),
    ],
)
def test_units_in_names(name, unit):
    assert unit_of_name(name) == (unit[0], pytest.approx(unit[1]))


@pytest.mark.parametrize("digits", [20, 400, 5000])
def test_endless_digits_of_a_step_are_an_error(digits):
    run = run_of(f"epoch,step,loss\n0,1{'0' * digits},2.5\n0,49,2.25\n", "lightning-csv")
    assert values_of(run) == {"loss": [2.25]}
    assert "a row has no step" in errors(run)[0]


def test_metrics_of_the_system_are_the_machines():
    stats = [message(7, message(3, message(1, b"gpu.0.temp") + message(16, text))) for text in (b"61.5", b"62")]
    run = run_of(wandb(STATS, *stats, history(0, loss=2.5)))
    assert values_of(run) == {"machine.gpu.0.temp": [61.5, 62], "loss": [2.5]}
    assert not run.coverage[0].unread
