"""Tiny literal histories. Times are milliseconds since the start; `ms` turns them into the recorded nanoseconds."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import pyarrow as pa

from cluster.key_causes import digest_of
from cluster.redis_keys import keys_of
from fencepost.history import FIELDS_APART, ClientEnd, FaultEvent, KeyEvent, Op, Timeline, Write, process_of
from harness.config import RunConfig
from harness.history.change_causes import SCRIPTS, WireRecord
from harness.history.fault_windows import FOREVER_NS, hitting_tasks
from harness.history.key_holdings import Watched, derive_holdings
from harness.history.recorded import Recorded
from harness.history.run_tables import LinkTraffic
from harness.history.sections import derive_sections
from harness.history.transactions import with_results
from harness.store.columns import ops_frame, writes_frame
from harness.store.wire import CONNECTIONS_SCHEMA, REQUESTS_SCHEMA

START_NS = 10**15
NO_FLOORS: dict[str, Any] = {
    "least_faults": 0,
    "least_reach": 0,
    "least_sections": 0,
    "most_empty": 100,
    "most_starved": 100,
}
"""A history of two sections is no load; `tests/judge/test_evidence.py` is about the floors."""

CHANGES = ("set", "prolonged", "changed", "deleted")
"""What a request does to a key."""
_TOLD = 10_000
"""The first connection of the requests that `sets` tells."""
_ANOTHER = "c9"
"""A client that has no calls on record."""


def ms(at: float) -> int:
    return START_NS + round(at * 1_000_000)


class History:
    """A builder: add operations and events, then call `recorded()`."""

    def __init__(self, **config: Any) -> None:
        settings = {"seed": 1, "clients": 2, "nodes": 3, "ttl_ms": 100, "nemesis": "none"} | NO_FLOORS | config
        self.config = RunConfig(**settings)
        self.ops: defaultdict[tuple[str, int], list[Op]] = defaultdict(list)
        self.ends: list[ClientEnd] = []
        self.faults: list[FaultEvent] = []
        self.writes: list[Write] = []
        self.timeline = Timeline(start_ns=START_NS, healed_ns=ms(1000), stop_ns=ms(1100), end_ns=ms(1200))
        self.final: dict[str, int] | None = None
        self.planned = 0
        self.final_is_last_write = True
        self.key_events: list[KeyEvent] = []
        self.told_values: defaultdict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        self.acquire_limit_ms: float | None = None
        self.kept_waiting: dict[str, list[tuple[int, int]]] = {}
        self.traffic: list[LinkTraffic] | None = None
        self.requests: list[dict[str, Any]] = []
        self.scripts: dict[str, str] = {}
        """Their texts, by the names that requests call them."""
        self.not_recorded: set[str] = set()
        self.ports: dict[int, int] = {}
        self.opened: dict[int, float] = {}
        self.closed: dict[int, tuple[float | None, ...]] = {}
        """By connection, when the client, the node and perhaps the proxy closed it."""
        self._idle: defaultdict[str, list[int]] = defaultdict(list)
        """By node, the requests that are yet to be seen to do something."""
        self.sent_ns: dict[int, int] = {}
        self.wire = True

    def op(
        self, client: str, f: Any, outcome: Any, section: int, invoke: float, complete: float, **more: Any
    ) -> History:
        life, key = more.pop("life", 1), more.pop("key", "k1")
        self.ops[client, life].append(Op(f, outcome, key, section, ms(invoke), ms(complete), **more))
        return self

    def section(
        self, client: str, start: float, end: float | None, *, number: int = 1, deadline: Any = None, **more: Any
    ) -> History:
        """A section with an exact deadline, or with the earliest and the latest one as a pair."""
        deadline = start + 100 if deadline is None else deadline
        asked = more.pop("asked", start - 1)
        ends = {key: more[key] for key in ("life", "key") if key in more}
        if isinstance(deadline, tuple):
            low, high = deadline
            width = max(high - low, 0)
            more |= {"computed_after_ns": ms(start - width), "computed_before_ns": ms(start)}
            asked = start - width - 1
            more["validity_ms"] = high - start
        else:
            # A lease that was over when its client learned of it was not when the lock granted it.
            granted = start if deadline > start else min(asked, deadline - 1)
            more |= {"deadline_ns": ms(deadline), "validity_ms": deadline - granted}
        self.op(client, "acquire", "ok", number, asked, start, **more)
        if end is not None:
            self.op(client, "release", "ok", number, end, end + 1, **ends)
        return self

    def write(
        self, client: str, value: int, *, number: int = 1, told: bool = True, at: float = 0, **more: Any
    ) -> History:
        """An accepted write; `told`: the client received the acknowledgement."""
        key, token = more.get("key", "k1"), more.get("token")
        self.op(client, "write", "ok" if told else "info", number, at, at + 1, value=value, **more)
        self.writes.append(Write(key, 0, client, number, value, token))
        return self

    def sent(self, client: str, *load: int, warm_up: int = 0, named: int = 0) -> History:
        """What a client sent to the nodes, in order. `named`: as many to each name a key."""
        self.traffic = self.traffic or []
        names = self.config.node_names
        self.traffic += [LinkTraffic(client, node, warm_up, n, named) for node, n in zip(names, load, strict=True)]
        return self

    def request(
        self, client: str, node: str, words: str, arrived: float | None, answered: float | None = None, **more: Any
    ) -> History:
        """What went over a link: words apart by spaces, none for a message that the node sent unasked. Sent and learnt
        of a tenth of a millisecond before and after, unless it is told otherwise. It made the key's event before it, or
        else after it, on that node, unless it `did` nothing. `client`: as c1@2, if its task is on record."""
        command, *arguments = words.split(" ")
        client, task = process_of(client), client if client != process_of(client) else None
        did = more.pop("did", True)
        sent = more.pop("sent", None if arrived is None else arrived - 0.1)
        told = more.pop("told", None if answered is None else answered + 0.1)
        names = ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")
        times = {
            name: None if at is None else ms(at)
            for name, at in zip(names, (sent, arrived, answered, told), strict=True)
        }
        reply = more.pop("reply", None if answered is None else '"OK"')
        connection = more.pop("connection", 100 * int(client[1:]) + int(node[1:]))
        row = {
            "client": client,
            "node": node,
            "connection": connection,
            "by": more.pop("by", "client"),
            "task": task,
            "user": "default",
            "database": more.pop("database", 0),
            "command": command,
            "keys": list(keys_of(command, arguments)),
            "arguments": arguments,
            "transaction": more.pop("transaction", None),
            **times,
            "reply": reply,
        }
        assert not more
        self.requests.append(row)
        newest = next((event for event in reversed(self.key_events) if event.node == node), None)
        if did and newest is not None and newest.port is None and newest.event in CHANGES:
            self.by(newest, len(self.requests) - 1)
        elif did:
            self._idle[node].append(len(self.requests) - 1)
        return self

    def _can_make(self, number: int, event: KeyEvent) -> bool:
        command, *words = self.requests[number]["command"], *self.requests[number]["arguments"]
        other = {"set": ("DEL", "PEXPIRE"), "deleted": ("SET", "PEXPIRE"), "prolonged": ("DEL", "SET")}
        if event.event == "set" and event.value and not any(field in words for field in event.value.split(", ")):
            return False
        return event.key in words and command not in other.get(event.event, ())

    def by(self, event: KeyEvent, number: int) -> None:
        """The node says that this request made the event."""
        asked = self.requests[number]
        before = [one for one in self.requests[:number] if one["connection"] == asked["connection"]]
        event.port, event.place, event.command = asked["connection"], len(before), asked["command"]
        event.digest = digest_of([asked["command"], *asked["arguments"]])

    def called(self, words: str) -> History:
        """What the script of the newest event's request had called."""
        event = self.key_events[-1]
        event.command, *arguments = words.split(" ")
        event.arguments = arguments or None
        return self

    def wanted(self, since: float = -10, until: float = 20_000, key: str = "k1") -> History:
        """Another client, which has no answer but no, tries to acquire the key all this time."""
        self.op(_ANOTHER, "acquire", "fail", 1, since, until, key=key)
        for node in self.config.node_names:
            self.request(_ANOTHER, node, f"SET {key} w NX", since + 1, since + 2, reply="null", did=False)
        return self

    def fault(
        self, name: str, began: float, healed: float | None, *, holds: bool = True, gone: bool = True, **hit: Any
    ):
        nemesis = hit.pop("nemesis", "partition")
        injected = FaultEvent("injected", name, nemesis, "it", ms(began), ms(began + 1), holds, "seen", **hit)
        self.faults.append(injected)
        if healed is not None:
            self.faults.append(
                FaultEvent("healed", name, nemesis, "it", ms(healed - 1), ms(healed), gone, "seen", **hit)
            )
        return self

    def unplanned(self, name: str, began: float, ended: float | None, what: str = "it failed", **hit: Any) -> History:
        """A failure that no fault caused."""
        more = {"unplanned": True} | hit
        self.faults.append(
            FaultEvent("injected", name, "unplanned", what, ms(began), ms(began + 1), True, "seen", **more)
        )
        if ended is not None:
            self.faults.append(
                FaultEvent("healed", name, "unplanned", what, ms(ended - 1), ms(ended), True, "over", **more)
            )
        return self

    def undone(self, name: str, at: float, **hit: Any) -> History:
        """Somebody else ended the fault early, for the names that are given."""
        early = FaultEvent("undone", name, "any", "it", ms(at - 1), ms(at), True, "seen", unplanned=True, **hit)
        self.faults.append(early)
        return self

    def seen(
        self, node: str, event: Any, at: float, value: str | None = None, *, since: float | None = None, **more: Any
    ) -> History:
        """A node reported this at `at`; it happened then, or between `since` and then."""
        key = more.pop("key", "" if event in ("watching", "blind") else "k1")
        is_hash = more.pop("is_hash", False)
        since_ns = None if event == "blind" else ms(at if since is None else since)
        read = more.pop("read", None)  # when the TTL was read
        sent = more.pop("sent", None)  # of its request, if `sets` tells of it
        told = KeyEvent(node, ms(at), event, key, value, more.pop("ttl", None), since_ns, is_hash)
        told.read_ns = None if read is None else ms(read)
        self.key_events.append(told)
        if sent is not None:
            self.sent_ns[len(self.key_events) - 1] = ms(sent)
        assert not more
        fitting = [number for number in self._idle[node] if event in CHANGES and self._can_make(number, told)]
        if fitting:
            self.by(told, fitting[0])
            self._idle[node].remove(fitting[0])
        return self

    def watch(self, *nodes: str, at: float = 0) -> History:
        for node in nodes:
            self.seen(node, "watching", at, f"{node}-first")
        return self

    def sets(self, client: str, value: str, *, number: int = 1, life: int = 1) -> History:
        """Requests of the client's calls for that section set this value, wherever a node was seen to get it: those of
        the acquire that was granted, if one was, and later of any call that the section made then. Of several sections
        with this value, it is the last that had called by then. The same client prolongs it."""
        self.told_values[client, life].append((number, value))
        return self

    def end(self, client: str, how: Any, at: float, life: int = 1, under_way: str | None = None) -> History:
        self.ends.append(ClientEnd(client, life, how, ms(at), under_way))
        return self

    def recorded(self) -> Recorded:
        ops = ops_frame([(client, life, ops) for (client, life), ops in self.ops.items()])
        final = self.final
        if final is None and self.final_is_last_write:
            final = {write.key: write.value for write in self.writes}
        faults = hitting_tasks(self.faults, self.config.client_names, self.config.users_per_client)
        return Recorded(
            config=self.config,
            timeline=self.timeline,
            ops=ops,
            sections=derive_sections(ops, self.ends, faults),
            writes=writes_frame([self.writes]),
            faults=faults,
            ends=tuple(self.ends),
            planned_faults=self.planned,
            final_values=final,
            traffic=None if self.traffic is None else tuple(self.traffic),
            watched=self._watched(),
            acquire_limit_ms=self.acquire_limit_ms,
            kept_waiting=self.kept_waiting,
            wire=self.wire_record,
            key_events=lambda: self.key_events,
        )

    def wire_record(self) -> WireRecord | None:
        if not self.wire or not (self.requests or self.key_events):
            return None
        # Where some requests are told and no values, these are all.
        requests = [*self.requests, *(self._told() if self.told_values or not self.requests else ())]
        connections = {row["connection"]: (row["client"], row["node"], row["by"]) for row in requests}
        rows = [
            {
                **dict.fromkeys(CONNECTIONS_SCHEMA.names, 0),
                **dict(zip(("client", "node", "by"), names, strict=True)),
                "connection": number,
                "node_port": self.ports.get(number, number),
                "opened_ns": ms(self.opened.get(number, 0 if number < _TOLD else -10_000)),
                "is_reached": True,
                **self._closed(number),
            }
            for number, names in connections.items()
        ]
        texts = {SCRIPTS: msgspec.json.encode(self.scripts)}
        told = pa.Table.from_pylist(requests, REQUESTS_SCHEMA).sort_by("from_client_ns")
        return WireRecord(
            with_results(told).replace_schema_metadata(texts),
            pa.Table.from_pylist(rows, CONNECTIONS_SCHEMA),
            frozenset(self.config.node_names) - self.not_recorded,
        )

    def _closed(self, connection: int) -> dict[str, int | None]:
        times = (*self.closed.get(connection, ()), None, None, None)
        names = ("client_closed_ns", "node_closed_ns", "proxy_closed_ns")
        return {name: None if at is None else ms(at) for name, at in zip(names, times, strict=False)}

    def _told(self) -> list[dict[str, Any]]:
        """The requests that `sets` tells, and those of another client for all that it does not; the nodes say so."""
        told: list[dict[str, Any]] = []
        owner: dict[tuple[str, str], tuple[str, Op]] = {}
        for number, event in enumerate(self.key_events):
            if event.event not in ("set", "changed", "prolonged") or (event.port or _TOLD) < _TOLD:
                continue
            event.port = event.digest = event.place = event.command = None
            at = event.node, event.key
            setter = self._setter(event) if event.event != "prolonged" else owner.get(at)
            since_ns = event.at_ns if event.since_ns is None else event.since_ns
            client, sent_ns = _ANOTHER, since_ns
            if setter is None:
                owner.pop(at, None)
            else:
                client, op = owner[at] = setter
                is_later = op.outcome == "ok" and op.complete_ns < since_ns <= self._left_ns(client, op)
                if event.event != "prolonged" and not is_later:
                    sent_ns = min(max(since_ns, op.invoke_ns), op.complete_ns)
            sent_ns = self.sent_ns.get(number, sent_ns)
            words = ["SET" if event.event == "set" else "EVAL", event.key, event.value or ""]
            event.port, event.place, event.command, event.digest = _TOLD + len(told), 0, words[0], digest_of(words)
            row = {"client": process_of(client), "node": event.node, "connection": event.port, "by": "client"}
            row |= {"user": "default", "database": 0, "command": words[0], "keys": [event.key], "arguments": words[1:]}
            row |= {"from_client_ns": sent_ns, "to_node_ns": since_ns, "from_node_ns": event.at_ns}
            told.append(row | {"to_client_ns": event.at_ns, "transaction": None, "reply": '"OK"'})
        return told

    def _setter(self, event: KeyEvent) -> tuple[str, Op] | None:
        """The client and the call."""
        some: list[tuple[str, Op]] = []
        for (client, life), values in self.told_values.items():
            for number, value in values:
                if value == event.value or (event.is_hash and value in (event.value or "").split(FIELDS_APART)):
                    calls = [op for op in self.ops[client, life] if op.f == "acquire" and op.section == number]
                    granted = [op for op in calls if op.outcome == "ok"]
                    begun = [op for op in calls if op.invoke_ns <= event.at_ns] or calls
                    some += [(client, op) for op in (granted or begun)[-1:]]
        begun_by = [one for one in some if one[1].invoke_ns <= event.at_ns] or some[:1]
        return max(begun_by, key=lambda one: one[1].invoke_ns, default=None) or self._try(event)

    def _try(self, event: KeyEvent) -> tuple[str, Op] | None:
        """The call that set a value of which `sets` tells nothing: that attempt which had begun by then and went on for
        longest."""
        tries = [
            (client, op)
            for (client, _), ops in self.ops.items()
            for op in ops
            if op.key == event.key or not event.key.startswith("k")
            if op.f in ("acquire", "reenter") and op.invoke_ns <= event.at_ns
            if op.outcome != "ok"
        ]
        return max(tries, key=lambda one: one[1].complete_ns, default=None)

    def _left_ns(self, client: str, granted: Op) -> int:
        """When the section that was granted had been left."""
        releases = (op for ops in self.ops.values() for op in ops if op.f == "release")
        own = [op.invoke_ns for op in releases if op.section == granted.section and op in self.ops[client, 1]]
        return min(own, default=FOREVER_NS)

    def _watched(self) -> Watched | None:
        if not self.key_events:
            return None
        return derive_holdings(self.key_events)

    def sections(self) -> list[dict[str, Any]]:
        """The derived sections with their times in milliseconds since the start."""
        rows = self.recorded().sections.to_dict("records")
        for row in rows:
            for name in [name for name in row if name.endswith("_ns") and name != "requested_ns"]:
                row[name.removesuffix("_ns")] = (row.pop(name) - START_NS) / 1e6
        return rows
