"""A GitHub of one repository for tests: issues, labels and comments as in its REST API, with faults on request."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOT = {"id": 41898282, "login": "github-actions[bot]"}
EVE = {"id": 666, "login": "eve"}


@dataclass
class Fault:
    """A wrong answer to the next requests of a kind. With `is_done`, the request is done nevertheless."""

    method: str
    path: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "fault"
    times: int = 1
    is_done: bool = False


class GitHub:
    """The repository `o/r`: its state, the faults to come, and the requests that were made."""

    def __init__(self) -> None:
        self.issues: list[dict[str, Any]] = []
        #: Comments by their id, each with its issue.
        self.said: dict[int, dict[str, Any]] = {}
        self.labels: set[str] = set()
        self.faults: list[Fault] = []
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()
        self.posted: list[tuple[dict[str, str], Any]] = []
        #: The longest page, and the issues that a list does not have yet.
        self.page_size, self.unlisted = 100, set[int]()
        self.drops_labels, self.next_page = False, ""
        self.before_opening: Callable[[], object] = lambda: None
        self.before_commenting: Callable[[], object] = lambda: None
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"github": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def open(self, body: str, user: dict[str, Any] | None = BOT, title: str = "", labels: Any = ("perfgate",)) -> int:
        """Open an issue, as its user may do it."""
        with self.lock:
            number = len(self.issues) + 1
            page = f"https://github.example/o/r/issues/{number}"
            names = [] if self.drops_labels else [{"name": name} for name in labels]
            known = {"number": number, "state": "open", "title": title, "body": body, "user": user, "labels": names}
            self.issues.append({**known, "html_url": page, "state_reason": None})
        return number

    def comment(self, number: int, body: str, user: dict[str, Any] | None = BOT) -> dict[str, Any]:
        """Comment on an issue, as its user may do it."""
        with self.lock:
            known = {"id": max(self.said, default=0) + 1, "issue": number, "body": body, "user": user}
            self.said[known["id"]] = known
        return known

    @property
    def comments(self) -> list[tuple[int, str]]:
        """The issue and the text of each comment."""
        return [(one["issue"], one["body"]) for one in self.said.values()]

    def issue(self, number: int) -> dict[str, Any]:
        return self.issues[number - 1]

    @property
    def open_ones(self) -> list[int]:
        return [one["number"] for one in self.issues if one["state"] == "open"]

    def list(self, query: dict[str, str]) -> tuple[list[dict[str, Any]], int | None]:
        """Return a page of issues, and the number of the next page."""
        found = [
            one
            for one in self.issues
            if query["labels"] in [label["name"] for label in one["labels"]]
            and query["state"] in ("all", one["state"])
            and one["number"] not in self.unlisted
        ]
        size, page = min(int(query["per_page"]), self.page_size), int(query.get("page", 1))
        return found[(page - 1) * size : page * size], page + 1 if len(found) > page * size else None


class _Handler(BaseHTTPRequestHandler):
    github: GitHub

    def do(self) -> None:
        github, path = self.github, urlsplit(self.path).path
        data = self.rfile.read(int(self.headers["Content-Length"] or 0))
        document = json.loads(data) if data else None
        github.asked.append(f"{self.command} {path}")
        github.tokens.add(self.headers["Authorization"])
        matching = (one for one in github.faults if one.method == self.command and re.fullmatch(one.path, path))
        if fault := next(matching, None):
            fault.times -= 1
            github.faults = [one for one in github.faults if one.times > 0]
            if fault.is_done:
                self.done(path, document)
            self.reply(fault.status, {"message": fault.message}, fault.headers)
            return
        self.reply(*self.done(path, document))

    do_GET = do_POST = do_PATCH = do_DELETE = do

    def done(self, path: str, document: Any) -> tuple[int, Any, dict[str, str]]:
        """Do what is asked; return status, answer and headers."""
        github, query = self.github, {name: one[-1] for name, one in parse_qs(urlsplit(self.path).query).items()}
        kind, answer = (self.command, path.removeprefix("/repos/o/r")), None
        if kind == ("POST", "/graphql"):
            answer = {"data": {"viewer": {"databaseId": BOT["id"]}}}
        elif kind == ("GET", "/issues"):
            found, following = github.list(query)
            again = "&".join(f"{name}={one}" for name, one in query.items() if name != "page")
            link = f'<{github.url}{path}?{again}&page={following}>; rel="next", <{github.url}{path}>; rel="last"'
            link = f'<{github.next_page}>; rel="next"' if github.next_page else link
            return 200, found, {"Link": link} if following or github.next_page else {}
        elif kind == ("POST", "/issues"):
            github.before_opening()
            known = [name for name in document["labels"] if name in github.labels]  # an unknown label is not made
            answer = github.issue(github.open(document["body"], BOT, document["title"], known))
        elif kind == ("POST", "/labels"):
            if document["name"] in github.labels:
                return 422, {"message": "Validation Failed"}, {}
            github.labels.add(document["name"])
            answer = document
        elif self.command == "PATCH" and (found_issue := re.fullmatch(r"/issues/(\d+)", kind[1])):
            answer = github.issue(int(found_issue[1]))
            answer.update(document)
        elif self.command == "POST" and (found_issue := re.fullmatch(r"/issues/(\d+)/comments", kind[1])):
            github.before_commenting()
            answer = github.comment(int(found_issue[1]), document["body"])
        elif self.command == "GET" and (found_issue := re.fullmatch(r"/issues/(\d+)/comments", kind[1])):
            answer = [one for one in [*github.said.values()] if one["issue"] == int(found_issue[1])]
        elif self.command == "DELETE" and (found_comment := re.fullmatch(r"/issues/comments/(\d+)", kind[1])):
            del github.said[int(found_comment[1])]
            return 204, None, {}
        elif self.command == "POST" and path.startswith("/hook"):
            github.posted.append((dict(self.headers), document))
            answer = {}
        return (404, {"message": "Not Found"}, {}) if answer is None else (200, answer, {})

    def reply(self, status: int, answer: Any, headers: dict[str, str]) -> None:
        data = b"" if status == 204 else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass
