"""The standard faults: what every class of fault does to a lock, several of them in force at once.

Which moments break a lock is not known beforehand, so the classes are complete, and every one of them comes early in a
run. Only stopped clients are aimed at a step of the lock, because few are hit inside a short one otherwise. A fault
that is rare in a plain `partition` or `latency`, because it needs one kind, one direction and few links at once, has a
row of its own here.

Storms and still times take turns. In a storm three lanes play side by side. In a still time one thing is wrong for
several TTLs, and nothing else changes: what a lock left behind shows only when nothing else can be the reason. Replies
that are slow for everybody last for longer than a TTL, because a lock that asks one node after the other needs a whole
round of them to be late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from fencepost.units import Duration
from nemesis.base import Deck, Turn

STORM: Final = Turn(period=11, begin=0, end=6)
STILL: Final = Turn(period=11, begin=6, end=11)

AIMED: Final = tuple(f"pause:targets={step}" for step in ("inside", "acquiring", "extending", "releasing"))
"""Pauses that wait until a client is at this step."""

LANES: Final[Mapping[str, Deck]] = {
    "cuts": Deck(
        (
            "partition:duration=1.5ttl",
            "partition:duration=1.5ttl,kind=refuse,shape=halves",
            "partition:duration=2.5ttl,kind=drop,direction=both,shape=halves",
            "partition:duration=2ttl,kind=drop,direction=both,shape=majority",
            "partition:duration=1ttl,kind=drop,direction=from-node,shape=one-client",
            "partition:duration=1ttl,kind=drop,direction=from-node,shape=some-links",
            "partition:duration=1ttl,kind=drop,direction=to-node",
            "partition:duration=0.5ttl,kind=hold,direction=from-node",
            "partition:duration=0.5ttl,kind=hold,direction=to-node",
            "partition:duration=1.5ttl,kind=hold,direction=to-node,shape=halves",
            "partition:duration=20ms,kind=refuse",
            "partition:duration=30ms,kind=drop",
        ),
        STORM,
    ),
    "delays": Deck(
        (
            "latency:duration=2ttl,kind=delay",
            "latency:duration=4ttl,kind=delay,direction=from-node,delay=0.1ttl-0.9ttl,targets=all",
            "latency:duration=3ttl,kind=delay,direction=from-node,delay=0.1ttl-0.3ttl,targets=all",
            "latency:duration=4ttl,kind=delay,direction=from-node,delay=0.05ttl-1.2ttl,targets=one-client",
            "latency:duration=2ttl,kind=delay,direction=to-node,delay=0.1ttl-1.2ttl,targets=minority",
            "latency:duration=2ttl,kind=delay,direction=to-node,delay=0.3ttl-1.5ttl,targets=one-client",
            "latency:duration=4ttl,kind=delay,direction=both,delay=0.05ttl-0.4ttl,targets=all",
            "latency:duration=3ttl,kind=delay,delay=2ms-20ms,jitter=2ms-20ms,targets=all",
            "latency:duration=1ttl,kind=throttle",
        ),
        STORM,
    ),
    "processes": Deck(
        (
            *AIMED,
            "pause:targets=nodes,duration=1.5ttl",
            "crash:targets=one",
            "crash:targets=minority",
            "crash:targets=majority",
            "crash:targets=clients",
            "errors:duration=1.5ttl",
            "errors:duration=1ttl,targets=majority",
        ),
        STORM,
    ),
    "still": Deck(
        (
            "partition:duration=6ttl,kind=drop,direction=both,shape=one-node",
            "partition:duration=6ttl,kind=drop,direction=both,shape=minority",
            "partition:duration=6ttl,kind=drop,direction=from-node,shape=one-node",
            "latency:duration=6ttl,kind=delay,direction=to-node,delay=0.1ttl-1.2ttl,targets=minority",
            "latency:duration=6ttl,kind=delay,direction=from-node,delay=0.1ttl-0.9ttl,targets=all",
            "pause:targets=nodes,duration=6ttl",
            "crash:targets=one,restart-delay=5ttl",
            "crash:targets=one,restart-delay=0.5ttl",
            "crash:targets=clients,restart-delay=5ttl",
            "errors:duration=6ttl,targets=minority",
            "errors:duration=6ttl,targets=majority",
        ),
        STILL,
    ),
}


class StandardOptions(msgspec.Struct, frozen=True):
    """`interval`: the mean time between the begins of two faults of one lane. Long faults take longer than that.
    `aim`: whether a client is stopped at a chosen step of its lock, or wherever it is."""

    interval: Duration = Duration(1.5, in_ttls=True)
    aim: Literal["yes", "no"] = "yes"


class _Standard:
    name = "standard"
    help = (
        "every class of fault, several at once: lost, late and refused requests and replies, jitter, outages of some "
        "ms and of many TTLs, stopped and killed clients and nodes, nodes that answer errors: interval=1.5ttl, "
        "aim=yes; --load drawn goes with it"
    )
    options = StandardOptions

    def lanes(self, options: StandardOptions) -> Mapping[str, Deck]:
        return LANES if options.aim == "yes" else {name: _without_aim(deck) for name, deck in LANES.items()}


def _without_aim(deck: Deck) -> Deck:
    return deck._replace(specs=tuple("pause:targets=clients" if spec in AIMED else spec for spec in deck.specs))


MIX = _Standard()
