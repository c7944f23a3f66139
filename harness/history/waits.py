"""Which clients waited for a key, and when; what each of them said and heard meanwhile, and when the key was free.

A wait lasts from the first try for a section to the end of the last one. A client that waits is woken up, or looks
again by itself, at the latest when the last lease that it saw has run out. A key was certainly free while a majority of
the lock's nodes held nothing of it, and no client was inside or releasing it.

A client that was cut off while it was acquiring had been waiting since its call began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fencepost.history import process_of
from fencepost.quorum import quorum
from harness.history.commands import COUNT
from harness.history.fault_windows import FOREVER_NS, between, merged
from harness.history.groups import Groups, codes_of, grouped, placed, rows_of, where, which
from harness.history.key_changes import ENDINGS
from harness.history.link_activity import Activity, Links
from harness.history.lock_keys import keys_of_single_holders
from harness.history.standing_still import ran_ns

if TYPE_CHECKING:
    from harness.history.ledger import Change, Ledger
    from harness.history.recorded import Recorded

SECOND_NS: Final = 1_000_000_000
SLACK_MS: Final = 250
"""What is under way has this time to arrive."""
SLACK_NS: Final = SLACK_MS * 1_000_000
Span = tuple[int, int]


class Wait(NamedTuple):
    """`is_over`: whether an operation is on record that ended it."""

    client: str
    key: str
    since_ns: int
    until_ns: int
    is_over: bool = True

    @property
    def length_ns(self) -> int:
        return self.until_ns - self.since_ns


def recorded_waits(run: Recorded, least_ns: int) -> list[Wait]:
    """The waits that lasted that long and are over, in the order of `ops`."""
    ops = run.ops
    tries = np.flatnonzero((ops["f"] == "acquire").to_numpy(np.bool_))
    client, life, section = codes_of(ops["client"]), ops["life"].to_numpy(), ops["section"].to_numpy()
    by_section = Groups.of_equal(placed(placed(client[tries], life[tries]), section[tries]))
    since = by_section.first_times(ops["invoke_ns"].to_numpy(np.int64)[tries], FOREVER_NS)
    until = by_section.last_times(ops["complete_ns"].to_numpy(np.int64)[tries])
    long = np.flatnonzero(until - since >= least_ns)
    first = tries[by_section.rows(by_section.edges[:-1][long])]
    waits = ops[["client", "key"]].iloc[first].assign(since=since[long], until=until[long]).sort_index()
    return [Wait(str(client), str(key), *span) for client, key, *span in rows_of(waits, *waits.columns)]


def all_waits(run: Recorded, links: Links, least_ns: int) -> Iterator[Wait]:
    """The waits that lasted that long, also the ones that never ended."""
    yield from recorded_waits(run, least_ns)
    for end in run.ends:
        if end.how != "cut-off" or end.under_way != "acquiring" or run.timeline.stop_ns is None or end.since_ns is None:
            continue
        key = _asked_for(run, links.of(end.client), end.since_ns)
        if key and end.at_ns - end.since_ns >= least_ns:
            yield Wait(end.client, key, end.since_ns, end.at_ns, is_over=False)


def _asked_for(run: Recorded, client: Activity, since_ns: int) -> str:
    """The key that a client which was cut off had waited for since then; empty if there are several, and no request
    names one."""
    asked = sorted(map(str, run.ops["key"].unique()), key=len)
    named = [key for key in asked if any(key in name for name in client.keys(since_ns))]
    return asked[0] if len(asked) == 1 else named[-1] if named else ""


def first_missed_ns(run: Recorded, client: str, node: str, key: str, name: str, from_ns: int, to_ns: int) -> int:
    """From when on, of this time, an acquire of another process was under way to which the node had given an answer
    about the key, which is called `name` there; `to_ns` if there was none: a lock that is given back when it is asked
    for keeps no client out."""
    assert run.ledger is not None, "else it would not be known whose the key is"
    ops, sent = run.calls("acquire", key=key), run.ledger.sent
    meanwhile = where(ops, ops["complete_ns"] > from_ns, ops["invoke_ns"] < to_ns)
    asked = (
        one.from_client_ns
        for other, since_ns, until_ns in rows_of(meanwhile, "client", "invoke_ns", "complete_ns")
        if process_of(other) != process_of(client)
        for one in sent.between(other, node, since_ns, min(until_ns, to_ns))
        if one.reply is not None and (name in one.keys or any(key in each for each in one.keys))
    )
    return min((max(from_ns, at_ns) for at_ns in asked), default=to_ns)


def in_the_way(run: Recorded, wait: Wait, others: list[Wait]) -> list[tuple[int, int]]:
    """When a fault may have been in force on one of the lock's nodes, on the client or its links, or on another client
    that waited for the same key: whose turn it is, a fair lock may wait for. And when there may have been something
    that a cancelled call for the key had left."""
    found = [(call.since_ns, call.gone_ns) for call in run.cancelled if call.key == wait.key]
    rivals = [other for other in others if other.key == wait.key and other.client != wait.client]
    for event, began, done in run.fault_windows:
        hit = event.hit_clients
        if wait.client in hit or not set(run.nodes).isdisjoint(event.hit_nodes):
            found.append((began, done))
        found += [
            (max(began, other.since_ns), min(done, other.until_ns))
            for other in rivals
            if other.client in hit and other.since_ns < done and other.until_ns > began
        ]
    return [*found, *run.wrong_clocks.times]


def patience_ns(run: Recorded) -> int:
    """How long a client may wait beside a free lock without looking again: a lease, rounded up to whole seconds, in
    which locks count that block on a server, and one second more."""
    lease_ns = round(run.lease_ms * 1e6)
    return -(-lease_ns // SECOND_NS) * SECOND_NS + SECOND_NS


def short_ns(run: Recorded) -> int:
    """A client that waits for a message, and is silent for so long, does not poll."""
    return max(round(run.lease_ms * 1e6) // 2, SECOND_NS // 2)


def silences(
    run: Recorded, call: Wait, client: Activity, within: Span, least_ns: int, after: Sequence[str] | None = None
) -> Iterator[Span]:
    """The times within a call in which its client said nothing and heard nothing for that long, although it ran and had
    nothing on its way. `after`: what it must have sent last, if that matters."""
    moments = client.moments_ns
    inner = moments[(moments > within[0]) & (moments < within[1])]
    edges = np.concatenate([[within[0]], inner, [within[1]]])
    for place in np.flatnonzero(np.diff(edges) >= least_ns).tolist():
        began, done = int(edges[place]), int(edges[place + 1])
        if after is not None and client.last_sent(within[0], began) not in after:
            continue
        if ran_ns(run, call.client, began, done) >= least_ns and not client.is_stuck(call.since_ns, began):
            yield began, done


@dataclass(frozen=True, slots=True)
class Waiting:
    """A client that waited for a key, and was or was not let in. `names`: what the key is called on the nodes."""

    run: Recorded
    ledger: Ledger
    wait: Wait
    names: Set[str]

    @property
    def client(self) -> Activity:
        return self.ledger.links.of(self.wait.client)

    @property
    def span(self) -> Span:
        return self.wait.since_ns, self.wait.until_ns

    def silences(self, least_ns: int, after: Sequence[str] | None = None) -> Iterator[Span]:
        return silences(self.run, self.wait, self.client, self.span, least_ns, after)

    def ran_ns(self, since_ns: int, until_ns: int) -> int:
        return ran_ns(self.run, self.wait.client, since_ns, until_ns)

    def free_times(self, since_ns: int, until_ns: int) -> list[Span]:
        """None if it is not known what the key is called."""
        return free_times(self.run, self.names, self.wait.key, since_ns, until_ns) if self.names else []

    def calm_times(self, others: Sequence[Waiting]) -> list[Span]:
        """When the key was free during the wait, and nothing was in the way."""
        return self._undisturbed(self.free_times(*self.span), others)

    def unused_times(self, others: Sequence[Waiting]) -> list[Span]:
        """When no client was inside during the wait, whatever the nodes held, and nothing was in the way."""
        return self._undisturbed(free_times(self.run, frozenset(), self.wait.key, *self.span), others)

    def _undisturbed(self, times: Sequence[Span], others: Sequence[Waiting]) -> list[Span]:
        way = in_the_way(self.run, self.wait, [other.wait for other in others])
        return [stretch for span in times for stretch in between(way, *span)]

    def last_freed(self, by_ns: int) -> Change | None:
        """The last change by then that took the key from a node."""
        rows = self.ledger.rows
        places = np.flatnonzero(which(rows, rows["since_ns"] <= by_ns, what=ENDINGS, key=self.names))
        if not len(places):
            return None
        return self.ledger.change(int(places[rows["at_ns"].to_numpy(np.int64)[places].argmax()]))

    def was_freed_by(self, what: str, at_ns: int) -> bool:
        """Whether the key came free by an end of this kind."""
        freed = self.last_freed(at_ns)
        return freed is not None and freed["what"] == what


def waiting_clients(run: Recorded, ledger: Ledger) -> list[Waiting]:
    """The waits in which a client may have slept on (`short_ns`)."""
    waits = list(all_waits(run, ledger.links, short_ns(run)))
    names = {key: names_of(run, key) for key in dict.fromkeys(wait.key for wait in waits)}
    return [Waiting(run, ledger, wait, names[wait.key]) for wait in waits]


def names_of(run: Recorded, key: str) -> Set[str]:
    """What the key is called on the nodes; empty if that is not known, or if it is a count, which is there also while
    the lock is free."""
    known = run.lock_keys
    if run.ledger is not None:
        known -= set(where(run.ledger.rows, did=COUNT)["key"].astype(str).unique())
        if run.lock_keys and not known:
            return known
    if known and run.ops["key"].nunique() == 1:
        return known
    names = {name for name in known if key in name}
    if run.owners is not None:
        names |= known & set(where(run.owners.holdings, lock_key=key)["key"].astype(str).unique())
    return names or (set() if run.ledger is None else keys_of_single_holders(run, run.ledger, key))


def free_times(run: Recorded, names: Set[str], key: str, since_ns: int, until_ns: int) -> list[tuple[int, int]]:
    """Within this time, in order. `names`: what the key is called on the nodes."""
    if run.watched is None:
        return []
    held = where(run.watched.holdings, key=names)
    taken = grouped((node, (a, b)) for node, a, b in rows_of(held, "node", "from_min_ns", "to_max_ns"))
    changes, nodes = [], run.nodes_of(key)
    for node in nodes:
        unseen = between((window[:2] for window in run.watched.of(node)), 0, FOREVER_NS)
        for began, done in merged([*taken[node], *unseen], since_ns, until_ns):
            changes += [(began, -1), (done, 1)]
    free, majority = len(nodes), quorum(len(nodes))
    busy, at_ns = used(run, key), since_ns
    for when_ns, change in sorted(changes):
        if free < majority:
            busy.append((at_ns, when_ns))
        free, at_ns = free + change, when_ns
    if free < majority:
        busy.append((at_ns, until_ns))
    return between(busy, since_ns, until_ns)


def used(run: Recorded, key: str) -> list[tuple[int, int]]:
    """When a client was inside, or was giving the key back."""
    inside, given = where(run.sections, key=key), run.calls("release", key=key)
    used = [*rows_of(inside, "start_ns", "end_ns"), *rows_of(given, "invoke_ns", "complete_ns")]
    return merged(used, 0, FOREVER_NS)
