"""Histories in services of other tools: a row in `SERVICES` for each, which needs the package of the service."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable

from perfgate.core import fact_text
from perfgate.core.run_history import EnvironmentHistory, LoadedHistory
from perfgate.history.exports import milliseconds

_TAG = "perfgate.run"
#: MLflow takes a name for a path, and refuses all metrics of a run if one has `..`, or `/` at an end or twice.
_NOT_ALLOWED = re.compile(r"[^\w\-. :/]|(?<![^/])\.{1,2}(?![^/])|^\.\.|^/|/(?=/)|/$")
#: MLflow takes names of this length, and at most this many metrics at once.
_LONGEST, _BATCH = 250, 1000


def send_to_mlflow(found: LoadedHistory, target: str) -> list[str]:
    """Write an experiment for each suite and environment, with a run for each remembered run.

    Returns the lines to print. Metrics are in base units; their names are those of series, with the letters that MLflow
    allows. A run that is there already, by the tag `perfgate.run`, is not written again. Raises ImportError without
    mlflow.

    `target`: a folder, `sqlite:///FILE` or the URL of a tracking server.
    """
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
        there, token = set[str](), None
        while token != "":
            page = client.search_runs([experiment], filter_string=f"tags.`{_TAG}` != ''", page_token=token)
            there |= {run.data.tags[_TAG] for run in page}
            token = page.token or ""
        written = 0
        names = names_for_mlflow(str(one.name) for one in place.series)
        numbers = _numbers(place)
        for step, run in enumerate(place.runs):
            if run.id in there or run.id not in numbers:
                continue
            time = milliseconds(run.time)
            facts = {f"machine.{name}": fact_text(fact) for name, fact in run.context.items()}
            git = {"mlflow.source.git.commit": run.commit, "mlflow.source.git.branch": run.ref}
            tags = [RunTag(key, value) for key, value in {_TAG: run.id, **git, **facts}.items() if value]
            begun = client.create_run(experiment, start_time=time, run_name=run.label)
            metrics = [Metric(names[key], value, time, step) for key, value in numbers[run.id].items()]
            for start in range(0, len(metrics), _BATCH):
                client.log_batch(begun.info.run_id, metrics=metrics[start : start + _BATCH])
            client.log_batch(begun.info.run_id, tags=tags)
            client.set_terminated(begun.info.run_id, end_time=time)
            written += 1
        lines.append(f"{name}: {written} runs written, {len(there)} were there already")
    return lines


def _numbers(place: EnvironmentHistory) -> dict[str, dict[str, float]]:
    """Return the numbers of each run by its id and their names."""
    found: dict[str, dict[str, float]] = {}
    for one in place.series:
        for run, value in zip(one.runs, one.values.tolist(), strict=True):
            found.setdefault(run.id, {})[str(one.name)] = value
    return found


def names_for_mlflow(names: Iterable[str]) -> dict[str, str]:
    """Return each name with `_` for what MLflow does not allow; one that is too long or not unique ends with a hash."""
    found = {name: _NOT_ALLOWED.sub("_", name) for name in names}
    count = Counter(found.values())
    for name, new in found.items():
        if count[new] > 1 or len(new) > _LONGEST:
            digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()
            found[name] = f"{new[:200]}-{digest[:12]}"
    return found


def send_to_wandb(found: LoadedHistory, target: str) -> list[str]:
    """Write a project for each suite, with a run for each environment and a step for each remembered run.

    Returns the lines to print. The id of a run is a hash of the suite and the environment, so a later export replaces
    it. Raises ImportError without wandb.

    `target`: the folder of an offline run (`wandb sync` uploads it), or `online`, for the server of wandb's login.
    """
    try:
        import wandb
    except ImportError:
        raise ImportError("the export to Weights & Biases needs wandb: pip install 'perfgate[wandb]'") from None
    lines = []
    for place in found.environments:
        numbers = _numbers(place)
        with wandb.init(
            project=f"perfgate-{place.suite}",
            name=place.environment,
            id=hashlib.sha256(f"{place.suite}/{place.environment}".encode()).hexdigest()[:16],
            config={name: fact for name, fact in place.identity.items() if fact is not None},
            mode="online" if target == "online" else "offline",
            dir=None if target == "online" else target,
            # This machine is not the one that was measured.
            settings=wandb.Settings(silent=True, console="off", disable_git=True, x_disable_machine_info=True),
        ) as written:
            for step, run in enumerate(place.runs):
                written.log({**numbers.get(run.id, {}), "commit": run.commit, "time": run.time}, step=step)
        lines.append(f"perfgate-{place.suite}/{place.environment}: {len(place.runs)} steps written")
    return lines


SERVICES: dict[str, Callable[[LoadedHistory, str], list[str]]] = {"mlflow": send_to_mlflow, "wandb": send_to_wandb}
