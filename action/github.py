"""The requests to GitHub's REST API of the privileged scripts, with the standard library only."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from workflow import Refused

TIMEOUT_S = 30
#: In bytes: no JSON answer is larger here.
LARGEST_ANSWER = 32 << 20
PAGE, MOST_PAGES = 100, 20


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of the workflow, by its name OWNER/NAME, and the token of the requests."""

    api: str
    name: str
    token: str

    @classmethod
    def here(cls) -> Repository:
        """Return the repository that the runner names. Raises Refused outside of a workflow, or without a token."""
        missing = [name for name in ("GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_TOKEN") if not os.environ.get(name)]
        if missing:
            raise Refused(f"{', '.join(missing)}: not set; this script runs in a job of GitHub Actions, with a token")
        return cls(os.environ["GITHUB_API_URL"], os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"])

    def get(self, path: str, **query: str | int) -> Any:
        """Return the JSON at a path below the repository. Raises Refused."""
        return json.loads(self.download(path, LARGEST_ANSWER, **query))

    def pages(self, path: str, **query: str | int) -> Iterator[Any]:
        """Yield every item of a list, page by page. Raises Refused."""
        for page in range(1, MOST_PAGES + 1):
            items = self.get(path, per_page=PAGE, page=page, **query)
            yield from items
            if len(items) < PAGE:
                return

    def send(self, method: str, path: str, document: Mapping[str, Any]) -> Any:
        """Write a document; return the answer. Raises Refused."""
        return json.loads(self._ask(method, path, LARGEST_ANSWER, json.dumps(document).encode()))

    def download(self, path: str, most: int, **query: str | int) -> bytes:
        """Return the bytes at a path. Raises Refused for more than `most` bytes."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, most)

    def _ask(self, method: str, path: str, most: int, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.api}/repos/{self.name}/{path}", body, method=method)
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        # An artifact's address redirects to another host, which must not see the token.
        request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                data: bytes = answer.read(most + 1)
        except urllib.error.HTTPError as error:
            hint = "; does the job have the permission?" if error.code in (401, 403, 404) else ""
            raise Refused(f"GitHub refuses {method} {path}: {error.code} {error.reason}{hint}") from None
        except OSError as error:
            raise Refused(f"GitHub does not answer {method} {path}: {error}") from None
        if len(data) > most:
            raise Refused(f"{path} is larger than {most >> 20} MiB")
        return data
