"""The choices of `init`, and the files that it writes: all or none, over nothing that exists."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perfgate.commands.init_from_runs import BASELINES, Files
from perfgate.core.advice import FirstGate
from perfgate.core.wording import MAPPING_FILE
from perfgate.workspace.ci_files import ci_file
from perfgate.workspace.main_workflows import main_workflows
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.output_files import create_files
from perfgate.workspace.rule_source import is_mapping_file

SUITE, RULES = "training", "rules"


class InitChoices(Struct, frozen=True):
    """The options of `init`, beside the runs. Times are in seconds."""

    paired: bool = False
    without_step: bool = False
    dry_run: bool = False
    #: The command of pairs, for the workflow.
    measure: str | None = None
    results: tuple[str, ...] = ()
    timeout: float = 600.0
    ci: Literal["github", "gitlab", "buildkite", "jenkins", "slurm"] = "github"


def usual_suite(words: Sequence[str]) -> str:
    """Return the name of the suite of a command, if the user does not name it."""
    return "benchmarks" if any(Path(word).name in ("pytest", "py.test") for word in words) else SUITE


def empty_gate(options: CommandOptions, choices: InitChoices) -> FirstGate:
    """Return the gate before anything is measured or read."""
    rules, place = f"{RULES}/{options.suite or SUITE}.yaml", ci_file(choices.ci).place
    return FirstGate("written", None, rules, place, (), is_paired=choices.paired, command=choices.measure)


def written(gate: FirstGate, files: Files, choices: InitChoices, existing: str = "") -> FirstGate:
    """Write the files and the job of the CI system; return the gate with their names. Raises Refused."""
    job = ci_file(choices.ci, is_paired=gate.is_paired, command=gate.command, is_remembered=gate.measured is not None)
    files[job.place], gate = job.text.encode(), replace(gate, found_by=job.step)
    if choices.ci == "github" and not gate.is_paired:  # pairs have no history
        of_main = main_workflows(is_remembered=gate.measured is not None)
        files |= {one.place: one.text.encode() for one in of_main}
        gate = replace(gate, workflow=f"{Path(job.place).parent.as_posix()}/perf*.yml")
    if choices.dry_run:
        texts = ((name, data.decode() if not name.startswith(BASELINES) else None) for name, data in files.items())
        noticed = (*gate.noticed, f"warning: without --dry-run nothing would be written, because {existing}")
        return replace(gate, state="dry-run", files=tuple(texts), noticed=noticed if existing else gate.noticed)
    create_files(files)
    return replace(gate, files=tuple((name, None) for name in files))


def refuse_existing(choices: InitChoices) -> str:
    """Return which files exist that would be overwritten or mixed with new ones, and what to do; empty if none.

    Raises Refused with this, unless it is a dry run.
    """
    place = ci_file(choices.ci).place
    there = [f"{folder}/ has {_names(folder)}" for folder in (RULES, BASELINES) if _names(folder)]
    there += [f"{place} exists"] if os.path.lexists(place) else []
    step = (
        "move them away; `perfgate init --add METRIC RUN...` adds a rule to them, and `--dry-run` prints what init"
        " would write without them"
    )
    existing = f"these exist: {'; '.join(there)}: {step}" if there else ""
    if existing and not choices.dry_run:
        raise Refused(f"nothing was written, because {existing}")
    return existing


def _names(place: str) -> str:
    """Return the names in a folder as words, without the mappings; empty if the folder does not exist."""
    try:
        names = sorted(name for name in os.listdir(place) if not _has_mappings(Path(place) / name))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"a folder that cannot be read ({error.strerror or error})"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _has_mappings(path: Path) -> bool:
    return path.name == MAPPING_FILE and path.is_file() and is_mapping_file((path.name, path.read_bytes()))
