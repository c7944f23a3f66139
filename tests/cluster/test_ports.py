from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cluster.address import Address
from cluster.ports import LOOPBACK, Ports, ephemeral_range, is_listening


@pytest.fixture
def ports() -> Iterator[Ports]:
    ports = Ports()
    yield ports
    ports.close()


def listener(port: int) -> socket.socket:
    """As servers do it: allowing the reuse of addresses."""
    return socket.create_server((LOOPBACK, port))


def test_a_port_is_taken_once_and_lies_outside_of_the_ephemeral_range(ports: Ports) -> None:
    low, high = ephemeral_range()
    taken = ports.take(50)
    assert len(set(taken)) == 50
    assert not [port for port in taken if low <= port <= high]


def test_a_port_on_which_nobody_listens_yet_refuses_and_our_own_server_can_have_it(ports: Ports) -> None:
    (port,) = ports.take(1)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))
    for _ in range(2):  # it comes, goes and comes back
        with listener(port), socket.create_connection((LOOPBACK, port)):
            pass


def test_a_port_that_stands_idle_is_not_free_for_another_run(ports: Ports) -> None:
    (port,) = ports.take(1)
    with listener(port):
        pass
    other = Ports()
    assert not other._hold(port), "it was taken from a server that is only down"
    with socket.socket() as plain, pytest.raises(OSError, match="in use"):
        plain.bind((LOOPBACK, port))


def test_a_closed_cluster_gives_its_ports_back(ports: Ports) -> None:
    (port,) = ports.take(1)
    ports.close()
    other = Ports()
    assert other._hold(port)
    other.close()


def test_a_port_that_is_only_held_has_no_listener_and_one_that_a_server_has_does(ports: Ports) -> None:
    (port,) = ports.take(1)
    address = Address(LOOPBACK, port)
    assert not is_listening(address)
    with socket.create_server(address):
        assert is_listening(address)
    assert not is_listening(address)
