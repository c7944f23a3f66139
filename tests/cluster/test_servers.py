"""What the servers say of themselves: how they are started, recognised and dialled, and what they cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from cluster.credentials import Access
from cluster.persistence import POLICIES
from cluster.registry import server_named, servers
from cluster.server import Place, abilities
from cluster.servers import redis
from fencepost.errors import InternalError, UsageError
from fencepost.extensions import VARIABLE
from nemesis.base import Topology
from nemesis.schedule import check_server, check_spec, draw_schedule, for_cluster, left_out, parse_spec

REDIS = redis.SERVER
ACCESS = Access.fresh(closed=True)

OPTIONAL = ("shut_down", "key_reader", "key_events", "read_clock", "data_files", "write_errors")
"""What only some servers can do."""


def options(arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Names and values, as `redis-server` reads its arguments."""
    starts = [at for at, word in enumerate(arguments) if word.startswith("--")]
    for at, end in pairwise([*starts, len(arguments)]):
        yield arguments[at].removeprefix("--"), " ".join(arguments[at + 1 : end])


def test_redis_and_valkey_are_found() -> None:
    assert {"redis", "valkey"} <= set(servers())
    assert server_named("valkey").programs == ("valkey-server",)
    with pytest.raises(InternalError, match="no server is called 'memcached'"):
        server_named("memcached")


@pytest.mark.parametrize("name", ["redis", "valkey"])
def test_each_policy_is_what_the_arguments_say_and_what_is_checked_afterwards(name: str) -> None:
    server = server_named(name)
    assert server.policies == POLICIES
    for policy in POLICIES:
        given = dict(options(server.arguments(Place("127.0.0.1", 7, "/a folder", policy, ACCESS))))
        assert server.config_mismatch(policy, given) is None
        assert (given["bind"], given["port"], given["dir"]) == ("127.0.0.1", "7", "/a folder")
        assert given["save"] == ("1 1" if policy == "rdb" else "")
        assert given["appendonly"] == ("yes" if policy.startswith("aof") else "no")


def test_a_policy_that_is_not_in_force_is_named() -> None:
    everysec = dict(redis.persistence_directives("aof-everysec"))
    assert REDIS.config_mismatch("aof-always", everysec) == "appendfsync is 'everysec', not 'always'"
    assert REDIS.config_mismatch("none", everysec) == "appendonly is 'yes', not 'no'"
    assert REDIS.config_mismatch("none", {}) == "save is None, not ''; appendonly is None, not 'no'"


def test_only_a_server_on_a_network_of_its_own_lets_strangers_in() -> None:
    for host, protected in (("127.0.0.1", "yes"), ("0.0.0.0", "no")):
        assert dict(options(REDIS.arguments(Place(host, 1, "/f", "none", ACCESS))))["protected-mode"] == protected


def test_a_program_is_recognised_by_what_it_prints() -> None:
    redis_says, valkey_says = "Redis server v=7.0.15 sha=0", "Valkey server v=8.1.8 sha=0"
    valkey = server_named("valkey")
    assert (REDIS.version_in(redis_says), REDIS.version_in(valkey_says)) == ("7.0.15", None)
    assert (valkey.version_in(redis_says), valkey.version_in(valkey_says)) == (None, "8.1.8")


def test_only_of_postgres_a_closed_connection_tells_that_a_session_has_ended() -> None:
    assert {name for name, server in servers().items() if server.session_ends_with_connection} == {"postgres"}


def test_locks_dial_both_with_the_scheme_that_redis_libraries_know() -> None:
    for name in ("redis", "valkey"):
        assert server_named(name).url("127.0.0.1", 7001) == "redis://127.0.0.1:7001/0"


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ("shutdown", "a clean shutdown"),
        ("hunt:how=shutdown", "a clean shutdown and a list of keys"),
        ("hunt", "a list of keys"),
        ("clock", "a clock that can be read"),
        ("corrupt", "files that can be damaged"),
        ("errors", "writes that can be refused"),
    ],
)
def test_a_nemesis_that_needs_what_the_server_lacks_is_refused_in_one_line(spec: str, needs: str) -> None:
    topology = Topology(("c1", "c2"), ("n1", "n2", "n3"), 1_000)
    schedule = draw_schedule(parse_spec(spec), 7, topology, 10_000)
    poor = replace(REDIS, name="poor", **dict.fromkeys(OPTIONAL))
    check_server(schedule, REDIS, "aof-always")
    with pytest.raises(
        UsageError, match=f"needs {needs}, which the server poor does not have; choose another"
    ) as error:
        check_server(schedule, poor, "aof-always")
    assert "\n" not in str(error.value)


def test_crashes_and_partitions_need_nothing_of_a_server() -> None:
    topology = Topology(("c1", "c2"), ("n1", "n2", "n3"), 1_000)
    poor = replace(REDIS, name="poor", **dict.fromkeys(OPTIONAL))
    assert abilities(poor) == {"nodes of the run's own"}
    check_server(draw_schedule(parse_spec("crash+power+partition+pause"), 7, topology, 10_000), poor, "none")


@pytest.mark.parametrize("spec", ["crash", "power", "pause", "partition+shutdown", "pause:targets=one-node"])
def test_faults_of_nodes_that_are_not_the_run_s_own_are_refused(spec: str) -> None:
    topology = Topology(("c1", "c2"), ("n1", "n2", "n3"), 1_000)
    lent = REDIS.elsewhere
    assert lent is not None
    assert abilities(lent) == frozenset()
    check_spec(parse_spec(spec), REDIS, topology)
    with pytest.raises(UsageError, match="may act on nodes themselves, and those of --nodes-at are yours"):
        check_spec(parse_spec(spec), lent, topology)
    check_spec(parse_spec("partition+latency+pause:targets=clients+crash:targets=clients"), lent, topology)
    drawn = draw_schedule(for_cluster(parse_spec("standard"), lent, topology), 7, topology, 60_000)
    check_server(drawn, lent, "none")


def test_a_mix_goes_without_what_the_server_cannot_do() -> None:
    topology = Topology(("c1", "c2"), ("n1", "n2", "n3"), 1_000)
    poor = replace(REDIS, name="poor", **dict.fromkeys(OPTIONAL))
    spec = parse_spec("standard")
    assert (for_cluster(spec, REDIS, topology), left_out(spec, REDIS, topology)) == (spec, ())
    fewer = for_cluster(spec, poor, topology)
    assert left_out(spec, poor, topology) == ("errors",)
    assert {lane.name for lane in fewer.lanes} == {lane.name for lane in spec.lanes}
    check_server(draw_schedule(fewer, 7, topology, 600_000), poor, "none")
    with pytest.raises(UsageError, match="server poor does not have; choose another --nemesis"):
        check_server(draw_schedule(spec, 7, topology, 600_000), poor, "none")
    named = parse_spec("standard+errors")
    assert left_out(named, poor, topology) == (), "it was asked for by its name"
    with pytest.raises(UsageError, match="the nemesis errors needs writes that can be refused"):
        check_server(draw_schedule(for_cluster(named, poor, topology), 7, topology, 60_000), poor, "none")


def test_what_nodes_do_not_keep_cannot_be_damaged() -> None:
    topology = Topology(("c1", "c2"), ("n1", "n2", "n3"), 1_000)
    schedule = draw_schedule(parse_spec("corrupt"), 7, topology, 10_000)
    with pytest.raises(UsageError, match="with --persistence none that is nothing; choose another policy"):
        check_server(schedule, REDIS, "none")


def test_servers_outside_the_source_tree_are_found_after_those_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder := tmp_path / "cluster" / "servers").mkdir(parents=True)
    (folder / "a_toy.py").write_text(
        "from dataclasses import replace\nfrom cluster.servers.redis import SERVER as REDIS\n"
        "SERVER = replace(REDIS, name='a-toy')\n"
    )
    (folder / "helper.py").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    import cluster.servers
    from fencepost.extensions import extended

    monkeypatch.setattr(cluster.servers, "__path__", extended(cluster.servers.__path__, "cluster.servers"))
    servers.cache_clear()
    try:
        *_, last = servers()
        assert last == "a-toy", "so that a path to redis-server stays a Redis"
    finally:
        servers.cache_clear()
