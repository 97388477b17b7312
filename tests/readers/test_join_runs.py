import json

import pytest
from reading import errors, runs_of, said, values_of

from perfgate.readers import join_runs

LOG = "time (ms) | forward: {:.2f}\n"


def run(name, value, text=LOG):
    return runs_of(text.format(value), name=name)


def test_files_of_ranks_get_the_label_rank():
    joined = join_runs("dir", [*run("dir/rank0.log", 1), *run("dir/trace_rank-12.log", 2)])
    assert values_of(joined) == {'forward{rank="0"}': [0.001], 'forward{rank="12"}': [0.002]}
    assert (joined.source, joined.format, joined.problems) == ("dir", "deepspeed", ())


def test_what_only_one_file_holds_keeps_its_name():
    other = runs_of("time (ms) | save: 3.00\n", name="dir/rank0.log")
    joined = join_runs("dir", [*other, *run("dir/rank1.log", 2)])
    assert [*values_of(joined)] == ["save", "forward"]


def test_ranks_in_the_text_count_more_than_names():
    text = "[Rank 5] " + LOG
    joined = join_runs("dir", [*run("dir/rank0.log", 1, text), *run("dir/rank1.log", 2, text)])
    assert values_of(joined) == {'forward{rank="5"}': [0.001]}
    assert errors(joined) == [
        'dir/rank1.log: error: forward{rank="5"} is in both dir/rank0.log and dir/rank1.log; using the first'
    ]


def test_facts_that_differ_are_one_warning() -> None:
    runs = []
    for rank in range(4):
        series = [{"metric": f"m{rank}", "unit": "s", "value": 1.0}]
        document = {"schema": "perfgate.results/1", "environment": {"rank": rank}, "series": series}
        runs += runs_of(json.dumps(document), name=f"dir/{rank}.json")
    joined = join_runs("dir", runs)
    assert [str(problem) for problem in joined.problems] == [
        "dir/1.json: warning: rank is 1 here, and different in 2 more files, and 0 in the first file; using 0;"
        ' write the rank as a label of each series: `"labels": {"rank": "1"}`'
    ]


def test_times_of_a_recorder_count_more_than_those_of_a_trace_beside_it():
    series = [{"metric": "step.time", "unit": "s", "values": [0.1, 0.1]}]
    text = json.dumps({"schema": "perfgate.results/1", "series": series})
    steps = [{"ph": "X", "name": f"ProfilerStep#{i}", "ts": i * 3e5, "dur": 3e5, "pid": 1, "tid": 1} for i in range(4)]
    steps.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9, "pid": 1, "tid": 1})
    for one in steps[:-1]:
        one["cat"] = "user_annotation"
    trace = json.dumps({"schemaVersion": 1, "traceEvents": steps})
    joined = join_runs("dir", [*runs_of(trace, name="dir/a.json"), *runs_of(text, name="dir/results.json")])
    assert values_of(joined)["step.time"] == [0.1, 0.1]
    assert errors(joined) == []
    message = "step.time is in both dir/results.json and dir/a.json; using dir/results.json, which is not profiled"
    assert message in [problem.message for problem in joined.problems]


@pytest.mark.parametrize(
    ("names", "glob"),
    [
        (("a.log", "b.log"), "rank3/*.log"),
        (("a.log", "b.txt", "rank0.log"), "rank3/*"),
        (("a/x.log", "b/x.log"), "rank3/**/*.log"),
    ],
)
def test_a_folder_of_many_runs_is_one_error_that_says_how_to_give_them(names, glob):
    joined = join_runs("rank3", [one for name in names for one in run(f"rank3/{name}", 1)])
    assert values_of(joined) == {}
    count = len([name for name in names if "rank" not in name])
    assert errors(joined) == [
        f"rank3: error: a folder is the ranks of one run, but {count} files here are runs of their own:"
        f" did you mean {glob}? or, if they are ranks, write the rank in each name: rank0.log"
    ]


def test_files_that_have_only_a_part_in_common_are_an_error():
    other = runs_of("time (ms) | forward: 1.00 | save: 3.00\n", name="dir/a.log")
    joined = join_runs("dir", [*other, *run("dir/b.log", 2)])
    assert values_of(joined) == {"forward": [0.001], "save": [0.003]}
    assert str(joined.problems[0].key) == "forward"


def test_a_file_of_several_runs_is_an_error():
    restarted = LOG + "Initializing TorchBackend in DeepSpeed\n" + LOG.replace("{:.2f}", "9.00")
    joined = join_runs("dir", [*run("dir/rank0.log", 1), *run("dir/rank1.log", 2, restarted)])
    assert values_of(joined) == {"forward": [0.001]}
    assert errors(joined) == ["dir/rank1.log: error: a file with several runs cannot be one of the files of a run"]


@pytest.mark.parametrize(("second", "warnings"), [(8, 0), (4, 1)])
def test_facts_are_merged(second, warnings):
    text = "dist_world_size={}\n" + LOG.format(1)
    joined = join_runs("dir", [*run("dir/rank0.log", 8, text), *run("dir/rank1.log", second, text)])
    assert joined.environment == {"world_size": 8}
    assert len(said(joined)) == warnings
