"""MLflow: an experiment for each suite and environment, with a run for each remembered run.

The target is a folder, `sqlite:///FILE` or the URL of a tracking server. A run that is there already, by the tag
`perfgate.run`, is not written again. Metrics are in base units; their names are those of series, with the letters that
MLflow allows.
"""

from __future__ import annotations

import re
from datetime import datetime

from perfgate.core import fact_text
from perfgate.core.remembered_runs import HistoryRun
from perfgate.core.run_history import EnvironmentHistory, LoadedHistory

NAME = "mlflow"
_TAG = "perfgate.run"
_NOT_ALLOWED = re.compile(r"[^\w\-. :/]")
#: MLflow takes at most this many metrics at once.
_BATCH = 1000


def send(found: LoadedHistory, target: str) -> list[str]:
    """Write the runs; returns the lines to print. Raises ImportError without mlflow."""
    try:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, RunTag
    except ImportError:
        raise ImportError("the export to MLflow needs mlflow: pip install 'perfgate[mlflow]'") from None
    client = MlflowClient(tracking_uri=target)
    lines = []
    for place in found.environments:
        name = f"perfgate {place.suite} {place.environment}"
        known = client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else client.create_experiment(name)
        there = _there(client, experiment)
        written = 0
        numbers = _numbers(place)
        for step, run in enumerate(place.runs):
            if run.id in there or run.id not in numbers:
                continue
            time = _milliseconds(run.time)
            tags = [RunTag(key, value) for key, value in _tags(run).items()]
            begun = client.create_run(experiment, start_time=time, run_name=run.label)
            metrics = [Metric(key, value, time, step) for key, value in numbers[run.id].items()]
            for start in range(0, len(metrics), _BATCH):
                client.log_batch(begun.info.run_id, metrics=metrics[start : start + _BATCH])
            client.log_batch(begun.info.run_id, tags=tags)
            client.set_terminated(begun.info.run_id, end_time=time)
            written += 1
        lines.append(f"{name}: {written} runs written, {len(there)} were there already")
    return lines


def _there(client: object, experiment: str) -> set[str]:
    """Return the ids of the runs that were written before."""
    from mlflow import MlflowClient

    assert isinstance(client, MlflowClient)
    found: set[str] = set()
    token = None
    while True:
        page = client.search_runs([experiment], filter_string=f"tags.`{_TAG}` != ''", page_token=token)
        found |= {run.data.tags[_TAG] for run in page}
        token = page.token
        if not token:
            return found


def _numbers(place: EnvironmentHistory) -> dict[str, dict[str, float]]:
    """Return the numbers of each run by its id and their names."""
    found: dict[str, dict[str, float]] = {}
    for one in place.series:
        name = _NOT_ALLOWED.sub("_", str(one.name))
        for run, value in zip(one.runs, one.values.tolist(), strict=True):
            found.setdefault(run.id, {})[name] = value
    return found


def _tags(run: HistoryRun) -> dict[str, str]:
    about = {_TAG: run.id, "mlflow.source.git.commit": run.commit, "mlflow.source.git.branch": run.ref}
    facts = {f"machine.{name}": fact_text(fact) for name, fact in run.context.items()}
    return {name: value for name, value in {**about, **facts}.items() if value}


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000)
