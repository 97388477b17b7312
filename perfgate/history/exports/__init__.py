"""A history for other tools. Each format is a module with `NAME`, and a row in FILES or SERVICES.

A format of files has `render(history) -> bytes`; a service has `send(history, target) -> lines`, and needs its package.
"""

from __future__ import annotations

from collections.abc import Callable

from perfgate.core.run_history import LoadedHistory
from perfgate.history.exports import csv, github_action_benchmark, mlflow, openmetrics, parquet, wandb

#: The formats that are one file.
FILES: dict[str, Callable[[LoadedHistory], bytes]] = {
    csv.NAME: csv.render,
    parquet.NAME: parquet.render,
    openmetrics.NAME: openmetrics.render,
    github_action_benchmark.NAME: github_action_benchmark.render,
}
#: The services, each with its target.
SERVICES: dict[str, Callable[[LoadedHistory, str], list[str]]] = {mlflow.NAME: mlflow.send, wandb.NAME: wandb.send}
