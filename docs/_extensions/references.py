"""The parts of the pages that the code itself holds, as Markdown.

Where a page says `<!-- generated: NAME -->`, Sphinx reads what `PARTS[NAME]` returns: nothing is written twice, and a
new command, setting, unit or format stands in the reference as soon as it exists. `<!-- FILE -->` before a block gives
it a caption.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click
import yaml
from sphinx.pycode import ModuleAnalyzer

from perfgate.cli import main
from perfgate.core import resource_limits as limits
from perfgate.core.units import BASE_UNITS, UNITS
from perfgate.readers.registry import FORMATS, Format
from perfgate.rules import explain
from perfgate.rules.syntax import grammar
from perfgate.rules.syntax.sentence import Reference
from perfgate.schemas import schema

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: The comment that names the file which a block is.
_FILE = re.compile(r"^<!-- ([\w./-]*[./][\w./-]*) -->\n```(\w+)\n", re.MULTILINE)
_PLACE = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
#: What each base unit measures.
_MEASURES = {
    "s": "time",
    "B": "memory",
    "1/s": "rates",
    "B/s": "bandwidth",
    "FLOP": "operations",
    "FLOP/s": "operations a second",
    "1": "shares and ratios",
}
#: Of the published measurement: what stands on the page about verdicts.
_DETECTORS = (
    "perfgate 5%",
    "perfgate 5%, three new runs",
    "perfgate 2%",
    "benchstat, steps",
    "pytest-benchmark mean:5%",
    "github-action-benchmark 200%",
    "5% on medians",
)
_BETTER = {"s": "lower", "B": "lower", "1/s": "higher", "B/s": "higher", "FLOP/s": "higher"}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; a `|` in a cell is no border."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- commands -----------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command: its usage, what it does, its options and its example."""
    return "\n\n".join(_command(name, command) for name, command in walk(main, "perfgate"))


def walk(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below a group that does something, by its full name."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        name = f"{prefix} {word}"
        yield from walk(command, name) if isinstance(command, click.Group) else [(name, command)]


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    said, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    example, _, more = example.partition("\n\n")
    options = [found for option in command.params if (found := option.get_help_record(context)) and found[1]]
    parts = [
        f"## {name}",
        _prose(said),
        f"```text\n{name} {usage}\n```",
        _prose(more),
        table(["option", "does"], [[f"`{option}`", _plain(does)] for option, does in options]) if options else "",
        f"For example:\n\n```console\n$ {example}\n```" if example else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _prose(text: str) -> str:
    """Help as Markdown: the character that keeps lines as they are makes a block of them."""
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        kept = paragraph.removeprefix("\b").strip("\n")
        paragraphs.append(f"```text\n{textwrap.dedent(kept)}\n```" if "\b" in paragraph and kept else _plain(kept))
    return "\n\n".join(filter(None, paragraphs))


def _plain(text: str) -> str:
    """Prose of a help text, in which `*` and `<` mean themselves."""
    return re.sub(r" +", " ", text.replace("*", "\\*").replace("<", "\\<"))


# --- rules --------------------------------------------------------------------------------------------------------


def fields_of_a_file() -> str:
    """What may stand at the top of a rule file."""
    return _fields(schema("rules")["properties"])


def fields_of_a_rule() -> str:
    """What may stand in a rule that is a mapping."""
    return _fields(schema("rules")["definitions"]["mapping"]["properties"])


def _fields(properties: Mapping[str, Any]) -> str:
    return "\n\n".join(f"### `{name}`\n\n{_field(name, _resolved(found))}" for name, found in properties.items())


def _resolved(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field of the schema, with the definition that it refers to."""
    name = found.get("$ref", "").rpartition("/")[2]
    return cast("Mapping[str, Any]", schema("rules")["definitions"][name]) if name else found


def _field(name: str, found: Mapping[str, Any]) -> str:
    """What a field says, may be, is when it is left out, and an example of it."""
    default = f"Left out, it is `{_yaml(found['default'])}`." if "default" in found else ""
    sentence = " ".join(filter(None, (_plain(found["description"]), _kind(found), default)))
    examples = "\n# or\n".join(_yaml({name: example}) for example in found["examples"])
    return "\n\n".join(filter(None, (sentence, _parts(found), f"```yaml\n{examples}\n```")))


def _parts(found: Mapping[str, Any]) -> str:
    """The fields inside a field; those that every rule has are described there."""
    parts = found.get("properties", {})
    own = [f"- `{name}`: {part['description']}" for name, part in parts.items() if "$ref" not in part]
    shared = [f"[`{name}`](#{name})" for name, part in parts.items() if "$ref" in part]
    return "\n".join(own) or (f"It may hold {', '.join(shared)}." if shared else "")


def _kind(found: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "enum" in found:
        return f"One of {', '.join(f'`{value}`' for value in found['enum'])}."
    return f"A whole number, {found['minimum']} or more." if found.get("type") == "integer" else ""


def _yaml(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=False, sort_keys=False, width=100)
    return text.removesuffix("...\n").strip()


def statistics() -> str:
    """The statistics of the rule language."""
    rows = [[f"`{name}`", words] for name, words in explain.STATISTICS.items()]
    return table(["statistic", "is"], [*rows, ["`p0` ... `p100`, `p99.9`", "that percentile, interpolated linearly"]])


def comparators() -> str:
    """Every way to write a comparator."""
    meant: dict[str, list[str]] = {}
    for words, comparator in grammar.COMPARATORS.items():
        meant.setdefault(comparator, []).append(f"`{' '.join(words)}`")
    return table(["say", "or"], [[same[0], ", ".join(same[1:])] for same in meant.values()])


def ranks() -> str:
    """Every choice of a rank."""
    say = {"each": "on each rank", "across": "across ranks"}
    return table(
        ["say", "speaks of"],
        [[f"`{say.get(choice, f'on the {choice} rank')}`", words] for choice, words in explain.RANKS.items()],
    )


def references() -> str:
    """Everything that a change is held against."""
    return ", ".join(f"`{'the ' if 'rank' in name else ''}{name}`" for name in get_args(Reference))


def units() -> str:
    """Every unit, by what it measures."""
    rows = []
    for base in BASE_UNITS:
        found = [f"`{unit.symbol}`" for unit in UNITS.values() if unit.base == base and unit.symbol != "μs"]
        rows.append([_MEASURES[base], " ".join(found), _BETTER.get(base, "say `better:`")])
    return table(["of", "units", "better is"], rows)


def sentence_grammar() -> str:
    """The grammar as the parser states it."""
    return f"```text\n{inspect.cleandoc(grammar.__doc__ or '').partition(chr(10) * 2)[2]}\n```"


# --- what is read -------------------------------------------------------------------------------------------------


def formats() -> str:
    """Every format, and what rules can name of it."""
    rows = [[f"`{found.name}`", found.title, found.metrics] for found in FORMATS]
    return table(["format", "is", "metrics"], rows)


def signs() -> str:
    """What each format is recognised by."""
    return table(["format", "recognised by"], [[f"`{found.name}`", _sign(found)] for found in FORMATS])


def _sign(found: Format) -> str:
    text = ", ".join(f"`{words.strip()}`" for words in (*found.markers, *found.hints))
    return " or ".join(
        part
        for part in (text, "the keys of its JSON" if found.fits.__name__ != "none" else "", _magic(found.magic))
        if part
    )


def _magic(magic: bytes | None) -> str:
    return f"its first bytes, `{magic.rstrip(bytes(1)).decode()}`" if magic else ""


def reading_limits() -> str:
    """Every limit on what is read, with its default."""
    said = ModuleAnalyzer.for_module("perfgate.core.resource_limits").find_attr_docs()
    rows = []
    for field in fields(limits.Limits):
        default = limits.DEFAULT.beyond(field.name, "").partition(f"{field.name}=")[2].partition(" ")[0]
        rows.append([f"`{field.name}`", f"`{default}`", " ".join(said["Limits", field.name]).strip()])
    return table(["limit", "default", "is"], rows)


# --- what was measured --------------------------------------------------------------------------------------------


def score() -> str:
    """The figures of the published measurement that a reader asks for first, of the noise that nothing was tuned on."""
    page = (Path(__file__).parent.parent / "detection.md").read_text(encoding="utf-8")
    lines = page.partition("<!-- table held-out -->")[2].partition("<!-- end -->")[0].strip().splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines)
    found = {row[0].strip("*"): dict(zip(head, row, strict=True)) for row in rows}
    columns = ("same code", "+5 %", "+10 %", "+10 % passed")
    return table(["fails", *columns], [[name, *(found[name][column] for column in columns)] for name in _DETECTORS])


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "fields_of_a_file": fields_of_a_file,
    "fields_of_a_rule": fields_of_a_rule,
    "statistics": statistics,
    "comparators": comparators,
    "ranks": ranks,
    "references": references,
    "units": units,
    "grammar": sentence_grammar,
    "formats": formats,
    "signs": signs,
    "limits": reading_limits,
    "score": score,
}


def fill(text: str) -> str:
    """A page with its generated parts and the names of its files. Raises KeyError for a part that nothing generates."""
    named = _FILE.sub(r"```{code-block} \2\n:caption: \1\n\n", text)
    return _PLACE.sub(lambda place: PARTS[place[1]](), named)


def _read(_: Sphinx, __: str, source: list[str]) -> None:
    source[0] = fill(source[0])


def setup(app: Sphinx) -> dict[str, object]:
    """Fill every page as Sphinx reads it."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
