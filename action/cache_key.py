"""Name the cached environment: its key is a hash of perfgate's files, the Python version and the extras.

The files and not the version: the tag `v1` moves, and an action in `uses: ./` has no version.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path


def main() -> None:
    """Write the outputs `key` and `folder`, and empty the folder: an earlier step may have filled it."""
    root = Path(__file__).resolve().parent.parent
    told = [sys.version, os.path.realpath(sys.executable), os.environ["EXTRAS"]]
    digest = hashlib.sha256("\0".join(told).encode())
    for path in [root / "pyproject.toml", root / "action" / "install.sh", *sorted((root / "perfgate").rglob("*"))]:
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"\0{path.relative_to(root).as_posix()}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    folder = Path(os.environ["RUNNER_TEMP"]) / "perfgate-cached"
    shutil.rmtree(folder, ignore_errors=True)
    python = f"{platform.python_implementation()}-{platform.python_version()}"
    key = f"perfgate-{platform.system()}-{platform.machine()}-{python}-{digest.hexdigest()[:16]}".lower()
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as output:
        output.write(f"key={key}\nfolder={folder}\n")


if __name__ == "__main__":
    main()
