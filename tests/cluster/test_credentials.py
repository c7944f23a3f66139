"""Who may ask a server for what: nothing without the password, and with it nothing that reaches beyond the keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hiredis
import pytest

from cluster.address import Address
from cluster.credentials import Access, Login
from cluster.lifetime import RunState
from cluster.process import ProcessCluster
from cluster.programs import find_server
from cluster.resp import Command, ask
from cluster.servers import redis
from tests.specs import spec_of

BEYOND_THE_KEYS: list[Command] = [
    ("CONFIG", "SET", "dir", "/tmp"),
    ("CONFIG", "SET", "notify-keyspace-events", "A"),
    ("CONFIG", "REWRITE"),
    ("MODULE", "LIST"),
    ("MODULE", "LOAD", "/tmp/evil.so"),
    ("DEBUG", "SLEEP", 0),
    ("ACL", "LIST"),
    ("SHUTDOWN", "NOSAVE"),
    ("REPLICAOF", "127.0.0.1", 1),
    ("SLAVEOF", "127.0.0.1", 1),
    ("FAILOVER",),
    ("MIGRATE", "127.0.0.1", 1, "k", 0, 10),
    ("SYNC",),
]
TO_EVERYBODY = ("error: ERR DEBUG command not allowed", "error: ERR MODULE command not allowed")
"""What servers newer than 6.2 answer to these, before they ask who it is."""

LOCKS_USE: list[Command] = [
    ("PING",),
    ("SET", "k", "v", "NX", "PX", 1000),
    ("EVAL", "return redis.call('del', KEYS[1])", 1, "k"),
    ("CONFIG", "GET", "maxclients"),
    ("INFO", "server"),
    ("CLIENT", "SETNAME", "lock"),
    ("PUBLISH", "channel", "message"),
    ("HELLO", 3),
    ("SCRIPT", "FLUSH"),
]


@pytest.fixture(scope="module", params=["redis", pytest.param("valkey", marks=pytest.mark.needs("valkey"))])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Access]]:
    """A node where clients need a password, and the passwords. The address is without a login."""
    folder, access = tmp_path_factory.mktemp("node"), Access.fresh(closed=True)
    with RunState.create(parent=folder / "state") as state:
        spec = spec_of(["n1"], ["c1"], server=find_server(request.param), access=access)
        cluster = ProcessCluster(spec, state, folder / "logs")
        cluster.start()
        yield Address(*cluster.nodes["n1"].address), access
        cluster.stop()


def said(address: Address, command: Command) -> str:
    (reply,) = ask(address, command, timeout_ms=1000)
    return f"error: {reply}" if isinstance(reply, hiredis.ReplyError) else str(reply)


@pytest.mark.parametrize("command", [*BEYOND_THE_KEYS, *LOCKS_USE], ids=lambda command: "-".join(map(str, command[:2])))
def test_without_a_password_nothing_is_answered(node: tuple[Address, Access], command: Command) -> None:
    assert said(node[0], command).startswith(("error: NOAUTH", *TO_EVERYBODY))


@pytest.mark.parametrize("command", BEYOND_THE_KEYS, ids=lambda command: "-".join(map(str, command[:2])))
def test_a_lock_may_not_reach_beyond_the_keys(node: tuple[Address, Access], command: Command) -> None:
    address, access = node
    assert access.clients is not None
    answer = said(address.behind(Login("default", access.clients)), command)
    assert answer.startswith(("error: NOPERM", *TO_EVERYBODY))


@pytest.mark.parametrize("command", LOCKS_USE, ids=lambda command: "-".join(map(str, command[:2])))
def test_a_lock_may_use_the_keys_as_it_likes(node: tuple[Address, Access], command: Command) -> None:
    address, access = node
    assert access.clients is not None
    assert not said(address.behind(Login("default", access.clients)), command).startswith("error")


def test_the_harness_may_do_what_a_run_needs(node: tuple[Address, Access]) -> None:
    address, access = node
    for command in (("CONFIG", "SET", "notify-keyspace-events", "Eg$hx"), ("CONFIG", "GET", "*")):
        assert not said(address.behind(access.harness), command).startswith("error")


def test_a_wrong_password_is_an_error_of_the_connection(node: tuple[Address, Access]) -> None:
    with pytest.raises(OSError, match="the server refuses the login"):
        ask(node[0].behind(Login("fencepost", "wrong")), ("PING",), timeout_ms=1000)


def test_a_server_counts_the_requests_that_it_turns_away(node: tuple[Address, Access]) -> None:
    address, access = node
    assert access.clients is not None
    harness = address.behind(access.harness)
    before = redis.read_denials(harness, 1_000)
    said(address, ("SET", "k", "v"))
    for _ in range(2):
        with pytest.raises(OSError, match="the server refuses the login"):
            ask(address.behind(Login("default", "wrong")), ("PING",), timeout_ms=1_000)
    for _ in range(3):
        said(address.behind(Login("default", access.clients)), ("ACL", "LIST"))
    after = redis.read_denials(harness, 1_000)
    assert {error: times - before.get(error, 0) for error, times in after.items()} == {
        "NOAUTH": 1 + 2,  # what is sent behind a login that is refused comes without one
        "WRONGPASS": 2,
        "NOPERM": 3,
    }


def test_without_a_need_for_passwords_locks_may_still_not_reach_beyond_the_keys(tmp_path: Path) -> None:
    """As in a sandbox."""
    with RunState.create(parent=tmp_path / "state") as state:
        cluster = ProcessCluster(spec_of(["n1"], ["c1"]), state, tmp_path / "logs")
        cluster.start()
        address = Address(*cluster.nodes["n1"].address)
        assert said(address, ("PING",)) == "PONG"
        assert said(address, ("CONFIG", "SET", "dir", "/tmp")).startswith("error: NOPERM")
        cluster.stop()


def test_passwords_are_never_shown() -> None:
    access = Access.fresh(closed=True)
    address = Address("127.0.0.1", 1).behind(access.harness)
    assert access.clients is not None
    for shown in (repr(access), str(access), repr(address), str(address), repr(access.harness), repr(access.users())):
        assert access.clients not in shown
        assert access.harness.password not in shown
    assert address == Address("127.0.0.1", 1)
    assert address.login is access.harness
