"""What a server's protocol says in the bytes of its connections: requests, replies, and messages sent unasked.

A server's object decodes its own protocol (`cluster.server.Server.decode`), of many connections at once and in columns,
because a Python object for each of millions of requests takes longer than all the rest. Clients and servers say the
same things over and over, so what was said is told once, and a request is a number in that table. Times are no matter
of a protocol, so a request tells the places in the two streams at which it and its reply were complete; what recorded
the bytes knows when these places were reached (`harness.store.wire_reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

LONGEST_REPLY: Final = 1024
"""How much of a reply is kept, in characters of its JSON."""
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
SAID: Final = pa.schema(
    [
        ("command", pa.dictionary(pa.int32(), pa.string())),
        ("keys", pa.list_(pa.string())),
        ("arguments", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True, slots=True)
class Chunks:
    """All that came from one side of the connections, in the chunks in which it came. `connection`: of each chunk, a
    number below `connections` that never falls. `code`: which of the `distinct` chunks it is."""

    connections: int
    connection: Ints
    code: Ints
    distinct: pa.LargeBinaryArray

    @property
    def length(self) -> Ints:
        """Of each chunk, in bytes."""
        length: Ints = pc.binary_length(self.distinct).to_numpy()[self.code]
        return length


@dataclass(frozen=True, slots=True)
class Conversations:
    """What the connections carried: all requests in the order of their connections, in which they came, then all
    messages that servers sent unasked, in the same order.

    `said`: a row of `SAID` for each kind of request. `command`: its name in upper case; empty for a message. `keys`:
    the ones that it names. `arguments`: all words after the command's; bytes that are not UTF-8 are escaped, a password
    is `***`, and the text of a script its SHA-1. `scripts`: these texts. `replies`: JSON, cut off at `LONGEST_REPLY`;
    an error is `{"error": …}`. `users`: logins. `not_understood`: how many bytes of each connection are not of the
    protocol.

    Columns, a row a request: `connection`; `what` was said, the `user` and the `reply`, as codes; the selected
    `database`; `transaction`: the place among its connection's requests of the one that began it; `sent_end`,
    `reply_end`: the length of the client's and of the server's stream when the request and its reply were complete. -1:
    there is none.
    """

    said: pa.Table
    replies: pa.StringArray
    users: pa.DictionaryArray
    scripts: Mapping[str, str]
    not_understood: Ints
    connection: Ints
    what: Ints
    database: Ints
    user: Ints
    transaction: Ints
    sent_end: Ints
    reply_end: Ints
    reply: Ints


Decode = Callable[[Chunks, Chunks], Conversations]
"""What came from the clients, and what came from the servers, over the same connections."""
