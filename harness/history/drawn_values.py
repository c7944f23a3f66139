"""Did a client draw a value by itself that another client's key has?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.history import process_of

if TYPE_CHECKING:
    from harness.history.ledger import Change
    from harness.history.recorded import Recorded


def drew_it_too(run: Recorded, change: Change) -> bool:
    """Whether the client that changed another's key had named the key's value to that node in an earlier request, and
    none of the node's answers to it had shown the value before: so it cannot have read what it then compared with."""
    value, client, node = change["was"], change["client"], str(change["node"])
    if not value or run.ledger is None or client is None or change["by"] != "client" or change["request"] < 0:
        return False
    asked = run.ledger.sent.between(process_of(str(client)), node, 0, int(change["from_client_ns"]))
    earlier = [one for one in asked if one.from_client_ns < change["from_client_ns"]]
    for one in earlier:
        if value in one.arguments:
            return True
        if one.reply is not None and value in one.reply:
            return False
    return False
