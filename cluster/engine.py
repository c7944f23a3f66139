"""The Docker engine through its SDK: a client of it, its errors, and a network for a run. What a run makes there is
removed without the SDK (`cluster.engine_sweep`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import requests
from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from docker.tls import TLSConfig
from docker.types import IPAMConfig, IPAMPool

from cluster.engine_address import Engine, NoEngineError
from cluster.engine_http import CALL_S, ask_engine
from fencepost.errors import BrokenEnvironmentError

ENGINE_ERRORS = (DockerException, requests.RequestException, OSError)
"""What the SDK raises when the engine refuses, fails or does not answer."""

CALLS_AT_ONCE = 16
"""The number of concurrent calls while everything starts."""


def connect(engine: Engine) -> DockerClient:
    """A client of the engine, which has answered. Raises NoEngineError if it does not."""
    reply = ask_engine(engine, "GET", "/version")
    try:
        if not reply.is_success:
            raise ValueError(reply.words)
        client = DockerClient(
            base_url=engine.host if engine.socket else "tcp://{}:{}".format(*engine.place),
            version=reply.body["ApiVersion"],
            timeout=CALL_S,
            tls=_tls(engine) if engine.has_tls else False,
            max_pool_size=2 * CALLS_AT_ONCE,
        )
    except (LookupError, TypeError, ValueError, *ENGINE_ERRORS) as error:
        raise NoEngineError(engine, error) from error
    client.api.trust_env = False  # a proxy for the web is not on the way to an engine
    return client


def _tls(engine: Engine) -> TLSConfig:
    folder = engine.certificates
    return TLSConfig((f"{folder}/cert.pem", f"{folder}/key.pem"), f"{folder}/ca.pem", engine.verify)


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
    can get in between; then it is tried again. The network is internal: this host reaches the containers, and no host
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
