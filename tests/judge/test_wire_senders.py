"""Whose requests these are: the notes of a client's sockets beside the proxy's record, both to the byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.base import DIALLED_FROM
from fencepost.errors import UsageError
from fencepost.history import Sender
from harness.store import wire_files as wire

from .test_wire import OPENED, PING, recorded, requests

SIZE = len(PING)


def tasks(
    folder: Path, *notes: tuple[int, str | None], port: int = 4001, client: str = "c1", more: Any = ()
) -> list[Any]:
    """Of three requests over one connection. `notes`: after how many bytes, and whose."""
    lines = [msgspec.json.encode(Sender(5, port, after, task)) + b"\n" for after, task in notes]
    (folder / f"{client}.1.jsonl").write_bytes(b"".join(lines))
    found = requests(recorded(folder, OPENED, *more, *((at, 1, wire.FROM_CLIENT, PING) for at in (10, 20, 30))))
    return [task if isinstance(task, str) else None for task in found["task"]]


def test_a_request_is_of_the_task_that_its_bytes_are_noted_for(tmp_path: Path) -> None:
    assert tasks(tmp_path, (0, "c1@1"), (SIZE, "c1@2")) == ["c1@1", "c1@2", "c1@2"]


def test_of_two_notes_at_one_place_the_later_one_counts(tmp_path: Path) -> None:
    assert tasks(tmp_path, (0, "c1@1"), (SIZE, "c1@2"), (SIZE, "c1@3")) == ["c1@1", "c1@3", "c1@3"]


def test_what_is_of_no_task_has_none(tmp_path: Path) -> None:
    assert tasks(tmp_path, (SIZE, "c1@2"), (2 * SIZE, None)) == [None, "c1@2", None]


@pytest.mark.parametrize("others", [{"port": 4002}, {"client": "c2"}], ids=["another port", "another client"])
def test_notes_of_another_connection_tell_nothing(tmp_path: Path, others: dict[str, Any]) -> None:
    assert tasks(tmp_path, (0, "c1@1"), **others) == [None] * 3


def test_of_two_connections_from_one_port_at_one_time_nothing_is_told(tmp_path: Path) -> None:
    again = (2, 2, wire.OPENED, b"c1-n2 127.0.0.1:4001")
    assert tasks(tmp_path, (0, "c1@1"), more=[again]) == [None] * 3


def test_a_port_that_a_client_has_again_is_another_connection(tmp_path: Path) -> None:
    """The note is of 5 ns after the start; the first connection from this port was over at 4."""
    first = [(2, 2, wire.OPENED, b"c1-n2 127.0.0.1:4001"), (4, 2, wire.CLIENT_CLOSED, 0)]
    assert tasks(tmp_path, (0, "c1@1"), more=first) == ["c1@1"] * 3


def test_the_harness_may_dial_from_the_same_port(tmp_path: Path) -> None:
    probe = (2, 2, wire.OPENED, f"c1-n2 {DIALLED_FROM}:4001".encode())
    assert tasks(tmp_path, (0, "c1@1"), more=[probe]) == ["c1@1"] * 3


def test_a_port_of_two_clients_is_two_connections(tmp_path: Path) -> None:
    again = (2, 2, wire.OPENED, b"c2-n1 127.0.0.1:4001")
    assert tasks(tmp_path, (0, "c1@1"), more=[again]) == ["c1@1"] * 3


def test_without_notes_no_task_is_known(tmp_path: Path) -> None:
    assert tasks(tmp_path) == [None] * 3


def test_a_note_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c1.1.jsonl").write_bytes(b'{"port": -1}\n{}\n')
    with pytest.raises(UsageError, match=r"c1\.1\.jsonl"):
        requests(recorded(tmp_path, OPENED))
