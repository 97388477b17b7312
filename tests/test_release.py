"""A first release: what a tag contains, what the workflow does with it, and what the pages may say before it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import perfgate

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
#: What an installation from a tag needs beside the package.
NEEDED = (
    "action.yml",
    "action/gate.py",
    "action/install.sh",
    "action/cache_key.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)


def steps(job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text())["jobs"][job]["steps"]
    return found


def script(job: str, name: str) -> str:
    [step] = [step for step in steps(job) if step.get("name", "").startswith(name)]
    return str(step["run"])


def bash(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    return subprocess.run(words, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False)


# --- the workflow -------------------------------------------------------------------------------------------------


def test_a_build_is_checked_before_it_is_published() -> None:
    runs = [step.get("run", step.get("uses", "")) for step in steps("build")]
    order = ["bash .ci/run", "python -m build", "python -m twine check --strict dist/*", "attest-build-provenance@"]
    places = [next(place for place, run in enumerate(runs) if word in run) for word in order]
    assert places == sorted(places)
    assert "dist/*.whl" in script("build", "Install the wheel alone")


@pytest.mark.parametrize(
    ("tag", "heading", "code"),
    [
        ("v{}", "## {} (2026-12-01)", 0),
        ("v{}", "## {} (unreleased)", 1),
        ("v{}", "## {}.1 (2026-12-01)", 1),
        ("v{}.1", "## {}.1 (2026-12-01)", 1),
        ("{}", "## {} (2026-12-01)", 1),
    ],
)
def test_a_tag_matches_the_version_and_the_changelog(tmp_path: Path, tag: str, heading: str, code: int) -> None:
    version = perfgate.__version__
    (tmp_path / "perfgate").mkdir()
    shutil.copy(ROOT / "perfgate" / "version.py", tmp_path / "perfgate")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading.format(version)}\n")
    done = bash(script("build", "Check that the tag"), tmp_path, GITHUB_REF_NAME=tag.format(version))
    assert bool(done.returncode) == bool(code), done.stderr


def test_the_readme_of_a_package_has_no_relative_links(tmp_path: Path) -> None:
    shutil.copy(ROOT / "README.md", tmp_path)
    named = {"GITHUB_REPOSITORY": "ada/perfgate", "GITHUB_REF_NAME": "v9.9.9"}
    assert bash(script("build", "Make the links"), tmp_path, **named).returncode == 0
    text = (tmp_path / "README.md").read_text()
    assert not re.findall(r"\]\((?!https://)[^)]*\)", text)
    assert "](https://raw.githubusercontent.com/ada/perfgate/v9.9.9/docs/pictures/report.png)" in text
    assert "](https://github.com/ada/perfgate/blob/v9.9.9/docs/tutorial.md)" in text


@pytest.mark.parametrize("exists", [True, False])
def test_the_tag_of_the_action_is_moved_or_created(tmp_path: Path, exists: bool) -> None:
    (tmp_path / "gh").write_text(f'#!/bin/sh\necho "$@" >> calls\n[ "$3" = POST ] || exit {int(not exists)}\n')
    (tmp_path / "gh").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = bash(script("action", "Move the tag"), tmp_path, PATH=path, GITHUB_REPOSITORY="a/b", GITHUB_SHA="5e" * 20)
    assert done.returncode == 0, done.stderr
    patch = f"api --method PATCH repos/a/b/git/refs/tags/v1 -f sha={'5e' * 20} -F force=true"
    post = f"api --method POST repos/a/b/git/refs -f ref=refs/tags/v1 -f sha={'5e' * 20}"
    assert (tmp_path / "calls").read_text().splitlines() == [patch] if exists else [patch, post]


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(perfgate.__version__)} \((unreleased|\d{{4}}-\d\d-\d\d)\)", headings[0])


#: Files that a release needs with a real address.
ADDRESSED = ("pyproject.toml", "conda/recipe.yaml", ".github/ISSUE_TEMPLATE/config.yml")


def test_a_release_without_an_address_is_refused(tmp_path: Path) -> None:
    version = perfgate.__version__
    for name in ("perfgate/version.py", *ADDRESSED):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"## {version} (2026-12-01)\n")
    check = script("build", "Check that the tag")
    assert bash(check, tmp_path, GITHUB_REF_NAME=f"v{version}").returncode == 1
    for name in ADDRESSED:
        text = (tmp_path / name).read_text()
        assert "OWNER/perfgate" in text
        (tmp_path / name).write_text(text.replace("OWNER/perfgate", "ada/perfgate"))
    assert bash(check, tmp_path, GITHUB_REF_NAME=f"v{version}").returncode == 0


# --- other packages -----------------------------------------------------------------------------------------------


def test_the_recipe_needs_what_the_package_needs() -> None:
    project = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text())
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    python, *needed = recipe["requirements"]["run"]
    assert sorted(word.replace(" ", "") for word in needed) == sorted(project["project"]["dependencies"])
    assert recipe["context"]["version"] == perfgate.__version__
    assert project["project"]["requires-python"] == f">={recipe['context']['python_min']}"
    assert [word.replace(" ", "") for word in recipe["requirements"]["host"][2:]] == project["build-system"]["requires"]
    [command] = recipe["build"]["python"]["entry_points"]
    assert command == f"perfgate = {project['project']['scripts']['perfgate']}"
    assert python == "python >=${{ python_min }}"


def test_the_image_has_what_it_needs_and_no_rights() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [
        word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert all((ROOT / name).exists() and f"!{name}" in ignored for name in [*copied, "examples/tiny-gpt"])
    assert re.fullmatch(r"USER [1-9]\d+:[1-9]\d+", next(line for line in lines if line.startswith("USER")))
    assert {line.split()[1] for line in lines if line.startswith("FROM")} == {"python:3.12-slim"}


# --- the pages before the first release ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", [p for p in PAGES if "OWNER/perfgate" in p.read_text()], ids=lambda p: p.name)
def test_a_placeholder_is_explained_on_its_page(page: Path) -> None:
    said = " ".join(page.read_text().split())
    assert re.search(r"`OWNER/perfgate` is (a placeholder for )?the repository of perfgate", said)


def test_no_page_installs_from_pypi_without_saying_that_it_cannot_yet() -> None:
    """With an extra, pip takes perfgate as it is installed."""
    for page in PAGES:
        text = page.read_text()
        if re.search(r"pip install (-q )?'?perfgate(?!\[)\b", text):
            assert "not on PyPI yet" in " ".join(text.split()), page
    assert "PyPI" not in (ROOT / "action.yml").read_text()


# --- what a tag contains ------------------------------------------------------------------------------------------


@pytest.fixture
def tag(tmp_path: Path) -> Path:
    """The files that git has, as they are in the working tree: what a tag on this state would contain."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no clone")
    place = tmp_path / "tag"
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    return place


def python(*words: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_built_package_is_sound_and_works_alone(tag: Path, tmp_path: Path) -> None:
    """As the workflow: sdist, wheel, twine, and a new environment with nothing but the wheel."""
    tools, clean = tmp_path / "tools" / "bin", tmp_path / "clean" / "bin"
    python(sys.executable, "-m", "venv", tools.parent)
    [install] = [step["run"] for step in steps("build") if "twine==" in step.get("run", "")]
    python(tools / "python", *install.split()[1:3], "-q", *install.split()[3:])
    python(tools / "python", "-m", "build", folder=tag)
    wheel, sdist = sorted((tag / "dist").iterdir(), key=lambda path: path.suffix, reverse=True)
    said = python(tools / "python", "-m", "twine", "check", "--strict", wheel, sdist)
    assert said.count("PASSED") == 2
    assert {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()} == {
        "perfgate",
        f"perfgate-{perfgate.__version__}.dist-info",
    }
    with tarfile.open(sdist) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    assert held.issuperset(NEEDED)
    python(sys.executable, "-m", "venv", clean.parent)
    python(clean / "python", "-m", "pip", "install", "-q", wheel)
    assert python(clean / "perfgate", "--version").strip().endswith(perfgate.__version__)
    assert "PASS" in python(clean / "perfgate", "check", "runs/change.log", folder=tag / "examples" / "tiny-gpt")
    # An extra is found though perfgate is not on PyPI, because it is installed.
    python(clean / "python", "-m", "pip", "install", "-q", "perfgate[gpu]")


@pytest.mark.slow
def test_the_action_installs_perfgate_from_its_own_tag(tag: Path, tmp_path: Path) -> None:
    for name in NEEDED:
        assert (tag / name).is_file(), name
    output = tmp_path / "output"
    inputs = {"PYTHON": sys.executable, "EXTRAS": "", "HTML": "", "GITHUB_OUTPUT": str(output)}
    done = bash(f"bash {tag / 'action' / 'install.sh'}", tmp_path, RUNNER_TEMP=str(tmp_path), **inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    installed = output.read_text().strip().removeprefix("python=")
    assert python(installed, "-I", "-m", "perfgate", "--version").strip().endswith(perfgate.__version__)
