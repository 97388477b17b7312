"""The approved levels of the baselines, each with the decision that opened it."""

from __future__ import annotations

import msgspec

from perfgate.baselines.files import StoredLevel
from perfgate.baselines.places import kind_of
from perfgate.baselines.stores import Store
from perfgate.core.run_history import ApprovedLevel


class _Head(msgspec.Struct, frozen=True):
    """The fields of a stored run that tell of its level."""

    time: str
    commit: str | None
    level: StoredLevel


def approvals(store: Store, suite: str, environment: str) -> tuple[ApprovedLevel, ...]:
    """Return the levels of an environment, oldest first. A stored run that cannot be read is left out.

    Each level is read from its first run. `perfgate baseline verify` finds files that were altered.
    """
    paths, _ = store.paths(f"{suite}/{environment}")
    firsts: dict[str, str] = {}
    for path in paths:
        if kind_of(path) == "run":
            firsts.setdefault(path.split("/")[2], path)
    found = []
    for path in firsts.values():
        try:
            head = msgspec.json.decode(store.read(path), type=_Head)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue
        level, adopts = head.level, tuple(head.level.adopts)
        found.append(
            ApprovedLevel(
                level.name, head.time, head.commit, level.by, level.reason, level.pr, adopts, level.parent is None
            )
        )
    return tuple(sorted(found, key=lambda one: (one.time, one.name)))
