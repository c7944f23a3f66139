"""Whether a Docker engine can host a cluster, found out by having it host a small one: two servers and a proxy come up,
are dialled from this machine, and one server is paused, killed and started again.

An engine can answer and be of no use: its containers may have a network that this machine does not reach (rootless, a
virtual machine), or it may not see the folder for temporary files (a snap). The trial takes a second or two, so an
engine that passed it is remembered until the machine, the engine or the programs change.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cluster.engine_address import Engine
from cluster.engine_http import CALL_S, ask_engine
from cluster.engine_runs import image_ids, remove_images
from cluster.lifetime import RunState, temporary_folder
from cluster.site import UnavailableError
from cluster.spec import ClusterSpec
from fencepost.errors import BrokenEnvironmentError
from fencepost.setup.machine import tools_folder

_ANSWER_MS: Final = 1_000.0
USE_ANOTHER: Final = "use another engine (`docker context use`, DOCKER_HOST), or --cluster process"

_failed: dict[str, UnfitEngineError] = {}
"""The trials of this process that went wrong."""


class UnfitEngineError(UnavailableError):
    """The engine answers and cannot host a cluster."""

    def __init__(self, engine: Engine, why: str) -> None:
        super().__init__(f"the Docker engine at {engine} cannot host a cluster: {why}", USE_ANOTHER)


def check_engine(engine: Engine, spec: ClusterSpec, *, answers_within_s: float = CALL_S) -> None:
    """Raises UnfitEngineError if the engine cannot host clusters of this specification's programs, NoEngineError if it
    does not answer. The outcome of an earlier trial counts."""
    facts = engine_facts(engine, answers_within_s)
    key = _key(engine, facts, spec)
    passed = tools_folder() / "engines" / key
    if passed.exists():
        return
    if key in _failed:
        raise _failed[key]
    try:
        try_engine(engine, facts, spec)
    except UnfitEngineError as error:
        _failed[key] = error
        raise
    with suppress(OSError):  # it is tried again next time
        passed.parent.mkdir(parents=True, exist_ok=True)
        passed.write_text(f"{engine}\n")


def engine_facts(engine: Engine, within_s: float = CALL_S) -> dict[str, Any]:
    """What the engine says of itself (`docker info`). Raises NoEngineError, or UnfitEngineError if it says nothing."""
    reply = ask_engine(engine, "GET", "/info", within_s=within_s)
    if not reply.is_success or not isinstance(reply.body, dict):
        raise UnfitEngineError(engine, f"it does not tell about itself: {reply.words}")
    return reply.body


def try_engine(engine: Engine, facts: dict[str, Any], spec: ClusterSpec) -> None:
    """Host a small cluster of the specification's programs. Raises UnfitEngineError, after everything was removed,
    images that were built for it, too."""
    if _is_rootless(facts):
        raise UnfitEngineError(
            engine, "it is rootless, and its containers have a network of their own, which this machine does not reach"
        )
    with RunState.create(site=engine.site) as state:
        try:
            before = image_ids(engine)
            try:
                _host_small(spec, state)
            except BrokenEnvironmentError:
                with suppress(BrokenEnvironmentError):
                    remove_images(engine, keep=before)
                raise
        except BrokenEnvironmentError as error:
            raise UnfitEngineError(engine, _why(str(error))) from error


def _is_rootless(facts: dict[str, Any]) -> bool:
    """Docker says so among its security options, Podman has a word of its own."""
    options = facts.get("SecurityOptions") or []
    return bool(facts.get("Rootless")) or any("rootless" in str(option) for option in options)


def _host_small(spec: ClusterSpec, state: RunState) -> None:
    from cluster.docker import DockerCluster

    small = replace(
        spec, nodes=spec.nodes[:1], clients=spec.clients[:1], replication="none", disks=None, clock_library=None
    )
    if spec.group:  # one member is no group
        small = replace(small, server=spec.resource_server)
    cluster = DockerCluster(small, state, state.path / "logs")
    cluster.start()
    try:
        (node,) = cluster.nodes.values()
        for verb in (node.pause, node.resume, node.kill, node.start):
            verb()
        answered = [seen.answered for seen in cluster.probe(list(cluster.links), _ANSWER_MS).values()]
    finally:
        cluster.stop()
    if not all(answered):
        raise BrokenEnvironmentError("this machine does not reach the ports that its containers open")


def _why(failed: str) -> str:
    """What failed, and what is known to be the cause."""
    if "gateway" in failed:
        return f"its internal networks have no gateway; for Podman set network_backend to netavark ({failed})"
    if str(temporary_folder()) in failed:
        return f"it does not see the folder for temporary files; set TMPDIR to one that it sees ({failed})"
    return failed


def _key(engine: Engine, facts: dict[str, Any], spec: ClusterSpec) -> str:
    place = temporary_folder()
    programs = [f"{program.path} {program.version}" for program in (spec.server, spec.resource_server, spec.toxiproxy)]
    known = [
        engine.encode(),
        *(str(facts.get(name)) for name in ("ID", "ServerVersion", "DockerRootDir", "SecurityOptions")),
        Path("/proc/sys/kernel/random/boot_id").read_text(),
        str(os.getuid()),
        # Engines that see only a part of the files see all of a folder at the top, or nothing of it.
        f"{place.parts[1:2]} {place.stat().st_dev if place.exists() else None}",
        *programs,
    ]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]
