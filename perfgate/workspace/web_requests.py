"""Requests to services that get a secret: no redirects, retries as the service asks, no message with the address."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from time import sleep, time
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from msgspec import Struct

#: The time limit of one request in s, and its longest answer in bytes.
_TIMEOUT, _LONGEST = 30, 32 << 20
#: A request is made this often at most, and waits for this many seconds in all; a limit without a time takes `_PAUSE`.
_ATTEMPTS, _PATIENCE, _PAUSE = 5, 300, 60


class Answer(Struct, frozen=True):
    """The answer of a service with its headers in lower case; without an answer, the status 0 and the reason."""

    status: int
    data: bytes = b""
    headers: Mapping[str, str] = {}
    failure: str = ""

    @property
    def is_limited(self) -> bool:
        """True if there were too many requests; GitHub also says so with the status 403."""
        waits = "retry-after" in self.headers or self.headers.get("x-ratelimit-remaining") == "0"
        return self.status == 429 or (self.status == 403 and (waits or b"secondary rate limit" in self.data))

    @property
    def is_unsure(self) -> bool:
        """True if the service may have done what was asked, or not."""
        return self.status == 0 or self.status >= 500

    def __str__(self) -> str:
        return self.failure or f"status {self.status}"

    def pause(self, attempt: int) -> float:
        """Return the seconds to wait before the request is made again."""
        asked_for, reset = self.headers.get("retry-after", ""), self.headers.get("x-ratelimit-reset", "")
        if self.is_unsure or asked_for.isdecimal():
            return 2.0**attempt if self.is_unsure else float(asked_for)
        is_spent = self.headers.get("x-ratelimit-remaining") == "0" and reset.isdecimal()
        return max(float(reset) - time(), 0) + 1 if is_spent else _PAUSE * 2.0**attempt


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return None: the redirect is the answer."""


_OPENER = build_opener(_NoRedirects)


def is_private(address: str) -> bool:
    """Return whether nobody on the way can read what is sent to an address: https, or http to this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def ask(method: str, url: str, headers: Mapping[str, str], document: Any = None, *, repeat: bool = True) -> Answer:
    """Send a document as JSON; return the answer. A rate-limited request is repeated when the service allows it.

    With `repeat`, so is a request with an unsure answer: it must be safe to do twice.
    """
    left = float(_PATIENCE)
    for attempt in range(_ATTEMPTS):
        answer = _once(method, url, headers, document)
        pause = answer.pause(attempt)
        is_last = attempt == _ATTEMPTS - 1 or pause > left
        if is_last or not (answer.is_limited or (repeat and answer.is_unsure)):
            break
        sleep(pause)
        left -= pause
    return answer


def _once(method: str, url: str, headers: Mapping[str, str], document: Any) -> Answer:
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
    except (OSError, HTTPException, ValueError) as error:  # its text may contain the address
        return Answer(0, failure=f"no answer ({type(getattr(error, 'reason', error)).__name__})")
