"""The installation of the action: which environment a cache may give, and one without a network.

The environment is not made here, except in the slow test: pip is the slow part.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from emulator import ROOT, clean_environment, make_python, parse_file, run_action

INSTALL = ROOT / "action" / "install.sh"


def bash(script: Path, folder: Path, *words: str, **variables: str) -> tuple[int, str, dict[str, str]]:
    """The exit code of a script, what it printed, and its outputs."""
    output = folder / "output"
    output.write_text("")
    told = {"PYTHON": sys.executable, "EXTRAS": "", "HTML": "", "GITHUB_OUTPUT": str(output), **variables}
    environment = clean_environment(folder / "runner", **told)
    done = subprocess.run(["bash", str(script), *words], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, parse_file(output.read_text())


@pytest.fixture
def action(tmp_path: Path) -> Path:
    """A small copy of the action, with the files that a key is made of."""
    for name in ("action/install.sh", "action/cache_key.py", "pyproject.toml", "perfgate/version.py"):
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "copy" / name)
    return tmp_path / "copy" / "action" / "install.sh"


def key(script: Path, folder: Path, **variables: str) -> str:
    code, said, outputs = bash(script, folder, "key", **variables)
    assert code == 0, said
    return outputs["key"]


def test_a_key_is_of_the_files_and_the_extras(action: Path, tmp_path: Path) -> None:
    first = key(action, tmp_path)
    assert first.startswith("perfgate-")
    (action.parents[1] / "perfgate" / "version.pyc").write_bytes(b"bytecode")
    assert key(action, tmp_path) == first
    others = [key(action, tmp_path, EXTRAS="gpu"), key(action, tmp_path, HTML="report.html")]
    for name in ("perfgate/version.py", "perfgate/new.py", "pyproject.toml", "action/install.sh"):
        with (action.parents[1] / name).open("a") as file:
            file.write("# one more line\n")
        others.append(key(action, tmp_path))
    assert len({first, *others}) == 7


def test_a_folder_that_an_earlier_step_made_is_not_stored(action: Path, tmp_path: Path) -> None:
    planted = tmp_path / "runner" / "perfgate-cached" / "sitecustomize.py"
    planted.parent.mkdir(parents=True)
    planted.write_text("")
    _, _, outputs = bash(action, tmp_path, "key")
    assert (outputs["folder"], planted.exists()) == (str(planted.parent), False)


def test_a_restored_environment_is_used_as_it_is(tmp_path: Path) -> None:
    python = make_python(tmp_path / "restored")
    code, said, outputs = bash(INSTALL, tmp_path, CACHED="true", VENV=str(tmp_path / "restored"))
    assert (code, outputs) == (0, {"python": python}), said


@pytest.mark.parametrize(
    ("inputs", "named"),
    [({}, True), ({"cache": "false"}, False), ({"report": "*.json"}, False), ({"wheels": "wheels"}, False)],
    ids=str,
)
def test_which_jobs_use_the_cache(tmp_path: Path, inputs: dict[str, str], named: bool) -> None:
    """A job that judges the reports of others runs no code of the change, so it restores nothing that such code met."""
    done = {"install": {"python": sys.executable}}
    github = {"event_name": "push", "sha": "5e" * 20, "repository": "ada/train", "event": {}}
    result = run_action(ROOT, {"results": "none", **inputs}, tmp_path, clean_environment(tmp_path / "r"), github, done)
    assert ("key" in result.steps["key"].outputs) == named, result.log
    assert (result.steps["restore"].outcome == "success") == named


def test_nothing_is_measured_between_restore_and_save() -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    names = [step["name"] for step in steps]
    assert names.index("Store the environment") < names.index("Judge")
    pinned = {step["uses"].split("@")[1] for step in steps if "uses" in step}
    assert [len(commit) for commit in pinned] == [40]


def test_jobs_with_a_token_that_writes_store_nothing() -> None:
    for name in ("baseline", "comment"):
        assert "actions/cache" not in (ROOT / "action" / name / "action.yml").read_text()


def test_a_folder_of_wheels_that_is_absent_is_named(tmp_path: Path) -> None:
    code, said, _ = bash(INSTALL, tmp_path, WHEELS=str(tmp_path / "wheels"))
    assert (code, "the input wheels names no folder" in said) == (2, True)


@pytest.mark.slow
def test_an_installation_from_wheels_downloads_nothing(tmp_path: Path) -> None:
    """As docs/how-to/install.md tells: the wheels are made where there is a network."""
    wheels = tmp_path / "wheels"
    made = [sys.executable, "-m", "pip", "wheel", "-q", "--wheel-dir", str(wheels), "hatchling", f"{ROOT}[gpu]"]
    subprocess.run(made, check=True)
    offline = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": os.devnull}
    code, said, outputs = bash(INSTALL, tmp_path, WHEELS=str(wheels), EXTRAS="gpu", **offline)
    assert code == 0, said
    site = Path(outputs["python"]).parents[1] / "lib"
    assert list(site.glob("python*/site-packages/perfgate/__pycache__/*.pyc"))
    assert not list(site.glob("python*/site-packages/pip")), "an environment without pip is half as quick to make"
    subprocess.run([outputs["python"], "-I", "-m", "perfgate", "--version"], check=True)
