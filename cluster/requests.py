"""What a server's protocol says in the bytes of one connection: requests, replies, and messages sent unasked.

A server's object decodes its own protocol (`cluster.server.Server.decode`). Times are no matter of a protocol, so a
request tells the places in the two streams at which it and its reply were complete; what recorded the bytes knows when
these places were reached (`harness.store.wire_reading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

LONGEST_REPLY: Final = 1024
"""How much of a reply is kept, in characters of its JSON."""


class Request(NamedTuple):
    """A request, or a message that the server sent unasked.

    `command`: its name in upper case; empty for a message. `keys`: those that it names. `arguments`: all words after
    the command's; bytes that are not UTF-8 are escaped, and a password is `***`. `database`: the selected one. `user`:
    the login of the connection. `transaction`: the number of the request that began the transaction, -1 outside of one.
    `sent_end`, `reply_end`: the length of the client's and of the server's stream when the request and its reply were
    complete; -1 if there is none. `reply`: JSON, cut off at `LONGEST_REPLY`; an error is `{"error": …}`. None: there
    was no reply.
    """

    command: str
    keys: Sequence[str]
    arguments: Sequence[str]
    database: int
    user: str
    transaction: int
    sent_end: int
    reply_end: int = -1
    reply: str | None = None


class Conversation(NamedTuple):
    """What one connection carried. `requests`: in the order in which they came, then the messages; each as a list of
    the fields of `Request`, because making named tuples takes as long as all the rest. `not_understood`: how many
    bytes are not of the server's protocol. `scripts`: the text of each script that was sent, by its SHA-1, which stands
    in the arguments instead."""

    requests: Sequence[list[object]]
    not_understood: int
    scripts: Mapping[str, str]


Decode = Callable[[Sequence[bytes], Sequence[bytes]], Conversation]
"""The chunks that came from the client, and those that came from the server, of one connection."""
