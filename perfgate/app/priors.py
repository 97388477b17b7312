"""The stored prior of an environment, as `check` and `baseline list` find it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from perfgate.baselines.identity import differences
from perfgate.baselines.priors import FILE_NAME, PriorFile, decode
from perfgate.baselines.stores import Store
from perfgate.model import Fact, Problem


def prior_path(suite: str, environment: str) -> str:
    """Where the prior of an environment is kept, relative to the store."""
    return f"{suite}/{environment}/{FILE_NAME}"


def read_prior(store: Store, suite: str, environment: str) -> tuple[PriorFile | None, list[Problem], str]:
    """The stored prior, if there is one, what is wrong with it, and the hash of what was read; empty for no file."""
    path = prior_path(suite, environment)
    at = store.location(path)
    try:
        data = store.read(path)
    except FileNotFoundError:
        return None, [], ""
    except OSError as error:
        return None, [Problem("error", f"cannot be read: {error.strerror or error}", at)], ""
    stored, problems = decode(str(at), data)
    if stored is not None and stored.suite != suite:
        problems = [Problem("error", f"was moved: it belongs to the suite {stored.suite}", at)]
    return stored if not problems else None, problems, hashlib.sha256(data).hexdigest()


def other_environment(
    store: Store, stored: PriorFile, environment: str, identity: Mapping[str, Fact | None]
) -> list[Problem]:
    """A problem where the prior was measured on another machine than it is now used for."""
    other = differences(stored.identity, identity)
    at = store.location(prior_path(stored.suite, environment))
    return [Problem("error", f"is of another environment: {'; '.join(other)}", at)] if other else []
