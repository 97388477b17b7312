"""The issues of a repository through GitHub's REST API, with the token of the workflow.

Requests follow https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api. The token is
sent only to the host of the API, and no message contains it. `ask` makes a request to any service that gets a secret:
it follows no redirect, repeats the request when the service allows it, and names no address in a message.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from threading import Thread
from time import monotonic, sleep, time
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec
from msgspec import Struct

from perfgate.core.wording import clip
from perfgate.workspace.options import Refused

#: The address of the next page of a list, in the header `link`.
_NEXT = re.compile(r'<([^<>]*)>; *rel="next"')
_MOST_PAGES = 100
#: All requests together may take this long, in seconds.
_MOST_TIME = 1800
_Listed = TypeVar("_Listed")


class Author(Struct, frozen=True):
    """The author of an issue or a comment."""

    id: int


class Issue(Struct, frozen=True):
    """The fields of an issue that perfgate uses. GitHub lists pull requests, too: `pull_request` is None for issues."""

    number: int
    state: str
    body: str | None = None
    #: Why it is closed: `completed` or `not_planned`.
    state_reason: str | None = None
    user: Author | None = None
    pull_request: Any = None


class Comment(Struct, frozen=True):
    """A comment on an issue."""

    id: int
    body: str | None = None
    user: Author | None = None


class GitHubIssues:
    """The issues of the repository that GitHub Actions names. A plain class: a struct would print the token."""

    def __init__(self) -> None:
        """Take the repository from the environment. Raises Refused."""
        name, token = os.environ.get("GITHUB_REPOSITORY", ""), os.environ.get("GITHUB_TOKEN", "")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII) or not re.fullmatch(r"[!-~]+", token):
            raise Refused(
                "tickets need GITHUB_REPOSITORY, which is OWNER/NAME, and GITHUB_TOKEN, a token for its issues"
            )
        self._api = os.environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
        if not is_private(self._api):
            raise Refused("GITHUB_API_URL does not begin with https://, so the token is not sent there")
        self._name, self._token, self._begun = name, token, monotonic()
        #: The address of the repository in a browser.
        self.page = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com').rstrip('/')}/{name}"

    def viewer(self) -> int:
        """Return the id of the token's user or app. Raises Refused.

        It asks GraphQL, because `GET /user` of REST refuses the token of a workflow.
        """
        address = f"{self._api.removesuffix('/v3')}/graphql"  # an own server has its APIs at /api/v3 and /api/graphql
        answer = _read(self._request("POST", address, {"query": "{viewer{databaseId}}"}), dict[str, Any])
        try:
            return int(answer["data"]["viewer"]["databaseId"])
        except (LookupError, TypeError, ValueError):
            raise Refused("GitHub does not say whose token this is, so perfgate cannot know its tickets", 3) from None

    def listed(self, path: str, form: type[_Listed], **query: str) -> Iterator[_Listed]:
        """Yield the items of all pages of a list, such as `issues`, decoded as `form`. Raises Refused."""
        address = f"{self._api}/repos/{self._name}/{path}?{urlencode({**query, 'per_page': 100})}"
        for _ in range(_MOST_PAGES):
            answer = self._request("GET", address)
            yield from _read(answer, list[form])  # type: ignore[valid-type]
            if (found := _NEXT.search(answer.headers.get("link", ""))) is None:
                return
            address = found[1]
        raise Refused(f"GitHub lists more than {100 * _MOST_PAGES} {path}", 3)

    def send(self, method: str, path: str, document: Any, form: Any = dict[str, Any]) -> Any:
        """Write a document; return the answer, decoded as `form`. Raises Refused.

        The result is None if the answer is empty, or if it is not known whether GitHub did a POST.
        """
        repeat = method != "POST"
        answer = self._request(method, f"{self._api}/repos/{self._name}/{path}", document, repeat=repeat)
        return None if answer.is_unsure or answer.status == 204 else _read(answer, form)

    def _request(self, method: str, url: str, document: Any = None, *, repeat: bool = True) -> Answer:
        """Call `ask` with the token. Raises Refused if it fails; without `repeat`, an unsure answer is returned."""
        host = "/".join(self._api.split("/")[:3])  # with https://
        if not url.startswith(f"{host}/"):
            raise Refused("GitHub leads to another host, which must not get the token", 3)
        what = f"{method} {urlsplit(url).path}"
        if monotonic() - self._begun > _MOST_TIME:
            raise Refused(f"GitHub needs more than {_MOST_TIME // 60} minutes; start the job again later", 3)
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        answer = ask(method, url, {**headers, "Authorization": f"Bearer {self._token}"}, document, repeat=repeat)
        if 200 <= answer.status < 300 or (answer.is_unsure and not repeat):
            return answer
        raise Refused(f"GitHub did not do {what}: {_why(answer, self._token)}", 3)


def _read(answer: Answer, form: Any) -> Any:
    """Return the JSON of an answer, decoded as `form`. Raises Refused."""
    try:
        return msgspec.json.decode(answer.data, type=form)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise Refused("GitHub's answer has another form: is GITHUB_API_URL the address of its API?", 3) from None


def _why(answer: Answer, token: str) -> str:
    """Return why a request failed, in GitHub's words without the token, and what to do."""
    if answer.is_limited or answer.is_unsure:
        return f"{'too many requests' if answer.is_limited else answer}; start the job again later"
    if answer.status < 400:  # a redirect, which is not followed
        return "the repository was renamed; correct GITHUB_REPOSITORY"
    said = re.search(rb'"message": ?"([^"\\]*)"', answer.data)
    words = f"{answer}, {clip(said[1].decode('utf-8', 'replace').replace(token, '***'), 200)}" if said else str(answer)
    return words + ("; does the job have the permission `issues: write`?" if answer.status in (401, 403, 404) else "")


#: The longest wait in seconds for the next bytes of an answer, and for all of it; and its greatest length in bytes.
_TIMEOUT, _DEADLINE, _LONGEST = 30, 120, 32 << 20
#: A request is made at most `_ATTEMPTS` times, with pauses of at most `_PATIENCE` seconds in all.
_ATTEMPTS, _PATIENCE = 5, 300
#: The first pause in seconds after a rate limit, if the service does not say when it ends.
_PAUSE = 60


class Answer(Struct, frozen=True):
    """The answer of a service. Without an answer, the status is 0 and `failure` is the reason."""

    status: int
    data: bytes = b""
    #: By their names in lower case.
    headers: Mapping[str, str] = {}
    failure: str = ""

    @property
    def is_limited(self) -> bool:
        """True if there were too many requests: the status 429, or GitHub's 403 with a sign of its rate limit."""
        waits = "retry-after" in self.headers or self.headers.get("x-ratelimit-remaining") == "0"
        return self.status == 429 or (self.status == 403 and (waits or b"secondary rate limit" in self.data))

    @property
    def is_unsure(self) -> bool:
        """True if it is not known whether the service did what was asked."""
        return self.status == 0 or self.status >= 500

    def __str__(self) -> str:
        return self.failure or f"status {self.status}"

    def pause(self, attempt: int) -> float:
        """Return the seconds to wait before the request is made again."""
        if self.is_unsure:
            return 2.0**attempt
        asked_for, reset = self.headers.get("retry-after", ""), self.headers.get("x-ratelimit-reset", "")
        if asked_for.isdecimal():
            return float(asked_for)
        if self.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal():  # `reset` is a Unix time
            return max(float(reset) - time(), 0) + 1
        return _PAUSE * 2.0**attempt


def is_private(address: str) -> bool:
    """Return whether an address can get a secret: it uses https, or http to this machine itself."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def ask(method: str, url: str, headers: Mapping[str, str], document: Any = None, *, repeat: bool = True) -> Answer:
    """Make a request, with a document as JSON; return the answer to the last attempt.

    After a rate limit, the request is repeated when the service allows it. With `repeat`, it is also repeated if it is
    not known whether the service did it, so it must be safe to do twice.
    """
    left = float(_PATIENCE)
    for attempt in range(_ATTEMPTS):
        answer = _within_deadline(method, url, headers, document)
        pause = answer.pause(attempt)
        is_last = attempt == _ATTEMPTS - 1 or pause > left
        if is_last or not (answer.is_limited or (repeat and answer.is_unsure)):
            break
        sleep(pause)
        left -= pause
    return answer


def _within_deadline(method: str, url: str, headers: Mapping[str, str], document: Any) -> Answer:
    """Return the answer of `_exchange`. A service that sends one byte at a time has `_DEADLINE` seconds for all."""
    found: list[Answer] = []
    thread = Thread(target=lambda: found.append(_exchange(method, url, headers, document)), daemon=True)
    thread.start()
    thread.join(_DEADLINE)
    return found[0] if found else Answer(0, failure="no whole answer in time")


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return None: the redirect is the answer."""


_OPENER = build_opener(_NoRedirects)


def _exchange(method: str, url: str, headers: Mapping[str, str], document: Any) -> Answer:
    """Send one HTTP request and return its answer, or why there is none."""
    body = None if document is None else json.dumps(document).encode()
    usual = {"User-Agent": "perfgate", "Content-Type": "application/json"}
    try:
        try:
            found = _OPENER.open(Request(url, body, {**usual, **headers}, method=method), timeout=_TIMEOUT)
        except HTTPError as error:  # an answer, too
            found = error
        with found:
            told = {name.lower(): value for name, value in found.headers.items()}
            return Answer(found.status, found.read(_LONGEST), told)
    except (OSError, HTTPException, ValueError) as error:
        return Answer(0, failure=f"no answer ({_kind(error)})")


def _kind(error: Exception) -> str:
    """Return the name of an error, and what is wrong with a certificate. The text of others may contain the address."""
    reason = getattr(error, "reason", error)  # a text for some errors of TLS
    reason = reason if isinstance(reason, Exception) else error
    wrong: str = getattr(reason, "verify_message", "")
    return f"{type(reason).__name__}{': ' if wrong else ''}{wrong}"
