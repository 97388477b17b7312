"""Weights & Biases: a project for each suite, with a run for each environment and a step for each remembered run.

The target is the folder of an offline run (`wandb sync` uploads it), or `online`, for the server that wandb is logged
in to. The id of a run is a hash of the suite and the environment, so a later export replaces it.
"""

from __future__ import annotations

import hashlib

from perfgate.core.run_history import LoadedHistory

NAME = "wandb"


def send(found: LoadedHistory, target: str) -> list[str]:
    """Write the runs; returns the lines to print. Raises ImportError without wandb."""
    try:
        import wandb
    except ImportError:
        raise ImportError("the export to Weights & Biases needs wandb: pip install 'perfgate[wandb]'") from None
    lines = []
    for place in found.environments:
        by_run: dict[str, dict[str, float]] = {}
        for one in place.series:
            for run, value in zip(one.runs, one.values.tolist(), strict=True):
                by_run.setdefault(run.id, {})[str(one.name)] = value
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
                written.log({**by_run.get(run.id, {}), "commit": run.commit, "time": run.time}, step=step)
        lines.append(f"perfgate-{place.suite}/{place.environment}: {len(place.runs)} steps written")
    return lines
