"""Nodes that come back too soon: a server is killed, and is started again before the leases that it granted are over.

Without persistence it has forgotten them and can grant them again. Redlock's description asks for a restart that is
delayed by more than the TTL, or for a sync on every write; under neither, no lock by majority is safe. So these faults
break a correct lock by its specification, and `standard` leaves them out. `standard+forgetful` plays both; with
`--persistence aof-always` a correct lock survives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fencepost.units import Duration
from nemesis.base import Deck
from nemesis.standard import STILL

LANES: Final[Mapping[str, Deck]] = {
    "back too soon": Deck(
        (
            "crash:targets=one,restart-delay=0",
            "crash:targets=one,restart-delay=0.5ttl",
            "crash:targets=minority,restart-delay=0.2ttl",
            "crash:targets=majority,restart-delay=0",
        ),
        STILL,
    )
}
"""They come in the still times of `standard`, where nothing else hides what a node has forgotten."""


class ForgetfulOptions(msgspec.Struct, frozen=True):
    """`interval`: the mean time between the begins of two faults."""

    interval: Duration = Duration(2, in_ttls=True)


class _ForgetfulMix:
    name = "forgetful"
    help = (
        "nodes are killed and come back before their leases are over, which no lock survives without persistence; "
        "join it as standard+forgetful: interval=2ttl"
    )
    options = ForgetfulOptions

    def lanes(self, options: ForgetfulOptions) -> Mapping[str, Deck]:
        return LANES


MIX = _ForgetfulMix()
