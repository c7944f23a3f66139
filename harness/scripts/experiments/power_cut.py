"""A power cut loses everything that was not fsynced: here fsync=everysec and fsync=always differ.

With `everysec` a lone write is fsynced immediately, and a write within the second after it is not. So a third client
acquires another lock just before, at the start of a second: n3's fsync for this second is used up when k1 is set.
"""

from __future__ import annotations

import time

from cluster.probe import MARK_LIFE_MS
from harness.scripts.expect import no_overlaps, overlaps_blamed_on, sections
from harness.scripts.experiment import Stage, experiment


@experiment(persistence="aof-everysec", disks=True, clients=3, expect=overlaps_blamed_on("lock"))
def power_cut_with_aof_everysec(stage: Stage) -> None:
    """A power cut within a second of the grant makes a node with fsync=everysec forget the grant."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    spend_the_fsync(stage)
    one.acquire("k1")
    stage.nodes("n3").cut_power().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")


@experiment(persistence="aof-always", disks=True, clients=3, expect=no_overlaps() & sections(3))
def power_cut_with_aof_always(stage: Stage) -> None:
    """With fsync=always the grant was on disk before the client learned of it: a power cut loses nothing."""
    one, two = stage.clients("c1", "c2")
    one.sees("n1", "n2", "n3")
    spend_the_fsync(stage)
    one.acquire("k1")
    stage.nodes("n3").cut_power().start()
    two.sees("n3", "n4", "n5")
    two.acquire("k1")  # refused
    one.release()
    two.enter("k1")


def spend_the_fsync(stage: Stage) -> None:
    """The third client causes an fsync at the start of a second, so that there is no other one for the rest of it.

    Servers count these seconds by the wall clock, or from the last fsync. So first wait until the marks of earlier
    probes have expired (a server appends a DEL for each) and that is fsynced, and then until the next full second.
    """
    stage.wait(f"{MARK_LIFE_MS + 200 + 1_100}ms")  # a server may take 200 ms to see that a key has expired
    stage.wait_until(time.monotonic() + 1.02 - time.time() % 1)
    stage.client("c3").acquire("k2")
    stage.wait("100ms")  # the fsync runs in the background
