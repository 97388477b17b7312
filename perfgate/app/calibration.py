"""`perfgate calibrate`: the run-to-run noise of an environment, measured on unchanged runs and stored."""

from __future__ import annotations

from collections.abc import Sequence

import perfgate
from perfgate.app import surroundings
from perfgate.app.baselines import Options
from perfgate.app.candidates import Candidates, plain, read_candidates, write
from perfgate.app.errors import Refused
from perfgate.app.policy import locked
from perfgate.app.priors import prior_path
from perfgate.baselines.files import StoredSource
from perfgate.baselines.identity import identity_of
from perfgate.baselines.priors import SCHEMA, PriorFile, encode, stored_prior
from perfgate.judge.noise import RUNS_NEEDED, calibrate
from perfgate.judge.verdicts import Case
from perfgate.model import Baseline, CalibratedPrior
from perfgate.reporters.stored import prior_line


def calibrate_runs(options: Options) -> list[str]:
    """Measure the noise between unchanged runs and store it; returns the lines to print. Raises Refused."""
    candidates = read_candidates(options)
    runs = candidates.runs
    if len(runs) < RUNS_NEEDED:
        raise Refused(f"calibrate needs {RUNS_NEEDED} or more runs of the same code, and was given {len(runs)}")
    case = Case(candidates.ruleset, runs, Baseline(), surroundings.today(), candidates.facts)
    priors, complaints = calibrate(case)
    said = [f"not calibrated: {complaint}" for complaint in complaints]
    if not priors:
        why = said or ["no rule compares with stored runs: write one, such as `forward within 5% of baseline`"]
        raise Refused("\n".join(["nothing was calibrated, and nothing is stored", *why]), 3)
    with locked(candidates.store):
        return [*map(str, candidates.noticed), *map(prior_line, priors), *said, _write(candidates, priors)]


def _write(candidates: Candidates, priors: Sequence[CalibratedPrior]) -> str:
    identity = identity_of(candidates.facts, candidates.ruleset.identity)
    files = dict.fromkeys(file for run in candidates.runs for file in run.files)
    stored = PriorFile(
        schema=SCHEMA,
        tool=f"perfgate {perfgate.__version__}",
        suite=candidates.ruleset.suite,
        time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        identity=identity,
        sources=[StoredSource(plain(file.path), file.format, file.sha256) for file in files],
        priors=[stored_prior(prior) for prior in priors],
    )
    path = prior_path(candidates.ruleset.suite, candidates.environment)
    write(candidates.store, path, encode(stored), replace=True)
    return f"wrote {candidates.store.location(path)}, which check uses from now on"
