"""The standard faults: what every class of fault does to a lock, several of them in force at once.

Which moments break a lock is not known beforehand, so the classes are complete, and every one of them comes early in a
run. A client that is stopped while it releases, and one that is killed wherever it is (in a queue, or as a reader),
come first. Clients are also stopped and killed at a chosen step of the lock, because few are hit inside a short one
otherwise. A fault that is rare in a plain `partition` or `latency`, because it needs one kind, one direction and few
links at once, has a row of its own here.

Storms, flurries and still times take turns. In a storm three lanes play in parallel. A lock that no client can acquire
shows nothing, so a fault that keeps all clients out seldom comes there, and lasts for little longer than a lease. In a
flurry links fail for a fraction of a lease and work again, over and over: a call that began under one set of faults
goes on under another, so that its tries, and the nodes, see different parts of the truth. In a still time one thing is
wrong for several TTLs, and nothing else changes: what a lock left behind shows only when nothing else can be the
reason. (Of one node or two, none can be spared for so long; there the rest of a still time is calm, see
`schedule.for_cluster`.) Replies that are slow for all clients last for longer than a TTL, because a lock that asks one
node after the other needs a whole round of them to be late.

A client that loses its connections while it acquires is stopped for longer than a lease in a storm. In a flurry it is
stopped for less, so that its lock does not find its lease over when it goes on.

Faults of nodes and of clients share a lane: one that waits for a client to come to its step holds the others up.

Every fault respects what Redlock assumes (docs/nemeses.md has the table), so a correct lock is never to blame here. A
node that is killed without persistence has forgotten its leases, so it stays down until the longest of them is over.
`forgetful` has nodes that come back sooner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from fencepost.units import Duration
from nemesis.base import Deck, Turn

STORM: Final = Turn(period=13, begin=0, end=5)
FLURRY: Final = Turn(period=13, begin=5, end=8)
STILL: Final = Turn(period=13, begin=8, end=13)

RECONNECTS: Final = "pause:targets=acquiring,connection=lost,duration=0.3ttl"
"""A client that goes on over new connections, within its lease."""

AIMED: Final = (
    *(f"pause:targets={step}" for step in ("inside", "acquiring", "held-by-majority", "extending", "releasing")),
    "pause:targets=acquiring,connection=lost",
    "pause:targets=releasing,connection=lost",
)
"""Pauses that wait until a client is at this step."""

DYING: Final = ("crash:targets=acquiring", "crash:targets=releasing")
"""What a client that dies at this step leaves half done."""

UNAIMED: Final = {
    **dict.fromkeys(AIMED, "pause:targets=clients"),
    **dict.fromkeys(DYING, "crash:targets=clients"),
    RECONNECTS: "pause:targets=clients,duration=0.3ttl",
}

LANES: Final[Mapping[str, Deck]] = {
    "cuts": Deck(
        (
            "partition:duration=1.2ttl",
            "partition:duration=1.2ttl,kind=refuse,shape=halves",
            "partition:duration=1.5ttl,kind=drop,direction=both,shape=halves",
            "partition:duration=1.2ttl,kind=drop,direction=both,shape=majority",
            "partition:duration=1.5ttl,kind=drop,direction=both,shape=own-minorities",
            "partition:duration=0.8ttl,kind=drop,direction=from-node,shape=one-client",
            "partition:duration=0.8ttl,kind=drop,direction=from-node,shape=some-links",
            "partition:duration=0.8ttl,kind=drop,direction=to-node",
            "partition:duration=0.5ttl,kind=hold,direction=from-node",
            "partition:duration=0.5ttl,kind=hold,direction=to-node",
            "partition:duration=1.2ttl,kind=hold,direction=to-node,shape=halves",
        ),
        STORM,
    ),
    "delays": Deck(
        (
            "latency:duration=1ttl,kind=delay",
            "latency:duration=4.5ttl,kind=delay,direction=from-node,delay=0.3ttl-0.9ttl,targets=all",
            "latency:duration=2.5ttl,kind=delay,direction=from-node,delay=0.1ttl-0.3ttl,targets=all",
            "latency:duration=2ttl,kind=delay,direction=from-node,delay=0.05ttl-1.2ttl,targets=one-client",
            "latency:duration=1.5ttl,kind=delay,direction=from-node,delay=0.05ttl-1.2ttl,targets=minority",
            "latency:duration=1.5ttl,kind=delay,direction=to-node,delay=0.1ttl-1.2ttl,targets=minority",
            "latency:duration=1.5ttl,kind=delay,direction=to-node,delay=0.3ttl-1.5ttl,targets=one-client",
            "latency:duration=1.5ttl,kind=delay,direction=both,delay=0.05ttl-0.4ttl,targets=all",
            "latency:duration=1.5ttl,kind=delay,delay=2ms-20ms,jitter=2ms-20ms,targets=all",
            "latency:duration=1ttl,kind=delay,delay=0.02ttl-0.1ttl,jitter=0.02ttl-0.1ttl,targets=all",
            "latency:duration=0.7ttl,kind=throttle",
        ),
        STORM,
    ),
    "processes": Deck(
        (
            "pause:targets=releasing",
            "crash:targets=clients",
            *(spec for spec in AIMED if spec != "pause:targets=releasing"),
            *DYING,
            "pause:targets=nodes,duration=1.2ttl",
            "crash:targets=one",
            "crash:targets=minority",
            "crash:targets=majority",
            "errors:duration=1.2ttl",
            "errors:duration=0.7ttl,targets=majority",
            "lost-reply:at=acquiring,nodes=all",
            "lost-reply:at=releasing,nodes=all",
            "lost-reply:at=extending,nodes=all",
        ),
        STORM,
        early=2,
    ),
    "flickers": Deck(
        (
            "partition:duration=0.15ttl,kind=drop,direction=both,shape=some-links",
            "partition:duration=0.15ttl,kind=drop,direction=to-node,shape=some-links",
            "partition:duration=0.15ttl,kind=drop,direction=from-node,shape=some-links",
            "partition:duration=0.15ttl,kind=hold,direction=to-node,shape=some-links",
            "partition:duration=0.15ttl,kind=hold,direction=from-node,shape=some-links",
            "partition:duration=0.1ttl,kind=refuse,shape=some-links",
            "partition:duration=0.15ttl,kind=drop,direction=to-node,shape=majority",
            "partition:duration=0.15ttl,kind=hold,direction=to-node,shape=majority",
            "partition:duration=0.15ttl,kind=hold,direction=from-node,shape=majority",
            "partition:duration=0.15ttl,kind=drop,shape=halves",
            "partition:duration=20ms,kind=refuse",
            "partition:duration=30ms,kind=drop",
        ),
        FLURRY,
        pace=5,
    ),
    "hiccups": Deck(
        (
            "latency:duration=0.4ttl,kind=delay,delay=0.01ttl-0.06ttl,jitter=0.01ttl-0.06ttl,targets=all",
            "latency:duration=0.3ttl,kind=delay,direction=from-node,delay=0.03ttl-0.15ttl,targets=majority",
            "latency:duration=0.3ttl,kind=delay,direction=to-node,delay=0.03ttl-0.15ttl,targets=majority",
            "latency:duration=0.4ttl,kind=delay,delay=0.05ttl-0.2ttl,targets=one-client",
            "errors:duration=0.2ttl,targets=minority",
            "errors:duration=0.2ttl,targets=majority",
            "pause:targets=clients,duration=0.2ttl",
            RECONNECTS,
            "pause:targets=nodes,duration=0.2ttl",
        ),
        FLURRY,
        pace=2,
    ),
    "still": Deck(
        (
            "crash:targets=clients,restart-delay=5ttl",
            "partition:duration=6ttl,kind=drop,direction=both,shape=one-node",
            "partition:duration=8ttl,kind=drop,direction=both,shape=minority",
            "partition:duration=6ttl,kind=drop,direction=from-node,shape=one-node",
            "latency:duration=6ttl,kind=delay,direction=to-node,delay=0.1ttl-1.2ttl,targets=minority",
            "latency:duration=6ttl,kind=delay,direction=from-node,delay=0.4ttl-0.9ttl,targets=all",
            "pause:targets=nodes,duration=6ttl",
            "pause:targets=clients,duration=6ttl",
            "crash:targets=one,restart-delay=5ttl",
            "crash:targets=one",
            "errors:duration=6ttl,targets=minority",
            "errors:duration=6ttl,targets=majority",
        ),
        STILL,
        early=1,
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
    return deck._replace(specs=tuple(UNAIMED.get(spec, spec) for spec in deck.specs))


MIX = _Standard()
