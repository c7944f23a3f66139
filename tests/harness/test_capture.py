"""`--pcap`: what went over the links, read back as any reader of pcapng would."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.store.run_folder import RunFolder
from tests.harness import runs

PACKET = 6


class Packet(NamedTuple):
    link: str
    at_ns: int
    to_server: bool
    said: bytes


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length % 4 == 0
        assert struct.unpack_from("<I", data, at + length - 4) == (length,), "it can be read from its end, too"
        yield kind, data[at + 8 : at + length - 4]
        at += length


def options(body: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while (head := struct.unpack_from("<HH", body, at)) != (0, 0):
        code, length = head
        found[code] = body[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    return found


def packets(path: Path) -> Iterator[Packet]:
    """With times as the record has them."""
    read = iter(blocks(path.read_bytes()))
    kind, body = next(read)
    assert (kind, body[:8]) == (0x0A0D0D0A, struct.pack("<IHH", 0x1A2B3C4D, 1, 0))
    comment = options(body[16:])[1].decode().split()
    later_ns = int(comment[0]) - int(comment[9])
    links, servers = [], {}
    for kind, body in read:
        if kind == 1:
            assert struct.unpack_from("<H", body) == (101,)
            assert options(body[8:])[9] == b"\x09"
            links.append(options(body[8:])[2].decode())
        elif kind == PACKET:
            link, high, low, kept, length = struct.unpack_from("<IIIII", body)
            packet = body[20 : 20 + kept]
            assert kept == length
            inner = (packet[0] & 15) * 4
            source, target = struct.unpack_from("!HH", packet, inner)
            if packet[inner + 13] & 0x12 == 0x02:  # the first segment of a connection goes to the server
                servers[link] = target
            said = packet[inner + (packet[inner + 12] >> 4) * 4 :]
            assert servers[link] in (source, target), "a link has one port"
            yield Packet(links[link], (high << 32 | low) + later_ns, target == servers[link], said)


@pytest.mark.needs("root")
@pytest.mark.parametrize("backend", ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))])
def test_what_goes_over_each_link_is_kept_under_its_name(tmp_path: Path, backend: str) -> None:
    code, out, err = runs.fencepost(
        tmp_path, *runs.short_run("--pcap", "--nemesis", "none", "--clients", "2", cluster=backend)
    )
    assert code == 0, out + err
    folder = RunFolder.open(runs.only_run(tmp_path))
    assert folder.capture_words.read_text() == ""
    asked, replies, times = defaultdict(bytes), defaultdict(bytes), []
    for packet in packets(folder.capture):
        (asked if packet.to_server else replies)[packet.link] += packet.said
        times.append(packet.at_ns)
    lock, resource = ({f"{client} to {server}" for client in ("c1", "c2")} for server in ("n{}", "resource"))
    lock = {name.format(number) for name in lock for number in range(1, 6)}
    assert asked.keys() == lock | resource

    held = {(held.client, held.value) for held in shown(folder)}
    assert held, "some client got in"
    for client, value in held:
        for number in range(1, 6):
            assert value.encode() in asked[f"{client} to n{number}"]
            assert value.encode() not in asked[f"{'c2' if client == 'c1' else 'c1'} to n{number}"]
    assert all(b"+OK" in replies[link] for link in lock)
    timeline = folder.read_timeline()
    assert timeline is not None
    assert timeline.end_ns is not None
    assert sum(timeline.start_ns <= at_ns <= timeline.end_ns for at_ns in times) > len(times) / 2


class Shown(NamedTuple):
    client: str
    value: str


def shown(folder: RunFolder) -> list[Shown]:
    return [Shown(client, held.value) for client, _, some in folder.read_held() for held in some]


@pytest.mark.needs("root")
def test_who_may_not_listen_is_told_so_before_anything_starts(tmp_path: Path) -> None:
    without = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]
    code, _, err = runs.finish(runs.start(tmp_path, *runs.short_run("--pcap"), before=without))
    assert code == 254
    assert err.startswith("fencepost: --pcap listens on the loopback interface, which needs root")
    assert err.count("\n") == 1
    assert not (tmp_path / "results").exists()
