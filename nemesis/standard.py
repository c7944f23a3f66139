"""The standard faults: what every class of fault does to a lock, several of them in force at once.

Which moments break a lock is not known beforehand, so nothing is aimed at one; the classes are complete instead, and
every one of them comes early in a run. A fault that is rare in a plain `partition` or `latency`, because it needs one
kind, one direction and few links at once, has a row of its own here.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fencepost.units import Duration

LANES: Mapping[str, tuple[str, ...]] = {
    "cuts": (
        "partition:duration=1.5ttl",
        "partition:duration=1.5ttl,kind=refuse,shape=halves",
        "partition:duration=1ttl,kind=drop,direction=from-node,shape=one-client",
        "partition:duration=1ttl,kind=drop,direction=from-node,shape=some-links",
        "partition:duration=0.5ttl,kind=hold,direction=from-node",
        "partition:duration=0.5ttl,kind=hold,direction=to-node",
        "partition:duration=20ms,kind=refuse",
        "partition:duration=30ms,kind=drop",
        "partition:duration=6ttl,kind=drop,shape=one-node",
    ),
    "delays": (
        "latency:duration=2ttl,kind=delay",
        "latency:duration=2ttl,kind=delay,direction=from-node,delay=0.1ttl-0.9ttl,targets=all",
        "latency:duration=2ttl,kind=delay,direction=from-node,delay=0.05ttl-1.2ttl,targets=one-client",
        "latency:duration=2ttl,kind=delay,direction=to-node,delay=0.1ttl-1.2ttl,targets=minority",
        "latency:duration=2ttl,kind=delay,direction=both,delay=0.05ttl-0.4ttl,targets=all",
        "latency:duration=3ttl,kind=delay,delay=2ms-20ms,jitter=2ms-20ms,targets=all",
        "latency:duration=1ttl,kind=throttle",
    ),
    "processes": (
        "pause:targets=inside",
        "pause:targets=acquiring",
        "pause:targets=extending",
        "pause:targets=releasing",
        "pause:targets=nodes,duration=1.5ttl",
        "pause:targets=one-node,duration=6ttl",
        "crash:targets=one",
        "crash:targets=minority",
        "crash:targets=clients",
    ),
}


class StandardOptions(msgspec.Struct, frozen=True):
    """`interval`: the mean time between the begins of two faults of one lane. Long faults take longer than that."""

    interval: Duration = Duration(2, in_ttls=True)


class _Standard:
    name = "standard"
    help = (
        "every class of fault, several at once: lost, late and refused requests and replies, jitter, outages of some "
        "ms and of many TTLs, stopped and killed clients and nodes: interval=2ttl; --load drawn goes with it"
    )
    options = StandardOptions
    lanes = LANES


MIX = _Standard()
