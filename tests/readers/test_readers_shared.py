"""The readers on real files and on the broken ones, where the project's shared folder is present."""

import csv
import re

import numpy as np
import pytest
from reading import SHARED, errors, values_of

from perfgate.readers import Source, read

pytestmark = [pytest.mark.shared, pytest.mark.skipif(not SHARED.is_dir(), reason="no shared folder")]

MINE = re.compile(r"(log_|timing_|trace_|blank|empty|json_)")
STATED = re.compile(r"([^\s\[]+) n=(\d+) median ([\d.]+) s")


def rows():
    table = SHARED / "corpus/broken/EXPECTED.tsv"
    if not table.exists():
        return []
    with table.open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if MINE.match(row["file"])]


def read_file(path):
    with path.open("rb") as file:
        return read(Source(path.name, iter(lambda: file.read(1 << 16), b"")))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"])
def test_broken_files(row):
    runs = read_file(SHARED / "corpus/broken" / row["file"])
    problems = [problem for run in runs for problem in run.problems]
    values = {str(series.key): series.values for run in runs for series in run.series}
    for key, count, median in STATED.findall(row["a correct reader"]):
        assert values[key].size == int(count)
        assert np.median(values[key]) == pytest.approx(float(median))
    line = row["problem on line"]
    if line.isdigit():
        assert int(line) in {problem.at.line for problem in problems}
    elif line == "some":
        assert any(problem.at.line for problem in problems)
    if row["exit of inspect"] == "3":
        assert any(errors(run) for run in runs)
    if row["exit of check"] == "0":
        assert not any(errors(run) for run in runs)


def test_two_appended_runs():
    runs = read_file(SHARED / "corpus/broken/log_two_runs_appended.log")
    assert [(run.part, run.series[0].values.size) for run in runs] == [(1, 6), (2, 5)]


def test_seed_001():
    (run,) = read_file(next((SHARED / "seeds").glob("001_*")))
    series = {str(series.key): series for series in run.series}
    assert run.environment == {"deepspeed": "0.8.2", "world_size": 4}
    assert series['forward{rank="0"}'].values.size == 1664
    assert series['optimizer_step{rank="0"}'].values.size == 1660
    assert np.median(series['forward{rank="0"}'].values) == pytest.approx(0.36224)
    assert np.median(series['backward_allreduce{rank="0"}'].values) == pytest.approx(0.00909)
    assert series["batch_rate"].values[0] == 53.6611
    assert series["batch_time"].steps.tolist() == [*range(0, 1601, 100), 1601][:17]
    forward, optimizer = series['forward{rank="0"}'].steps, series['optimizer_step{rank="0"}'].steps
    assert forward.tolist() == [*range(1664)]
    assert len(set(forward) - set(optimizer)) == 4
    assert [(str(problem.severity), problem.at.line) for problem in run.problems] == [("warning", 7059)]


def test_seed_002():
    (run,) = read_file(next((SHARED / "seeds").glob("002_*")))
    values = values_of(run)
    assert len(values) == 26
    assert not run.problems
    assert values['forward_backward{index="1"}'][0] == 0.22120609100056754
    assert values['forward{name="small_forward_warmup_0_mixed_False"}'][0] == 0.07846403200073837
    assert {len(each) for each in values.values()} == {5}


#: Runs, and what each holds of some series, counted with grep.
CORPUS = {
    "argonne_ALCF_cooldown.txt": [{'forward{rank="0"}': 8, 'optimizer_step{rank="0"}': 7, "samples_per_second": 7}],
    "argonne_ALCF_deprecated.txt": [{'forward{rank="0"}': 3}, {'forward{rank="0"}': 2}],
    "bigscience_meg_ds_3d_n16_ds_on.out": [{"load-checkpoint": 1}],
    "bigscience_meg_ds_3d_old_n16.out": [{"forward": 2, "model and optimizer": 1}],
    "bigscience_meg_ds_zero_n16-1999616.out": [{"forward": 4, "backward-allreduce": 4}],
    "dschat_step1_opt1.3b.log": [{"samples_per_second": 736}],
    "dschat_step2_dpo_opt350m.log": [{"samples_per_second": 235}],
    "dschat_step3_rlhf.log": [{"samples_per_second": 47}],
    "zenflow_benchmark_README.txt": [{"forward": 2, "forward_microstep": 5, "selective_optimizer_update": 5}],
}


@pytest.mark.parametrize("name", CORPUS)
def test_deepspeed_corpus(name):
    runs = read_file(SHARED / "corpus/deepspeed" / name)
    sizes = [{str(series.key): series.values.size for series in run.series} for run in runs]
    assert len(runs) == len(CORPUS[name])
    for found, expected in zip(sizes, CORPUS[name], strict=True):
        assert expected.items() <= found.items()
    wrong = [problem.key for run in runs for problem in run.problems if problem.severity == "error"]
    assert {key.metric.split(".")[0] for key in wrong} <= {"collective"}  # one prints totals below zero


def test_results_of_the_score_set():
    (run,) = read_file(SHARED / "score/data/run-001.json")
    assert {series.values.size for series in run.series} == {170}
    assert not run.problems


def test_other_text_is_no_known_format():
    for path in (SHARED / "corpus/other-text").iterdir():
        (run,) = read_file(path)
        assert "unknown format" in errors(run)[0]
