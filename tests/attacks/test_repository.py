"""The repository in the hands of the measured program: its settings, its objects, and the working tree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository

Command = Callable[..., Done]
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


@posix
def test_git_runs_no_program_of_the_settings_of_the_repository(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    hook = folder / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {folder}/hook\n")
    hook.chmod(0o755)
    repository.git("config", "core.fsmonitor", f"touch {folder}/monitor; false")
    done = perfgate("run", "--paired", "--base-ref", "HEAD", "--runs", "1", "--", "sh", "-c", "touch ran; exit 1")
    assert (done.code, (folder / "ran").exists()) == (3, True), done.said
    assert [name for name in ("hook", "monitor") if (folder / name).exists()] == []
