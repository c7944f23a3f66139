"""A client that outlives its lease writes late, between the next holder's read and its write.

Its token is the largest that the resource has seen, unless the next holder's read already carried a larger one.
"""

from __future__ import annotations

from harness.scripts.expect import lost_updates, no_lost_updates, stale_writes_refused
from harness.scripts.experiment import Stage, experiment


def late_write(stage: Stage, *, tokens: bool = True, after_a_write: bool = False) -> None:
    """The first client reads, and writes after the second one has read, or after it has written too."""
    one, two = stage.clients("c1", "c2")
    one.acquire("k1")
    if tokens:
        one.token()
    one.read()
    stage.wait("1.1ttl")
    two.acquire("k1")
    if tokens:
        two.token()
    two.read()
    if after_a_write:
        two.write()
    one.write()
    if not after_a_write:
        two.write()


@experiment(ttl_ms=500, expect=lost_updates())
def no_fencing(stage: Stage) -> None:
    """Without fencing the late write is accepted, and one of the two updates is lost."""
    late_write(stage, tokens=False)


@experiment(fencing="writes", ttl_ms=500, expect=lost_updates())
def fencing_of_writes_alone(stage: Stage) -> None:
    """If only writes carry a token, the late write is accepted, and the next holder's write overwrites it."""
    late_write(stage)


@experiment(fencing="writes", ttl_ms=500, expect=no_lost_updates() & stale_writes_refused())
def fencing_of_writes_after_a_write(stage: Stage) -> None:
    """If only writes carry a token, a write that comes after the next holder's write is refused."""
    late_write(stage, after_a_write=True)


@experiment(fencing="all", ttl_ms=500, expect=no_lost_updates() & stale_writes_refused())
def fencing_of_reads_and_writes(stage: Stage) -> None:
    """If reads carry a token too, the resource knows of the next holder and refuses the late write."""
    late_write(stage)


@experiment(workload="register", ttl_ms=500, expect=lost_updates())
def no_fencing_of_a_register(stage: Stage) -> None:
    """Without any check the late write is accepted, and the next holder's write overwrites it."""
    late_write(stage, tokens=False)


@experiment(workload="register", fencing="unique", ttl_ms=500, expect=no_lost_updates() & stale_writes_refused())
def fencing_by_the_unique_value(stage: Stage) -> None:
    """Without any token, a check of the lock's unique value refuses the late write: the next holder has replaced it."""
    late_write(stage, tokens=False)
