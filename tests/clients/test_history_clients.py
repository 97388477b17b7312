"""Histories as real services and libraries have them: offline, in a folder of the test."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from installed import PATIENCE, ROOT, history_python

pytestmark = pytest.mark.clients


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Run the Python with the packages, in a folder with a history of 24 runs: the last 12 are 10 % slower."""
    lines = ["time,commit,metric,value,unit"]
    for i in range(24):
        wiggle = (1, 0.999, 1.001)[i % 3]
        lines.append(f"2026-01-01T{i:02}:00:00Z,{i:02}c0ffee,forward,{(110 if i >= 12 else 100) * wiggle:.2f},ms")
        lines.append(f"2026-01-01T{i:02}:00:00Z,{i:02}c0ffee,rate,{5 * wiggle:.4f},it/s")
    (tmp_path / "old.csv").write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WANDB_MODE": "offline", "HOME": str(tmp_path)}

    def run(*words: str) -> str:
        command = [str(history_python()), *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "perfgate", "history", "import", "old.csv")
    return run


def test_parquet_and_the_data_frame_have_the_same_table(python: Callable[..., str]) -> None:
    python("-m", "perfgate", "history", "export", "--format", "parquet", "--to", "history.parquet")
    program = """if True:
        import json, pandas, perfgate
        written, frame = pandas.read_parquet("history.parquet"), perfgate.load_history().to_pandas()
        same = (written["value"] == frame["value"]).all() and (written["time"] == frame["time"]).all()
        print(json.dumps([list(written.columns) == list(frame.columns), bool(same), str(written["time"].dtype),
                          frame.groupby(["metric", "level"])["value"].count().tolist()]))
    """
    columns, same, kind, counts = json.loads(python("-c", program))
    assert (columns, same, kind[:8], counts) == (True, True, "datetime", [12, 12, 24])


def test_prometheus_reads_the_text(python: Callable[..., str]) -> None:
    python("-m", "perfgate", "history", "export", "--format", "openmetrics", "--to", "history.om")
    program = """if True:
        import json
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
        found = {one.name: one for one in families(open("history.om").read())}
        seconds = found["perfgate_seconds"].samples
        print(json.dumps([len(seconds), seconds[0].value, seconds[0].labels["metric"], sorted(found)]))
    """
    count, value, metric, families = json.loads(python("-c", program))
    assert (count, value, metric) == (24, 0.1, "forward")
    assert families == ["perfgate_change_ratio", "perfgate_change_seconds", "perfgate_per_second", "perfgate_seconds"]


def test_mlflow_has_a_run_for_each_run_once(python: Callable[..., str]) -> None:
    words = ("-m", "perfgate", "history", "export", "--format", "mlflow", "--to", "sqlite:///mlflow.db")
    assert "24 runs written, 0 were there already" in python(*words)
    assert "0 runs written, 24 were there already" in python(*words)
    program = """if True:
        import json
        from mlflow import MlflowClient
        client = MlflowClient("sqlite:///mlflow.db")
        (experiment,) = client.search_experiments(filter_string="name LIKE 'perfgate%'")
        runs = client.search_runs([experiment.experiment_id], order_by=["start_time"])
        print(json.dumps([[run.info.run_name, run.data.metrics["forward mean"]] for run in runs]))
    """
    runs = json.loads(python("-c", program))
    assert [name for name, _ in runs] == [f"{i:02}c0ffee" for i in range(24)]
    assert [round(value, 2) for _, value in runs] == [0.1] * 12 + [0.11] * 12


def test_wandb_has_a_step_for_each_run(python: Callable[..., str], tmp_path: Path) -> None:
    assert "24 steps written" in python("-m", "perfgate", "history", "export", "--format", "wandb", "--to", ".")
    (written,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    shown = json.loads(python("-m", "perfgate", "inspect", "--json", "--values", str(written)))
    (series,) = [one for one in shown["runs"][0]["series"] if one["metric"].startswith("forward")]
    assert [round(value, 2) for value in series["values"]] == [0.1] * 12 + [0.11] * 12
