"""The pages become a site without a warning, and their generated parts hold what the code holds."""

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

from perfgate.cli import main
from perfgate.core.resource_limits import Limits
from perfgate.core.units import UNITS
from perfgate.readers.registry import FORMATS
from perfgate.rules.syntax.sentence import is_statistic
from perfgate.schemas import schema

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")

README = ROOT / "README.md"


@pytest.fixture(scope="module")
def references() -> ModuleType:
    """The extension that fills the pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "_extensions")
        import references

        return references


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
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
    assert "generated: " not in everything
    assert not re.findall(r'(?:src|href)="(?:https?:)?//[^"]*\.(?:js|css|woff2?)', everything), "needs a network"


def test_every_command_has_a_section_with_every_option(references: ModuleType) -> None:
    sections = dict(re.findall(r"^## ([^\n]*)\n\n(.*?)(?=^## |\Z)", references.commands(), re.MULTILINE | re.DOTALL))
    found = dict(references.walk(main, "perfgate"))
    assert set(sections) == set(found)
    for name, command in found.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[-1] in sections[name], name


def test_every_setting_is_described_with_an_example_that_is_yaml(references: ModuleType) -> None:
    import yaml

    properties = {**schema("rules")["properties"], **schema("rules")["definitions"]["mapping"]["properties"]}
    text = references.fields_of_a_file() + "\n\n" + references.fields_of_a_rule()
    sections = dict(re.findall(r"^### `(\w+)`\n\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(properties)
    for name, section in sections.items():
        examples = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
        assert examples is not None
        for example in examples[1].split("# or\n"):
            assert list(yaml.safe_load(example)) == [name]


def test_every_word_of_the_language_is_there(references: ModuleType) -> None:
    units = set(re.findall(r"`([^`]+)`", references.units()))
    assert units - {"better:"} == set(UNITS) - {"μs"}
    statistics = re.findall(r"`(\w+)`", references.statistics())
    assert all(map(is_statistic, statistics))
    assert {"median", "trimmed_mean", "p0", "p100"} <= set(statistics)


def test_every_format_and_limit_is_there(references: ModuleType) -> None:
    for part, names in (
        (references.formats(), [found.name for found in FORMATS]),
        (references.signs(), [found.name for found in FORMATS]),
        (references.reading_limits(), list(Limits.__dataclass_fields__)),
    ):
        assert re.findall(r"^\| `([\w-]+)` \|", part, re.MULTILINE) == names
        assert not re.search(r"\| *\|", part), "an empty cell"


def test_the_score_is_that_of_the_measurement(references: ModuleType) -> None:
    for row in references.score().splitlines()[2:]:
        name, *figures = row.strip("| ").split(" | ")
        [published] = [
            line
            for line in (DOCS / "detection.md").read_text(encoding="utf-8").split("held-out -->")[1].splitlines()
            if line.strip("|* ").startswith(f"{name}*") or line.strip("|* ").startswith(f"{name} |")
        ][:1]
        assert all(figure in published for figure in figures)


def test_a_part_that_nothing_generates_is_an_error(references: ModuleType) -> None:
    with pytest.raises(KeyError):
        references.fill("<!-- generated: nonsense -->")
