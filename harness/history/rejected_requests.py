"""Did the nodes reject what clients asked of the lock? An error may tell of the node, which is loading or has no memory
left, or of the request: no node would carry it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from fencepost.history import process_of
from harness.history.node_requests import ERROR_REPLY, NodeRequests

if TYPE_CHECKING:
    from harness.history.recorded import Recorded

_OF_THE_REQUEST: Final = ("ERR", "NOSCRIPT", "WRONGTYPE")
_OF_THE_NODE: Final = "ERR max number of clients"
_NEARLY_ALL: Final = 0.8


class Rejected(NamedTuple):
    """`error`: its first word. `nodes`: which said it."""

    error: str
    nodes: tuple[str, ...]


def rejected(run: Recorded, clients: Sequence[str], since_ns: int, until_ns: int) -> Rejected | None:
    """The error that was the answer to nearly all of the clients' requests that named a key; None if none was."""
    wire = run.wire()
    if wire is None:
        return None
    sent, answered, by_error = NodeRequests(wire), 0, Counter[str]()
    nodes: dict[str, set[str]] = {}
    for client in dict.fromkeys(map(process_of, clients)):
        for node in run.nodes:
            for request in sent.between(client, node, since_ns, until_ns):
                if not request.keys or request.reply is None:
                    continue
                answered += 1
                if request.reply.startswith(ERROR_REPLY):
                    said = str(msgspec.json.decode(request.reply)["error"])
                    word = said.partition(" ")[0]
                    if word in _OF_THE_REQUEST and not said.startswith(_OF_THE_NODE):
                        by_error[word] += 1
                        nodes.setdefault(word, set()).add(node)
    error, times = max(by_error.items(), key=lambda item: item[1], default=("", 0))
    if times <= _NEARLY_ALL * answered:
        return None
    return Rejected(error, tuple(sorted(nodes[error])))
