"""The requests that perfgate makes of a bucket, counted by an S3 server on this machine (moto), and their price.

Prices are those of S3 Standard in us-east-1 (https://aws.amazon.com/s3/pricing): a listing costs as much as a write.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Dollars for one request.
GET, LIST = 0.0004 / 1000, 0.005 / 1000
_ANSWERED = re.compile(r"(GET|HEAD) (\S+) HTTP")
_BUCKET, _USER = "plan", "test"


@dataclass
class Bucket:
    """A bucket of a server that logs a line for each request."""

    address: str
    log: Path
    _read: int = field(default=0, init=False)

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which a program finds the bucket."""
        place = {"AWS_ENDPOINT_URL": self.address, "AWS_DEFAULT_REGION": "us-east-1"}
        return place | {"AWS_ACCESS_KEY_ID": _USER, "AWS_SECRET_ACCESS_KEY": _USER, "AWS_EC2_METADATA_DISABLED": "true"}

    def files(self) -> Any:
        """Return the file system of the server."""
        import s3fs

        return s3fs.S3FileSystem(key=_USER, secret=_USER, client_kwargs={"endpoint_url": self.address})

    def put(self, folder: Path, name: str) -> str:
        """Copy a folder into the bucket; return its URL."""
        self.files().put(str(folder), f"{_BUCKET}/{name}", recursive=True)
        self.requests()
        return f"s3://{_BUCKET}/{name}"

    def requests(self) -> tuple[int, int]:
        """Return the reads and the listings since the last call. A HEAD costs as much as a GET."""
        said = self.log.read_text()
        new, self._read = said[self._read :], len(said)
        found = _ANSWERED.findall(new)
        listings = sum(method == "GET" and "list-type=2" in path for method, path in found)
        return len(found) - listings, listings


def dollars(reads: float, listings: float) -> float:
    """Return the price of requests."""
    return reads * GET + listings * LIST


@contextmanager
def bucket(folder: Path) -> Iterator[Bucket]:
    """Return an empty bucket of a server that ends with the block; its log is in `folder`."""
    log = folder / "requests.log"
    with log.open("w") as written:
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        server = subprocess.Popen(words, stdout=written, stderr=subprocess.STDOUT)
    try:
        while not (found := re.search(r"Running on (http://\S+)", log.read_text())):
            if server.poll() is not None:
                sys.exit(f"the server of the bucket ended (pip install 'moto[server]'):\n{log.read_text()}")
            time.sleep(0.2)
        made = Bucket(found[1], log)
        made.files().mkdir(_BUCKET)
        yield made
    finally:
        server.terminate()
        server.wait()
