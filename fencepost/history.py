"""The history: what every client did and when, the faults that were seen, and what the resource accepted.

Format. `clients/<client>.<life>.jsonl` holds one JSON object a line, one line an operation, written by the client
itself in one `write(2)` before its next step begins; a SIGKILL at any moment costs at most the operation under way
(and at worst leaves half a line at the end, which readers drop). Times are CLOCK_MONOTONIC in nanoseconds, comparable
between processes of one host. `nemesis.jsonl` holds `FaultEvent`s, `resource.jsonl` the accepted `Write`s in the
order in which the resource accepted them. `nodes.jsonl` holds the `KeyEvent`s that the witness saw on the nodes.
`answers/<client>.<life>.jsonl` holds what the nodes told a client whose lock shows it: a `Round` a line, those of an
operation in one `write(2)` right before the operation's own line. No verdict uses them; they explain.

    {"f":"acquire","outcome":"ok","key":"k1","section":7,"invoke_ns":…,"complete_ns":…,"validity_ms":978.2,…}

A *section* is numbered by its client from 1; every operation from the first try to acquire to the release carries the
number. Failed tries carry the number of the section they were trying for, so waiting time is: first invoke to grant.

This module is vocabulary only. It imports none of the other folders, and `workloads` may import it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

OpName = Literal["acquire", "extend", "token", "read", "write", "release"]
Outcome = Literal["ok", "fail", "info"]
"""`ok`: it happened. `fail`: it did not happen. `info`: nobody can know."""
TokenSource = Literal["lock", "resource"]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What fits a column of a table; a larger number is refused like any other damage."""
RoundName = Literal["acquire", "undo", "extend", "release"]
"""As an operation's; `undo` is the release after a try that was refused."""


class Op(msgspec.Struct, omit_defaults=True, gc=False):
    """One operation of one client.

    `value`: the counter read or written. `token`: the fencing token drawn, granted or shown.
    `validity_ms` … `requested_ns`: the lease, as `workloads.base.Lease` defines it (on a granted acquire or extend).
    `stale`: a read or write that the resource refused because it had seen a larger token. `error`: why not `ok`.
    """

    f: OpName
    outcome: Outcome
    key: str
    section: Int64
    invoke_ns: Int64
    complete_ns: Int64
    value: Int64 | None = None
    token: Int64 | None = None
    token_source: TokenSource | None = None
    validity_ms: float | None = None
    deadline_ns: Int64 | None = None
    computed_after_ns: Int64 | None = None
    computed_before_ns: Int64 | None = None
    requested_ns: Int64 | None = None
    stale: bool = False
    error: str | None = None


class NodeReply(msgspec.Struct, array_like=True, gc=False):
    """What one node answered. Nodes are `n1` … in the order of the addresses that the lock was opened with.

    `said`: the reply in Redis's words: `OK`, `nil` (refused), `1` (done), `0` (not its owner's), an error's text;
    `silent`: no answer came in time. `at_ns`: when the answer was read, so it was given before; None without one.
    """

    node: str
    said: str
    at_ns: int | None = None


class Round(msgspec.Struct, omit_defaults=True, gc=False):
    """One time that a lock asked nodes for something. `asked_ns`: before the first request. `done_ns`: when the answers
    had come, or were no longer waited for. `value`: what was, or was to be, the key's value.

    A lock leaves `section` to whoever records the round.
    """

    f: RoundName
    key: str
    value: str
    asked_ns: int
    done_ns: int
    replies: tuple[NodeReply, ...] = ()
    section: int = 0


class Write(msgspec.Struct, omit_defaults=True, gc=False):
    """One write as the resource accepted it, in its order (`index` from 1, per key)."""

    key: str
    index: Int64
    client: str
    section: Int64
    value: Int64
    token: Int64 | None = None


HowDown = Literal["shutdown", "kill", "power cut"]
"""How a node goes down, which decides what it loses: nothing, its memory, or its memory and what was not fsynced."""


class Impact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a fault really hit, by name: links that were cut or slowed, as (client, node); nodes that were paused or
    taken down; clients that were paused or killed. Checkers and plots read this and need not know the fault.

    Where nodes went down: `how_down` says how, and `keys_at_stake` are the keys that lost their quorum by it, because
    just before a majority of the nodes held them, and without these nodes no majority does.
    """

    cut_links: tuple[tuple[str, str], ...] = ()
    slow_links: tuple[tuple[str, str], ...] = ()
    nodes: tuple[str, ...] = ()
    paused_clients: tuple[str, ...] = ()
    killed_clients: tuple[str, ...] = ()
    keys_at_stake: tuple[str, ...] | None = None
    how_down: HowDown | None = None


class FaultEvent(Impact, frozen=True):
    """One line of `nemesis.jsonl`: what was seen of a planned fault, and what it hit. Each fault has a line for its
    injection and a line for its healing.

    `began_ns` … `done_ns`: the call that did it. The fault was certainly in force from the `done_ns` of `injected` to
    the `began_ns` of `healed`. `what`: the fault in one line for people. `holds`: the probe's answer (in force after
    `injected`; gone after `healed`). `seen`: what the probe saw, in one line for people.

    Records made before `how_down` existed lack it; there the name of the nemesis says the same
    (`harness.explain.phrases.how_down`).
    """

    event: Literal["injected", "healed"]
    fault: str
    nemesis: str
    what: str
    began_ns: int
    done_ns: int
    holds: bool
    seen: str


KeyEventName = Literal["set", "prolonged", "deleted", "expired", "seen", "watching", "blind"]


class KeyEvent(msgspec.Struct, omit_defaults=True, gc=False):
    """Something that happened to a key on one node, as the witness (`harness.run.witness`) was told by the node itself.

    `at_ns`: when the witness received it, which is *after* it happened, mostly by a few milliseconds and by more on a
    busy machine: an upper bound. `since_ns`: it happened no earlier than this (the witness had asked the node something
    then, and the node answered that before it told this). A node's events are in the node's own order, and none is
    missing between a `watching` and the next `blind`.

    `set`: a SET took effect, on a free key or over another value. `prolonged`: its time to live was set anew.
    `deleted`, `expired`: it is gone. A key may be past its time for a tenth of a second before the node says `expired`.
    `seen`: it was found there when the witness began (again) to watch. `watching`: from now on everything that the node
    holds is known; `value` is the server's run id, another one after every start. `blind`: since `at_ns` nothing can
    be vouched for, because the node went down, fell silent, or the witness ended; whatever was known is forgotten.

    `value`: what the key holds; None if it was gone or overwritten before it could be read, or is no string. `ttl_ms`:
    its time to live, so that the key does not expire before `at_ns` + `ttl_ms` by the node's clock (None: unknown, or
    it never expires). `key` is empty for `watching` and `blind`.
    """

    node: str
    at_ns: int
    event: KeyEventName
    key: str = ""
    value: str | None = None
    ttl_ms: int | None = None
    since_ns: int | None = None


class Held(msgspec.Struct, omit_defaults=True, gc=False):
    """What the lock wrote on the nodes for a granted section: its `value`, as the lock shows it.

    In `held/<client>.<life>.jsonl`. It tells whose a node's key is. A log of its own: judging overlaps does not need
    it, and those logs are long.
    """

    section: int
    key: str
    value: str


class ClientEnd(msgspec.Struct, omit_defaults=True):
    """How one life of one client ended (`client-ends.jsonl`).

    `how`: `finished` (by itself), `killed` (by the nemesis), `cut-off` (by the harness, because it did not come back in
    time), `died`. `at_ns`: the last moment at which it can have done anything. `under_way`: the operation it was in.
    """

    client: str
    life: int
    how: Literal["finished", "killed", "cut-off", "died"]
    at_ns: int
    under_way: str | None = None
    error: str | None = None


class Timeline(msgspec.Struct):
    """The agreed moments of a run (`timeline.json`), on CLOCK_MONOTONIC: load and faults begin, every fault is healed,
    clients were asked to end, the last one had ended. None: not reached (interrupted or crashed)."""

    start_ns: int
    healed_ns: int | None = None
    stop_ns: int | None = None
    end_ns: int | None = None
    interrupted: bool = False
