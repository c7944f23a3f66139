"""One server follows another: Redis's asynchronous replication, set up and ended while both run."""

from __future__ import annotations

from cluster import resp
from cluster.base import Address, Node
from cluster.waiting import becomes_true
from fencepost.errors import BrokenEnvironmentError

ASK_MS = 1_000.0


def follow(replica: Node, primary: Node, through: Address) -> None:
    """`replica` copies `primary`, which it reaches by `through`, and has caught up when this returns. Raises
    BrokenEnvironmentError."""
    # A primary waits for seconds for further replicas before it sends its data.
    _tell(primary, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
    if login := replica.address.login:
        _tell(replica, "CONFIG", "SET", "masteruser", login.user)
        _tell(replica, "CONFIG", "SET", "masterauth", login.password)
    _tell(replica, "REPLICAOF", through.host, str(through.port))
    if not becomes_true(lambda: _is_in_step(replica)):
        raise BrokenEnvironmentError(f"{replica.name} does not follow {primary.name}; see logs/")


def promote(replica: Node) -> None:
    """It is a primary from now on. Raises BrokenEnvironmentError."""
    _tell(replica, "REPLICAOF", "NO", "ONE")


def _is_in_step(replica: Node) -> bool:
    role = _ask(replica, "ROLE")
    return isinstance(role, list) and role[0] == "slave" and role[3] == "connected"


def _tell(node: Node, *words: str) -> None:
    if (reply := _ask(node, *words)) != "OK":
        raise BrokenEnvironmentError(f"{node.name} answered {words[0]} with {reply}")


def _ask(node: Node, *words: str) -> resp.Reply:
    try:
        (reply,) = resp.ask(node.address, words, timeout_ms=ASK_MS)
    except OSError as error:
        raise BrokenEnvironmentError(f"{node.name} does not answer {words[0]}: {error}") from error
    return reply
