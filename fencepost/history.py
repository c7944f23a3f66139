"""The history: what every client did and when, the observed faults, and the writes that the resource accepted.

Format. `clients/<client>.<life>.jsonl` holds one line with a JSON object per operation. The client writes each line
itself, in one `write(2)`, before its next step starts. A SIGKILL loses at most the operation in progress (and leaves at
worst a partial line at the end, which readers drop). Times are CLOCK_MONOTONIC in nanoseconds, comparable between
processes of one host. `nemesis.jsonl` holds `FaultEvent`s, and `resource.jsonl` the accepted `Write`s in the order in
which the resource accepted them. `nodes.jsonl` holds the `KeyEvent`s that the witness saw on the nodes.
`gaps/<client>.<life>.jsonl` holds a `Gap` for each time that a client did not run, whatever stopped it.

    {"f":"acquire","outcome":"ok","key":"k1","section":7,"invoke_ns":…,"complete_ns":…,"validity_ms":978.2,…}

A client process may have several *tasks* that share one lock object. Each is an owner of its own: it has its own logs
and is called `c1@1`, `c1@2`, …, while faults and links name the process, `c1`. A task that holds two keys at once is
two of them, one after the other.

A client numbers its *sections* from 1. Every operation from the first acquire attempt to the release carries the
number. Failed attempts carry the number of the section that they were for, so the waiting time is from the first invoke
to the grant.

This module only defines the vocabulary. It imports no other folder, and `workloads` may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Final, Literal, NamedTuple, Self, get_args, get_origin

import msgspec

OpName = str
"""The steps of the lock (`LOCK_STEPS`), which every workload has, and those of the workload itself (`token`, `read`,
`write`, …)."""
LOCK_STEPS: Final = ("acquire", "extend", "release", "held", "reenter", "leave")
LATEST_NS: Final = 2**62
"""What a lock may tell at most, of a time or a duration: the sum of two still fits into 64 bits."""
Outcome = Literal["ok", "fail", "info"]
"""`ok`: it happened. `fail`: it did not happen. `info`: unknown."""
TokenSource = Literal["lock", "resource"]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63) + 1, le=2**63 - 1)]
"""A token: numbers that are only compared. Any other number is refused like any other damage. (The smallest 64-bit
number stands for one that is missing.)"""
Moment = Annotated[int, msgspec.Meta(ge=-(2**60), le=2**60)]
"""Nanoseconds of CLOCK_MONOTONIC, or a duration: 36 years at most, so that sums of several fit into 64 bits."""
ToldMoment = Annotated[int, msgspec.Meta(ge=-LATEST_NS, le=LATEST_NS)]
"""The same, as a lock told it."""
Millis = Annotated[float, msgspec.Meta(ge=-(LATEST_NS // 10**6), le=LATEST_NS // 10**6)]
Number = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
"""Of a section, a life, a write, a process."""
Value = Annotated[int, msgspec.Meta(ge=-(2**60), le=2**60)]
"""What the workload reads and writes; clients may add one to it."""


class Op(msgspec.Struct, omit_defaults=True, gc=False):
    """One operation of one client.

    `value`: the value that was read or written. `token`: the fencing token that was drawn, granted or carried.
    `validity_ms` … `requested_ns`: the lease, as `workloads.base.Lease` defines it (on a granted acquire or
    extend). `granted_ms`: the lease time that was granted, if the lock said that it differs from the one asked for, or
    if the lock told no validity. A lease with neither `validity_ms` nor `granted_ms` is open-ended: no time was
    promised, and it lasts until it is released or the session that holds it ends. `stale`: a read or write that the
    resource refused because it came too late. `error`: why not `ok`, in words: an exception, or what the lock said when
    it refused. `shared`: the acquire asked for the lock as a reader, which may be inside together with other readers.
    `cancelled`: the user cancelled the call while it was under way, so its outcome is not known: `info`.
    """

    f: OpName
    outcome: Outcome
    key: str
    section: Number
    invoke_ns: Moment
    complete_ns: Moment
    value: Value | None = None
    token: Int64 | None = None
    token_source: TokenSource | None = None
    validity_ms: Millis | None = None
    deadline_ns: ToldMoment | None = None
    computed_after_ns: ToldMoment | None = None
    computed_before_ns: ToldMoment | None = None
    requested_ns: ToldMoment | None = None
    stale: bool = False
    error: str | None = None
    granted_ms: Millis | None = None
    shared: bool = False
    cancelled: bool = False


def task_names(client: str, tasks: int) -> tuple[str, ...]:
    """What the tasks of a client process are called: by the client's own name if there is one."""
    return (client,) if tasks == 1 else tuple(f"{client}@{number}" for number in range(1, tasks + 1))


def process_of(client: str) -> str:
    """The client process of a task: faults, links and requests are a process's."""
    return client.partition("@")[0]


def lock_key(name: str) -> str:
    """The lock's key to which a key on the nodes belongs. A recipe that needs several keys for `k1` calls them `k1#1`,
    `k1#2`, …"""
    return name.partition("#")[0]


class Write(msgspec.Struct, omit_defaults=True, gc=False):
    """One write that the resource accepted (`index`: from 1 per key, in the resource's order). `read`: the value that
    its client had read before; `replaced`: the value that the resource had; None where the workload does not record
    them."""

    key: str
    index: Number
    client: str
    section: Number
    value: Value
    token: Int64 | None = None
    read: Value | None = None
    replaced: Value | None = None


HowDown = Literal["shutdown", "kill", "power cut", "damage"]
"""How a node goes down, which decides what it loses: nothing, its memory, its memory and what was not fsynced, or its
memory and a part of what it kept."""


NodeState = Literal["down", "hung", "answering errors"]


@dataclass(frozen=True, slots=True)
class Effect:
    """What was done to the parts that a field of `Impact` names. What tells effects apart asks this declaration, so an
    effect is added by declaring its field.

    `of`: what the parts are; links are pairs (client, node), members pairs of nodes: who sends, and who does not hear
    it. `title`: what they are called in a list. `state`: how each of them was, after `was`; empty: what
    `Impact.node_state` says. `organ`: what of the part was so, if not all of it.
    `halts`: the parts did nothing at all while it lasted. `look`: how the page draws it, as an entry of `LOOKS` in
    `harness/report/timeline.js`.
    """

    of: Literal["client", "node", "link", "members"]
    title: str
    state: str
    look: str
    organ: str = ""
    halts: bool = False


Names = tuple[str, ...]
Links = tuple[tuple[str, str], ...]


class Hit(NamedTuple):
    """What one effect of a fault hit: the names of clients or nodes, or links, or pairs of members. `state`: how they
    were, after `was`."""

    effect: Effect
    state: str
    names: Names = ()
    links: Links = ()
    members: Links = ()


class Impact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a fault actually hit, by name: links that were cut or slowed, as (client, node); members of a group that
    were cut from each other, as (who sends, who does not hear it); nodes that were paused or
    taken down; clients that were paused or killed. Checkers and plots read only this, so they do not have to know the
    fault.

    If nodes went down: `how_down` says how (`unasked`: no verb took them down), and `keys_at_stake` are the keys that
    lost their quorum. A majority of the nodes held them just before, and without these nodes no majority does. None:
    the server cannot list its keys, or the harness did not know beforehand.

    `answers_errors`: the nodes were neither paused nor taken down, but answered writes with errors.

    `wrong_clocks`: nodes whose wall clock was set wrong: off by `clock_off_ms` at most at once, and by
    `clock_rate_percent` of the time since then, to either side. `wrong_client_clocks`: clients whose clock was.
    """

    cut_links: Annotated[Links, Effect("link", "cut links", "cut", "cut")] = ()
    slow_links: Annotated[Links, Effect("link", "slow links", "slow", "slow")] = ()
    nodes: Annotated[Names, Effect("node", "nodes", "", "down", halts=True)] = ()
    paused_clients: Annotated[Names, Effect("client", "paused clients", "stopped", "stopped", halts=True)] = ()
    killed_clients: Annotated[Names, Effect("client", "killed clients", "killed", "killed", halts=True)] = ()
    keys_at_stake: tuple[str, ...] | None = None
    how_down: HowDown | Literal["unasked"] | None = None
    answers_errors: bool = False
    wrong_clocks: Annotated[Names, Effect("node", "wrong clocks", "wrong", "clock", organ="clock")] = ()
    wrong_client_clocks: Annotated[Names, Effect("client", "wrong clocks", "wrong", "clock", organ="clock")] = ()
    cut_members: Annotated[Links, Effect("members", "members cut from each other", "cut off", "cut")] = ()
    clock_off_ms: Millis = 0.0
    clock_rate_percent: Millis = 0.0

    def hits(self) -> Iterator[Hit]:
        """What it did to which parts."""
        for field, effect in effects_of(type(self)).items():
            if parts := getattr(self, field):
                field_of_hit = {"link": "links", "members": "members"}.get(effect.of, "names")
                yield Hit(effect, self._state(effect))._replace(**{field_of_hit: parts})

    @property
    def links(self) -> Links:
        """Over which something was late or did not come."""
        return tuple(link for hit in self.hits() for link in hit.links)

    @property
    def apart(self) -> Links:
        """Members that were cut from each other: who sends, and who does not hear it."""
        return tuple(pair for hit in self.hits() for pair in hit.members)

    @property
    def hit_nodes(self) -> Names:
        return self._named("node")

    @property
    def hit_clients(self) -> frozenset[str]:
        """The clients whose links, processes or clocks it changed."""
        return frozenset((*(client for client, _ in self.links), *self._named("client")))

    @property
    def halted_clients(self) -> Names:
        """The clients that it stopped: they did nothing at all."""
        return self._named("client", halts=True)

    def on_users(self, users: Callable[[str], Names]) -> Self:
        """The same with these in the place of each client process."""
        changed: dict[str, object] = {}
        for field, effect in effects_of(type(self)).items():
            parts = getattr(self, field)
            if effect.of == "link":
                changed[field] = tuple((user, node) for client, node in parts for user in users(client))
            elif effect.of == "client":
                changed[field] = tuple(user for client in parts for user in users(client))
        return msgspec.structs.replace(self, **changed)

    def undone(self, names: Collection[str]) -> tuple[Self, Self]:
        """Of a fault that another program ended early for the nodes and stopped clients of these names: what it did to
        them, and the rest."""
        ended: dict[str, object] = dict.fromkeys(effects_of(type(self)), ())
        rest: dict[str, object] = {}
        for field in ("nodes", "paused_clients"):
            parts = getattr(self, field)
            ended[field] = tuple(name for name in parts if name in names)
            rest[field] = tuple(name for name in parts if name not in names)
        return msgspec.structs.replace(self, **ended), msgspec.structs.replace(self, **rest)

    def clock_off_after_ns(self, span_ns: int) -> float:
        """How far the clocks may be off at most, so long after they were set wrong."""
        return self.clock_off_ms * 1e6 + self.clock_rate_percent / 100 * span_ns

    @property
    def node_state(self) -> NodeState:
        """What kept `nodes` from serving."""
        return "down" if self.took_nodes_down else "answering errors" if self.answers_errors else "hung"

    @property
    def took_nodes_down(self) -> bool:
        return self.how_down is not None

    def _named(self, of: str, *, halts: bool = False) -> Names:
        hits = (hit for hit in self.hits() if hit.effect.of == of and (hit.effect.halts or not halts))
        return tuple(name for hit in hits for name in hit.names)

    def _state(self, effect: Effect) -> str:
        return effect.state or self.node_state


@cache
def effects_of(kind: type[Impact]) -> Mapping[str, Effect]:
    """The effects that a kind of impact tells, by the field that names their parts."""
    return {
        field.name: note
        for field in msgspec.structs.fields(kind)
        if get_origin(field.type) is Annotated
        for note in get_args(field.type)
        if isinstance(note, Effect)
    }


STARVATION: Final = "CPU starvation"
"""The `fault_class` of what did not run because it was not given a processor."""


class FaultEvent(Impact, frozen=True):
    """One line of `nemesis.jsonl`: what was observed of a fault, and what it hit. Each fault has a line for its
    injection and a line for its healing.

    `began_ns` … `done_ns`: the call that did it. The fault was certainly active from the `done_ns` of `injected` to the
    `began_ns` of `healed`. `what`: the fault in one line for people. `holds`: the probe's result (active after
    `injected`; gone after `healed`). `seen`: what the probe saw, in one line for people. `fault_class`: what it is to a
    lock (`nemesis.base.FaultClass`), or the name of a nemesis that does not say.

    `unplanned`: the nemesis did not do it; it was noticed (`harness.run.watch`). An unplanned fault is a fault like any
    other: it began between `began_ns` and `done_ns` of its `injected`, and ended between those of its `healed`; it has
    none if it did not end. An unplanned `undone` says that a planned fault was ended early from outside, for the names
    that it hits: from its `done_ns` on, they no longer were as the fault had left them.

    If the fault hit the leader of a group, `led_by`: `elected` is the member that led instead, `elected_after_ms` after
    the fault was in force; missing if none did while that was awaited.
    """

    event: Literal["injected", "healed", "undone"]
    fault: str
    nemesis: str
    what: str
    began_ns: Moment
    done_ns: Moment
    holds: bool
    seen: str
    fault_class: str = ""
    unplanned: bool = False
    led_by: str | None = None
    elected: str | None = None
    elected_after_ms: Millis | None = None

    def _state(self, effect: Effect) -> str:
        state = super()._state(effect)
        return "not scheduled" if state == "stopped" and self.fault_class == STARVATION else state


KeyEventName = Literal["set", "prolonged", "changed", "deleted", "expired", "evicted", "seen", "watching", "blind"]


FIELDS_APART: Final = ", "
"""Between the fields of a hash, in the value of a key event."""


class KeyEvent(msgspec.Struct, omit_defaults=True, gc=False):
    """Something that happened to a key on one node, as the node notified the witness (`harness.run.witness`).

    `at_ns`: when the witness received it. That is an upper bound: *after* it happened, usually by a few milliseconds,
    by more on a busy machine. `since_ns`: it happened no earlier than this (the witness had asked the node something
    then, and the node answered that before it sent this event). A node's events are in the node's own order, and none
    is missing between a `watching` and the next `blind`.

    `set`: a SET took effect, on a free key or over another value. `prolonged`: the key's TTL was extended. `changed`:
    what the key holds changed in another way, as that of a list does. `deleted`, `expired`, `evicted`: the key is gone.
    A key may outlive its TTL by a tenth of a second before the node sends `expired`.
    `seen`: the key existed when the witness started (or resumed) watching. `watching`: from now on everything that the
    node holds is known; `value` is the server's run id, a new one after every start. `blind`: from `at_ns` on nothing
    is known, because the node went down, stopped replying, or the witness ended; all earlier knowledge is dropped.

    `value`: the key's value as text (`fencepost.text.text_of`), or the fields of a hash (`is_hash`); None if it was
    gone or overwritten before it could be read, or is of another type. A lock that keeps a hash names its owner in a
    field and counts in that field's value: when the count changes, the owner stays the same (`prolonged`). `ttl_ms`:
    the remaining TTL, so the key does not expire before `at_ns` + `ttl_ms` by the node's clock (None: unknown, or it
    never expires); `read_ns`: when that was known. So it expires by `read_ns` + `ttl_ms` and a millisecond, unless its
    TTL is set anew. `key` is empty for `watching` and `blind`; in another database than 0 it is `k1 (database 3)`.

    `port`, `digest`, `command`, `place`: of the request that did it, as the node tells (`cluster.key_causes.Cause`);
    None if it was no request. `arguments`: of `command`, if a script called it; None if they are too many or too long.
    """

    node: str
    at_ns: Moment
    event: KeyEventName
    key: str = ""
    value: str | None = None
    ttl_ms: Int64 | None = None
    since_ns: Moment | None = None
    is_hash: bool = False
    read_ns: Moment | None = None
    port: Int64 | None = None
    digest: Int64 | None = None
    command: str | None = None
    place: Int64 | None = None
    arguments: list[str] | None = None


class Denied(msgspec.Struct):
    """How many requests a node had turned away by the end of the run, since it was started last: without a login
    (`NOAUTH`), with a wrong one (`WRONGPASS`), or for want of a right (`NOPERM`).

    Stored in `denied.jsonl`, if there was one."""

    node: str
    error: str
    times: Int64


class Gap(msgspec.Struct, omit_defaults=True, gc=False):
    """A time in which a client did not run, as its heartbeat noticed it (`workloads.heartbeat`). It ran at `from_ns`
    and at `to_ns`. `waited_ns`: for how much of it the client's threads waited for a processor, added up; all of it for
    a time in which it was kept waiting again and again. `longest_wait_ns`: the one of them that waited longest; None if
    only the sum is known. `pid`: the process of its lock, if it was that process that stood still. `is_stop`: the
    kernel said that it was stopped, or continued, in this time.

    Stored in `gaps/<client>.<life>.jsonl`; `client` is the process, whatever its tasks. `gaps/proxy.1.jsonl`: when the
    `PROXY` was kept waiting."""

    from_ns: Moment
    to_ns: Moment
    waited_ns: Moment = 0
    pid: Number | None = None
    is_stop: bool = False
    longest_wait_ns: Moment | None = None


HARNESS: Final = "harness"
"""What the process that makes the run is called among those whose beats are on record."""
PROXY: Final = "proxy"
"""What Toxiproxy is called among the parts of a cluster, and where it was kept waiting."""


BeatUs = Annotated[int, msgspec.Meta(ge=0, le=10**12)]
"""Eleven days at most."""


class Beats(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """About a second of a process's heartbeat: how long after the beat before each beat came, from `from_ns` on. Each
    was due `every_us` after the one before. `waited_ns`: for how much of this time its threads waited for a processor,
    added up; `longest_wait_ns`: the one of them that waited longest, None in older records. A wait counts when it is
    over, so both may be longer than this time. `stolen_ns`: for how much of it, on the average of all processors, the
    machine below this one gave them to others.

    Stored in `beats/<client>.<life>.jsonl`, and in `beats/harness.1.jsonl` of the `HARNESS`."""

    from_ns: Moment
    after_us: Annotated[tuple[BeatUs, ...], msgspec.Meta(max_length=1_000)]
    waited_ns: Moment = 0
    stolen_ns: Moment = 0
    every_us: BeatUs = 50_000
    longest_wait_ns: Moment | None = None


class Sender(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What leaves the connection from this `port`, behind its first `after_bytes`, is of this `task`, until the next
    line of the port; None: of none, or that is not known. It left after `at_ns`.

    Stored in `wire/<client>.<life>.jsonl` while a run with several tasks in a client is on."""

    at_ns: Moment
    port: Number
    after_bytes: Number
    task: str | None = None


class ClientEnd(msgspec.Struct, omit_defaults=True):
    """How one life of one client ended (`client-ends.jsonl`).

    `how`: `finished` (on its own), `killed` (by the nemesis), `cut-off` (by the harness, because it did not end in
    time), `died`. `at_ns`: the last time at which it can have done anything. `under_way`: what it was doing, and
    `since_ns`: since when.
    `ops`: it had recorded so many operations, and perhaps some more.
    """

    client: str
    life: Number
    how: Literal["finished", "killed", "cut-off", "died"]
    at_ns: Moment
    under_way: str | None = None
    error: str | None = None
    ops: Number = 0
    since_ns: Moment | None = None


class Timeline(msgspec.Struct):
    """The phases of a run (`timeline.json`), on CLOCK_MONOTONIC: load and faults start, every fault is healed, clients
    are asked to end, the last client has ended. None: not reached (interrupted or crashed). `unhealed`: why not every
    fault was healed in time."""

    start_ns: Moment
    healed_ns: Moment | None = None
    stop_ns: Moment | None = None
    end_ns: Moment | None = None
    interrupted: bool = False
    unhealed: str | None = None
