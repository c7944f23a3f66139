"""Which program is taken, and what is said when there is none."""

from __future__ import annotations

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


def test_the_tools_folder_comes_before_path(tools: Path, tmp_path: Path) -> None:
    program(tmp_path / "path" / "redis-server", "Redis server v=1.0 sha=0")
    assert find_server("redis").version == "1.0"
    ours = program(tools / "redis-server", "Redis server v=2.0 sha=0")
    assert find_server("redis").path == ours


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
    with pytest.raises(BrokenEnvironmentError, match=rf"no {choice}-server in {tools} or on PATH; run `make setup`"):
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
    with pytest.raises(UsageError, match="that is no redis-server or valkey-server"):
        find_server(str(program(tmp_path / "other", "hello")))
    with pytest.raises(UsageError, match="ended with 3"):
        find_server(str(program(tmp_path / "failing", "Redis server v=1.0", code=3)))


def test_our_build_of_toxiproxy_tells_the_version_of_upstreams_module() -> None:
    assert find_toxiproxy().version.startswith("2.")


def test_a_program_that_only_has_the_name_is_not_taken_for_toxiproxy(tools: Path) -> None:
    program(tools / "fencepost-toxiproxy", "hello")
    with pytest.raises(BrokenEnvironmentError, match="that is no fencepost-toxiproxy"):
        find_toxiproxy()
