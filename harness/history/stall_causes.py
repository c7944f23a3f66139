"""What kept all clients out of a lock that was free, as far as the record shows.

A node that is not there is no excuse, for the others are a majority; but what the witness saw on the others may say
more. In this order:

- the nodes, or so many that no majority was left, answered nearly all requests with an error that tells of the request;
- most tries ended with an error, or a try had its value on a majority of the nodes and was not let in: the lock wants
  the node that is absent, or each node that was absent in turn;
- keys that stayed there when their owners were done with them left no majority free: they were stuck; those of clients
  that acquired again without a release are their clients' doing, which a lock that renews keeps until they release;
- tries got some nodes, and never enough, perhaps because the keys of others stayed there for a while after their tries;
- on so many nodes that no majority is left, no try set the key although they were in reach: the lock did not ask them.
  Something else was set by way of the proxy meanwhile, so the proxy did not stand still; or a node was absent, which
  is no excuse, and several tries came to an end, so that they did not all wait for that node;
- a node was absent;
- a count was full by what calls had taken that were over (`harness.history.permits_out`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import listed, printable
from harness.history.failed_attempts import MOST, VainTries
from harness.history.fault_windows import merged
from harness.history.node_requests import NodeRequests
from harness.history.permits_out import permits_out

if TYPE_CHECKING:
    from harness.history.recorded import Recorded


Kind = Literal[
    "down",
    "hung",
    "answering errors",
    "out of reach",
    "absent in turn",
    "stuck keys",
    "kept permits",
    "forgotten keys",
    "nothing set",
    "nothing asked",
    "split votes",
    "no access",
    "rejected",
    "wrong clock",
    "unknown",
]


SEVERAL: Final = 3
"""So many tries that ended did not all wait for one node."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`nodes`: they were `down`, `hung` (they were there and did not answer), `answering errors` or `out of reach` of
    the clients (cut off or slow) for most of the time; those of which one or another was not there for most of it; on
    which keys were stuck, or counts full; on which nothing was set, or which were asked for nothing; or on which
    the keys of split votes stayed after their tries (`is_only_node`: of tries on the lock's only node). `absent`:
    which others were not there for most of the time. `no access`: no client ever acquired the lock, and the nodes
    turned requests away. `rejected`: they answered the lock's requests with an `error`; `is_unloaded`: it asked for
    a script that they did not know, and no client loaded it. `wrong clock`: keys may have lived longer there than
    the lock had asked for."""

    kind: Kind
    nodes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    error: str = ""
    is_unloaded: bool = False
    is_only_node: bool = False

    @property
    def is_the_locks(self) -> bool:
        """Whether a correct lock would have got by. With a node less, each round may last until the lock gives up on
        that node, and competing clients may split the votes for long."""
        return self.kind not in ("unknown", "no access", "wrong clock", "forgotten keys") and not (
            self.kind == "split votes" and self.absent
        )


def in_words(obstacle: Obstacle) -> str:
    """`n3 was hung`."""
    nodes = listed(obstacle.nodes) if obstacle.nodes else ""
    was = "was" if len(obstacle.nodes) == 1 else "were"
    match obstacle.kind:
        case "down" | "hung" | "answering errors" | "out of reach":
            return f"{nodes} {was} {obstacle.kind}"
        case "absent in turn":
            return f"{nodes} were absent, one after the other"
        case "wrong clock":
            return f"the {'clock' if len(obstacle.nodes) == 1 else 'clocks'} of {nodes} had been wrong"
        case "stuck keys":
            return f"orphaned keys were stuck on {nodes}{_while(obstacle.absent)}"
        case "kept permits":
            return f"a count on {nodes} stayed full, for calls that were over had given nothing back"
        case "forgotten keys":
            return f"keys stayed on {nodes} of sections that their clients had left without a release"
        case "nothing set":
            return f"no attempt set the key on {nodes}, which {was} free and in reach{_while(obstacle.absent)}"
        case "nothing asked":
            while_absent = _while(obstacle.absent)
            return f"the clients that tried sent nothing to {nodes}, which {was} free and in reach{while_absent}"
        case "split votes":
            left = f", and left their keys on {nodes}" if nodes else ""
            got = "got some of the nodes, but never a majority"
            if obstacle.is_only_node:
                got = "set the key on the only node, and no client acquired the lock"
            return f"attempts {got}{left}{_while(obstacle.absent)}"
        case "no access":
            return f"{nodes} turned requests away"
        case "rejected" if obstacle.is_unloaded:
            unknown = f"a script that {nodes} did not know ({_NOT_LOADED})"
            return f"the lock asked for {unknown} and never loaded it again{_while(obstacle.absent)}"
        case "rejected":
            error = printable(obstacle.error)
            return f"{nodes} answered the lock's requests with the error {error}{_while(obstacle.absent)}"
        case "unknown":
            return "no obstacle is on record, nor whether the requests arrived"


def _while(absent: Sequence[str]) -> str:
    if not absent:
        return ""
    return f", while {listed(absent)} {'was' if len(absent) == 1 else 'were'} absent"


def find_obstacle(run: Recorded, key: str, clients: Sequence[str], since_ns: int, until_ns: int) -> Obstacle:
    """`clients` tried for the key all this time."""
    if wrong := run.wrong_clocks.nodes(since_ns, until_ns):
        return Obstacle("wrong clock", wrong)
    if run.had_no_access:
        return Obstacle("no access", tuple(sorted({denied.node for denied in run.denied})))
    own = run.nodes_of(key)
    absences = _absences(run, own, clients, since_ns, until_ns)
    absent = _absent(absences, until_ns - since_ns)
    if rejected := _rejected(run, own, clients, since_ns, until_ns, absent.nodes if absent else ()):
        return rejected
    ops = run.ops
    tries = ((ops["f"] == "acquire") & (ops["key"] == key)).to_numpy(np.bool_)
    within = (ops["invoke_ns"].to_numpy(np.int64) >= since_ns) & (ops["complete_ns"].to_numpy(np.int64) <= until_ns)
    tries = tries & within
    refused = tries & (ops["outcome"] == "fail").to_numpy(np.bool_)
    seen = VainTries.of(run, key, since_ns, until_ns)
    if absent is None and seen is not None and seen.had_a_majority():
        absent = _absent_in_turn(absences, since_ns, until_ns)
    broke_off = tries.sum() - refused.sum() > MOST * tries.sum()
    missing = absent.nodes if absent and absent.kind != "absent in turn" else ()
    if seen is not None and not (absent and (broke_off or seen.had_a_majority(missing))):
        if nodes := seen.stuck(missing):
            return Obstacle("forgotten keys" if seen.are_forgotten(nodes) else "stuck keys", nodes, missing)
        if seen.are_split():
            return Obstacle("split votes", seen.left_on(), missing, is_only_node=len(own) == 1)
        nodes = seen.nothing_set(missing)
        if nodes and (seen.is_forwarding or (absent and refused.sum() >= SEVERAL)):
            asked = _asked_any(run, clients, nodes, since_ns, until_ns)
            return Obstacle("nothing set" if asked else "nothing asked", nodes, missing)
    if absent is None and (out := permits_out(run, since_ns, until_ns, key)):
        return Obstacle("kept permits", out.nodes)
    return absent or Obstacle("unknown")


def _asked_any(run: Recorded, clients: Sequence[str], nodes: Sequence[str], since_ns: int, until_ns: int) -> bool:
    """Whether any of the clients may have sent anything to any of the nodes in this time. One that never did may have
    reached them in another way."""
    ledger, links = run.whole_ledger, [(client, node) for client in clients for node in nodes]
    if ledger is None or not all(ledger.sent.between(client, node, 0, since_ns) for client, node in links):
        return True
    return any(ledger.sent.between(client, node, since_ns, until_ns) for client, node in links)


_Times = dict[Kind, list[tuple[int, int]]]
_ABSENCES: Final[tuple[Kind, ...]] = ("hung", "answering errors", "down", "out of reach")


def _absences(
    run: Recorded, own: Sequence[str], clients: Sequence[str], since_ns: int, until_ns: int
) -> dict[str, _Times]:
    """By node, and by how it was not there, when that was: disjoint, in order."""
    found = {}
    for node in own:
        times: _Times = {kind: [] for kind in _ABSENCES}
        for event, began, done in run.fault_windows:
            if node in event.nodes:
                times[event.node_state].append((began, done))
            if all((client, node) in event.links for client in clients):
                times["out of reach"].append((began, done))
        found[node] = {kind: merged(windows, since_ns, until_ns) for kind, windows in times.items()}
    return found


def _absent(absences: dict[str, _Times], length_ns: int) -> Obstacle | None:
    """The nodes that were not there for most of the time."""
    by_kind: dict[Kind, list[str]] = {kind: [] for kind in _ABSENCES}
    for node, times in absences.items():
        for kind, windows in times.items():
            if _total_ns(windows) > MOST * length_ns:
                by_kind[kind].append(node)
                break
    return next((Obstacle(kind, tuple(nodes)) for kind, nodes in by_kind.items() if nodes), None)


def _absent_in_turn(absences: dict[str, _Times], since_ns: int, until_ns: int) -> Obstacle | None:
    """Several nodes, of which one or another was not there for most of the time."""
    of_nodes = {node: [window for windows in times.values() for window in windows] for node, times in absences.items()}
    nodes = tuple(node for node, windows in of_nodes.items() if _total_ns(windows))
    together = merged((window for windows in of_nodes.values() for window in windows), since_ns, until_ns)
    if len(nodes) < 2 or _total_ns(together) <= MOST * (until_ns - since_ns):
        return None
    return Obstacle("absent in turn", nodes)


def _total_ns(windows: Sequence[tuple[int, int]]) -> int:
    return sum(until - since for since, until in windows)


_OF_THE_REQUEST: Final = ("ERR", "NOSCRIPT", "WRONGTYPE")
_OF_THE_NODE: Final = "ERR max number of clients"
_NOT_LOADED: Final = "NOSCRIPT"
_NEARLY_ALL: Final = 0.8


class _Replies(NamedTuple):
    """How many replies came to requests that named a key, and how many by the first word of an error that tells of the
    request. An error may tell of the node instead, which is loading or has no memory left."""

    total: int
    errors: Counter[str]

    def are_nearly_all(self, error: str) -> bool:
        return self.errors[error] > _NEARLY_ALL * self.total


def _rejected(
    run: Recorded, own: Sequence[str], clients: Sequence[str], since_ns: int, until_ns: int, absent: Collection[str]
) -> Obstacle | None:
    """The error that was the answer to nearly all of the clients' requests: on all nodes together, or on each of so
    many that these, or these and the absent ones, leave no majority. No node would carry out such a request. None if
    there was no such error; what the lock's own script said is none."""
    wire = run.wire()
    if wire is None:
        return None
    sent, processes = NodeRequests(wire), dict.fromkeys(map(process_of, clients))
    by_node = {node: _replies(sent, processes, node, since_ns, until_ns) for node in own}
    together = _Replies(
        sum(one.total for one in by_node.values()), sum((one.errors for one in by_node.values()), Counter())
    )
    for error, _ in together.errors.most_common():
        is_all = together.are_nearly_all(error)
        nodes = tuple(
            node
            for node, one in by_node.items()
            if one.errors[error] >= (1 if is_all else SEVERAL) and (is_all or one.are_nearly_all(error))
        )
        least = 1 if is_all else len(own) - quorum(len(own)) + 1
        missing = () if len(nodes) >= least else tuple(node for node in absent if node not in nodes)
        if nodes and len(nodes) + len(missing) >= least:
            is_unloaded = error == _NOT_LOADED and not _was_loaded(run, sent, nodes, since_ns, until_ns)
            return Obstacle("rejected", tuple(sorted(nodes)), missing, error, is_unloaded)
    return None


def _replies(sent: NodeRequests, clients: Iterable[str], node: str, since_ns: int, until_ns: int) -> _Replies:
    total, errors = 0, Counter[str]()
    for client in clients:
        for request in sent.between(client, node, since_ns, until_ns):
            if request.keys and request.reply is not None:
                total += 1
                said = sent.error_of(request) or ""
                if (word := said.partition(" ")[0]) in _OF_THE_REQUEST and not said.startswith(_OF_THE_NODE):
                    errors[word] += 1
    return _Replies(total, errors)


def _was_loaded(run: Recorded, sent: NodeRequests, nodes: Iterable[str], since_ns: int, until_ns: int) -> bool:
    """Whether a client loaded a script for which one of these nodes was asked in vain."""
    for node in nodes:
        asked = [one for name in run.config.client_names for one in sent.between(name, node, since_ns, until_ns)]
        unknown = {one.arguments[0] for one in asked if (sent.error_of(one) or "").startswith(_NOT_LOADED)}
        loaded = {one.arguments[-1] for one in asked if one.command == "SCRIPT" and one.arguments}
        if unknown & (loaded | {one.arguments[0] for one in asked if one.command == "EVAL" and one.arguments}):
            return True
    return False
