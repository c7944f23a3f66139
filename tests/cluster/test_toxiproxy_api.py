"""What the library lets pass is caught: statuses, hanging servers, answers that are not what was asked for."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cluster.address import Address
from cluster.base import NotInTimeError
from cluster.ports import PortTakenError
from cluster.process import ProcessCluster
from cluster.toxiproxy import HEAL_LIMIT_S, ToxicLink, ToxiproxyServer
from cluster.toxiproxy_api import ProxyState, ToxiproxyApi
from fencepost.errors import BrokenEnvironmentError, InternalError

Answer = Callable[[str, str], tuple[int, object] | None]
Fake = Callable[[Answer], Path]

UPSTREAM = Address("127.0.0.1", 7)
LISTEN = Address("127.0.0.1", 8)
PROXY = {"name": "c1-n1", "listen": str(LISTEN), "upstream": str(UPSTREAM), "enabled": True, "toxics": []}
WHOLE = ProxyState(LISTEN, UPSTREAM, enabled=True, toxics={})


@pytest.fixture
def fake(socket_folder: Path) -> Iterator[Fake]:
    """A server that answers (method, path) with (status, JSON), or hangs for None until the test ends."""
    over = threading.Event()
    servers: list[ThreadingHTTPServer] = []

    class UnixServer(ThreadingHTTPServer):
        address_family = socket.AF_UNIX
        request_queue_size = 128

        def server_bind(self) -> None:
            self.socket.bind(self.server_address)

    def serve(answer: Answer) -> Path:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                reply = answer(self.command, self.path)
                if reply is None:
                    over.wait()
                    return
                body = json.dumps(reply[1]).encode()
                with suppress(BrokenPipeError):  # who asked may have given up
                    self.send_response(reply[0])
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        path = socket_folder / f"{len(servers)}.sock"
        server = UnixServer(str(path), Handler)  # type: ignore[arg-type]  # its stub knows TCP only
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return path

    yield serve
    over.set()
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [400, 404, 409, 500, 503])
def test_every_status_but_success_raises_with_the_servers_reason(fake: Fake, status: int) -> None:
    server = ToxiproxyServer(fake(lambda method, path: (status, {"error": "because of this"})))
    with pytest.raises(BrokenEnvironmentError, match=f"{status}: because of this"):
        server.proxies()
    link = ToxicLink(server, ("c1", "n1"), WHOLE)
    with pytest.raises(BrokenEnvironmentError, match=f"{status}: because of this"):
        link.cut("f1", "drop", "both")


def test_a_server_that_hangs_is_given_up(fake: Fake) -> None:
    server = ToxiproxyServer(fake(lambda method, path: None), timeout_s=0.1)
    with pytest.raises(BrokenEnvironmentError, match="does not answer GET /proxies"):
        server.proxies()


def test_a_server_that_is_gone_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BrokenEnvironmentError, match="does not answer") as told:
        ToxiproxyServer(tmp_path / "nobody.sock").proxies()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("answer", "does"), [((200, {"version": "2.12.0"}), True), ((500, {"error": "why"}), False), (None, False)]
)
def test_only_success_within_the_time_is_an_answer(fake: Fake, answer: tuple[int, object] | None, does: bool) -> None:
    path = fake(lambda method, path: answer)
    assert ToxiproxyApi(path).answers(within_ms=2_000 if answer else 200) is does
    assert ToxiproxyApi(path.with_name("nobody.sock")).answers(within_ms=200) is False


def test_a_change_that_does_not_read_back_raises(fake: Fake) -> None:
    """A server that says yes to everything and does nothing."""
    link = ToxicLink(ToxiproxyServer(fake(lambda method, path: (200, PROXY))), ("c1", "n1"), WHOLE)
    with pytest.raises(BrokenEnvironmentError, match="c1 to n1 reads back as"):
        link.cut("f1", "drop", "both")
    with pytest.raises(BrokenEnvironmentError, match="c1 to n1 reads back as"):
        link.cut("f1", "refuse", "both")


def test_a_reset_that_leaves_a_toxic_raises(fake: Fake) -> None:
    toxic = {"name": "f1:timeout:upstream", "type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}
    left = {**PROXY, "toxics": [toxic]}
    answers = {"/proxies": {"c1-n1": left}, "/proxies/c1-n1": left}
    server = ToxiproxyServer(fake(lambda method, path: (200, answers.get(path))))
    with pytest.raises(BrokenEnvironmentError, match="reads back as"):
        server.heal_all([ToxicLink(server, ("c1", "n1"), WHOLE)])


def test_what_is_known_to_be_healed_is_not_asked_for_again(fake: Fake) -> None:
    """Healing everything has read all links back; the faults that did it to them need not wait for a busy server."""
    server = ToxiproxyServer(fake(lambda method, path: None))
    server.impair([ToxicLink(server, ("c1", "n1"), WHOLE)], "f1", None, lambda: True)


def test_a_change_that_was_given_up_and_comes_late_is_no_broken_proxy(fake: Fake) -> None:
    """What the first fault asked for takes effect at any time after it was given up, also under the second one."""
    hangs, late = [True], {"name": "f1:latency:upstream", "type": "latency", "stream": "upstream", "attributes": {}}
    server = ToxiproxyServer(
        fake(lambda method, path: None if hangs else (200, {**PROXY, "toxics": [late]})), timeout_s=0.3
    )
    link = ToxicLink(server, ("c1", "n1"), WHOLE)
    with pytest.raises(NotInTimeError):
        link.cut("f1", "hold", "to-node")
    hangs.clear()
    for _ in range(2):
        with pytest.raises(NotInTimeError, match="1 of 1 links had not changed"):
            link.cut("f2", "drop", "both")


def test_everything_is_healed_although_the_server_is_too_slow_for_a_fault(fake: Fake) -> None:
    one_at_a_time, disabled = threading.Lock(), {f"c{number}-n1" for number in range(60)}

    def answer(method: str, path: str) -> tuple[int, object]:
        with one_at_a_time:
            time.sleep(0.005)
        name = path.split("/")[2]
        if method == "POST":
            disabled.discard(name)
        return 200, {**PROXY, "name": name, "enabled": name not in disabled}

    server = ToxiproxyServer(fake(answer), timeout_s=0.2)
    links = [ToxicLink(server, (name.partition("-")[0], "n1"), WHOLE) for name in sorted(disabled)]
    for link in links:
        link.state = None
    server.heal_all(links)
    assert not disabled


def test_a_heal_that_is_called_off_does_not_wait_for_a_server_that_hangs(fake: Fake) -> None:
    server = ToxiproxyServer(fake(lambda method, path: None))
    began_s = time.monotonic()
    with pytest.raises(NotInTimeError):
        server.heal_all([ToxicLink(server, ("c1", "n1"), WHOLE)], lambda: True)
    assert time.monotonic() - began_s < HEAL_LIMIT_S / 2


@pytest.mark.parametrize(
    "wrong", [{"enabled": False}, {"upstream": "127.0.0.1:6"}, {"listen": "0.0.0.0:8"}, {"listen": "127.0.0.1:9"}]
)
def test_a_populated_proxy_that_is_not_what_was_asked_for_raises(fake: Fake, wrong: dict[str, object]) -> None:
    server = ToxiproxyServer(fake(lambda method, path: (201, {"proxies": [{**PROXY, **wrong}]})))
    with pytest.raises(BrokenEnvironmentError, match="asked was"):
        server.populate({("c1", "n1"): (LISTEN, UPSTREAM)})


def test_a_port_where_another_program_listens_is_an_error_of_its_own(shared_cluster: ProcessCluster) -> None:
    server = ToxiproxyServer(shared_cluster.proxy_socket)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(PortTakenError, match="another program"):
        server.populate({("c9", "n1"): (Address(*other.getsockname()), shared_cluster.nodes["n1"].address)})
    assert "c9-n1" not in server.proxies()


def test_an_owner_whose_name_could_be_taken_for_another_is_refused(shared_cluster: ProcessCluster) -> None:
    with pytest.raises(InternalError, match="owner 'f1:x'"):
        shared_cluster.links["c1", "n1"].cut("f1:x", "drop", "both")


def test_a_socket_may_lie_deeper_than_its_path_could_be_told_to_the_kernel(socket_folder: Path, fake: Fake) -> None:
    deep = socket_folder / ("a" * 100) / ("b" * 100)
    deep.mkdir(parents=True)
    fake(lambda method, path: (200, {})).rename(deep / "api.sock")
    assert ToxiproxyServer(deep / "api.sock").proxies() == {}
