"""Which call sent which bytes, as the Node half of the lock protocol notes it: real connections over loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.locks.sending import Peer, Toy, lines, listening, notes

HALF = Path(__file__).parents[2] / "workloads" / "adapters" / "node" / "fencepost_adapter.mjs"
pytestmark = pytest.mark.needs("node")


@pytest.fixture
def peer() -> Iterator[Peer]:
    with listening() as peer:
        yield peer


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "adapter.mjs").write_text(TOY.format(half=HALF))
    return ["node", str(tmp_path / "adapter.mjs")]


@pytest.fixture
def senders(tmp_path: Path) -> Path:
    return tmp_path / "senders"


@pytest.fixture
def toy(command: list[str], peer: Peer, tmp_path: Path, senders: Path) -> Iterator[Toy]:
    with closing(Toy(command, peer, tmp_path, senders)) as toy:
        yield toy


TOY = """
import net from 'node:net'
import {{ info, serve }} from '{half}'
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
let socket, queue = [], batch, both = [], wake, later
const connected = ([{{ host, port }}]) =>
  new Promise((resolve) => (socket = net.connect({{ host, port }}, () => resolve())))
/** As node-redis: what was asked for in one turn of the loop is sent together. */
function enqueue(words) {{
  queue.push(words)
  batch ??= setImmediate(() => {{
    socket.cork()
    for (const words of queue.splice(0)) socket.write(words)
    socket.uncork()
    batch = undefined
  }})
  return new Promise((resolve) => setTimeout(resolve, 20))
}}
/** Resolves when two tasks have come, for both in one turn of the loop. */
const together = () => new Promise((resolve) => both.push(resolve) === 2 && both.splice(0).forEach((go) => go()))

serve(async (nodes) => (await connected(nodes), {{
  describe: () => ({{}}),
  async acquire({{ key }}) {{
    if (key === 'write') socket.write('12345')
    if (key === 'callback') socket.write('12345', () => {{}})
    if (key === 'bytes') socket.write(Buffer.from('12345'))
    if (key === 'latin1') socket.write('\\u00e9\\u00e9345', 'latin1')
    if (key === 'utf8') socket.write('\\u00e9345')
    if (key === 'corked') socket.cork(), socket.write('123'), socket.write('45'), socket.uncork()
    if (key === 'awaited') await sleep(5), socket.write('12345')
    if (key === 'timer') await new Promise((go) => setTimeout(() => (socket.write('12345'), go()), 5))
    if (key === 'batch') await enqueue('12345')
    if (key === 'batch of two') await together(), await enqueue('12345')
    if (key === 'reconnect') {{
      const [to, old] = [{{ host: socket.remoteAddress, port: socket.remotePort }}, socket]
      socket = net.connect(to)
      socket.write('12345')
      await new Promise((go) => socket.once('connect', () => (socket.write('12345'), go())))
      old.destroy()
    }}
    if (key === 'begin') wake = new Promise((go) => (later = go)), wake.then(() => socket.write('12345'))
    if (key === 'end of what was begun') later(), await wake
    if (key === 'end') await new Promise((go) => socket.end('12345', go))
    return info('done')
  }},
  extend: () => info('done'), release: () => info('done'),
}}))
"""


@pytest.mark.parametrize("how", ["write", "callback", "bytes", "latin1", "utf8", "corked", "awaited", "timer", "batch"])
def test_a_note_stands_before_the_bytes_of_another_task(how: str, toy: Toy, senders: Path, peer: Peer) -> None:
    for task in ("c1@1", "c1@1", "c1@2", "c1@1"):
        toy.call(task, how)
    assert notes(senders) == [(0, "c1@1"), (10, "c1@2"), (15, "c1@1")]
    assert {line.port for line in lines(senders)} == peer.ports


def test_what_a_connection_sends_when_it_ends_is_of_the_call(toy: Toy, senders: Path) -> None:
    toy.call("c1@1", "write")
    toy.call("c1@2", "end")
    assert notes(senders) == [(0, "c1@1"), (5, "c1@2")]


def test_of_a_batch_that_two_calls_filled_nothing_is_known(toy: Toy, senders: Path) -> None:
    toy.call("c1@1", "write")
    for call in [toy.begin(task, "batch of two") for task in ("c1@1", "c1@2")]:
        call.result(30)
    toy.call("c1@2", "write")
    assert notes(senders) == [(0, "c1@1"), (5, None), (15, "c1@2")]


def test_the_handlers_of_a_connection_send_for_no_task(toy: Toy, senders: Path) -> None:
    toy.call("c1@1", "reconnect")
    toy.call("c1@2", "write")
    assert notes(senders) == [(0, "c1@1"), (5, None), (10, "c1@2")]


def test_what_is_sent_when_its_call_is_over_is_of_no_task(toy: Toy, senders: Path) -> None:
    toy.call("c1@1", "begin")
    toy.call("c1@1", "write")
    toy.call("c1@2", "end of what was begun")
    assert notes(senders) == [(0, "c1@1"), (5, None)]


def test_nothing_is_noted_unless_it_is_asked_for(command: list[str], tmp_path: Path, senders: Path, peer: Peer) -> None:
    with closing(Toy(command, peer, tmp_path)) as toy:
        toy.call("c1@1", "end")
    assert not senders.exists()
