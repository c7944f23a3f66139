"""The Docker engine: whether it answers, what of it belongs to a run, and how that is taken away again.

Everything that a run makes in the engine carries two labels, the run's id and the state folder of the process that
started it. Removal goes by these labels and never by a list kept in memory, so it also finds what a killed run left
behind, and it cannot touch what is not ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import docker
import requests
from docker import DockerClient
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from cluster.at_once import at_once
from cluster.lifetime import state_parent
from cluster.sweep import UnaskedError
from cluster.waiting import becomes_true
from fencepost.errors import BrokenEnvironmentError
from fencepost.setup.machine import IS_CLONE

ENGINE_ERRORS = (DockerException, requests.RequestException, OSError)
"""What the SDK raises when the engine refuses, fails or does not answer."""

RUN_LABEL = "fencepost.run"
STATE_LABEL = "fencepost.state"

_CALL_S = 10
CALLS_AT_ONCE = 16
"""The number of concurrent calls while everything starts or is removed."""


class NoEngineError(BrokenEnvironmentError):
    """No Docker engine answers. `found`: what was tried and why it failed, without what to do about it.
    `cannot_have_runs`: there is none, or none that this user may talk to, so it has nothing of this user's runs."""

    def __init__(self, cause: BaseException) -> None:
        self.found = f"no Docker engine answers at {engine_address()} ({cause})"
        self.cannot_have_runs = isinstance(cause, FileNotFoundError | PermissionError)
        install = "`make setup-docker` on Debian as root, or " if IS_CLONE else ""
        super().__init__(f"{self.found}; start it, or {install}use --cluster process")


def engine_address() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def engine_answers() -> bool:
    """Whether a Docker engine answers within a second."""
    try:
        _client(timeout_s=1).close()
    except ENGINE_ERRORS:
        return False
    return True


def connect() -> DockerClient:
    """A client of the engine. Raises NoEngineError if none answers."""
    try:
        return _client(_CALL_S)
    except ENGINE_ERRORS as error:
        raise NoEngineError(_last_cause(error)) from error


def _client(timeout_s: int) -> DockerClient:
    # Asking for the engine's version of the API is the first question, so a client that exists has had an answer.
    try:
        return docker.from_env(version="auto", timeout=timeout_s, max_pool_size=2 * CALLS_AT_ONCE)
    except ValueError as error:  # DOCKER_HOST is no address
        raise DockerException(str(error)) from error


def _last_cause(error: BaseException) -> BaseException:
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return error


def inspected(container: Container) -> Mapping[str, Any]:
    """The container's state as the engine has it now: `Running`, `Paused`, `Pid`, …"""
    client, name = container.client, str(container.id)
    assert client is not None
    state: Mapping[str, Any] = client.api.inspect_container(name)["State"]
    return state


def words_of(error: BaseException) -> str:
    """What the engine said, in one line."""
    told = getattr(error, "explanation", None) or str(error)
    return " ".join(str(told).split())


@dataclass(frozen=True, slots=True)
class Subnet:
    """A run's network, with the addresses that can be given to containers."""

    network: str
    pool: IPv4Network
    gateway: IPv4Address

    def addresses(self, count: int) -> list[str]:
        free = (str(host) for host in self.pool.hosts() if host != self.gateway)
        found = [host for _, host in zip(range(count), free, strict=False)]
        if len(found) < count:
            raise BrokenEnvironmentError(
                f"the Docker engine's address pools have networks of {self.pool}, too small for {count} servers; "
                "raise default-address-pools in its daemon.json"
            )
        return found


def create_network(client: DockerClient, name: str, labels: Mapping[str, str]) -> Subnet:
    """A bridge network in which containers can be given addresses that they keep.

    The engine assigns fixed addresses only in a network whose subnet was named by the user, and only the engine knows
    which subnets are free: so it chooses one, and the network is made a second time with exactly that. Another run
    can get in between; then it is tried again. The network is internal: this host reaches the containers, and nobody
    outside does, nor do they reach anything.
    """
    for _ in range(20):
        try:
            draft = client.networks.create(f"{name}-draft", driver="bridge", internal=True, labels=dict(labels))
        except APIError as error:
            raise BrokenEnvironmentError(
                f"the Docker engine has no room for another network ({words_of(error)}); remove unused ones with "
                "`fencepost clean` and `docker network prune`"
            ) from error
        draft.reload()
        pool = draft.attrs["IPAM"]["Config"][0]
        draft.remove()
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=pool["Subnet"], gateway=pool["Gateway"])])
        try:
            client.networks.create(name, driver="bridge", internal=True, labels=dict(labels), ipam=ipam)
        except APIError:
            if not _is_taken(client, IPv4Network(pool["Subnet"])):
                raise
            continue
        return Subnet(name, IPv4Network(pool["Subnet"]), IPv4Address(pool["Gateway"]))
    raise BrokenEnvironmentError("another program took every subnet that the Docker engine offered; try again")


def _is_taken(client: DockerClient, subnet: IPv4Network) -> bool:
    """Whether a network of the engine overlaps the subnet."""
    pools = (pool for network in client.networks.list() for pool in (network.attrs["IPAM"]["Config"] or []))
    return any(subnet.overlaps(IPv4Network(pool["Subnet"])) for pool in pools if ":" not in pool["Subnet"])


def sweep_docker(is_alive: Callable[[Path], bool], *, parent: Path | None = None) -> list[str]:
    """A `cluster.sweep.Sweeper`: remove containers and networks of dead runs; returns a line for each thing removed.

    Only what carries our labels and names a state folder in `parent` (`state_parent()` by default) is looked at: the
    engine may serve others, whose runs we could not know to be alive. Without an engine there is nothing to sweep.
    Raises UnaskedError if there is one that does not answer, and BrokenEnvironmentError, after all runs were looked at,
    if something cannot be removed.
    """
    parent = parent or state_parent()
    try:
        client = connect()
    except NoEngineError as error:
        if error.cannot_have_runs:
            return []
        raise UnaskedError(error.found) from error
    try:
        removed: list[str] = []
        stuck: list[str] = []
        for run_id, state in sorted(_labelled_runs(client)):
            if Path(state).parent == parent and not is_alive(Path(state)):
                try:
                    gone = remove_run(client, {RUN_LABEL: run_id, STATE_LABEL: state})
                except BrokenEnvironmentError as error:
                    stuck.append(str(error))
                else:
                    removed += [f"removed {what} from the Docker engine" for what in gone]
        if stuck:
            raise BrokenEnvironmentError("; ".join(stuck))
        return removed
    except ENGINE_ERRORS as error:
        raise BrokenEnvironmentError(f"cannot sweep the Docker engine: {words_of(error)}") from error
    finally:
        client.close()


def _labelled_runs(client: DockerClient) -> set[tuple[str, str]]:
    """The runs, as id and state folder, of which the engine has a container or a network."""
    filters: dict[str, str | list[str] | bool] = {"label": [RUN_LABEL, STATE_LABEL]}
    containers = client.containers.list(all=True, filters=filters, sparse=True, ignore_removed=True)
    found = [*containers, *client.networks.list(filters=filters)]
    return {(each.attrs["Labels"][RUN_LABEL], each.attrs["Labels"][STATE_LABEL]) for each in found}


def remove_run(client: DockerClient, labels: Mapping[str, str]) -> list[str]:
    """Remove every container and then every network that carries all of the labels; says what was removed.

    What is gone already, or is being removed by somebody else, is waited for. Raises BrokenEnvironmentError if
    something is still there after ten seconds.
    """
    filters: dict[str, str | list[str] | bool] = {"label": [f"{key}={value}" for key, value in labels.items()]}
    removed: dict[str, None] = {}
    problem = "none"

    def remove(name: str, call: Callable[[], object]) -> None:
        nonlocal problem
        removed[name] = None
        try:
            call()
        except NotFound:
            return
        except APIError as error:  # in removal by another, or a network that still has a container: look again
            problem = words_of(error)

    def is_gone() -> bool:
        containers = client.containers.list(all=True, filters=filters, sparse=True, ignore_removed=True)
        removals = [
            partial(remove, f"container {_name_of(each)}", partial(each.remove, force=True, v=True))
            for each in containers
        ]
        at_once(removals, at_most=CALLS_AT_ONCE)
        networks = client.networks.list(filters=filters)
        at_once([partial(remove, f"network {each.name}", each.remove) for each in networks], at_most=CALLS_AT_ONCE)
        return not containers and not networks

    if not becomes_true(is_gone, within_s=_CALL_S, every_s=0.02):
        raise BrokenEnvironmentError(
            f"the Docker engine did not remove {', '.join(removed)} within {_CALL_S} s: {problem}; "
            "restart the engine when nothing else uses it, then run `fencepost clean`"
        )
    return list(removed)


def _name_of(container: Container) -> str:
    # One that the engine is just removing may have lost its name already.
    names = container.attrs.get("Names") or [str(container.id)]
    return str(names[0]).lstrip("/")
