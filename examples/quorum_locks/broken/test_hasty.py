"""This test fails: the lock is broken on purpose. `pytest broken` shows what an author then sees."""

from __future__ import annotations


def test_no_overlap_while_the_network_is_partitioned(fencepost):
    run = fencepost.run("hasty:Hasty", nemesis="partition", duration="5s", recovery="1s", clients=4)
    assert run.valid, run.story
