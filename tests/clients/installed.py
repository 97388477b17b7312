"""Install programs that others wrote, in folders of their own, once; a test says why it is skipped if that fails."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
#: Where the programs are kept between runs; PERFGATE_CLIENTS names another folder.
INSTALLED = Path(os.environ.get("PERFGATE_CLIENTS", ROOT / ".clients")).resolve()
#: Seconds for one program, and for an installation.
PATIENCE, INSTALLATION = 300, 900


def python_programs() -> Path:
    """Return the folder of the programs of requirements.txt."""
    pip = ["bin/python", "-m", "pip", "install", "--quiet", "-r", "requirements.txt"]
    return _installed("python", HERE / "requirements.txt", [sys.executable, "-m", "venv", "."], pip) / "bin"


def history_python() -> Path:
    """Return a Python with the packages of requirements-history.txt, and with what perfgate needs."""
    recipe = HERE / "requirements-history.txt"
    pip = ["bin/python", "-m", "pip", "install", "--quiet", "-r", recipe.name, str(ROOT)]
    return _installed("history", recipe, [sys.executable, "-m", "venv", "."], pip) / "bin" / "python"


def node_modules() -> Path:
    """Return the folder of the packages of package.json."""
    npm = shutil.which("npm")
    if npm is None:
        _absent("npm is not installed")
    install = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error"]
    return _installed("node", HERE / "package.json", install) / "node_modules"


def chromium() -> str:
    """Return the path of the browser."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        _absent("there is no chromium here")
    return found


def _absent(reason: str) -> NoReturn:
    """Skip the test; in CI, where a job that skips everything would be green, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _installed(name: str, recipe: Path, *commands: list[str]) -> Path:
    """Return the folder with the programs of a recipe, which is made anew if the recipe changed."""
    place, wanted = INSTALLED / name, recipe.read_text(encoding="utf-8")
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with (INSTALLED / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of pytest-xdist install once
        stamp = place / "complete"
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
            return place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        shutil.copy(recipe, place)
        for words in commands:
            done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False, timeout=INSTALLATION)
            if done.returncode:
                reason = " ".join((done.stderr or done.stdout).strip().splitlines()[-1:])
                _absent(f"{' '.join(words[:4])} failed, so its programs are not here: {reason}")
        stamp.write_text(wanted, encoding="utf-8")
    return place
