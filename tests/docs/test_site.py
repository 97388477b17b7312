"""The site is built without warnings, and the generated parts of the pages match the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from pages import DOCS, ROOT

from perfgate.cli.entry import main
from perfgate.core.resource_limits import Limits
from perfgate.core.units import UNITS
from perfgate.core.wording import is_statistic
from perfgate.readers.registry import FORMATS
from perfgate.schemas import schema


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that writes the generated parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        import make_reference

        return make_reference


def test_the_generated_parts_are_up_to_date(reference: ModuleType) -> None:
    for path, text, current in reference.pages():
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.write_text(current, encoding="utf-8")
        else:
            assert text == current, f"{path.relative_to(ROOT)}: run python docs/make_reference.py"


def test_the_registry_has_the_marks_that_the_readers_declare(reference: ModuleType) -> None:
    assert reference.REGISTRY.read_text(encoding="utf-8") == reference.registry(), "run python docs/make_reference.py"


@pytest.mark.slow  # the docs job of CI builds it, too
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name)
    words = [
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        tmp_path / "cache",
        DOCS,
        tmp_path / "html",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shown = (tmp_path / "html" / "reference" / "cli.html").read_text(encoding="utf-8")
    assert '<section id="perfgate-check">' in shown
    everything = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "html").rglob("*.html"))
    assert not re.findall(r'(?:src|href)="(?:https?:)?//[^"]*\.(?:js|css|woff2?)', everything), "needs a network"


def test_every_command_has_a_section_with_every_option(reference: ModuleType) -> None:
    sections = dict(re.findall(r"^## ([^\n]*)\n\n(.*?)(?=^## |\Z)", reference.commands(), re.MULTILINE | re.DOTALL))
    found = dict(reference.walk(main, "perfgate"))
    assert set(sections) == set(found)
    for name, command in found.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[-1] in sections[name], name


def test_every_setting_is_described_with_an_example_that_is_yaml(reference: ModuleType) -> None:
    import yaml

    properties = {**schema("rules")["properties"], **schema("rules")["definitions"]["mapping"]["properties"]}
    text = reference.fields_of_a_file() + "\n\n" + reference.fields_of_a_rule()
    sections = dict(re.findall(r"^### `(\w+)`\n\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(properties)
    for name, section in sections.items():
        examples = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
        assert examples is not None
        for example in examples[1].split("# or\n"):
            assert list(yaml.safe_load(example)) == [name]


def test_every_word_of_the_language_is_there(reference: ModuleType) -> None:
    units = set(re.findall(r"`([^`]+)`", reference.units()))
    assert units - {"better:"} == set(UNITS) - {"μs"}
    statistics = re.findall(r"`(\w+)`", reference.statistics())
    assert all(map(is_statistic, statistics))
    assert {"median", "trimmed_mean", "p0", "p100"} <= set(statistics)


def test_every_format_and_limit_is_there(reference: ModuleType) -> None:
    for part, names in (
        (reference.formats(), [found.name for found in FORMATS]),
        (reference.signs(), [found.name for found in FORMATS]),
        (reference.reading_limits(), list(Limits.__struct_fields__)),
    ):
        assert re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE) == names
        assert not re.search(r"\| *\|", part), "an empty cell"


def test_the_score_is_that_of_the_measurement(reference: ModuleType) -> None:
    for row in reference.score().splitlines()[2:]:
        name, *figures = row.strip("| ").split(" | ")
        [published] = [
            line
            for line in (DOCS / "detection.md").read_text(encoding="utf-8").split("held-out -->")[1].splitlines()
            if line.strip("|* ").startswith(f"{name}*") or line.strip("|* ").startswith(f"{name} |")
        ][:1]
        assert all(figure in published for figure in figures)


def test_an_unknown_or_unfinished_part_is_an_error(reference: ModuleType) -> None:
    with pytest.raises(KeyError):
        reference.fill("<!-- generated: nonsense -->\n<!-- end -->\n")
    with pytest.raises(ValueError, match="no `<!-- end -->`"):
        reference.fill("<!-- generated: units -->\n<!-- generated: units -->\n<!-- end -->\n")
