"""No other client is inside while our locks say that they are held, whatever happens to the network and the servers."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.fencepost(duration="5s", recovery="1s", clients=4)


@pytest.mark.parametrize("lock", ["Quorum", "AsyncQuorum"])
def test_no_overlap_while_the_network_is_partitioned(fencepost, lock):
    run = fencepost.run(f"locks_under_test:{lock}", nemesis="partition")
    assert run.valid, run.story


def test_no_overlap_while_clients_pause(fencepost):
    run = fencepost.run("locks_under_test:Quorum", nemesis="pause")
    assert run.valid, run.story
