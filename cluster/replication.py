"""Redis's asynchronous replication: who copies whom, and the sentinels that decide about it.

A replica reaches its primary through a link of its own, which can be cut. Sentinels, and the orders that they give to
nodes, know every node by the address at which it listens itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from cluster import resp
from cluster.address import Address
from cluster.base import Node
from cluster.polling import ENDLESS, Patience
from cluster.probe import MARK_PREFIX
from fencepost.errors import BrokenEnvironmentError
from fencepost.quorum import quorum

GROUP: Final = "fencepost"
"""What sentinels call the primary and its replicas."""
DOWN_AFTER_MS: Final = 2_000
"""How long a primary must be silent before a sentinel takes it for down: more than a busy machine keeps it waiting."""
FAILOVER_LIMIT_MS: Final = 20_000
"""A failover that began and came to nothing is tried again after twice this time. A replica that does not copy the
address at which the primary itself listens is told to, after this time: so long, its link can be cut."""
ASK_MS: Final = 1_000.0


def introduce(node: Node) -> None:
    """Tell a server that was just started what it needs as a primary and as a replica. Raises
    BrokenEnvironmentError."""
    settings = {
        # A primary waits for seconds for further replicas before it sends its data.
        "repl-diskless-sync-delay": "0",
        # Where a link ends is not where the replica listens.
        "replica-announce-ip": node.address.host,
        "replica-announce-port": str(node.address.port),
    }
    if login := node.address.login:
        settings |= {"masteruser": login.user, "masterauth": login.password}
    for name, value in settings.items():
        _tell(node, "CONFIG", "SET", name, value)


def follow(replica: Node, primary: Node, through: Address, patience: Patience = ENDLESS) -> None:
    """`replica` copies `primary`, which it reaches by `through`. When this returns it has caught up, and the primary
    counts its acknowledgements, which may be a second later. Raises BrokenEnvironmentError."""
    _tell(replica, "REPLICAOF", through.host, str(through.port))
    what = f"the replication of {primary.name}"
    if patience.becomes_true(lambda: _is_in_step(replica), what):
        offset = _offset(primary)
        if patience.becomes_true(lambda: _has_acknowledged(replica, primary, offset), what, every_s=0.02):
            return
    raise BrokenEnvironmentError(f"{replica.name} does not follow {primary.name}; see logs/")


def promote(replica: Node) -> None:
    """It is a primary from now on. Raises BrokenEnvironmentError."""
    _tell(replica, "REPLICAOF", "NO", "ONE")


def watch(sentinels: Collection[Node], primary: Node, replicas: int, patience: Patience = ENDLESS) -> None:
    """The sentinels watch `primary` and its replicas, and a majority of them replaces it when it is down. When this
    returns, each knows the others and all replicas. Raises BrokenEnvironmentError."""
    host, port = primary.address
    for sentinel in sentinels:
        _tell(sentinel, "SENTINEL", "MONITOR", GROUP, host, str(port), str(quorum(len(sentinels))))
        settings = {"down-after-milliseconds": str(DOWN_AFTER_MS), "failover-timeout": str(FAILOVER_LIMIT_MS)}
        if login := primary.address.login:
            settings |= {"auth-user": login.user, "auth-pass": login.password}
        for name, value in settings.items():
            _tell(sentinel, "SENTINEL", "SET", GROUP, name, value)
        if login := sentinel.address.login:
            _tell(sentinel, "SENTINEL", "CONFIG", "SET", "sentinel-user", login.user)
            _tell(sentinel, "SENTINEL", "CONFIG", "SET", "sentinel-pass", login.password)
    known = {"num-other-sentinels": str(len(sentinels) - 1), "num-slaves": str(replicas)}
    if not patience.becomes_true(
        lambda: all(known.items() <= _view(sentinel).items() for sentinel in sentinels),
        "the sentinels' view of the nodes",
        every_s=0.02,
    ):
        raise BrokenEnvironmentError("the sentinels do not know each other and all replicas; see logs/")


def primary_of(sentinels: Collection[Node], nodes: Collection[Node]) -> Node | None:
    """The node that all of these sentinels name, if it takes itself for a primary as well. Raises
    BrokenEnvironmentError for a sentinel that does not answer."""
    named = Counter((view["ip"], view["port"]) for view in map(_view, sentinels))
    return next(
        (
            node
            for node in nodes
            if named[node.address.host, str(node.address.port)] == len(sentinels) and _is_primary(node)
        ),
        None,
    )


def _view(sentinel: Node) -> dict[str, str]:
    """What a sentinel knows of the primary."""
    reply = _ask(sentinel, "SENTINEL", "MASTER", GROUP)
    if not isinstance(reply, list):
        raise BrokenEnvironmentError(f"{sentinel.name} watches no primary: {reply}")
    words = list(map(str, reply))
    return dict(zip(words[::2], words[1::2], strict=True))


def _is_in_step(replica: Node) -> bool:
    role = _ask(replica, "ROLE")
    return isinstance(role, list) and role[0] == "slave" and role[3] == "connected"


def _offset(primary: Node) -> int:
    """How many bytes of its history there are, now that one more write is part of it."""
    _tell(primary, "SET", f"{MARK_PREFIX}{primary.name}", "", "PX", "1000")
    return int(_replication(primary)["master_repl_offset"])


def _has_acknowledged(replica: Node, primary: Node, offset: int) -> bool:
    """A replica counts for WAIT only after its first acknowledgement, which it sends once a second."""
    host, port = replica.address
    lines = (value for name, value in _replication(primary).items() if name.startswith("slave"))
    facts = [dict(fact.partition("=")[::2] for fact in line.split(",")) for line in lines if "offset=" in line]
    return any((f["ip"], f["port"]) == (host, str(port)) and int(f["offset"]) >= offset for f in facts)


def _replication(node: Node) -> dict[str, str]:
    lines = str(_ask(node, "INFO", "replication")).splitlines()
    return dict(line.partition(":")[::2] for line in lines)


def _is_primary(node: Node) -> bool:
    """A node that does not answer is none."""
    try:
        role = _ask(node, "ROLE")
    except BrokenEnvironmentError:
        return False
    return isinstance(role, list) and role[0] == "master"


def _tell(node: Node, *words: str) -> None:
    if (reply := _ask(node, *words)) != "OK":
        raise BrokenEnvironmentError(f"{node.name} answered {words[0]} with {reply}")


def _ask(node: Node, *words: str) -> resp.Reply:
    try:
        (reply,) = resp.ask(node.address, words, timeout_ms=ASK_MS)
    except OSError as error:
        raise BrokenEnvironmentError(f"{node.name} does not answer {words[0]}: {error}") from error
    return reply
