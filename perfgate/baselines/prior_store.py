"""The stored priors of an environment, as `check` and `baseline list` find them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from perfgate.baselines import layout
from perfgate.baselines.identity import differences
from perfgate.baselines.priors import PriorFile, decode
from perfgate.baselines.stores import Store
from perfgate.core import Fact, Problem


def read_priors(store: Store, suite: str, environment: str) -> tuple[dict[str, PriorFile], list[Problem], str]:
    """The stored priors by path, what is wrong with them, and the hash of all that was read; empty for no file."""
    data, problems = layout.prior_files(store, suite, environment)
    found: dict[str, PriorFile] = {}
    for path, content in data:
        at = store.location(path)
        stored, wrong = decode(str(at), content)
        if stored is not None and stored.suite != suite:
            wrong = [Problem("error", f"was moved: it belongs to the suite {stored.suite}", at)]
        elif stored is not None and (stored.pairing or None) != layout.pairing_of(path):
            wrong = [Problem("error", f"was moved: it is the noise between {stored.between}", at)]
        if stored is not None and not wrong:
            found[path] = stored
        problems += wrong
    digests = "".join(hashlib.sha256(content).hexdigest() for _, content in data)
    return found, problems, digests


def other_environment(
    store: Store, priors: Mapping[str, PriorFile], identity: Mapping[str, Fact | None]
) -> list[Problem]:
    """A problem for each prior that was measured on another machine than it is now used for."""
    return [
        Problem("error", f"is of another environment: {'; '.join(other)}", store.location(path))
        for path, stored in priors.items()
        if (other := differences(stored.identity, identity))
    ]
