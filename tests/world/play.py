"""Play a run in the world: its lock, workload, loads and faults are the real ones, and so is what plays the faults."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import pyarrow as pa

from cluster.address import Address
from cluster.base import RESOURCE
from cluster.servers.redis import SERVER
from fencepost.history import ClientEnd, Timeline, Write, task_names
from fencepost.options import fields_of
from harness.config import RunConfig
from harness.history.change_causes import WireRecord
from harness.history.run_tables import LinkTraffic
from harness.loads import with_loads
from harness.run.clients import STATES_OF
from harness.run.plan import topology_of
from harness.run.player import Player
from harness.store.wire import CONNECTIONS_SCHEMA, REQUESTS_SCHEMA
from nemesis.base import Step, World
from nemesis.schedule import draw_schedule, for_cluster, parse_spec
from tests.judge.histories import History
from tests.nemesis.fakes import FakeClient
from tests.world.clock import Clock, Process
from tests.world.node import Store
from tests.world.sockets import REPLACED, Link, Network, Socket
from workloads.base import LockSettings, NodeAddress
from workloads.control import NEVER_NS, State
from workloads.kinds import find_workload
from workloads.lock_steps import LockSteps
from workloads.options import LockOptions
from workloads.redis_resource import RedisResource
from workloads.resource import ACCEPTED
from workloads.workload import Client

_HOST: Final = "127.0.0.1"


class Played(History):
    """What a run left."""

    rows: list[dict[str, Any]]
    opened: list[dict[str, Any]]

    _wire: WireRecord | None = None

    def wire_record(self) -> WireRecord:
        self._wire = self._wire or self._tables()
        return self._wire

    def _tables(self) -> WireRecord:
        requests = [{name: row.get(name) for name in REQUESTS_SCHEMA.names} for row in self.rows]
        none = dict.fromkeys(CONNECTIONS_SCHEMA.names, 0) | {
            f"{who}_closed_ns": None for who in ("client", "node", "proxy")
        }
        return WireRecord(
            pa.Table.from_pylist(requests, REQUESTS_SCHEMA),
            pa.Table.from_pylist([none | row for row in self.opened], CONNECTIONS_SCHEMA),
            frozenset(self.config.node_names),
        )


@dataclass
class Block:
    """What a client says of itself, as `workloads.control.Control`."""

    start_ns: int = 0
    stop_ns: int = NEVER_NS
    state: State = State.STARTING
    since_ns: int = 0
    ops: int = 0
    sections: int = 0
    key: int = 0

    def ask_for(self, key: str) -> None:
        self.key = hash(key)

    def enter(self, state: State, at_ns: int) -> None:
        self.state, self.since_ns = state, at_ns

    def count(self, ops: int, sections: int) -> None:
        self.ops, self.sections = ops, sections


class Record:
    def __init__(self, ops: list[Any]) -> None:
        self._ops, self.ops = ops, 0

    def __call__(self, op: Any) -> None:
        self._ops.append(op)
        self.ops += 1


class Slot(FakeClient):
    """A client, and the process that lives in it now."""

    def __init__(self, name: str, play: Play) -> None:
        super().__init__(name, [])
        self._play, self.life, self.alive = play, 0, False
        self._sections = dict.fromkeys(task_names(name, play.config.users_per_client), 0)
        self.blocks, self.process = dict[str, Block](), Process()

    def restart(self) -> None:
        if self.alive or self._play.clock.now_ns >= self._play.stop_ns:
            return
        self.life, self.alive, self.paused = self.life + 1, True, False
        self.blocks = {user: Block(self._play.start_ns, self._play.stop_ns) for user in self._sections}
        self.process = Process(stalls=True)
        self._play.clock.spawn(self._live, self.process)

    def _live(self) -> None:
        play, config, stem = self._play, self._play.config, f"{self._play.config.seed}:{self.name}.{self.life}"
        settings = LockSettings(**fields_of(config, LockOptions), rng=Random(f"{stem}:lock"))
        nodes = [NodeAddress(_HOST, play.port(self.name, node), "") for node in config.node_names]
        lock = play.kind(nodes, settings)
        play.history.acquire_limit_ms = lock.describe().get("acquire_limit_ms")
        records = {user: Record(play.history.ops[user, self.life]) for user in self.blocks}
        steps = [
            LockSteps(user, config, lock, records[user], block, self._sections[user] + 1)
            for user, block in self.blocks.items()
        ]
        resource = RedisResource(_HOST, play.port(self.name, RESOURCE), None, 2_000)
        workload = find_workload(config.workload)
        resource.warm_up(workload.scripts)
        client: Client | None = None
        for each in reversed(steps):
            rng = Random(f"{config.seed}:{each.client}.{self.life}:workload")
            client = Client(config, each, resource, self.blocks[each.client], rng, second=client)
        assert client is not None
        self._enter(State.READY)
        while client.control.start_ns == 0 or play.clock.monotonic_ns() < client.control.start_ns:
            play.clock.sleep(0.005)
        workload.run(client)
        lock.close()
        self._enter(State.DONE)
        self.end("finished")

    def _enter(self, state: State) -> None:
        for block in self.blocks.values():
            block.enter(state, self._play.clock.monotonic_ns())

    def end(self, how: str) -> None:
        """Record how this life ended."""
        self.alive, self.paused = False, False
        history = self._play.history
        for user, block in self.blocks.items():
            self._sections[user] = max(self._sections[user], block.sections + (block.state is State.ACQUIRING))
            ops = len(history.ops[user, self.life])
            end = ClientEnd(user, self.life, how, self._play.clock.now_ns, ops=ops)  # type: ignore[arg-type]
            if how == "finished":
                end.at_ns = block.since_ns
            else:
                end.under_way, end.since_ns = block.state.name.lower(), block.since_ns
            history.ends.append(end)

    def is_at(self, step: Step) -> bool:
        return self.alive and any(block.state in STATES_OF[step] for block in self.blocks.values())

    def keys_at(self, step: Step) -> set[int]:
        return {block.key for block in self.blocks.values() if block.state in STATES_OF[step]}

    @property
    def is_starting(self) -> bool:
        return any(block.state is State.STARTING for block in self.blocks.values())

    def pause(self) -> None:
        super().pause()
        if self.alive:
            self._play.clock.pause(self.process)

    def resume(self) -> None:
        if self.paused:
            self._play.clock.resume(self.process)
        super().resume()

    def kill(self) -> None:
        if self.alive:
            self._play.clock.kill(self.process)
            self.end("killed")

    def cut_off(self) -> None:
        if self.alive:
            self._play.clock.kill(self.process)
            self.end("cut-off")


class _Fibers(Executor):
    """Does each step of the player in a fiber of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._open = clock, 0

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(call(*arguments, **named))
            except Exception as error:
                future.set_exception(error)
            self._open -= 1

        self._open += 1
        self._clock.spawn(run, self._clock.harness)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while self._open:
            self._clock.sleep(0.001)


class Play:
    """One run. `play` returns what it left."""

    def __init__(self, config: RunConfig, kind: Callable[..., Any]) -> None:
        self.config = with_loads(config)
        self.kind = kind
        self.clock = Clock(config.seed)
        self.start_ns, self.stop_ns = 0, NEVER_NS
        self.history = Played()
        self.history.config = self.config
        self.history.rows, self.history.opened = [], []
        topology = topology_of(self.config)
        keeps = config.persistence != "none"
        network = self.network = Network(topology)
        network.clock, network.holds, network.left = self.clock, self._holdings, self._lifetimes
        events = self.history.key_events
        network.nodes = {  # type: ignore[assignment]
            name: Store(name, network.calls, clock=self.clock, keeps=keeps, events=events) for name in topology.nodes
        }
        network.resource = Store(RESOURCE, network.calls, clock=self.clock, keeps=True)
        servers = {**network.nodes, RESOURCE: network.resource}
        network.by_port = {}
        for number, key in enumerate(network.links):
            of_node = key[1] != RESOURCE
            link = Link(*key, network.calls, address=Address(_HOST, 20_000 + number))
            link.clock, link.server = self.clock, servers[key[1]]  # type: ignore[assignment]
            link.rows = self.history.rows if of_node else None  # type: ignore[assignment]
            link.opened = self.history.opened if of_node else []
            network.links[key] = network.by_port[link.address.port] = link
        self.slots = {name: Slot(name, self) for name in topology.clients}
        self.world = World(network, self.slots, topology, self._is_over)  # type: ignore[arg-type]
        spec = for_cluster(parse_spec(config.nemesis), SERVER, topology)
        self.schedule = draw_schedule(spec, config.seed, topology, config.duration_ms)
        self.history.planned = len(self.schedule.faults)

    def port(self, client: str, server: str) -> int:
        return self.network.links[client, server].address.port

    def _holdings(self) -> Mapping[str, Mapping[str, bytes | None]]:
        self.clock.sleep(0.000_7)
        up = {name: node for name, node in self.network.nodes.items() if node.is_up()}
        return {
            name: {key: value.encode() if isinstance(value, str) else None for key, value in node.keys.items()}
            for name, node in up.items()
        }

    def _lifetimes(self) -> Mapping[str, Mapping[str, int]]:
        self.clock.sleep(0.000_7)
        now_ms = self.clock.wall_ms()
        up = {name: node for name, node in self.network.nodes.items() if node.is_up()}
        return {
            name: {key: node.ends_ms.get(key, now_ms - 1) - now_ms for key in node.keys} for name, node in up.items()
        }

    def _is_over(self) -> bool:
        return self.clock.now_ns >= self.start_ns + self.config.duration_ms * 1e6

    def play(self) -> Played:
        Socket.clock, Socket.network = self.clock, self.network
        with self.clock.in_place_of_time(**REPLACED):
            try:
                self._play()
            finally:
                self.clock.end()
        return self.history

    def _play(self) -> None:
        clock, config, history = self.clock, self.config, self.history
        for slot in self.slots.values():
            slot.restart()
        while any(slot.is_starting for slot in self.slots.values()):
            clock.sleep(0.005)
        self.start_ns = clock.now_ns + 100_000_000
        for block in self._blocks():
            block.start_ns = self.start_ns
        history.timeline = Timeline(start_ns=self.start_ns)
        clock.sleep(0.1)
        player = Player(self.schedule, self.world, history.faults.append, _Fibers(clock))
        while not self._is_over():
            elapsed_ms = (clock.now_ns - self.start_ns) / 1e6
            player.play(elapsed_ms)
            due_ms = min(player.next_ms() or config.duration_ms, config.duration_ms)
            clock.sleep(max(0.0, min(20, due_ms - elapsed_ms)) / 1e3 + 0.000_01)
        player.heal_all()
        for slot in self.slots.values():
            slot.resume()
        for node in self.network.nodes.values():
            node.resume()
            node.start()
        history.timeline.healed_ns = clock.now_ns
        clock.sleep(config.recovery_ms / 1e3)
        history.timeline.stop_ns = self.stop_ns = clock.now_ns
        for block in self._blocks():
            block.stop_ns = self.stop_ns
        grace_ns = clock.now_ns + int((2 * config.ttl_ms + min(config.hold.high_ms, 60_000) + 3_000) * 1e6)
        while any(slot.alive for slot in self.slots.values()) and clock.now_ns < grace_ns:
            clock.sleep(0.005)
        for slot in self.slots.values():
            slot.cut_off()
        clock.sleep(0.3)
        history.timeline.end_ns = clock.now_ns
        self._count_requests()
        self._read_resource()

    def _blocks(self) -> Iterator[Block]:
        return (block for slot in self.slots.values() for block in slot.blocks.values())

    def _count_requests(self) -> None:
        """What went over each link, before the load and in it."""
        sent = Counter((row["client"], row["node"], row["from_client_ns"] < self.start_ns) for row in self.history.rows)
        links = [link for link in self.network.links if link[1] != RESOURCE]
        self.history.traffic = [LinkTraffic(*link, sent[*link, True], sent[*link, False]) for link in links]

    def _read_resource(self) -> None:
        from msgspec.json import decode

        resource, counts = self.network.resource, dict[str, int]()
        for line in resource.keys.get(ACCEPTED, []):
            write = decode(line, type=Write)
            write.index = counts[write.key] = counts.get(write.key, 0) + 1
            self.history.writes.append(write)
        keys = dict.fromkeys([*self.config.key_names, *counts])
        self.history.final = {key: int(resource.keys.get(f"value:{key}", 0)) for key in keys}


def lock_of(name: str) -> Callable[..., Any]:
    """The class of a lock: `package.module:Class`, or a recipe's name."""
    module, _, kind = name.partition(":")
    if not kind:
        return importlib.import_module(f"workloads.locks.{name.replace('-', '_')}").LOCK
    return getattr(importlib.import_module(module), kind)
