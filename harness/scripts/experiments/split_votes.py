"""Two clients split the votes. How long do they have to wait before they ask again, so that they do not meet again?

n3 is down. c1 is close to n1 and n2, and c2 to n4 and n5: a request to the other two takes 200 ms, and so does every
attempt to reach a majority.
"""

from __future__ import annotations

from typing import Any, Final

from harness.scripts.expect import no_overlaps, sections
from harness.scripts.experiment import Stage, experiment
from nemesis.latency import Latency

_FAR: Final = (("c1", "n4"), ("c1", "n5"), ("c2", "n1"), ("c2", "n2"))
_SETTINGS: Final[dict[str, Any]] = {"node_timeout_ms": 1_000, "wait_ms": 5_000}


def meet(stage: Stage) -> None:
    """Both clients ask at once, and again for five seconds."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k2")  # the lock works
    one.release()
    stage.nodes("n3").kill()
    stage.inject("latency", Latency("delay", "far nodes", "both", _FAR, delay_ms=100))
    for attempt in [client.begin("acquire", "k1") for client in (one, two)]:
        attempt()


@experiment(retry_delay_ms=5, expect=no_overlaps() & sections(1), **_SETTINGS)
def retries_sooner_than_an_acquire(stage: Stage) -> None:
    """If clients ask again sooner than an attempt takes, they split the votes each time, and none gets the lock."""
    meet(stage)


@experiment(retry_delay_ms=2_000, expect=no_overlaps() & sections(2), **_SETTINGS)
def retries_later_than_an_acquire(stage: Stage) -> None:
    """If the delay is drawn from a time that is much longer than an attempt, one client is soon alone and gets the
    lock."""
    meet(stage)
