"""What a client's slot says while faults kill, restart and stop its process in threads of their own."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from cluster.base import Cluster
from fencepost.history import ClientEnd
from harness.config import RunConfig
from harness.run import clients
from harness.run.clients import ClientSlot
from harness.store.run_folder import RunFolder
from workloads.base import NodeAddress
from workloads.client import ResourceAddress
from workloads.control import State

ROUNDS = 40


class Unserved(ClientSlot):
    """A client that knows of no servers: its process only sleeps."""

    def _dialled(self, node: str) -> NodeAddress:
        return NodeAddress("127.0.0.1", 1, "redis://127.0.0.1:1", None)

    def _dialled_resource(self) -> ResourceAddress:
        return ResourceAddress("127.0.0.1", 1, None)


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ClientSlot, list[ClientEnd]]:
    ends: list[ClientEnd] = []

    def sleeper(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return started(["sleep", "60"], start_new_session=options["start_new_session"])

    started = subprocess.Popen
    monkeypatch.setattr(clients.subprocess, "Popen", sleeper)  # type: ignore[attr-defined]
    folder = RunFolder(tmp_path)
    folder.logs.mkdir()
    made = Unserved("c1", RunConfig(seed=1), cast(Cluster, None), folder, tmp_path, dict(os.environ), ends.append)
    return made, ends


def test_a_client_may_be_looked_at_while_others_kill_and_restart_and_stop_it(
    slot: tuple[ClientSlot, list[ClientEnd]],
) -> None:
    client, ends = slot
    client.start()

    def kill_and_restart() -> None:
        for _ in range(ROUNDS):
            client.kill()
            client.restart()

    def stop_and_continue() -> None:
        for _ in range(ROUNDS):
            client.pause()
            client.resume()

    with ThreadPoolExecutor() as threads:
        verbs = [threads.submit(kill_and_restart), threads.submit(stop_and_continue)]
        while not all(verb.done() for verb in verbs):
            client.reap()
            assert (client.ops, client.sections, set(client.states)) == (0, 0, {State.STARTING})
            client.is_at("inside")
            client.is_paused()
            client.condition(1.0)
        for verb in verbs:
            verb.result()
    client.cut_off()
    assert [end.how for end in ends] == ["killed"] * ROUNDS + ["cut-off"], "nobody is taken for one that died by itself"


@pytest.mark.parametrize(
    ("state", "also"), [(State.EXTENDING, set()), (State.REENTERING, {"acquiring"}), (State.LEAVING, {"releasing"})]
)
def test_a_client_that_extends_or_acquires_once_more_is_inside_and_can_be_caught_extending(
    state: State, also: set[str]
) -> None:
    assert {step for step, states in clients.STATES_OF.items() if state in states} == {"inside", "extending", *also}
