"""Releases that named another key than the one that their acquire had set."""

from __future__ import annotations

from typing import Final, NamedTuple

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import printable
from harness.history.commands import EVAL, SCRIPTED
from harness.history.node_requests import NodeRequests, Request
from harness.history.recorded import Recorded

_LEAST_LETTERS: Final = 8
_JOINS: Final = ".."


class Use(NamedTuple):
    """A client's use of a key: its acquire was under way from `asked_ns` to `start_ns` and set `value` under this
    `name`; its release was from `left_ns` to `done_ns`."""

    client: str
    key: str
    name: str
    value: str
    asked_ns: int
    start_ns: int
    left_ns: int
    done_ns: int


class AnotherKey(NamedTuple):
    """What the release named: `instead`, by this command, and not `name`."""

    name: str
    instead: str
    command: str

    def in_words(self) -> str:
        """`the release named k1 (EVAL), and not lock:k1, which the acquire had set`."""
        return (
            f"the release named {printable(self.instead)} ({printable(self.command)}), and not {printable(self.name)}, "
            "which the acquire had set"
        )


def another_key(run: Recorded, use: Use) -> AnotherKey | None:
    """None unless on a majority of the nodes all that the release asked for was carried out, one of its requests named
    the value with a key that the acquire had not named, and none the key that the acquire had set."""
    nodes = run.nodes_of(use.key)
    found = [one for node in nodes if (one := _on(run, use, node)) is not None]
    return found[0] if len(found) >= quorum(len(nodes)) else None


def _on(run: Recorded, use: Use, node: str) -> AnotherKey | None:
    ledger = run.ledger
    if ledger is None or len(use.value) < _LEAST_LETTERS:
        return None
    sent = ledger.sent
    asked = sent.between(use.client, node, use.left_ns, use.done_ns)
    if not all(_was_carried_out(sent, one) and _leaves_it(sent, one, use.name) for one in asked):
        return None
    acquiring = sent.between(use.client, node, use.asked_ns, use.start_ns)
    of_acquire = {key for one in acquiring if _is_its(one, use) for key in one.keys}
    if use.name not in of_acquire:
        return None
    about = (one for one in asked if use.value in one.arguments and one.keys and of_acquire.isdisjoint(one.keys))
    return next((AnotherKey(use.name, one.keys[0], one.command) for one in about), None)


def _is_its(one: Request, use: Use) -> bool:
    """Whether it was sent by this client, rather than perhaps by another task of its process."""
    return use.value in one.arguments or (one.task or process_of(use.client)) == use.client


def _was_carried_out(sent: NodeRequests, one: Request) -> bool:
    return one.reply is not None and sent.error_of(one) is None


def _leaves_it(sent: NodeRequests, one: Request, name: str) -> bool:
    """Whether it certainly did nothing to the key of this name, which was there. A script may put a name together."""
    if name in one.words:
        return one.command == "SETNX" or (one.command == "SET" and "NX" in map(str.upper, one.arguments))
    if not one.keys or one.command not in EVAL:
        return one.command not in SCRIPTED
    text = sent.script_of(one)
    return text is not None and _JOINS not in text
