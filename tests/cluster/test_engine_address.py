"""The engine is the one that the `docker` command would talk to."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.engine_address import Engine, NoContextError, NoEngineError, find_engine
from tests.cluster.engines import use_context, write_context


def found(config: Path, **environment: str) -> Engine:
    return find_engine({"DOCKER_CONFIG": str(config), **environment})


def test_without_variables_and_contexts_it_is_the_default_socket(tmp_path: Path) -> None:
    assert found(tmp_path) == Engine("unix:///var/run/docker.sock")
    assert found(tmp_path).is_default
    use_context(tmp_path, "default")
    assert found(tmp_path).is_default


def test_the_variable_goes_before_the_contexts(tmp_path: Path) -> None:
    write_context(tmp_path, "second", "unix:///second.sock")
    use_context(tmp_path, "second")
    assert found(tmp_path, DOCKER_HOST="unix:///x.sock", DOCKER_CONTEXT="second") == Engine("unix:///x.sock")


def test_the_current_context_and_one_named_by_a_variable(tmp_path: Path) -> None:
    write_context(tmp_path, "second", "unix:///second.sock", skip_verify=True)
    write_context(tmp_path, "third", "unix:///third.sock", skip_verify=True)
    use_context(tmp_path, "second")
    assert found(tmp_path) == Engine("unix:///second.sock", "second")
    assert str(found(tmp_path)) == "unix:///second.sock (context second)"
    assert not found(tmp_path).is_default
    assert found(tmp_path).variables == {"DOCKER_HOST": "unix:///second.sock"}
    assert found(tmp_path, DOCKER_CONTEXT="third") == Engine("unix:///third.sock", "third")
    assert found(tmp_path, DOCKER_CONTEXT="default").is_default


def test_the_certificates_of_a_context_are_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    write_context(tmp_path, "far", "tcp://127.0.0.1:2376", tls=tmp_path / "mine")
    engine = found(tmp_path, DOCKER_CONTEXT="far")
    assert engine.has_tls
    assert engine.verify
    assert engine.certificates.startswith(str(tmp_path / "contexts/tls"))
    assert engine.variables == {
        "DOCKER_HOST": "tcp://127.0.0.1:2376",
        "DOCKER_CERT_PATH": engine.certificates,
        "DOCKER_TLS_VERIFY": "1",
    }


def test_a_context_that_does_not_exist_is_not_taken_for_the_default_one(tmp_path: Path) -> None:
    with pytest.raises(NoContextError, match="DOCKER_CONTEXT names the Docker context 'gone', which does not exist"):
        found(tmp_path, DOCKER_CONTEXT="gone")
    use_context(tmp_path, "gone")
    with pytest.raises(NoContextError, match=r"config\.json names the Docker context 'gone', which does not exist"):
        found(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"currentContext": 7}', "\xff", "[" * 100_000])
def test_a_damaged_configuration_is_one_line_with_the_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(NoContextError, match=r"config\.json does not say which Docker engine to use") as raised:
        found(tmp_path)
    assert "\n" not in str(raised.value)


def test_what_is_encoded_is_decoded_again() -> None:
    engine = Engine("tcp://h:1", "second", "/certificates", verify=True)
    assert Engine.decode(engine.encode()) == engine


def test_an_engine_behind_ssh_has_no_runs_and_says_why() -> None:
    engine = Engine("ssh://user@host")
    with pytest.raises(ValueError, match="another machine") as raised:
        _ = engine.place
    error = NoEngineError(engine, raised.value)
    assert error.cannot_have_runs
    assert "name an engine of this machine, or use --cluster process" in str(error)
    assert "start it" not in str(error)
