"""Two clients split the votes and are cut off, again and again, as the proposal of Redlock describes it.

c1 reaches n1 and n2, and c2 reaches n3. Both set the key there and are refused, and then a partition takes both away. A
third client, which reaches all nodes, asks for the lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster.base import CutKind, Direction
from harness.scripts.expect import no_overlaps, sections
from harness.scripts.experiment import Stage, experiment
from nemesis.partition import Partition

_TIMES: Final = 3
_VOTES: Final = (("c1", "n1"), ("c1", "n2"), ("c2", "n3"))
_SETTINGS: Final[dict[str, Any]] = {"clients": 3, "ttl_ms": 3_000, "node_timeout_ms": 1_000}


def cut(
    stage: Stage, links: tuple[tuple[str, str], ...], kind: CutKind = "drop", direction: Direction = "both"
) -> Callable[[], None]:
    """Cut these links at once; what is returned heals them."""
    fault = stage.inject("partition", Partition("script", kind, direction, links))
    return lambda: stage.heal(fault)


def partitions(stage: Stage, once: Callable[[Stage], None]) -> None:
    """`once`, several times; then all links are whole, and the first client asks until the keys must have expired."""
    others = tuple((client, node) for client in ("c1", "c2") for node in stage.node_names)
    heal = cut(stage, tuple(link for link in others if link not in _VOTES))
    for _ in range(_TIMES):
        once(stage)
    heal()
    stage.client("c1").enter("k1", within="1.2ttl")


def split_the_votes(stage: Stage) -> tuple[Callable[[], None], Callable[[], None]]:
    """Both clients have set their keys, and wait for the replies. What is returned brings the replies, and waits until
    both clients are refused."""
    let_go = cut(stage, _VOTES, "hold", "from-node")
    attempts = [client.begin("acquire", "k1") for client in stage.clients("c1", "c2")]
    stage.nodes("n1", "n2", "n3").hold("k1")

    def finish() -> None:
        for attempt in attempts:
            attempt()

    return let_go, finish


def ask_meanwhile(stage: Stage) -> None:
    """The third client asks, and does not keep what it gets."""
    three = stage.client("c3")
    if three.acquire("k1").outcome == "ok":
        three.release()


def cut_off_with_keys(stage: Stage) -> None:
    """The partition comes before the two clients can release, and lasts until their keys have expired."""
    let_go, finish = split_the_votes(stage)
    heal = cut(stage, _VOTES)
    ask_meanwhile(stage)
    finish()
    stage.wait("0.2ttl")
    let_go()
    heal()


def cut_off_without_keys(stage: Stage) -> None:
    """The two clients release before the partition comes."""
    let_go, finish = split_the_votes(stage)
    let_go()
    finish()
    heal = cut(stage, _VOTES)
    ask_meanwhile(stage)
    heal()


@experiment(expect=no_overlaps() & sections(1), **_SETTINGS)
def partitions_before_the_release(stage: Stage) -> None:
    """As often as two clients split the votes and are cut off before they release, no client gets the lock; one gets it
    when the partitions have ended."""
    partitions(stage, cut_off_with_keys)


@experiment(expect=no_overlaps() & sections(_TIMES + 1), **_SETTINGS)
def partitions_after_the_release(stage: Stage) -> None:
    """If the two clients release before they are cut off, the third client gets the lock each time."""
    partitions(stage, cut_off_without_keys)
