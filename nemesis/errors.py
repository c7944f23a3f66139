"""Nodes that answer writes with errors, as servers do that ran out of memory or lost their replicas.

An error is a reply: it comes at once, and it is a no. A library that counts replies and not their content takes it for
a yes; one that raises at the first error needs every node. What a node had promised before stays there, and expires.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import msgspec

from cluster.parallel import at_once
from cluster.server import Refusal
from fencepost.history import Impact
from fencepost.units import Duration
from nemesis.base import Evidence, FaultClass, Needs, TargetFields, Topology, World, hitting
from nemesis.do_all import do_all, in_service, named
from nemesis.node_down import NODE_MIXTURE, NodeTargets, drawn_nodes
from nemesis.random_draws import jittered, one_of, weighted

_KINDS: dict[str, Refusal] = {"oom": "out of memory", "no-replicas": "no replicas"}


class ErrorsOptions(msgspec.Struct, frozen=True):
    """`kind`: `oom` refuses new keys only, `no-replicas` every write. `mixed` draws one of them; of eight times four
    one node, three a minority, one a majority."""

    interval: Duration = Duration(4_000)
    duration: Duration = Duration(2_000)
    kind: Literal["mixed", "oom", "no-replicas"] = "mixed"
    targets: NodeTargets = "mixed"


class Errors(TargetFields, frozen=True):
    """`nodes` answer writes with errors, for the reason `why`."""

    nodes: tuple[str, ...]
    why: Refusal

    @property
    def needs(self) -> Needs:
        return Needs(server=frozenset({"writes that can be refused"}))

    @property
    def fault_class(self) -> FaultClass:
        return "node answers errors"

    def describe(self) -> str:
        return f"{','.join(self.nodes)} {'refuses' if len(self.nodes) == 1 else 'refuse'} writes: {self.why}"

    def inject(self, world: World, owner: str) -> Impact:
        impact = Impact(nodes=in_service(world, self.nodes), answers_errors=True)
        with hitting(impact):
            for name in impact.nodes:
                world.cluster.nodes[name].refuse_writes(self.why)
        return impact

    def probe(self, world: World, impact: Impact) -> Evidence:
        """A write is answered with an error. A node that another fault took out of service answers nothing."""
        said = self._said(world)
        words = [f"{name}: {word or ('no answer' if word is None else 'it is done')}" for name, word in said.items()]
        return Evidence(all(said[name] for name in self.nodes), "; ".join(words))

    def heal(self, world: World, owner: str, impact: Impact) -> Evidence:
        do_all([lambda name=name: world.cluster.nodes[name].refuse_writes(None) for name in self.nodes])  # type: ignore[misc]
        said = self._said(world)
        taking = [name for name, word in said.items() if word == ""]
        absent = [name for name, word in said.items() if word is None]
        words = named((taking, f"{'takes' if len(taking) == 1 else 'take'} writes again"))
        words += [f"{name}: {word}" for name, word in said.items() if word]
        words += named((absent, "out of service for another reason"))
        return Evidence(not any(said.values()), "; ".join(words))

    def _said(self, world: World) -> dict[str, str | None]:
        nodes = [world.cluster.nodes[name] for name in self.nodes]
        return dict(zip(self.nodes, at_once(node.write_error for node in nodes), strict=True))


class _ErrorsNemesis:
    name = "errors"
    help = (
        "lets nodes answer writes with errors: interval=4s, duration=2s, kind=mixed|oom|no-replicas (mixed), "
        "targets=mixed|one|minority|majority|all|n4,n5 (mixed)"
    )
    options = ErrorsOptions
    faults = Errors

    def draw(self, rng: Random, topology: Topology, options: msgspec.Struct) -> tuple[Errors, int]:
        assert isinstance(options, ErrorsOptions)
        duration_ms = jittered(rng, options.duration.ms(topology.ttl_ms))
        mixture = weighted(rng, NODE_MIXTURE)
        targets = mixture if options.targets == "mixed" else options.targets
        kind = one_of(rng, tuple(_KINDS))
        why = _KINDS[kind if options.kind == "mixed" else options.kind]
        return Errors(drawn_nodes(rng, targets, topology), why), duration_ms


NEMESIS = _ErrorsNemesis()
