"""Which program is taken, and what is said when there is none."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from cluster.programs import find_server, find_toxiproxy
from fencepost.errors import BrokenEnvironmentError, UsageError


def program(path: Path, prints: str, code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tools folder, and a PATH with nothing of ours on it."""
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path / "tools"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "tools" / "bin"


def test_a_server_on_path_takes_no_part_unless_it_is_named(tools: Path, tmp_path: Path) -> None:
    on_path = program(tmp_path / "path" / "redis-server", "Redis server v=1.0 sha=0")
    with pytest.raises(BrokenEnvironmentError, match=rf"no redis-server in {tools}; run `make setup`"):
        find_server("redis")
    ours = program(tools / "redis-server", "Redis server v=2.0 sha=0")
    assert (find_server("redis").path, str(find_server("redis"))) == (ours, "redis 2.0")
    assert str(find_server(f"redis={on_path}")) == f"redis 1.0 ({on_path})"


def test_without_a_wheel_for_the_machine_it_is_said_how_to_name_a_server(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(BrokenEnvironmentError, match=r"for riscv64 .*; name a program of yours: --server redis=PATH"):
        find_server("redis")


def test_a_program_named_for_a_server_must_be_one(tools: Path, tmp_path: Path) -> None:
    valkey = program(tmp_path / "mine", "Valkey server v=9.1.2 sha=0")
    assert find_server(f"valkey={valkey}").name == "valkey"
    for choice, said in (
        (f"redis={valkey}", "that is no redis-server"),
        ("redis=", "there is no program at this path"),
        ("redis=redis-server", "there is no program at this path"),
        (f"redis={tmp_path}", "there is no program at this path"),
        (f"memcached={valkey}", f"'memcached={valkey}' is not known"),
        ("redis=image:", "write an image with its tag or digest"),
        ("redis=image:redis", "write an image with its tag or digest"),
        ("redis=image:-v redis:7", "write an image with its tag or digest"),
    ):
        with pytest.raises(UsageError, match=re.escape(said)) as refused:
            find_server(choice)
        assert "\n" not in str(refused.value)


def test_an_image_is_named_with_its_tag_or_digest(tools: Path) -> None:
    for reference in ("redis:7.4", "registry.example:5000/mine/redis:8", f"redis@sha256:{'a' * 64}"):
        found = find_server(f"redis=image:{reference}")
        assert (found.name, found.image, str(found.path)) == ("redis", reference, "/usr/local/bin/redis-server")
        assert str(found) == f"redis of the image {reference}"


def test_the_facts_of_a_program_tell_which_file_it_is(tools: Path) -> None:
    path = program(tools / "redis-server", "Redis server v=2.0 sha=0")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    found = find_server("redis")
    assert found.facts() == {
        "name": "redis",
        "version": "2.0",
        "is_named": False,
        "path": str(path),
        "sha256": digest,
    }
    program(path, "Redis server v=2.1 sha=0")
    assert find_server("redis").facts()["sha256"] != digest


def test_a_program_is_of_the_server_that_it_says_it_is(tools: Path) -> None:
    path = program(tools / "my-server", "Valkey server v=8.1.8 sha=0")
    found = find_server(str(path))
    assert (found.name, found.version, found.path) == ("valkey", "8.1.8", path)


def test_a_program_is_asked_once_for_its_version_and_again_when_it_has_changed(tools: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    path = program(tools / "redis-server", f"Redis server v=1.0 sha=0'; echo >>'{asked}")
    assert [find_server("redis").version for _ in range(3)] == ["1.0"] * 3
    assert asked.read_text() == "\n"
    program(path, f"Redis server v=2.0.1 sha=0'; echo >>'{asked}")
    assert find_server("redis").version == "2.0.1"
    assert asked.read_text() == "\n\n"


@pytest.mark.parametrize("choice", ["redis", "valkey"])
def test_a_missing_server_names_where_it_was_looked_for_and_what_to_do(tools: Path, choice: str) -> None:
    with pytest.raises(BrokenEnvironmentError, match=rf"no {choice}-server in {tools}; run `make setup`"):
        find_server(choice)


def test_a_missing_toxiproxy_names_where_it_was_looked_for(tools: Path) -> None:
    with pytest.raises(BrokenEnvironmentError, match=rf"no fencepost-toxiproxy in {tools} or on PATH; run"):
        find_toxiproxy()


def test_an_unknown_word_and_a_wrong_path_are_the_users_mistake(tools: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'memcached' is not known"):
        find_server("memcached")
    with pytest.raises(UsageError, match="there is no program at this path"):
        find_server(str(tmp_path / "missing"))
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with pytest.raises(UsageError, match="there is no program at this path"):
        find_server(str(plain))
    with pytest.raises(UsageError, match="that is no etcd, redis-server or valkey-server"):
        find_server(str(program(tmp_path / "other", "hello")))
    with pytest.raises(UsageError, match="ended with 3"):
        find_server(str(program(tmp_path / "failing", "Redis server v=1.0", code=3)))


def test_our_build_of_toxiproxy_tells_the_version_of_upstreams_module() -> None:
    assert find_toxiproxy().version.startswith("2.")


def test_a_program_that_only_has_the_name_is_not_taken_for_toxiproxy(tools: Path) -> None:
    program(tools / "fencepost-toxiproxy", "hello")
    with pytest.raises(BrokenEnvironmentError, match="that is no fencepost-toxiproxy"):
        find_toxiproxy()
