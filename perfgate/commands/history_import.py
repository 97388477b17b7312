"""`perfgate history import`: the history that another tool has kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from heapq import merge
from pathlib import Path

import click
from msgspec.structs import replace

from perfgate.baselines.places import identity_of
from perfgate.baselines.stores import open_store
from perfgate.cli import shared
from perfgate.cli.printing import NOT_JUDGED, complain, say
from perfgate.commands.history import utc
from perfgate.core import Fact, Location, Problem
from perfgate.core.file_mappings import FileMapping
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun
from perfgate.core.wording import listed, plural
from perfgate.history.imports import HEAD, IMPORTERS, Importer, csv, importer_of
from perfgate.history.imports.imported_runs import Imported, ImportedRun, ImportFile, of_runs, utc_time
from perfgate.history.records import id_of_values
from perfgate.history.writing import add_imported, rules_or_none
from perfgate.mappings.choose import fitting, names_file, read_with_mappings
from perfgate.readers import Source
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.env_facts import read_facts
from perfgate.workspace.options import CommandOptions, Refused, shown_path
from perfgate.workspace.surroundings import git

#: The suffixes of the files in a folder that are looked at.
_ENDS = (".json", ".csv", ".js")


@click.command("import")
@click.option("--format", "tool", metavar="NAME", help="The tool that wrote the files. [default: found out]")
@click.option("--time", metavar="TIME", help="The time of a file that has none: 2026-11-22T14:15:00Z.")
@click.option("--ref", metavar="BRANCH", help="The branch to import. [default: the one with the most runs]")
@shared.command_options(
    click.argument("runs", nargs=-1, required=True, metavar="FILE...", shell_complete=shared.files),
    shared.rules_option, shared.baselines_option, shared.suite_option, shared.env_option, shared.head_option,
)  # fmt: skip
def command(options: CommandOptions, tool: str | None, time: str | None, ref: str | None) -> int:
    """Add the history of another tool: CSV, github-action-benchmark, asv, pytest-benchmark, Megatron, Bencher.

    FILE is a file, or the folder of the tool. CSV has a header: time,commit,metric,value[,unit][,host]. Runs that were
    imported before are not added again. Of files that a mapping reads, each version in git is a run.

    \b
    Example: perfgate history import history.csv
    """
    lines, problems = import_history(options, tool, utc(time), ref)
    say(lines)
    complain(problems)
    return NOT_JUDGED if any(problem.severity == "error" for problem in problems) else 0


def import_history(
    options: CommandOptions, format: str | None = None, time: str | None = None, ref: str | None = None
) -> tuple[list[str], list[Problem]]:
    """Add the runs of other tools; returns the lines to print, and problems. Raises Refused.

    `format`: the name of an importer or mapping. `time`: for files without a time. `ref`: the branch to import.
    A fault in a file is a problem, and its other runs are imported. Known runs are not added again.
    """
    ruleset = rules_or_none(options)
    facts = read_facts(options.env)
    problems: list[Problem] = []
    found: list[tuple[str, Imported]] = []
    for path in options.runs:
        for file, importer in _files(path, ruleset, options.head, format, time, problems):
            try:
                imported = importer.read(file)
            except (OSError, UnicodeDecodeError) as error:
                problems.append(_unreadable(file.name, error))
                continue
            problems += imported.problems
            found.append((importer.name, imported))
    refs = Counter[str | None]()
    for _, imported in found:
        # A long file has counted its runs by branch while it was read (`Imported.refs`).
        refs.update(imported.refs or (run.ref for run in imported.runs))
    if not refs and not any(problem.severity == "error" for problem in problems):
        problems += [Problem("error", "has no run to import", Location(shown_path(path))) for path in options.runs]
    left_out, lines = _other_branches(refs, ref)
    store = open_store(options.baselines)
    in_order = merge(*(_in_order(name, imported) for name, imported in found), key=lambda one: one[1].time)
    chosen = (_record(name, run, ruleset, facts, ref) for name, run in in_order if run.ref not in left_out)
    return [*lines, *add_imported(store, chosen)], problems


def _in_order(name: str, imported: Imported) -> Iterator[tuple[str, ImportedRun]]:
    """Yield the runs of a file in the order of time, with the name of its format."""
    # Runs that are no tuple come from a generator, in order, so that a long file need not fit into memory.
    runs = sorted(imported.runs, key=lambda run: run.time) if isinstance(imported.runs, tuple) else imported.runs
    return ((name, run) for run in runs)


def _unreadable(name: str, error: Exception) -> Problem:
    why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return Problem("error", f"cannot be read: {why}", Location(name))


def _files(
    path: str, ruleset: Ruleset, head: str | None, format: str | None, time: str | None, problems: list[Problem]
) -> Iterator[tuple[ImportFile, Importer]]:
    """Yield the files at a path with their formats. A file without a known format is added to `problems`.

    Raises Refused if `--format` is unknown, or if the path does not exist.
    `head`, `time`: the commit and the time for files that have none.
    """
    names = [*(one.name for one in IMPORTERS), *(one.name for one in ruleset.mappings)]
    if format is not None and format not in names:
        raise Refused(f"--format {format}: no such format; known are {listed(names, 12)}")
    top = Path(path)
    if not top.exists():
        raise Refused(f"{path}: file or folder not found", 3)
    candidates = _in_folder(top, ruleset.mappings) if top.is_dir() else [top]
    for place in [*surroundings.not_too_many(candidates, path)]:
        name = shown_path(str(place))
        try:
            file = ImportFile(name, _lines_of(place), ruleset, time, head, surroundings.limits())
            text = _beginning(file)
            importer = _importer(file, text, ruleset.mappings, format)
        except (OSError, UnicodeDecodeError) as error:
            problems.append(_unreadable(name, error))
            continue
        if importer is None:
            problems.append(_unknown(name, text, is_alone=not top.is_dir()))
            continue
        # With `--time`, only the file as it is now is a run.
        versions = list(_versions(place, file)) if importer.of_versions and time is None else []
        yield from ((version, importer) for version in versions or [file])


def _in_folder(top: Path, mappings: Sequence[FileMapping]) -> list[Path]:
    """Return the files below a folder that may be of a known format, or that a mapping names."""
    others = {name for importer in IMPORTERS for name in importer.others}  # files without results
    paths = [path for path in top.rglob("*") if path.suffix in _ENDS or names_file(mappings, path.as_posix())]
    return sorted(path for path in paths if path.name not in others and path.is_file())


def _importer(file: ImportFile, text: str, mappings: Sequence[FileMapping], format: str | None) -> Importer | None:
    """Return the importer of a file that begins with `text`, or None.

    The first of these counts: the importer that --format names, a mapping that names the file, the importer that knows
    the file, and a mapping that knows its content.
    """
    return (
        next((importer for importer in IMPORTERS if importer.name == format), None)
        or _mapped_importer(file, mappings, format, is_named=True)
        or importer_of(file.name, text)
        or _mapped_importer(file, mappings, format, is_named=False)
    )


def _lines_of(path: Path) -> Callable[[], Iterator[str]]:
    """Return a function that yields the lines of a file from the first one on. Raises OSError."""
    limits = surroundings.limits()
    if path.stat().st_size > limits.document_bytes:
        raise OSError(0, limits.beyond("document_bytes", "it is larger"))

    def lines() -> Iterator[str]:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from file

    return lines if path.is_file() else [*lines()].__iter__  # a pipe can be read only once


def _beginning(file: ImportFile) -> str:
    """Return the first HEAD characters of a file."""
    found, size = [], 0
    for line in file.lines():
        found.append(line)
        size += len(line)
        if size >= HEAD:
            break
    return "".join(found)[:HEAD]


def _mapped_importer(
    file: ImportFile, mappings: Sequence[FileMapping], format: str | None, *, is_named: bool
) -> Importer | None:
    """Return an importer that reads a file by the mapping with the name `format`, or by one that fits; or None.

    `is_named`: only mappings that name files by globs can fit; otherwise only those that know files by content.
    """
    asked = [mapping for mapping in mappings if mapping.name == format]
    if not mappings or (format is not None and not asked):
        return None
    if not asked and not fitting(Source(file.name, [file.text.encode()]), mappings, is_named=is_named):
        return None
    read = partial(_read_mapped, mappings=mappings, format=format)
    return Importer("mapping", "files that a mapping reads", lambda name, head: True, read, of_versions=True)


def _read_mapped(file: ImportFile, *, mappings: Sequence[FileMapping], format: str | None) -> Imported:
    source = Source(file.name, [file.text.encode()], file.limits, conditions=file.ruleset.conditions)
    runs = read_with_mappings(source, mappings, format)
    return of_runs(file, runs, [problem for run in runs for problem in run.problems])


def _unknown(name: str, text: str, *, is_alone: bool) -> Problem:
    """Return the problem of a file of an unknown format: a warning, or an error if the user named the file itself."""
    if not is_alone:
        return Problem("warning", "has no history that perfgate knows; left out", Location(name))
    if name.endswith(".csv"):
        step = "; results of one run are for `perfgate history add`"
        return Problem("error", csv.why_not(text) + step, Location(name, 1))
    known = listed([one.name for one in IMPORTERS], 9)
    step = "name the format with --format, or remember the results of one run with `perfgate history add`"
    return Problem("error", f"has no history that perfgate knows ({known}): {step}", Location(name))


def _versions(place: Path, file: ImportFile) -> Iterator[ImportFile]:
    """Yield each version of a file in git, with the time and the commit that wrote it; nothing outside of git."""
    folder = place.resolve().parent
    words = ("log", "--follow", "--diff-filter=AMR", "--format=%x1e%H%x1f%cI", "-z", "--name-only", "--", place.name)
    try:
        text = git(*words, what=file.name, cwd=folder).decode("utf-8", "replace")
    except Refused:
        return
    for entry in filter(None, (entry.strip("\n\0") for entry in text.split("\x1e"))):
        about, _, name = entry.replace("\0", "\n").partition("\n")
        commit, time = about.split("\x1f")
        data = git("show", f"{commit}:{name.strip()}", what=f"{file.name} at {commit}", cwd=folder)
        text = data.decode("utf-8", "replace")
        yield replace(file, lines=partial(iter, (text,)), time=utc_time(time), commit=commit)


def _other_branches(refs: Counter[str | None], ref: str | None) -> tuple[Set[str | None], list[str]]:
    """Return the branches to leave out, and lines to print. Raises Refused (3).

    Without `ref`, the branch with most runs stays. Runs without a branch are never left out.
    """
    named = Counter({name: count for name, count in refs.items() if name})
    if not named or (ref is None and len(named) == 1):
        return set(), []
    wanted = ref or named.most_common(1)[0][0]
    if wanted not in named:
        raise Refused(f"--ref {wanted}: no run is of this branch; there are {listed(sorted(named))}", 3)
    del named[wanted]
    left_out = f"{plural(named.total(), 'run')} of other branches ({listed(sorted(named))})"
    return named.keys(), [f"left out: {left_out}; --ref chooses the branch"] if named else []


def _record(
    importer: str, run: ImportedRun, ruleset: Ruleset, facts: dict[str, Fact], ref: str | None
) -> HistoryRecord:
    """Return a run as the history keeps it; `facts` are those of `--env`, and `run.place` identifies the machine."""
    known = {**run.facts, **facts}
    identity = {**identity_of(known, ruleset.identity), **run.place}
    about = HistoryRun(
        id=run.id or id_of_values(run.values, run.commit, run.time),
        time=run.time,
        commit=run.commit,
        ref=run.ref or ref,
        context={name: known[name] for name in sorted(known) if name not in identity},
        imported_from=importer,
    )
    return HistoryRecord(ruleset.suite, identity, about, run.values)
