"""Write one comment on a pull request, from reports that the pull request's own code controlled.

Runs on `workflow_run`, with a token that may write. The artifacts are not trusted: their names choose no path, their
sizes are limited, and the perfgate of this action reads the reports anew. The comment is made of their numbers: their
sentences and commands are not shown. The API tells which pull request has the measured commit as its head.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from github import Repository
from workflow import Refused, for_others, given, perfgate, tell, without_commands, write_outputs

#: The beginning of every comment that perfgate writes.
MARKER = "<!-- perfgate comment:"
#: Outcomes that need a comment.
NEWS = ("fail", "error", "undecided")
#: In bytes: an archive, and one report in it. `perfgate report` reads no larger one.
LARGEST_ARCHIVE, LARGEST_REPORT = 32 << 20, 16 << 20
MOST_ARTIFACTS, MOST_REPORTS = 20, 50


def main() -> int:
    """Post or edit the comment; return the exit code, 0 if there is nothing to do."""
    try:
        repository, event = Repository.here(), completed_run()
        pull = pull_request(repository, event)
        if pull is None:
            tell("notice", "nothing to comment on: no open pull request has the measured commit as its head")
            return 0
        with tempfile.TemporaryDirectory(prefix="perfgate-", dir=os.environ.get("RUNNER_TEMP")) as scratch:
            download(repository, event["id"], Path(scratch))
            body, is_news = render(Path(scratch), event)
        write_outputs({"pull-request": str(pull), "comment": post(repository, pull, body, is_news)})
    except Refused as refused:
        tell("error", str(refused))
        return refused.exit_code
    return 0


def completed_run() -> dict[str, Any]:
    """Return the workflow run that started this one. Raises Refused."""
    try:
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_bytes())["workflow_run"]
    except (KeyError, TypeError, OSError, ValueError):
        raise Refused("there is no workflow_run: start this on workflow_run, types: [completed]") from None
    if not isinstance(event, dict) or not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", str(event.get("head_sha"))):
        raise Refused("the workflow_run names no head commit")
    return event


def pull_request(repository: Repository, event: dict[str, Any]) -> int | None:
    """Return the open pull request whose head is still the measured commit, or None."""
    owner = (event.get("head_repository") or {}).get("owner", {}).get("login", "")
    head = f"{owner}:{event.get('head_branch')}"
    for pull in repository.pages("pulls", state="open", head=head):
        if pull["head"]["sha"] == event["head_sha"]:
            return int(pull["number"])
    return None


# --- the untrusted artifacts -------------------------------------------------------------------------------------


def download(repository: Repository, run: int, folder: Path) -> None:
    """Write the reports of a run into a folder, under safe names. Raises Refused."""
    listed = repository.get(f"actions/runs/{int(run)}/artifacts", per_page=100)["artifacts"]
    pattern = given("artifacts")
    wanted = [one for one in listed if fnmatchcase(one["name"], pattern) and not one["expired"]]
    if not wanted:
        raise Refused(f"the run has no artifact {pattern!r}: it did not measure, or did not upload its report", 3)
    if len(wanted) > MOST_ARTIFACTS:
        raise Refused(f"the run has {len(wanted)} artifacts {pattern!r}; at most {MOST_ARTIFACTS} are read")
    count = 0
    for artifact in sorted(wanted, key=lambda one: str(one["name"])):
        data = repository.download(f"actions/artifacts/{int(artifact['id'])}/zip", LARGEST_ARCHIVE)
        for report in unpack(data, artifact["name"]):
            count += 1
            if count > MOST_REPORTS:
                raise Refused(f"the artifacts have more than {MOST_REPORTS} reports")
            name = re.sub(r"[^A-Za-z0-9_-]", "_", artifact["name"])[:80]
            (folder / f"{name}.{count}.json").write_bytes(report)
    if not count:
        raise Refused(f"no artifact {pattern!r} has a report: upload the file that the input json names", 3)


def unpack(data: bytes, name: str) -> Iterator[bytes]:
    """Yield the JSON files in an archive; nothing is unpacked to the disk. Raises Refused."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist():
                if member.filename.endswith(".json"):
                    with archive.open(member) as file:
                        report = file.read(LARGEST_REPORT + 1)  # whatever size the archive states
                    if len(report) > LARGEST_REPORT:
                        raise Refused(f"the artifact {name} has a report of more than {LARGEST_REPORT >> 20} MiB")
                    yield report
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, NotImplementedError) as error:
        raise Refused(f"the artifact {name} cannot be read: {error}") from None


# --- the comment -------------------------------------------------------------------------------------------------


def render(folder: Path, event: dict[str, Any]) -> tuple[str, bool]:
    """Return the comment, and whether it has news. Raises Refused."""
    reports = sorted(path.name for path in folder.glob("*.json"))
    expect = [f"--expect={int(given('expect'))}"] if given("expect").isdecimal() else []
    outputs = ["--untrusted-comment=comment.md", "--json=merged"]
    words = perfgate("report", "--no-github", "--quiet", *expect, *outputs, "--", *reports)
    with without_commands():
        done = subprocess.run(words, cwd=folder, env=for_others(), check=False)
    try:
        body = (folder / "comment.md").read_text(encoding="utf-8")
        merged = json.loads((folder / "merged").read_bytes())
    except (OSError, ValueError):
        raise Refused(f"perfgate report ended with {done.returncode} and wrote no comment", 4) from None
    body += f"\n<sub>Commit {event['head_sha'][:12]}, [measured here]({page_of(event)}). "
    body += "The exit code of that job is the verdict.</sub>\n"
    return body, bool(done.returncode or any(merged["counts"].get(outcome) for outcome in NEWS))


def page_of(event: dict[str, Any]) -> str:
    """Return the address of the run."""
    server, name = os.environ.get("GITHUB_SERVER_URL", ""), os.environ["GITHUB_REPOSITORY"]
    return f"{server}/{name}/actions/runs/{int(event['id'])}"


def post(repository: Repository, pull: int, body: str, is_news: bool) -> str:
    """Edit the existing comment, or write the first one if there is news; return what was done, in one word."""
    author = given("author")
    for comment in repository.pages(f"issues/{pull}/comments"):
        if comment["user"]["login"] == author and comment["body"].startswith(MARKER):
            if comment["body"] == body:
                return "unchanged"
            repository.send("PATCH", f"issues/comments/{int(comment['id'])}", {"body": body})
            return "edited"
    if not is_news:
        return "none"
    repository.send("POST", f"issues/{pull}/comments", {"body": body})
    return "created"


if __name__ == "__main__":
    sys.exit(main())
