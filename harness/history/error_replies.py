"""Tells errors of a node from errors that the lock's own script returned.

A script may refuse by an error, as `redis.error_reply` lets it: `ERR not the owner`. The node has carried the request
out then, so this is an answer like any other no. What a script says so is in its text; of one whose text is not on
record, only those errors are surely not its own that begin with a server's own word.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from harness.history.commands import SCRIPTED

ERROR_REPLY: Final = '{"error"'
"""How the record of a reply begins that is an error."""
_TEXT: Final = f'{ERROR_REPLY}:"'
REFUSALS: Final = ("null", "0", "false")
"""The replies by which commands and scripts say no."""
_SAYS: Final = re.compile(r"""\b(?:error_reply|error|err["']?\]?\s*=(?!=))\s*\(?\s*(?:(["'])(.*?)\1)?""")
"""What a script says: a text, or (without one) what it puts together."""
_OF_SERVERS: Final = frozenset(
    {
        *("NOSCRIPT", "WRONGTYPE", "OOM", "LOADING", "READONLY", "MISCONF", "BUSY", "NOREPLICAS", "MASTERDOWN"),
        *("NOAUTH", "NOPERM", "WRONGPASS", "CLUSTERDOWN", "CROSSSLOT", "MOVED", "ASK", "TRYAGAIN", "EXECABORT"),
    }
)
"""Words with which a server's own errors begin, and those of scripts hardly ever."""
_RAISED_BY_SERVER: Final = ("ERR Function not found", "ERR unknown command", "ERR max number of clients")


def is_refusal(reply: str | None) -> bool:
    """Whether the node answered no, in one of the ways in which commands and scripts do, or with an error."""
    return reply is not None and (reply in REFUSALS or reply.startswith(ERROR_REPLY))


def error_of(reply: str | None) -> str | None:
    """`NOSCRIPT No matching script.`; None if the reply is no error. The record may have cut off a long one."""
    if reply is None or not reply.startswith(ERROR_REPLY):
        return None
    try:
        return str(msgspec.json.decode(reply)["error"])
    except msgspec.DecodeError:
        return reply.removeprefix(_TEXT)


def may_be_the_scripts(command: str, script: str | None, error: str) -> bool:
    """Whether this error, the answer to such a command, may be what its script said itself. `script`: its text; None if
    that is not on record."""
    if command not in SCRIPTED or error.startswith(("NOSCRIPT", *_RAISED_BY_SERVER)):
        return False
    if script is None:
        return error.partition(" ")[0] not in _OF_SERVERS
    told = (text.strip().removeprefix("-") for _, text in _SAYS.findall(script))
    return any(text in error for text in told)
