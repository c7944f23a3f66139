"""The engine's interface without the SDK: whatever address and certificates the SDK takes."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cluster.engine_address import NoEngineError, find_engine
from cluster.engine_http import ask_engine
from cluster.engine_sweep import remove_run, sweep_docker
from fencepost.errors import BrokenEnvironmentError

Answers = dict[str, tuple[int, bytes]]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def engine(answers: Answers, tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[str]]]:
    """An engine that gives these answers by path, and that of the empty path to everything else; its port, and the
    requests that it got."""
    asked: list[str] = []

    class Engine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path}")
            status, body = answers.get(self.path.partition("?")[0]) or answers[""]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_DELETE = do_POST = do_GET  # noqa: N815 - the library's names

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Engine)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_engine_at_a_tcp_address_is_asked_like_one_at_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine({"/version": (200, b'{"Version": "1"}')}) as (port, asked):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        assert ask_engine(find_engine(), "GET", "/version", {"filters": '{"a": ["b c"]}'}) == (200, {"Version": "1"})
    assert asked == ["GET /version?filters=%7B%22a%22%3A+%5B%22b+c%22%5D%7D"]


def test_a_proxy_for_the_web_is_not_asked_for_an_engine_with_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with engine({"/version": (200, b"{}")}) as (port, _):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        assert ask_engine(find_engine(), "GET", "/version") == (200, {})


@pytest.mark.needs("openssl")
def test_certificates_are_those_that_the_sdk_would_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True, capture_output=True,
    )  # fmt: skip
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with engine({"/version": (200, b"{}")}, server) as (port, _):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://localhost:{port}")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        with pytest.raises(NoEngineError, match="no certificates in") as raised:
            ask_engine(find_engine(), "GET", "/version")
        assert not raised.value.cannot_have_runs
        (tmp_path / "ca.pem").write_bytes((tmp_path / "cert.pem").read_bytes())
        assert ask_engine(find_engine(), "GET", "/version") == (200, {})
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(NoEngineError, match=r"not valid for '127\.0\.0\.1'"):
            ask_engine(find_engine(), "GET", "/version")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "")
        assert ask_engine(find_engine(), "GET", "/version") == (200, {})


@pytest.mark.parametrize("body", [b"no JSON", b"[" * 100_000, b"\xff"])
def test_what_is_no_engine_is_said_to_be_none(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine({"/version": (200, body)}) as (port, _):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(NoEngineError, match=f"no Docker engine answers at tcp://127.0.0.1:{port}"):
            ask_engine(find_engine(), "GET", "/version")


def test_a_refused_question_is_not_taken_for_an_empty_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine({"/containers/json": (500, b'{"message": "the disk\\nis full"}')}) as (port, _):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(BrokenEnvironmentError, match="the disk is full"):
            sweep_docker(lambda _: False, parent=tmp_path)


def test_a_container_that_stays_is_named_with_the_engines_words(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [{"Id": "1f", "Names": ["/stubborn"], "Labels": {}}]
    answers = {
        "/containers/json": (200, json.dumps(there).encode()),
        "/networks": (200, b"[]"),
        "/containers/1f": (409, b'{"message": "removal is already in progress"}'),
    }
    with engine(answers) as (port, asked):
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        with pytest.raises(BrokenEnvironmentError, match=r"container stubborn within 0\.05 s: removal is already"):
            remove_run(find_engine(), {"fencepost.run": "r"}, within_s=0.05)
    assert "DELETE /containers/1f?force=1&v=1" in asked
