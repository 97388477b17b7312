"""Which environments may be compared: a short list of stable facts, equal field by field."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from perfgate.core import Fact, fact_text

Identity = Mapping[str, Fact | None]


def identity_of(facts: Mapping[str, Fact], names: Sequence[str]) -> dict[str, Fact | None]:
    """The identity facts of an environment; None for one that is not known."""
    return {name: facts.get(name) for name in names}


def environment_name(identity: Identity) -> str:
    """A folder name for an identity: readable, safe, and unique through a hash of all its facts."""
    known = {name: fact_text(value) for name, value in identity.items() if value is not None}
    words = [_slug(f"{name} {text}" if text.isalnum() else text) for name, text in known.items()]
    text = "-".join(word for word in words if word)[:60].strip("-") or "unknown"
    facts = {name: None if value is None else fact_text(value) for name, value in identity.items()}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"{text}-{digest[:8]}"


def differences(stored: Identity, seen: Identity) -> list[str]:
    """The facts that differ, in words; a fact known on one side only differs."""
    names = sorted({*stored, *seen})
    return [
        f"{name} is {_shown(seen.get(name))}, in the baseline {_shown(stored.get(name))}"
        for name in names
        if _text(stored.get(name)) != _text(seen.get(name))
    ]


def _text(value: Fact | None) -> str | None:
    return None if value is None else fact_text(value)


def _shown(value: Fact | None) -> str:
    return "unknown" if value is None else fact_text(value)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
