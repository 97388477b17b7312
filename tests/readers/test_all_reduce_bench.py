import pytest
from damage import check_changes, check_pieces
from reading import SHARED, errors, run_of, runs_of, said, values_of

from perfgate.readers.nvidia import nccl_tests

SIZES = "0 data size: 4.0 GB\n1 data size: 4.0 GB\n"
BLOCK = "{}:\n duration: {:.4f} sec\n algo throughput: {:.4f} bps, {:.4f} Gbps\n busbw: {:.4f}  Gbps\n"


def block(rank, seconds):
    throughput = 64e9 / seconds
    return BLOCK.format(rank, seconds, throughput, throughput / 1e9, throughput / 2e9)


def test_blocks_of_several_ranks_and_trials():
    run = run_of("ignore me 17\n" + SIZES + block(0, 4.0) + "ignore me 17\n" + block(1, 5.0) + block(0, 2.0))
    assert (run.format, run.problems, dict(run.environment)) == ("nccl-tests", (), {"world_size": 2})
    assert values_of(run) == {
        'all_reduce.time{rank="0", size="4.0 GB"}': [4, 2],
        'all_reduce.algo_throughput{rank="0", size="4.0 GB"}': [2e9, 4e9],
        'all_reduce.busbw{rank="0", size="4.0 GB"}': [1e9, 2e9],
        'all_reduce.time{rank="1", size="4.0 GB"}': [5],
        'all_reduce.algo_throughput{rank="1", size="4.0 GB"}': [1.6e9],
        'all_reduce.busbw{rank="1", size="4.0 GB"}': [0.8e9],
    }
    assert {series.unit for series in run.series} == {"s", "B/s"}


@pytest.mark.parametrize("order", ["aabbabab", "aabbbbaa", "aabbabba", "aabbbaba"])
def test_blocks_within_one_another_are_told_apart_by_their_numbers(order):
    lines = {"a": block(0, 4.0).splitlines(), "b": block(1, 5.0).splitlines()}
    text = "".join(lines[which].pop(0) + "\n" for which in order)
    run = run_of(block(2, 8.0) + text)
    assert run.problems == ()
    values = values_of(run)
    assert values['all_reduce.time{rank="0"}'] == [4]
    assert values['all_reduce.algo_throughput{rank="0"}'] == [2e9]
    assert values['all_reduce.busbw{rank="1"}'] == [0.8e9]


@pytest.mark.parametrize("text", ["nan", "-4.0000", "4.0.0"])
def test_values_that_cannot_be_true_are_refused(text):
    run = run_of(block(0, 4.0) + block(1, 5.0).replace("5.0000 sec", f"{text} sec"))
    assert 'all_reduce.time{rank="1"}' not in values_of(run)
    assert [str(problem.key) for problem in run.problems] == ['all_reduce.time{rank="1"}']


def test_what_is_broken_off_is_said():
    whole = block(0, 4.0)
    assert said(run_of(whole + whole[: whole.index(" algo")])) == [
        "train.log:5: warning: the block is incomplete; left out"
    ]
    assert errors(run_of(whole.partition("\n")[2], "nccl-tests"))[0] == (
        "train.log:1: error: the rank of a value of the all_reduce benchmark is lost"
    )


def test_problems_beside_tables_of_nccl_tests_are_reported_once():
    header = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
    table = header + "  8 2 float sum -1 65.0 0.1 0.1 0 65.0 0.1 0.1 0\n# Avg bus bandwidth : 0.1\n"
    for blocks in (block(0, 4.0), ""):
        runs = runs_of(table + blocks + "0:\n duration: 4.0000 sec\n")
        (problem,) = [message for run in runs for message in said(run)]
        assert "the block is incomplete" in problem
        assert problem in said(runs[-1])


def test_damaged_lines():
    check_pieces(SIZES + block(0, 4.0) + block(1, 5.0), "nccl-tests")
    check_changes(SIZES + block(0, 4.0) + block(1, 5.0), "nccl-tests")


@pytest.mark.shared
def test_a_real_text():
    """32 ranks on 4 nodes, 5 trials; the blocks of ranks 23, 30 and 1 stand within one another from line 690 on."""
    (path,) = (SHARED / "corpus/nccl-tests-like").iterdir()
    run = run_of(path.read_bytes())
    values = values_of(run)
    assert (run.format, errors(run), run.environment["world_size"]) == ("nccl-tests", [], 32)
    assert {len(numbers) for numbers in values.values()} == {5}
    assert len(values) == 96
    assert values['all_reduce.time{rank="6", size="4.0 GB"}'][0] == 3.9563
    assert values['all_reduce.time{rank="30", size="4.0 GB"}'][0] == 4.0722
    assert values['all_reduce.algo_throughput{rank="30", size="4.0 GB"}'][0] == 15716173146.2812 / 8
    assert values['all_reduce.busbw{rank="30", size="4.0 GB"}'][0] == pytest.approx(15.2250e9 / 8)
    assert values['all_reduce.busbw{rank="1", size="4.0 GB"}'][0] == pytest.approx(15.2473e9 / 8)
    assert values['all_reduce.busbw{rank="23", size="4.0 GB"}'][0] == pytest.approx(14.9150e9 / 8)


def test_a_block_that_is_dropped_because_too_many_are_open_is_said(monkeypatch):
    monkeypatch.setattr(nccl_tests, "_MOST_OPEN", 2)
    begun = block(0, 4.0).partition(" algo")[0]
    assert said(run_of(begun + "1:\n2:\n" + block(3, 5.0))) == [
        "train.log:1: warning: the block is incomplete; left out"
    ]
