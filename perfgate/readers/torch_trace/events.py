"""What is read of a trace: the typed fields of events, their arguments and the header.

Nothing else of a trace is ever made a Python object: stacks and shapes because they are large, metadata because real
traces hold environment variables, credentials included. Fields: Kineto, `libkineto/src/output_json.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, cast

import msgspec

#: Numbers that some version wrote as a string, or left out.
Loose = int | float | str | None


class Args(msgspec.Struct, frozen=True, gc=False):
    """The arguments of an event that metrics are made of."""

    correlation: Loose = None
    device: Loose = None
    external_id: Loose = msgspec.field(default=None, name="External id")
    external_id_before_2022: Loose = msgspec.field(default=None, name="external id")
    blocks_per_sm: Loose = msgspec.field(default=None, name="blocks per SM")
    occupancy: Loose = msgspec.field(default=None, name="est. achieved occupancy %")
    collective: Loose = msgspec.field(default=None, name="Collective name")
    group: Loose = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Loose = msgspec.field(default=None, name="Process Group Ranks")
    group_size: Loose = msgspec.field(default=None, name="Group size")
    elements_in: Loose = msgspec.field(default=None, name="In msg nelems")
    elements_out: Loose = msgspec.field(default=None, name="Out msg nelems")
    dtype: Loose = None
    device_type: Loose = msgspec.field(default=None, name="Device Type")
    device_id: Loose = msgspec.field(default=None, name="Device Id")
    allocated: Loose = msgspec.field(default=None, name="Total Allocated")
    reserved: Loose = msgspec.field(default=None, name="Total Reserved")


NO_ARGS = Args()


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event; `ts` and `dur` are microseconds as printed."""

    ph: Loose = None
    cat: Loose = None
    name: Loose = None
    ts: Loose | Decimal = None
    dur: Loose | Decimal = None
    args: Args = NO_ARGS


class _Fast(Event, frozen=True, gc=False):
    ts: Loose = None
    dur: Loose = None


class _Exact(Event, frozen=True, gc=False):
    ts: Decimal | None = None
    dur: Decimal | None = None


Decoder = msgspec.json.Decoder[Sequence[Event]]
#: Times as float64, exact to the nanosecond below 2^43 microseconds; and as decimals, exact everywhere.
FAST = cast("Decoder", msgspec.json.Decoder(list[_Fast]))
EXACT = cast("Decoder", msgspec.json.Decoder(list[_Exact]))

_ARGS = {field.encode_name: field.name for field in msgspec.structs.fields(Args)}


def from_json(element: object) -> Event | None:
    """An element of the list of events as `json` reads it, leniently: what has an unknown type is absent."""
    if not isinstance(element, dict):
        return None
    args = element.get("args")
    known = (
        {_ARGS[name]: _loose(value) for name, value in args.items() if name in _ARGS} if isinstance(args, dict) else {}
    )
    fields: dict[str, Any] = {name: _loose(element.get(name)) for name in ("ph", "cat", "name", "ts", "dur")}
    return Event(**fields, args=Args(**known))


def _loose(value: object) -> Any:
    return value if isinstance(value, int | float | str | Decimal) and not isinstance(value, bool) else None


class Distributed(msgspec.Struct, frozen=True):
    """`distributedInfo`: which process of a job wrote the trace."""

    rank: Loose = None
    world_size: Loose = None
    nccl_version: Loose = None


NOT_DISTRIBUTED = Distributed()


class Device(msgspec.Struct, frozen=True):
    """One row of `deviceProperties`."""

    name: Loose = None


#: The fields of the header that are read, and what they are read as.
HEADER: dict[str, msgspec.json.Decoder[object]] = {
    "distributedInfo": msgspec.json.Decoder(Distributed),
    "deviceProperties": msgspec.json.Decoder(list[Device]),
    "cuda_runtime_version": msgspec.json.Decoder(int),
}
