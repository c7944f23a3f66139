"""A power cut takes what was not fsynced: here fsync=everysec and fsync=always differ.

With `everysec` a lone write is fsynced at once, and one that comes within the second after it is not. So a third client
acquires another lock right before, at the beginning of a second: n3's fsync for this second is spent when k1 is set.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.scripts.expect import no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


@experiment(persistence="aof-everysec", disks=True, clients=3, expect=overlaps_blamed_on("lock"))
def power_cut_with_aof_everysec(stage: Stage) -> None:
    """A power cut within the second after the grant makes a node with fsync=everysec forget it."""
    one, two, other = stage.clients("c1", "c2", "c3")
    one.sees("n1", "n2", "n3")
    spend_the_fsync(stage, lambda: other.acquire("k2"))
    one.acquire("k1")
    stage.nodes("n3").cut_power().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")


@experiment(persistence="aof-always", disks=True, clients=3, expect=no_overlaps() & sections(3))
def power_cut_with_aof_always(stage: Stage) -> None:
    """With fsync=always the grant was on the disk before the client heard of it: a power cut loses nothing."""
    one, two, other = stage.clients("c1", "c2", "c3")
    one.sees("n1", "n2", "n3")
    spend_the_fsync(stage, lambda: other.acquire("k2"))
    one.acquire("k1")
    stage.nodes("n3").cut_power().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


def spend_the_fsync(stage: Stage, write: Callable[[], object]) -> None:
    """Have a write fsynced at the beginning of a second, so that for the rest of it there will be no other fsync.

    Servers count these seconds by the wall clock, or from the last fsync on: hence the rest before, in which what was
    written by the probes of earlier steps is fsynced, and then the wait for the next full second.
    """
    stage.wait("1.1s")
    stage.wait_until(time.monotonic() + 1.02 - time.time() % 1)
    write()
    stage.wait("100ms")  # the fsync is made in the background
