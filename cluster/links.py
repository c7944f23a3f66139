"""The links of a cluster, whichever backend the servers run on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cluster.address import Address, LinkKey
from cluster.ports import Ports, PortTakenError
from cluster.toxiproxy import ToxicLink, ToxiproxyServer
from fencepost.errors import InternalError

_PORT_TRIES = 5


def make_links(
    api: ToxiproxyServer, keys: Collection[LinkKey], servers: Mapping[str, Address], ports: Ports
) -> dict[LinkKey, ToxicLink]:
    """The links, made in one call, which listen at `ports`. `servers`: where each server listens.

    If a port was taken in the meantime, fresh ones are tried. Raises BrokenEnvironmentError.
    """
    if not keys:
        return {}
    for last_try in (*[False] * (_PORT_TRIES - 1), True):
        taken = ports.take(len(keys))
        wanted = {key: (Address(ports.host, port), servers[key[1]]) for key, port in zip(keys, taken, strict=True)}
        try:
            return api.populate(wanted)
        except PortTakenError:
            if last_try:
                raise
    raise InternalError("the last try returns or raises")
