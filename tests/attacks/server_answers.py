"""The hostile answers of `served.py`: of GitHub, of a webhook, of a person who edits a ticket, and of a search."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from github_server import EVE

SECRET = "s3cret"
KINDS = (
    *("an answer of GitHub or of the webhook", "a field of an answer", "a ticket that somebody edited"),
    "an answer of `bisect` for `--answers`",
)
#: The requests: method and the end of the path.
PLACES = (
    *(("POST", "graphql"), ("GET", "issues"), ("POST", "labels"), ("POST", "issues"), ("PATCH", "issues/1")),
    *(("GET", "comments"), ("POST", "comments"), ("POST", f"hook/{SECRET}")),
)
GONE = "<!-- perfgate event: 0123abcd open 0.08 01234567 SUITES -->\n\n"
#: Status, headers and body, or the whole answer as bytes; EVIL is another host, TOKEN what the request sent.
ANSWERS: tuple[Any, ...] = (
    *((status, {}, b"{}") for status in (0, 99, 101, 204, 205, 300, 304, 400, 401, 403, 404, 410, 418, 422, 451)),
    *((status, {}, b'{"message": "TOKEN"}') for status in (200, 401, 403, 429, 500, 503, 999)),
    *(
        (status, {"Location": to}, b"")
        for status in (301, 302, 303, 307, 308)
        for to in ("EVIL/x", "file:///etc/passwd", "ftp://x/", "data:,{}", "http://[::1", "", "/", "//x\\@y")
    ),
    *(
        (429, {"Retry-After": after}, b"{}")
        for after in ("0", "1", "-1", "1e9", "9" * 5000, "\u0663", "nan", "Fri, 31 Dec 9999 23:59:59 GMT", "")
    ),
    *(
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}, b"{}")
        for reset in ("0", "9" * 400, "-1", "inf", "x", "99999999999", "")
    ),
    *(
        (200, {}, body)
        for body in (
            *(b"", b"null", b"true", b"0", b'"x"', b"[]", b"{}", b"[[]]", b"[{}]", b"[null]", b"[1]", b"NaN", b"\xff"),
            *(b"[" * 9999, b'{"a":' * 9999, b"1e400", b"9" * 5000, b"\xef\xbb\xbf{}", b'{"data": {"viewer": null}}'),
            *(b'{"data": {"viewer": {"databaseId": %s}}}' % one for one in (b"null", b"1e308", b"[]", b'"9e9"', b"-1")),
            b" " * (40 << 20),
            b'"\\ud800"',
        )
    ),
    *(
        (200, {"Link": f'<{link}>; rel="next"'}, b"[]")
        for link in ("SELF", "EVIL/", "file:///etc/passwd", "/x", "x", "http://[", "SELF@x/", "SELF\\@x/", "")
    ),
    *((200, {"Content-Length": length}, b"[]") for length in ("-1", "1", "99", "9" * 99, "x")),
    *((200, headers, b"[]") for headers in ({"Transfer-Encoding": "chunked"}, {"Content-Encoding": "gzip"})),
    *(b"", b"\n" * 999, b"HTTP/1.1\r\n\r\n", b"HTTP/9.9 200 OK\r\n\r\n[]", b"HTTP/1.1 2e2 OK\r\n\r\n", b"[]"),
    *(
        b"\x16\x03\x01",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n[]",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 99999,
    ),
    *("endless 100", "endless headers", "endless body", "slow headers", "slow body", "silent", "slow status"),
    "limited pages",
)
#: What the true answer of a list or of a write gets instead.
FIELDS: tuple[tuple[str, Any], ...] = (
    *(("number", value) for value in (-1, 0, 10**30, "1", 1.5, None, True, [])),
    *(("html_url", value) for value in ("x\n::error::y", "\x1b[2Jx", "x>|<!channel>", "EVIL/", "TOKEN", "\ud800", 1)),
    *(("state", value) for value in ("OPEN", "", None, "closed\n", 1)),
    *(("body", value) for value in (None, "", "x" * 10**6, 1, GONE, "\ud800")),
    *(("user", value) for value in (EVE, None, {}, {"id": "41898282"}, {"id": True}, {"id": None}, 1)),
    *(("pull_request", value) for value in ({}, True, 1, "x")),
    *(("state_reason", value) for value in ("not_planned", 1, "x")),
    *(("id", value) for value in (-1, "1", None, 10**30)),
)


#: Writes the answer of a search to $F.
SCRIPTS = (
    *(
        "mkdir $F",
        "mkfifo $F",
        "ln -s /dev/zero $F",
        "ln -s /etc/passwd $F",
        "ln -s $F $F",
        "ln -s absent $F",
        ": > $F",
    ),
    *("echo null > $F", "echo '[]' > $F", "yes '[' | head -c 99999 > $F", "head -c 99999 /dev/urandom > $F"),
    *(
        f"echo '{text}' > $F"
        for text in (
            *('{"message": 1}', '{"message": "x"}', '{"message": "\\ud800", "next_step": ""}', '{"message": null}'),
            *('{"message": "x", "next_step": "\\n::error::x\\u001b[2J"}', '{"message": "@all #1", "next_step": "<b>"}'),
        )
    ),
    'printf \'{"message": "%0999999d", "next_step": ""}\' 1 > $F',
    "truncate -s 99G $F",
)


def parts(kind: str) -> Iterator[tuple[bytes, float]]:
    """Yield an answer that does not end, for two minutes at most, each part with the pause after it."""
    once = {
        "slow body": b"HTTP/1.1 200 OK\r\n\r\n",
        "endless body": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
    }
    again = {"endless 100": b"HTTP/1.1 100 C\r\n\r\n", "endless headers": b"A: b\r\n", "endless body": b" " * 9999}
    until = time.monotonic() + 60
    yield once.get(kind, b"HTTP/1.1 200 OK\r\n" if "headers" in kind else b""), 0
    while time.monotonic() < until:
        yield again.get(kind, b"" if kind == "silent" else b" "), 0 if "endless" in kind else 0.3


def changed(answer: Any, name: str, value: Any) -> Any:
    """Return an answer whose items have another value of a field."""
    if isinstance(answer, list):
        return [changed(one, name, value) for one in answer]
    return {**answer, name: value} if isinstance(answer, dict) and name in answer else answer


def edits(body: str) -> Iterator[str]:
    """Yield the ticket after changes of its hidden line."""
    source = random.Random(7)
    line, _, rest = body.partition("\n")
    for _ in range(150):
        letters = list(line)
        for _ in range(source.choice((1, 1, 2, 5))):
            at = source.randrange(len(letters))
            letters[at] = source.choice(
                ("", " ", "\n", "-->", "0", "e9", "-", ",", "\x00", "\u0660", letters[at] * 2, "x")
            )
        yield f"{''.join(letters)}\n{rest}"
    yield from (
        f"{more}{body}" for more in ("\ufeff", " ", "\n", "<!-- x -->\n", line.replace(" open ", " gone ") + "\n")
    )
    yield from (body.replace(" open ", f" {word} ", 1) for word in ("gone", "x", "recovered", "reverted", "approved"))
