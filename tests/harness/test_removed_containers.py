"""Another program removes a container of a live run: the run ends, says which, and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.base import RemovedError
from cluster.docker import DockerCluster
from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_sweep import RUN_LABEL
from cluster.lifetime import RunState
from tests.harness import runs
from tests.harness.test_whole_runs import await_load
from tests.specs import spec_of

pytestmark = pytest.mark.needs("engine")


def in_the_engine(run_id: str) -> list[str]:
    client = connect(find_engine())
    filters: dict[str, str | list[str] | bool] = {"label": f"{RUN_LABEL}={run_id}"}
    found = [str(each.name) for each in client.containers.list(all=True, filters=filters, ignore_removed=True)]
    found += [str(each.name) for each in client.networks.list(filters=filters)]
    client.close()
    return found


def remove(run_id: str, part: str) -> None:
    client = connect(find_engine())
    client.containers.get(f"fencepost-{run_id}-{part}").remove(force=True)
    client.close()


@pytest.mark.parametrize("part", ["n2", "resource", "toxiproxy"])
def test_a_run_ends_and_names_the_container_that_was_removed(part: str, tmp_path: Path) -> None:
    process = runs.start(tmp_path, *runs.short_run("--duration", "60s", "--nemesis", "none", cluster="docker"))
    folder = await_load(process, tmp_path)
    remove(folder.name, part)
    code, out, err = runs.finish(process)
    assert code == 255, out + err
    name = {"toxiproxy": "Toxiproxy", "resource": "the resource"}.get(part, part)
    (line,) = [line for line in err.splitlines() if line.startswith("fencepost: ")]
    # The engine kills before it removes, and without these two a run ends as soon as it sees that.
    says = [f"the container of {name} was removed by another program"] + [f"{name} ended while"] * (part != "n2")
    assert any(line.startswith(f"fencepost: {words}") for words in says), err
    assert runs.is_gone(tmp_path, folder)
    assert in_the_engine(folder.name) == []


def test_a_node_that_a_fault_took_down_is_pruned_and_named(tmp_path: Path) -> None:
    """What `docker container prune` does: it removes containers that do not run."""
    with RunState.create(parent=tmp_path / "state", site=find_engine().site) as state:
        cluster = DockerCluster(spec_of(("n1", "n2"), ("c1",)), state, tmp_path / "logs")
        cluster.start()
        try:
            node = cluster.nodes["n1"]
            node.kill()
            assert node.condition(1_000) == "as wanted"
            remove(state.run_id, "n1")
            assert node.condition(1_000) == "gone"
            with pytest.raises(RemovedError, match="the container of n1 was removed by another program"):
                node.start()
            assert cluster.nodes["n2"].condition(1_000) == "as wanted"
        finally:
            cluster.stop()
        assert in_the_engine(state.run_id) == []
        assert {path.name for path in (tmp_path / "logs").iterdir()} >= {"n2.log", "resource.log"}
