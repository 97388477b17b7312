"""Helpers that the tests of the readers share."""

from pathlib import Path

from perfgate.core import Run
from perfgate.readers import Source, read

SHARED = Path(__file__).parents[3] / "shared"
#: What real tools wrote, beside the scripts that made them write it.
FIXTURES = Path(__file__).parent / "fixtures"


def runs_of(
    text: str | bytes, format: str | None = None, chunk: int | None = None, name: str = "train.log"
) -> list[Run]:
    data = text.encode() if isinstance(text, str) else text
    size = chunk or len(data) or 1
    return list(read(Source(name, [data[at : at + size] for at in range(0, len(data), size)]), format))


def run_of(text: str | bytes, format: str | None = None, chunk: int | None = None) -> Run:
    (run,) = runs_of(text, format, chunk)
    return run


def values_of(run: Run) -> dict[str, list[float]]:
    return {str(series.key): series.values.tolist() for series in run.series}


def steps_of(run: Run) -> dict[str, list[int] | None]:
    return {str(series.key): None if series.steps is None else series.steps.tolist() for series in run.series}


def said(run: Run) -> list[str]:
    return [str(problem) for problem in run.problems]


def errors(run: Run) -> list[str]:
    return [str(problem) for problem in run.problems if problem.severity == "error"]
