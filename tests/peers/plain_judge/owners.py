"""Who set each key, and whose key did another client's request change: "Whose is a key?" and "Another client's key"."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.peers.plain_judge.folder import Folder
from tests.peers.plain_judge.ledger import GRANTS, Change
from tests.peers.plain_judge.sections import Section

SCRIPTS = ("EVAL", "EVALSHA", "FCALL")
_ROUNDED_NS = 50_000_000
"""A time to live is read a little later than it is set."""


@dataclass(frozen=True)
class Touched:
    """A key of the client `of` that a request of the client `by` changed."""

    node: str
    key: str
    how: str
    by: str
    of: str
    breaks: str
    at_ns: int


def section_of(change: Change | None, sections: list[Section]) -> Section | None:
    """The section for which a request was sent, if it was granted."""
    if change is None or change.call is None or change.request is None:
        return None
    call = change.call
    is_its = call.outcome == "ok" if call.f in GRANTS else call.f in ("extend", "held", "leave")
    own = [s for s in sections if (s.life, s.number) == (call.life, call.section)]
    return own[0] if own and is_its else None


def lock_names(folder: Folder, sections: list[Section], changes: list[Change]) -> dict[str, str]:
    """By the name on the nodes, the lock's own name of the key."""
    asked = {op["key"] for ops in folder.ops.values() for op in ops}
    set_for: dict[str, list[tuple[str, Section]]] = {}
    for change in changes:
        if change.what in ("set", "overwritten", "changed") and (section := section_of(change, sections)):
            set_for.setdefault(change.event["key"], []).append((change.event["node"], section))
    own_names = asked & set_for.keys() or set(sorted(set_for, key=lambda name: len(set_for[name]), reverse=True)[:1])
    along = {(node, id(section)) for name in own_names for node, section in set_for[name]}
    freed = {
        change.event["key"]
        for change in changes
        if change.call and change.call.f == "release" and change.what in ("deleted", "changed", "overwritten")
    }
    names = {name: name for name in asked}
    for name in set_for.keys() - asked:
        own = {(node, id(section)) for node, section in set_for[name]}
        is_copy = name not in own_names and 2 * len(own & along) > len(own) and folder.config.get("permits", 1) == 1
        if (name in freed or not freed) and not is_copy:
            names[name] = Counter(section.key for _, section in set_for[name]).most_common(1)[0][0]
    return names


def mixed_hashes(changes: list[Change]) -> set[Change]:
    """The changes after which a hash has fields of several clients."""
    found, mixed = set(), set()
    for change in changes:
        if change.what == "changed" and change.of and (change.client is None or change.client != change.of.client):
            mixed.add(change.of)
        if change.what == "changed" and change.of in mixed:
            found.add(change)
    return found


def anothers_keys(folder: Folder, sections: list[Section], changes: list[Change]) -> list[Touched]:
    names, mixed = lock_names(folder, sections, changes), mixed_hashes(changes)
    shared: set[Change | None] = set()
    permits = folder.config.get("permits", 1)
    setters: dict[str | None, set[str]] = {}
    for change in changes:
        if change.call and change.client:
            setters.setdefault(change.value, set()).add(change.client)
    found = []
    for change in changes:
        node, name, at_ns = change.event["node"], change.event["key"], change.event["at_ns"]
        owned = change.of
        if owned is None or owned in shared:
            continue
        if change in mixed:
            shared.add(owned)
        is_anothers = change.client and owned.client and change.client != owned.client
        if change.what not in ("overwritten", "prolonged", "deleted") or name not in names or not is_anothers:
            continue
        if owned.call is None or (permits > 1 and (change.was is None or len(setters.get(change.was, ())) != 1)):
            continue
        if change.what == "prolonged" and change.until_ns - _ROUNDED_NS <= change.had_until_ns:
            continue  # it lives no longer than before
        owner = section_of(owned, sections)
        is_early = owner is not None and 0 <= owned.sent_ns < (owner.leases[0].requested_ns or 0)
        if owner and at_ns < owner.end and not is_early:
            until = owner.earliest
            if folder.config["nodes"] > 1:  # the value may tell the time, and this node may not know of extensions
                until = min(until, (owned.sent_ns or 0) + folder.config["ttl_ms"] * 1e6)
            is_wrong = (change.had_ttl or at_ns <= until) and not _may_note(change)
        else:  # left by a section, or of an attempt
            of_acquire = (owner is not None and not is_early) or owned.call.f == "acquire"
            is_wrong = of_acquire and change.had_ttl and permits == 1 and _extends(change) and change.what != "deleted"
        if is_wrong:
            breaks = "liveness" if change.what == "prolonged" and _only_keeps(change) else "lease"
            found.append(Touched(node, name, change.what, str(change.client), str(owned.client), breaks, at_ns))
    return found


def _extends(change: Change) -> bool:
    """An extension, or what the lock does by itself between the grant and the release."""
    call = change.call
    if call is None:
        return False
    return call.f in ("extend", "held") or (not change.is_in_call and call.f in GRANTS)


def _only_keeps(change: Change) -> bool:
    """Whether it is of an acquire or a release, and not background work of a section that was granted."""
    call = change.call
    return call is not None and (
        call.f == "release" or (call.f == "acquire" and (change.is_in_call or call.outcome != "ok"))
    )


def _may_note(change: Change) -> bool:
    """A script of a refused acquire, or of a release, may replace the value."""
    call, request = change.call, change.request
    if change.what != "overwritten" or call is None or request is None or request["command"] not in SCRIPTS:
        return False
    return call.f == "release" or (call.f == "acquire" and call.outcome != "ok")
