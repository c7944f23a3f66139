"""A start that is called off ends soon, at whichever step it was, and leaves nothing."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from cluster.base import CalledOffError
from cluster.docker import DockerCluster
from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_sweep import RUN_LABEL
from cluster.lifetime import RunState
from cluster.process import ProcessCluster
from tests.cluster.reapers import left_of
from tests.specs import spec_of

BACKENDS = [
    pytest.param(ProcessCluster, id="process"),
    pytest.param(DockerCluster, id="docker", marks=pytest.mark.needs("engine")),
]


@pytest.mark.parametrize("kind", BACKENDS)
def test_it_leaves_nothing_whichever_step_it_was_at(
    tmp_path: Path, state: RunState, kind: type[ProcessCluster | DockerCluster]
) -> None:
    steps = _steps_of_a_start(tmp_path, state, kind)
    assert steps >= 3
    for called_off_at in range(steps):
        asked = count()
        cluster = kind(spec_of(["n1", "n2"], ["c1"]), state, tmp_path / "logs")
        try:
            cluster.start(lambda: next(asked) >= called_off_at)  # noqa: B023
        except CalledOffError:
            pass
        else:
            assert next(asked) <= called_off_at, "it was told, and went on"
            cluster.stop()  # this one waited for less, and so asked less often
        assert [line for line in left_of(state.path) if line != str(state.path)] == []
        assert {path.name for path in state.path.iterdir()} - {"site.json"} == {"owner.lock"}
        if kind is DockerCluster:
            assert _in_the_engine(state) == 0


def _steps_of_a_start(tmp_path: Path, state: RunState, kind: type[ProcessCluster | DockerCluster]) -> int:
    """How often a start that nobody calls off asks whether it is."""
    asked = count()
    cluster = kind(spec_of(["n1", "n2"], ["c1"]), state, tmp_path / "logs")
    cluster.start(lambda: next(asked) < 0)
    cluster.stop()
    return next(asked)


def _in_the_engine(state: RunState) -> int:
    engine = connect(find_engine())
    try:
        named = {"label": f"{RUN_LABEL}={state.run_id}"}
        return len(engine.api.containers(all=True, filters=named)) + len(engine.api.networks(filters=named))
    finally:
        engine.close()
