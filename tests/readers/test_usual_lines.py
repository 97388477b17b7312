"""The usual lines of a DeepSpeed log, which are read many at once: the result is that of reading them one by one."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, runs_of, said, steps_of, values_of

from perfgate.core.resource_limits import Limits
from perfgate.readers import Source, read, text
from perfgate.readers.deepspeed import line_shapes, usual_lines

STAMP = "[2024-02-20 09:55:01,105] [INFO] [logging.py:77:log_dist] "
#: Lines with numbers to fill in; those without `time (ms) | ` or with something odd are not usual.
LINES = (
    STAMP + "[Rank 0] rank=0 time (ms) | fwd: {:.2f} | bwd: {:.2f} | step: {:.2f}\n",
    STAMP + "[Rank 0] rank=0 time (ms) | fwd_microstep: {:.2f} | bwd_microstep: {:.2f}\n",
    "[Rank 0] time (ms) | optimizer_step: {:.3f}\n",
    "[Rank {:.0f}] time (ms) | fwd: {:.2f}\n",
    "[Rank {:.0f}] time (ms) | fwd: {:.2f}\n",
    "rank={:.0f} time (ms) | step: {:.1f} | group 1: {:.2f} | group 2: {:.2f}\n",
    "time (ms) | batch generator: {:.2f}\r\n",
    "[Rank 0] time (ms) | fwd: {:.2f} (fwd_moe: {:.2f})\n",
    "[Rank 0] time (ms) | fwd: {:.2f} | bwd: nan\n",
    "[Rank 0] time (ms) | fwd: {:.2f}[Rank 0] time (ms) | fwd: {:.2f}\n",
    "[Rank 0] time (ms) | fwd: {:.2f}\r[Rank 0] time (ms) | fwd: {:.2f}\n",
    "Global Steps: {:.0f} Data (t): 0.001 Batch (t): {:.3f}[Rank 0] time (ms) | optimizer_step: {:.3f}\n",
    "\x1b[32m[Rank 0]\x1b[0m time (ms) | fwd: {:.2f}\n",
    "\ufffd\u0663 [Rank 0] time (ms) | \u00e9: {:.2f}\n",
    "[Rank 0] time (ms) | fwd: 12345678901.123456 | bwd: {:.2f}\n",
    "[Rank 0] step={:.0f}, skipped=0, lr=[0.1]\n",
    "[Rank 0] DeepSpeed info: version=0.9.2, git-hash=unknown, git-branch=unknown\n",
    "After building\nMA {:.2f} GB         Max_MA 1.73 GB         CA 1.75 GB         Max_CA 2 GB\n",
    "MA {:.2f} GB         Max_MA 1.73 GB         CA 1.75 GB         Max_CA 2 GB\n",
    "-------- DeepSpeed Flops Profiler --------\n",
    "Traceback (most recent call last):\n",
    "any other line\n",
)
LOGS = st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 9)), min_size=1, max_size=30)
NUMBERS = (0.04, 0.5, 3.14, 9.99, 10.0, 27.5, 99.95, 359.87, 1026.01, 2.675)


def everything(data: bytes, block: int, one_by_one: bool) -> object:
    """Return the content of a log, read in blocks of this size; each is long enough to be read at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK", block)
        patch.setattr(usual_lines, "_MANY_LINES", 3)
        patch.setattr(usual_lines, "_PENDING_LINES", block // 40)
        patch.setattr(line_shapes, "_MOST_SHAPES", 0 if one_by_one else 12)
        return [
            (run.part, values_of(run), steps_of(run), said(run), dict(run.environment))
            for run in runs_of(data, "deepspeed")
        ]


def damaged(data: bytes, seed: int) -> bytes:
    rng, damage = random.Random(seed), bytearray(data)
    for _ in range(seed % 3):
        at = rng.randrange(len(damage))
        damage[at : at + rng.randrange(3)] = rng.choice([b"\n", b"\r", b"\0", b"\xff", b"7", b"-", b".", b"|", b"nan"])
    return bytes(damage)


@given(log=LOGS, block=st.sampled_from([200, 1000, 4000]), repeat=st.integers(1, 4), seed=st.integers(0, 999))
def test_usual_lines_are_read_as_if_one_by_one(log, block, repeat, seed):
    lines = [line.format(*(NUMBERS[(at + other) % 10] for other in range(4))) for line, at in log]
    data = damaged("".join(lines * repeat).encode(), seed)
    assert everything(data, block, one_by_one=False) == everything(data, block, one_by_one=True)


def test_nearly_all_lines_of_a_log_are_usual(monkeypatch):
    counted = []
    count = usual_lines.UsualLines.count
    monkeypatch.setattr(
        usual_lines.UsualLines, "count", lambda self, forms, *rest: counted.append(forms) or count(self, forms, *rest)
    )
    line = "[Rank 0] time (ms) | fwd: {:.2f} | step: 2.00\n"
    run = run_of("".join(line.format(100 + at / 100) for at in range(8000)))
    assert sum(len(forms) for forms in counted) > 5000
    assert values_of(run)['forward{rank="0"}'] == [float(f"{100 + at / 100:.2f}") / 1000 for at in range(8000)]


def test_ranks_and_names_that_differ_only_in_digits_are_kept_apart():
    line = "[Rank {rank}] time (ms) | group {group}: {value}.00\n"
    rows = [{"rank": at % 3, "group": at // 3 % 2, "value": 100 + at % 6} for at in range(9000)]
    run = run_of("".join(line.format(**row) for row in rows))
    found = {name: {*values} for name, values in values_of(run).items()}
    assert found == {f'group {at // 3 % 2}{{rank="{at % 3}"}}': {(100 + at) / 1000} for at in range(6)}


def test_a_training_line_glued_to_a_usual_record_is_read_too():
    line = "Global Steps: {0} Data (t): 0.001 Batch (t): 1.800, 1057.4/s[Rank 0] time (ms) | fwd: {0}.00 | step: 1.00\n"
    run = run_of("".join(line.format(step) for step in range(1, 21)))
    assert {name: len(values) for name, values in values_of(run).items()} == dict.fromkeys(
        ['forward{rank="0"}', 'step{rank="0"}', "data_time", "batch_time", "batch_rate"], 20
    )


def test_a_limit_is_reported_at_the_usual_line_that_exceeds_it():
    lines = "".join(f"[Rank 0] time (ms) | fwd{name}: 1.00\n" * 800 for name in "abcdefghij")
    (run,) = read(Source("train.log", [lines.encode()], Limits(series=4)), "deepspeed")
    assert [problem.at.line for problem in run.problems] == [3201]


def test_memory_after_records_of_timers_has_no_message():
    memory = "MA 1.50 GB         Max_MA 1.73 GB         CA 1.75 GB         Max_CA 2 GB\n"
    data = ("another line\n" + "[Rank 0] time (ms) | fwd: 1.00 | step: 2.00\n" * 9 + memory).encode()
    found = everything(data, 100, one_by_one=False)
    assert found == everything(data, 100, one_by_one=True)
    assert "memory.allocated" in values_of(run_of(data, "deepspeed"))


def test_series_of_one_record_share_their_steps():
    run = run_of("[Rank 0] time (ms) | fwd: 1.00 | step: 2.00\n" * 5000)
    first, second = run.series
    assert first.steps is second.steps
