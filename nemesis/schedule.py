"""A seeded plan of faults: data that is drawn before the run and can be saved, edited and replayed.

The file is JSON with one fault a line, so that a plan can be read, compared and edited by line:

    {"schema_version":1,"seed":7,"spec":"partition","topology":{…},"duration_ms":30000,"faults":[
    {"id":"f1","at_ms":412,"duration_ms":1730,"nemesis":"partition","fault":{…}},
    …
    ]}

Equal seeds, specs and topologies give equal bytes on every machine. Each nemesis draws from streams of its own, one a
fault, so adding a nemesis changes nothing in what the others do. The names that a fault hits (`Fault.targets`) are
checked against the run in which a saved plan is to be played.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, cast

import msgspec

from cluster.base import RESOURCE
from cluster.persistence import Policy
from cluster.server import Ability, Server, abilities
from fencepost.errors import UsageError
from fencepost.files import read_json
from fencepost.quorum import quorum
from fencepost.units import Duration, duration_text
from nemesis.base import Fault, Topology, Turn, needed_of
from nemesis.leader import Aimed
from nemesis.node_down import LONGEST_LEASE, NodeDown
from nemesis.partition_shapes import spare
from nemesis.random_draws import between, jittered, shuffled
from nemesis.registry import nemeses
from nemesis.spec import SHORTEST_INTERVAL_MS, Chosen, Lane, Spec, parse_spec

__all__ = [
    "Planned",
    "Schedule",
    "check_server",
    "check_spec",
    "decode_fault",
    "draw_schedule",
    "encode_fault",
    "for_cluster",
    "left_out",
    "load_schedule",
    "needs_clocks",
    "needs_disks",
    "parse_spec",
]

SCHEMA_VERSION = 1
_LONGEST_MS: Final = 2**40
"""No fault begins later or lasts longer: 34 years."""
SEVERAL_TTLS: Final = 3
_DRAWN: Final = 40
"""So many faults show what a nemesis may draw."""
_ONE_TTL: Final = Duration(1, in_ttls=True)
GAP_MS = 300
"""The least time from the end of a fault to the next one of the same nemesis: healing and its proof take a while."""


class Planned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault and when: `at_ms` since the start of the load, in force for `duration_ms`."""

    id: str
    at_ms: int
    duration_ms: int
    nemesis: str
    fault: dict[str, Any]

    @property
    def end_ms(self) -> int:
        return self.at_ms + self.duration_ms


class PlannedFor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The topology that a schedule was drawn over."""

    clients: tuple[str, ...]
    nodes: tuple[str, ...]
    ttl_ms: int


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The faults of a run in order of time, and what they were drawn from."""

    schema_version: int
    seed: int
    spec: str
    topology: PlannedFor
    duration_ms: int
    faults: tuple[Planned, ...] = ()

    def to_bytes(self) -> bytes:
        """The one way in which this schedule is written."""
        head = msgspec.json.encode(msgspec.structs.replace(self, faults=()))
        lines = b",\n".join(msgspec.json.encode(planned) for planned in self.faults)
        return head.removesuffix(b"]}") + b"\n" + lines + (b"\n" if lines else b"") + b"]}\n"


def draw_schedule(spec: Spec, seed: int, topology: Topology, duration_ms: float) -> Schedule:
    """Draw the faults of a load of `duration_ms`. Every one is healed before its end, less a margin. A fault that does
    not fit any more is left out, only the first one of a nemesis is shortened. Raises UsageError if an option cannot be
    met by this topology, or if the first fault takes nodes down for longer than the load has time: back sooner, they
    would forget leases that they were to outlast."""
    drawn = [fault for lane in spec.lanes for fault in _draw_lane(lane, seed, topology, int(duration_ms))]
    drawn.sort(key=lambda planned: (planned.at_ms, planned.nemesis))
    return Schedule(
        schema_version=SCHEMA_VERSION,
        seed=seed,
        spec=spec.text,
        topology=PlannedFor(topology.clients, topology.nodes, topology.ttl_ms),
        duration_ms=int(duration_ms),
        faults=tuple(msgspec.structs.replace(planned, id=f"f{i}") for i, planned in enumerate(drawn, 1)),
    )


def last_heal_ms(duration_ms: int) -> int:
    """When everything must be healed: a tenth of the load before its end, at most a second."""
    return duration_ms - min(1_000, duration_ms // 10)


class _Card(NamedTuple):
    """A fault without its time. `pause_ms`: the least time from the begin of the one before it to its own."""

    nemesis: str
    fault: Fault
    pause_ms: int
    lasts_ms: int


class _CardTime(NamedTuple):
    """When the card with this number in the hand would be played."""

    number: int
    at_ms: int
    lasts_ms: int


def _draw_lane(lane: Lane, seed: int, topology: Topology, duration_ms: int) -> Iterator[Planned]:
    """The faults of one lane; the begins are about an interval apart, and no two overlap. A card that does not fit into
    the rest of the turn lets others pass that do, so that a lane is not idle until its next turn."""
    latest_ms = last_heal_ms(duration_ms)
    at_ms = free_ms = 0
    for hand in _hands(lane, seed, topology, latest_ms):
        while hand:
            places = [_place(n, card, lane.turn, at_ms, free_ms, topology.ttl_ms) for n, card in enumerate(hand)]
            number, at_ms, lasts_ms = min(
                places, key=lambda place: lane.turn.number(place.at_ms, topology.ttl_ms) if lane.turn else 0
            )
            if at_ms + lasts_ms > latest_ms:
                return
            card = hand.pop(number)
            yield Planned("", at_ms, lasts_ms, card.nemesis, encode_fault(card.fault))
            free_ms = at_ms + lasts_ms + GAP_MS
            if lane.turn:
                free_ms = lane.turn.free_ms(at_ms, free_ms, topology.ttl_ms)


def _place(number: int, card: _Card, turn: Turn | None, at_ms: int, free_ms: int, ttl_ms: int) -> _CardTime:
    due_ms = max(at_ms + card.pause_ms, free_ms)
    return _CardTime(number, *(turn.fit(due_ms, card.lasts_ms, ttl_ms) if turn else (due_ms, card.lasts_ms)))


def _hands(lane: Lane, seed: int, topology: Topology, latest_ms: int) -> Iterator[list[_Card]]:
    """The whole deck in random order, again and again; the first time those that are early come first."""
    interval_ms = max(lane.interval.ms(topology.ttl_ms), SHORTEST_INTERVAL_MS)
    index = count()
    for round_number in count():
        hand = []
        order = shuffled(Random(f"{seed}:{lane.name}:deck {round_number}"), lane.deck)
        if round_number == 0:
            order.sort(key=lambda chosen: not chosen.is_early)
        for chosen in order:
            first = (number := next(index)) == 0
            rng = Random(f"{seed}:{lane.name}:{number}")
            pause_ms = round(between(rng, 0.2, 1.0) * min(1_000, interval_ms)) if first else jittered(rng, interval_ms)
            fault, lasts_ms = chosen.nemesis.draw(rng, topology, chosen.options)
            if first and lane.turn is None:  # it comes in any case
                if isinstance(fault, NodeDown) and fault.nodes and lasts_ms > latest_ms:
                    raise UsageError(
                        f"--nemesis {chosen.nemesis.name}: a node that stays down for {duration_text(lasts_ms)} is not "
                        f"back before {duration_text(latest_ms)}, when the load is healed; raise --duration, or lower "
                        "--ttl or the restart delay"
                    )
                lasts_ms = min(lasts_ms, latest_ms)
                pause_ms = min(pause_ms, latest_ms - lasts_ms)
            hand.append(_Card(chosen.nemesis.name, fault, pause_ms, lasts_ms))
        yield hand


def encode_fault(fault: Fault) -> dict[str, Any]:
    """Its data, as a schedule holds them."""
    return cast(dict[str, Any], msgspec.json.decode(msgspec.json.encode(fault)))


def decode_fault(planned: Planned) -> Fault:
    """The fault itself. Raises UsageError if its nemesis is not known or its data do not fit."""
    nemesis = nemeses().get(planned.nemesis)
    if nemesis is None:
        known = ", ".join(nemeses())
        raise UsageError(f"fault {planned.id} is of a nemesis {planned.nemesis!r} that is not known; known are {known}")
    try:
        return cast(Fault, msgspec.convert(planned.fault, nemesis.faults, strict=True))
    except msgspec.ValidationError as error:
        raise UsageError(f"fault {planned.id} is not a {planned.nemesis} fault: {error}") from None


def needs_disks(schedule: Schedule) -> bool:
    """Whether a fault in it cuts the power of nodes: then every node must have a disk of its own."""
    return any(decode_fault(planned).needs.disks for planned in schedule.faults)


def needs_clocks(schedule: Schedule) -> bool:
    """Whether a fault in it sets the clocks of nodes: then every node must have one of its own."""
    return any(decode_fault(planned).needs.clocks for planned in schedule.faults)


def for_cluster(spec: Spec, server: Server, topology: Topology) -> Spec:
    """The spec without those cards of its mixes that need something that the nodes' server cannot do, or more
    nodes. Where no node can be spared, a card that is to leave a majority for several TTLs and leaves none lasts
    for about one, and nothing comes after it in its turn: so there is time to see what it left behind. What the
    user named himself stays, for `draw_schedule` and `check_server` to refuse."""
    able, forgets = abilities(server), server.group is not None and server.group.forgets

    def is_possible(chosen: Chosen) -> bool:
        try:
            drawn = _drawn(chosen, topology)
        except UsageError:  # a shape that so few nodes cannot have
            return False
        return frozenset[Ability]().union(*map(needed_of, drawn)) <= able and not (
            forgets and any(_killed(fault, topology) >= topology.majority for fault in drawn)
        )

    lanes = [_fitted(lane, is_possible, topology) if len(lane.deck) > 1 else lane for lane in spec.lanes]
    return replace(spec, lanes=tuple(lane for lane in lanes if lane.deck))


def _needed_by(chosen: Chosen, topology: Topology) -> frozenset[Ability]:
    """What its faults may need of the nodes' server, seen by drawing some."""
    return frozenset[Ability]().union(*map(needed_of, _drawn(chosen, topology)))


def _drawn(chosen: Chosen, topology: Topology) -> list[Fault]:
    return [chosen.nemesis.draw(Random(number), topology, chosen.options)[0] for number in range(_DRAWN)]


def _killed(fault: Fault, topology: Topology | PlannedFor) -> int:
    """How many nodes it takes down."""
    if isinstance(fault, NodeDown):
        return len(fault.nodes)
    if isinstance(fault, Aimed) and fault.how == "kill":
        return quorum(len(topology.nodes)) if fault.aim == "majority" else 1
    return 0


def _fitted(lane: Lane, is_possible: Callable[[Chosen], bool], topology: Topology) -> Lane:
    deck = tuple(filter(is_possible, lane.deck))
    short = deck if spare(topology) else tuple(_shortened(chosen, topology) for chosen in deck)
    turn = lane.turn._replace(alone=True) if lane.turn and short != deck else lane.turn
    return replace(lane, deck=short, turn=turn)


def _shortened(chosen: Chosen, topology: Topology) -> Chosen:
    options = msgspec.structs.asdict(chosen.options)
    name, short = ("duration", _ONE_TTL) if "duration" in options else ("restart_delay", LONGEST_LEASE)
    lasts = options.get(name)
    if not isinstance(lasts, Duration) or lasts.ms(topology.ttl_ms) < SEVERAL_TTLS * topology.ttl_ms:
        return chosen
    more = replace(topology, nodes=("n1", "n2", "n3"))
    fault, elsewhere = (chosen.nemesis.draw(Random(0), of, chosen.options)[0] for of in (topology, more))
    if _leaves_majority(fault, topology) or not _leaves_majority(elsewhere, more):
        return chosen
    return replace(chosen, options=msgspec.structs.replace(chosen.options, **{name: short}))


def _leaves_majority(fault: Fault, topology: Topology) -> bool:
    """Whether some client is left with a majority of the nodes, as long as the fault is in force."""
    hit = fault.targets
    lost = {(client, node) for client in topology.clients for node in hit.nodes} | set(hit.links)
    return any(sum((c, n) not in lost for n in topology.nodes) >= topology.majority for c in topology.clients)


def left_out(spec: Spec, server: Server, topology: Topology) -> tuple[str, ...]:
    """The names of the nemeses that `for_cluster` leaves out; where nodes are not the run's own, also of those that it
    leaves out in part."""
    played = Counter(chosen.nemesis.name for chosen in for_cluster(spec, server, topology).chosen)
    wanted = Counter(chosen.nemesis.name for chosen in spec.chosen)
    is_own = "nodes of the run's own" in abilities(server)
    return tuple(sorted(name for name, times in wanted.items() if played[name] < (1 if is_own else times)))


def check_server(schedule: Schedule, server: Server, policy: Policy) -> None:
    """Raise UsageError if a fault needs something that the nodes' server cannot do, or does not under this policy."""
    able = abilities(server)
    for planned in schedule.faults:
        needs = decode_fault(planned).needs
        if policy == "none" and needs.persistence:
            raise UsageError(
                f"the nemesis {planned.nemesis} damages what nodes keep: with --persistence none that is nothing; "
                "choose another policy, like aof-always"
            )
        if missing := needed_of(decode_fault(planned)) - able:
            _check_ours(planned.nemesis, missing)
            needs_what = " and ".join(sorted(missing))
            raise UsageError(
                f"the nemesis {planned.nemesis} needs {needs_what}, which the server {server.name} does not have; "
                "choose another --nemesis or another --server"
            )
        killed = _killed(decode_fault(planned), schedule.topology)
        if server.group is not None and server.group.forgets and killed >= quorum(len(schedule.topology.nodes)):
            raise UsageError(
                f"the nemesis {planned.nemesis} kills a majority of the members at once, and a killed member of "
                f"{server.name} keeps nothing: the group would be lost for good; kill one at a time, like "
                "crash:targets=one,interval=15s or leader:how=kill,interval=15s"
            )


def check_spec(spec: Spec, server: Server, topology: Topology) -> None:
    """Raise UsageError if a nemesis that the user named may draw faults of nodes that are not the run's own."""
    for chosen in (lane.deck[0] for lane in spec.lanes if len(lane.deck) == 1):
        _check_ours(chosen.nemesis.name, _needed_by(chosen, topology) - abilities(server))


def _check_ours(nemesis: str, missing: Collection[Ability]) -> None:
    if "nodes of the run's own" in missing:
        raise UsageError(
            f"the nemesis {nemesis} may act on nodes themselves, and those of --nodes-at are yours: choose faults of "
            "links and clients, like partition, latency, slice or pause:targets=clients"
        )


def load_schedule(path: Path, topology: Topology) -> Schedule:
    """Read a saved schedule, faults in order of time. Raises UsageError if it cannot be read, is something else, is of
    another version, or names clients or nodes that the topology does not have."""
    try:
        data: Any = read_json(path, object, "JSON")
    except UsageError as error:
        raise UsageError(f"schedule {error}; give the path of a schedule.json") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if not isinstance(version, int) or "faults" not in data:
        raise UsageError(f"schedule {path} is JSON, but not a schedule; give the schedule.json of a run")
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"schedule {path} has schema version {version}, this fencepost reads {SCHEMA_VERSION}; "
            "use the version that wrote it"
        )
    try:
        schedule = msgspec.convert(data, Schedule, strict=True)
        _check(schedule, topology)
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(f"schedule {path}: {error}; mend it or draw a new one") from None
    faults = tuple(sorted(schedule.faults, key=lambda planned: planned.at_ms))
    return msgspec.structs.replace(schedule, faults=faults)


def _check(schedule: Schedule, topology: Topology) -> None:
    seen: set[str] = set()
    for planned in schedule.faults:
        if planned.id in seen:
            raise UsageError(f"two faults are called {planned.id!r}")
        seen.add(planned.id)
        if not (0 <= planned.at_ms <= _LONGEST_MS and 0 <= planned.duration_ms <= _LONGEST_MS):
            raise UsageError(f"fault {planned.id} begins or lasts less than 0 ms, or more than {_LONGEST_MS} ms")
        hit = decode_fault(planned).targets
        clients = {*hit.clients, *(client for client, _ in hit.links)}
        nodes = {*hit.nodes, *(node for _, node in hit.links if node != RESOURCE)}
        for what, names, there in (("clients", clients, topology.clients), ("nodes", nodes, topology.nodes)):
            if foreign := sorted(names - set(there)):
                raise UsageError(
                    f"fault {planned.id} names {', '.join(foreign)}, but the {what} of this run are "
                    f"{there[0]} to {there[-1]}"
                )
