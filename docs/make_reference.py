"""Write the generated parts of the pages: `python docs/make_reference.py`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `PARTS[NAME]` returns its text, from the
same objects that perfgate itself uses. `tests/docs` fails if a page is not up to date. It also writes the pattern of a
sentence into the schema of rule files, and the marks of all formats into the registry of the readers.
"""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast, get_args

import click
import yaml
from msgspec.structs import replace
from sentence_pattern import sentence_pattern

from perfgate.cli.entry import main
from perfgate.core import resource_limits as limits
from perfgate.core.conditions import TABLE
from perfgate.core.peaks import CARDS, DTYPES
from perfgate.core.units import BASE_UNITS, UNITS
from perfgate.core.wording import STATISTICS
from perfgate.judge.measure import BETTER_BY_UNIT
from perfgate.readers.formats import MODULES, Format
from perfgate.rules import explain
from perfgate.rules.syntax import grammar
from perfgate.rules.syntax.sentence import Reference
from perfgate.schemas import FOLDER, schema

DOCS = Path(__file__).resolve().parent
_PLACE = re.compile(r"(<!-- generated: (\w+) -->\n)(?:(?!<!-- ).)*(<!-- end -->)", re.DOTALL)
RULES_SCHEMA = FOLDER / "rules.schema.json"
#: The pattern of a sentence in the schema.
_PATTERN = re.compile(r'("maxLength": 2000,\n +"pattern": )"(?:[^"\\]|\\.)*"')
#: A limit in the source of `Limits`: its comment lines and its name.
_LIMIT = re.compile(r"((?:^ +#: .*\n)+) +(\w+): int", re.MULTILINE)
REGISTRY = DOCS.parent / "perfgate" / "readers" / "registry.py"
_REGISTRY = '''"""The marks of every format, copied from its reader by `python docs/make_reference.py`."""

# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from perfgate.readers.formats import Format
'''
#: The quantity of each base unit.
_QUANTITIES = {
    "s": "time",
    "B": "memory",
    "1/s": "rate",
    "B/s": "bandwidth",
    "FLOP": "operations",
    "FLOP/s": "operations per second",
    "1": "shares and ratios",
    "J": "energy",
    "W": "power",
    "1/J": "work per energy",
    "°C": "temperature",
    "$": "cost",
    "count": "instructions, cycles",
}
#: The rows of docs/detection.md that the page about verdicts repeats.
_DETECTORS = (
    "perfgate 5%, one new run",
    "perfgate 5%, two new runs",
    "perfgate 5%, up to three new runs",
    "perfgate 2%, up to three new runs",
    "benchstat, steps",
    "pytest-benchmark mean:5%",
    "github-action-benchmark 200%",
    "5% on medians",
)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; a `|` inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- commands -----------------------------------------------------------------------------------------------------


def commands() -> str:
    """Return one section per command: purpose, usage, options and example."""
    return "\n\n".join(_command(name, command) for name, command in walk(main, "perfgate"))


def walk(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below a group that is not a group itself, with its full name."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        name = f"{prefix} {word}"
        yield from walk(command, name) if isinstance(command, click.Group) else [(name, command)]


def _command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    purpose, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    example, _, more = example.partition("\n\n")
    options = [found for option in command.params if (found := option.get_help_record(context)) and found[1]]
    parts = [
        f"## {name}",
        _prose(purpose),
        f"```text\n{name} {usage}\n```",
        _prose(more),
        table(["option", "meaning"], [[f"`{option}`", _plain(text)] for option, text in options]) if options else "",
        f"For example:\n\n```console\n$ {example}\n```" if example else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _prose(text: str) -> str:
    """Return a help text as Markdown; a paragraph that click must not wrap becomes a block."""
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        kept = paragraph.removeprefix("\b").strip("\n")
        paragraphs.append(f"```text\n{textwrap.dedent(kept)}\n```" if "\b" in paragraph and kept else _plain(kept))
    return "\n\n".join(filter(None, paragraphs))


def _plain(text: str) -> str:
    """Return prose with `*` and `<` escaped."""
    return re.sub(r" +", " ", text.replace("*", "\\*").replace("<", "\\<"))


# --- rules --------------------------------------------------------------------------------------------------------


def fields_of_a_file() -> str:
    """Return one section per top-level field of a rule file."""
    return _fields(schema("rules")["properties"])


def fields_of_a_rule() -> str:
    """Return one section per field of a rule that is a mapping."""
    return _fields(schema("rules")["definitions"]["mapping"]["properties"])


def _fields(properties: Mapping[str, Any]) -> str:
    return "\n\n".join(f"### `{name}`\n\n{_field(name, _resolved(found))}" for name, found in properties.items())


def _resolved(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition that a field refers to, or the field."""
    name = found.get("$ref", "").rpartition("/")[2]
    return cast("Mapping[str, Any]", schema("rules")["definitions"][name]) if name else found


def _field(name: str, found: Mapping[str, Any]) -> str:
    """Return a field's description, allowed values, default and examples."""
    default = f"Default: `{_yaml(found['default'])}`." if "default" in found else ""
    sentence = " ".join(filter(None, (_plain(found["description"]), _kind(found), default)))
    examples = "\n# or\n".join(_yaml({name: example}) for example in found["examples"])
    return "\n\n".join(filter(None, (sentence, _parts(found), f"```yaml\n{examples}\n```")))


def _parts(found: Mapping[str, Any]) -> str:
    """Return the list of the fields inside a field; fields that every rule has are links."""
    parts = found.get("properties", {})
    own = [f"- `{name}`: {part['description']}" for name, part in parts.items() if "$ref" not in part]
    shared = [f"[`{name}`](#{name})" for name, part in parts.items() if "$ref" in part]
    return "\n".join(own) or (f"Fields: {', '.join(shared)}." if shared else "")


def _kind(found: Mapping[str, Any]) -> str:
    """Return the allowed values in words."""
    if "enum" in found:
        return f"One of {', '.join(f'`{value}`' for value in found['enum'])}."
    return f"A whole number, {found['minimum']} or more." if found.get("type") == "integer" else ""


def _yaml(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=False, sort_keys=False, width=100)
    return text.removesuffix("...\n").strip()


def statistics() -> str:
    """Return the table of statistics."""
    rows = [[f"`{name}`", words] for name, words in STATISTICS.items()]
    return table(
        ["statistic", "meaning"], [*rows, ["`p0` ... `p100`, `p99.9`", "the percentile, interpolated linearly"]]
    )


def comparators() -> str:
    """Return the table of comparators and their synonyms."""
    meant: dict[str, list[str]] = {}
    for words, comparator in grammar.COMPARATORS.items():
        meant.setdefault(comparator, []).append(f"`{' '.join(words)}`")
    return table(["write", "or"], [[same[0], ", ".join(same[1:])] for same in meant.values()])


def ranks() -> str:
    """Return the table of rank choices."""
    say = {"each": "on each rank", "across": "across ranks"}
    return table(
        ["write", "to judge"],
        [[f"`{say.get(choice, f'on the {choice} rank')}`", words] for choice, words in explain.RANKS.items()],
    )


def references() -> str:
    """Return the list of references for a change."""
    return ", ".join(f"`{'the ' if 'rank' in name else ''}{name}`" for name in get_args(Reference))


def units() -> str:
    """Return the table of units."""
    rows = []
    for base in BASE_UNITS:
        found = [f"`{unit.symbol}`" for unit in UNITS.values() if unit.base == base and unit.symbol != "μs"]
        rows.append([_QUANTITIES[base], " ".join(found), BETTER_BY_UNIT.get(base, "set `better:`")])
    return table(["quantity", "units", "better"], rows)


def sentence_grammar() -> str:
    """Return the grammar from the parser's docstring."""
    return f"```text\n{inspect.cleandoc(grammar.__doc__ or '').partition(chr(10) * 2)[2]}\n```"


# --- input formats -------------------------------------------------------------------------------------------------


def formats() -> str:
    """Return the table of formats with the metrics that rules can use."""
    rows = [[f"`{found.name}`", found.title, found.metrics] for found in declared()]
    return table(["format", "source", "metrics"], rows)


def checked() -> str:
    """Return the table of what each reader was checked against."""
    return table(["format", "checked against"], [[f"`{found.name}`", found.checked] for found in declared()])


def measurement_conditions() -> str:
    """Return the table of the fields that are conditions, by tool."""
    rows = []
    for tool, fields in TABLE.items():
        for field in fields:
            names = ", ".join(f"`{name}`" for name in field.names)
            needs = [
                f"`{name}` {'begins with `' + start + '`' if start else 'is not set'}" for name, start in field.needs
            ]
            unset = [f"it is not `{text}`" for text in field.unset]
            rows.append([f"`{tool}`", f"`{field.label}`", names, " and ".join([*needs, *unset]), field.source])
    return table(["format", "label", "field", "only if", "source"], rows)


def signs() -> str:
    """Return the table of the signs by which each format is recognised."""
    return table(["format", "recognised by"], [[f"`{found.name}`", _sign(found)] for found in declared()])


def _sign(found: Format) -> str:
    text = ", ".join(f"`{words.strip()}`" for words in (*found.markers, *found.hints))
    return " or ".join(
        part for part in (text, "the keys of its JSON" if found.json or found.keys else "", _magic(found)) if part
    )


def _magic(found: Format) -> str:
    if found.magic:
        return f"its first bytes, `{found.magic.rstrip(bytes(1)).decode()}`"
    return "its first bytes" if found.signature else ""


def reading_limits() -> str:
    """Return the table of resource limits with their defaults."""
    rows = []
    for comment, name in _LIMIT.findall(inspect.getsource(limits.Limits)):
        default = limits.DEFAULT.beyond(name, "").partition(f"{name}=")[2].partition(" ")[0]
        rows.append([f"`{name}`", f"`{default}`", " ".join(re.findall(r"#: (.*)", comment))])
    return table(["limit", "default", "meaning"], rows)


def peaks() -> str:
    """Return the table of the peak FLOP/s of GPUs, with the source of each."""
    dtypes = [name for name in DTYPES if any(name in card.tflops for card in CARDS)]
    rows = []
    for card in CARDS:
        figures = [f"{card.tflops[name]:g}" if name in card.tflops else "" for name in dtypes]
        rows.append([card.title, *figures, card.source, card.note])
    return table(["GPU, TFLOP/s", *dtypes, "read in", "note"], rows)


# --- measured rates --------------------------------------------------------------------------------------------


def score() -> str:
    """Return the main figures of docs/detection.md, for the noise that was not used for tuning."""
    page = (DOCS / "detection.md").read_text(encoding="utf-8")
    lines = page.partition("<!-- table held-out -->")[2].partition("<!-- end -->")[0].strip().splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines)
    found = {row[0].strip("*"): dict(zip(head, row, strict=True)) for row in rows}
    columns = ("same code", "+5 %", "+10 %", "+10 % passed")
    return table(["detector", *columns], [[name, *(found[name][column] for column in columns)] for name in _DETECTORS])


def promise() -> str:
    """Return how often green and red are wrong, from the stored figures of docs/detection.md."""
    cells = _measured("promise")
    asked = {"unchanged, exit 1": ("0.0", "red"), "unchanged, exit 0": ("0.0", "green")}
    asked |= {"+10 %, exit 0": ("0.1", "green"), "+20 %, exit 1": ("0.2", "red"), "+20 %, exit 0": ("0.2", "green")}
    rows = []
    for noise in ("0.01", "0.03", "0.05", "0.1"):
        shares = [sum(cells[f"{k} {noise} {change}"][what] for k in (3, 5, 10)) / 3 for change, what in asked.values()]
        rows.append([f"{100 * float(noise):g} %", *(f"{100 * share:.1f} %" for share in shares)])
    return table(["noise between runs", *asked], rows)


def paired() -> str:
    """Return how often generated pairs fail and pass, from the stored figures."""
    cells, rows, last = _measured("paired"), [], None
    for name, cell in cells.items():
        way, pairs, tolerance, spread, change = name.split()
        if change == "0.0":
            last = cell
            continue
        assert last is not None
        shares = [f"{100 * share:.1f} %" for share in (last["red"], last["green"], cell["red"], cell["green"])]
        words = {"in-turn": "two processes", "one-process": "one process"}[way]
        asked = f"{words}, within {tolerance}"
        rows.append(
            [asked, pairs, f"{100 * float(spread):g} %", *shares[:2], f"+{100 * float(change):g} %", *shares[2:]]
        )
    head = ["pairs in", "pairs", "spread of a pair", "unchanged: exit 1", "exit 0", "slower by", "exit 1", "exit 0"]
    return table(head, rows)


def _measured(part: str) -> dict[str, dict[str, float]]:
    """Return the stored figures of a part of docs/detection.md."""
    path = DOCS.parent / "benchmarks" / "detection" / "results.json"
    found: dict[str, dict[str, float]] = json.loads(path.read_text(encoding="utf-8"))[part]["found"]
    return found


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
    "checked": checked,
    "conditions": measurement_conditions,
    "signs": signs,
    "limits": reading_limits,
    "peaks": peaks,
    "score": score,
    "promise": promise,
    "paired": paired,
}


def fill(text: str) -> str:
    """Return a page with its generated parts up to date. Raises KeyError or ValueError for a wrong marker."""
    filled, number = _PLACE.subn(lambda place: f"{place[1]}\n{PARTS[place[2]]()}\n\n{place[3]}", text)
    if number != text.count("<!-- generated: "):
        raise ValueError("a generated part has no `<!-- end -->`")
    return filled


def pages() -> Iterator[tuple[Path, str, str]]:
    """Every page with generated parts: its path, its text, and the text that it should have."""
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        if _PLACE.search(text):
            yield path, text, fill(text)


def declared() -> list[Format]:
    """Return the formats as the readers declare them."""
    return [import_module(f"perfgate.readers.{module}").FORMAT for module in MODULES]


def registry() -> str:
    """Return the module with the marks of every format."""
    rows = "".join(f"    {replace(one, outline=None)!r},\n" for one in declared())
    return f"{_REGISTRY}\nFORMATS: tuple[Format, ...] = (\n{rows})\n"


def schema_text() -> str:
    """Return the schema of rule files with the pattern of the grammar, as it should be."""
    text = RULES_SCHEMA.read_text(encoding="utf-8")
    return _PATTERN.sub(lambda found: found[1] + json.dumps(sentence_pattern(), ensure_ascii=False), text)


if __name__ == "__main__":
    RULES_SCHEMA.write_text(schema_text(), encoding="utf-8")
    REGISTRY.write_text(registry(), encoding="utf-8")
    for path, text, current in pages():
        path.write_text(current, encoding="utf-8")
        print(f"{path.relative_to(DOCS.parent)}: {'unchanged' if text == current else 'written'}")
