"""Was a client told that its lease lasts longer than its keys live?

What a client was told is the earliest end of its lease: no reading of the record makes it shorter. What the nodes were
told is seen by the witness: it reads each key's time to live as soon as it is set. If so many keys expire before the
lease ends that no majority is left, the lock promised what it had not asked for, whether or not another client was
inside for that long. That finds locks that miscount when they asked, that ask for less than they were told to, or that
go on counting from a renewal that did not take place.

Of a lock that lets several clients in, the key in which they have their places must live for as long as the longest of
their leases (`harness.history.places_in_keys`). That finds counters that expire while clients are inside.

A node that was out of sight for any part of the section, and a time to live that could not be read, may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

from fencepost.quorum import quorum
from fencepost.text import count, milliseconds, out_of, plural
from harness.explain.examples import Side
from harness.explain.expiries import given_ttl
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.node_replies import few_had_granted, replies
from harness.explain.permits import taken_again
from harness.explain.renewals import renewals_ended
from harness.explain.requests import changes_where, how_sent
from harness.explain.words import lasting
from harness.figures import KeyFigures, Row
from harness.history.groups import grouped, rows_of, rows_of_sections, where, which
from harness.history.leases import SLEW, derive_leases
from harness.history.ledger import Change
from harness.history.places_in_keys import places_in_keys
from harness.history.quorum_support import Backing
from harness.history.recorded import Recorded, named
from harness.verdict import Answer

MARGIN_NS: Final = 5_000_000
"""Libraries and servers count in milliseconds; this much is not held against the lock."""
_ROUNDED_NS: Final = 1_000


class Figures(KeyFigures, frozen=True):
    """`sections`: whose keys' time to live is known on enough nodes. `short`: of them, whose lease ends later;
    `longest_ms`: by how much at most, 0 without any."""

    sections: int
    short: int
    longest_ms: float

    def rows(self) -> Iterator[Row]:
        if self.short:
            sections = out_of(self.short, self.sections, "lease", "leases")
            yield Row("lifetime", f"{sections} outlast their keys by up to {milliseconds(self.longest_ms)}", order=82)


class _Lease(NamedTuple):
    """`section`: its place. `asked_ns`, `told_ns`: when the lock was asked for it, and answered. `until_ns`: the end of
    the lease. `keys_by_ns`: the keys of this lease were set by then."""

    section: int
    asked_ns: int
    told_ns: int
    until_ns: int
    keys_by_ns: int
    is_extension: bool


class _Known(NamedTuple):
    """A lease, and when its keys end."""

    lease: _Lease
    keys_ns: int
    key: str = ""
    """In which it had a place among others'."""

    @property
    def excess_ns(self) -> int:
        return self.lease.until_ns - self.keys_ns


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched."""
    if run.backing is None:
        return Answer()
    known = list(_known(run, run.backing))
    margin_ns = MARGIN_NS + round(run.lease_ms * 1e6 * SLEW)
    short = list(_worst_of_each(one for one in known if one.excess_ns > margin_ns))
    sections = len({one.lease.section for one in known})
    figures = Figures(sections, len(short), max((one.excess_ns for one in short), default=0) / 1e6)
    if not short:
        return Answer(figures)
    longest = max(short, key=lambda one: one.excess_ns)
    text = (
        f"in {count(len(short))} of {plural(sections, 'section')} the lease outlasts the keys on a majority of the "
        f"nodes, by up to {milliseconds(longest.excess_ns / 1e6)}"
    )
    at_ms, example = run.at_ms(min(_untrue_from_ns(run, one) for one in short)), partial(_example, run, run.backing)
    return Answer(figures, (OUTLASTS_KEYS.of(short, text, example, longest, at_ms=at_ms),))


def _known(run: Recorded, backing: Backing) -> Iterator[_Known]:
    """The leases that can be compared with their keys, in the order of the sections."""
    for lease in _leases(run, backing):
        keys_ns = backing.lives_until(lease.section, lease.asked_ns, lease.keys_by_ns)
        if keys_ns is not None:
            yield _Known(lease, keys_ns)
    names = ("asked_ns", "start_ns", "deadline_min_ns", "extensions")
    sections = list(rows_of(run.sections, *names))
    for place in () if run.ledger is None else places_in_keys(run, run.ledger):
        asked_ns, start_ns, until_ns, extensions = sections[place.section]
        if not extensions and place.section not in backing.owners.values:
            lease = _Lease(place.section, asked_ns, start_ns, until_ns, start_ns, is_extension=False)
            yield _Known(lease, place.until_ns, place.key)


def _leases(run: Recorded, backing: Backing) -> Iterator[_Lease]:
    names = ("asked_ns", "start_ns", "deadline_min_ns", "end_ns")
    extended, asks = _extended(run)
    undone = _undone(run)
    for section, (*first, end_ns) in enumerate(rows_of(run.sections, *names)):
        if section not in backing.owners.values:
            continue
        told = extended.get(section, [["acquire", *first]])
        for place, (f, asked_ns, told_ns, until_ns) in enumerate(told):
            if f != "extend":
                # An earlier round of the same call may have set the keys, and who acquires once more asks no node.
                asked_ns = first[0]
            # Who undoes a nested acquire may free what that was granted anew.
            left = [at_ns for at_ns in undone.get(section, ()) if f == "reenter" and at_ns > told_ns]
            if place == len(told) - 1 and not left:
                until_ns = max(until_ns, first[-1])  # a lock that was asked may have vouched for more
            following = [*left, *(at_ns for at_ns in asks.get(section, ()) if at_ns > told_ns)]
            # The earliest reading may end the lease before the attempt that granted it had set its keys.
            keys_by_ns = max(told_ns, min(end_ns, until_ns, *following))
            yield _Lease(section, asked_ns, told_ns, until_ns, keys_by_ns, f == "extend")


_Told = list[Any]
"""By which step, when it was asked and told, and until when it lasts."""


def _extended(run: Recorded) -> tuple[dict[int, list[_Told]], dict[int, list[int]]]:
    """By place, of the sections whose extension was asked for, or that were acquired once more: their leases in order,
    and when each was asked for.

    Who acquires once more may be told the validity that there was at first. Only a deadline leaves no doubt."""
    again = which(run.ops, run.ops["deadline_ns"].notna(), f="reenter", outcome="ok")
    asked = where(run.ops, again | which(run.ops, f="extend"))
    if not len(asked):
        return {}, {}
    asks: dict[int, list[int]] = grouped(rows_of_sections(run.sections, asked, "invoke_ns"))
    columns = ("f", "invoke_ns", "complete_ns")
    granted = [
        *rows_of_sections(run.sections, derive_leases(run.ops, run.faults), *columns, "deadline_min_ns"),
        *rows_of_sections(run.sections, run.ops[again], *columns, "deadline_ns"),
    ]
    leases = grouped((place, told) for place, *told in sorted(granted, key=lambda lease: lease[3]) if place in asks)
    return leases, asks


def _undone(run: Recorded) -> dict[int, list[int]]:
    """By place, when nested acquires of a section were undone."""
    left = run.calls("leave")
    return grouped(rows_of_sections(run.sections, left, "invoke_ns"))


def _worst_of_each(short: Iterable[_Known]) -> Iterator[_Known]:
    """The lease of each section that is too long by most."""
    for _, of_section in groupby(short, key=lambda one: one.lease.section):
        yield max(of_section, key=lambda one: one.excess_ns)


def _example(run: Recorded, backing: Backing, short: _Known) -> dict[str, object]:
    lease, held_ns = short.lease, _vouched_ns(run, short)
    anew = backing.set_anew(lease.section, lease.asked_ns, lease.keys_by_ns)
    return {
        **named(run.sections.iloc[lease.section]),
        "at_ms": run.at_ms(_untrue_from_ns(run, short)),
        "lease_until_ms": run.at_ms(lease.until_ns),
        "keys_until_ms": run.at_ms(short.keys_ns),
        **({"place_in": short.key} if short.key else {}),
        **({"prolonged_on": tuple(anew)} if lease.is_extension else {}),
        **({} if held_ns is None else {"held_ms": run.at_ms(held_ns)}),
    }


def _untrue_from_ns(run: Recorded, short: _Known) -> int:
    """When the lock told a lease that is too long; or when the keys of one that it goes on vouching for had expired."""
    return short.lease.told_ns if _vouched_ns(run, short) is None else short.keys_ns


def _vouched_ns(run: Recorded, short: _Known) -> int | None:
    """When the lock said last that a lease is still held that its own renewals were to prolong."""
    lease = short.lease
    if lease.is_extension:
        return None
    section, ops = run.sections.iloc[lease.section], run.ops
    its = {"client": section.client, "section": section.section}
    asked_ns = where(ops, ops["invoke_ns"] <= lease.until_ns, f="held", outcome="ok", **its)["invoke_ns"]
    return None if asked_ns.empty else int(asked_ns.max())


def _explained(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    lease, keys = float(example["lease_until_ms"]), float(example["keys_until_ms"])
    client, too_long = case.text("client"), lasting((lease - keys) * 1e6)
    if "place_in" in example:
        text = (
            f"{client} was granted a lease until {lease:+,.1f} ms, and had its place in {case.text('place_in')} with "
            f"others. That key expired by {keys:+,.1f} ms, {too_long} before the lease ended: nothing had prolonged it "
            "for this client."
        )
        row = run.sections.iloc[run.places[client, example["life"], example["section"]]]
        again = taken_again(run, row, str(example["place_in"]), run.at_ns(keys))
        return Told(f"{text} {again}", cause="set by an extension") if again else Told(text)
    anew = example.get("prolonged_on")
    if anew is not None and len(anew) < quorum(len(run.nodes)):
        nodes = f"only {case.listed('prolonged_on')}" if anew else "no node"
        given = f"An extension at {case.at()} gave {client} a lease until {lease:+,.1f} ms"
        if (deletion := _own_deletion(run, case)) is not None:
            return Told(f"{given}, but had deleted its key: {how_sent(run, deletion)}.", cause="deleted by itself")
        return Told(
            f"{given}, although {nodes} can have "
            f"prolonged its key by then; by {keys:+,.1f} ms the keys expire on so many nodes that no majority is left: "
            f"the lease is {too_long} too long.",
            cause="not prolonged",
        )
    if "held_ms" in example:
        # A renewal that came too late was refused, and the lock went on vouching for the lease.
        by_ns = run.at_ns(max(keys, float(example["held_ms"])))
        note, cause = renewals_ended(run, case.sides[0], by_ns) if case.sides else ("", None)
        return Told(
            f"At {case.at('held_ms')} the lock told {client} that it still held it, but nothing had prolonged the keys "
            f"in time: by {keys:+,.1f} ms they expire on so many nodes that no majority is left"
            f"{f'; {note}' if note else ''}.",
            cause=cause or "not prolonged",
        )
    side = case.named.get("section")
    few = None if side is None or anew is not None else few_had_granted(run, evidence, side)
    few = few if few is not None and few.cause != "too few nodes" else None
    given_ms = None if side is None or anew is not None else _ttl_given(run, evidence, side)
    if given_ms is not None:
        return Told(
            f"{client} was granted a lease until {lease:+,.1f} ms, but had given the keys a TTL of only {given_ms:,} "
            f"ms: by {keys:+,.1f} ms they expire on so many nodes that no majority is left; the lease is {too_long} "
            "too long.",
            cause="short TTL",
        )
    return Told(
        f"{client} was granted a lease until {lease:+,.1f} ms, but by {keys:+,.1f} ms the keys expire on "
        f"so many nodes that no majority is left: the lease is {too_long} too long."
        f"{f' {few.text}' if few is not None else ''}",
        cause=None if few is None else few.cause,
    )


def _own_deletion(run: Recorded, case: Case) -> Change | None:
    """The request by which the extension deleted the client's own key, on a majority of the nodes; None without."""
    side, ledger = case.named.get("section"), run.ledger
    if side is None or ledger is None:
        return None
    rows, told_ns = ledger.rows, run.at_ns(float(case.example["at_ms"]))
    is_its = side.made(rows, "extend") & ((rows["complete_ns"] - told_ns).abs() <= _ROUNDED_NS)
    deletions = changes_where(ledger, is_its & (rows["what"] == "deleted") & (rows["owner"] >= 0))
    own = [one for one in deletions if ledger.change(int(one["owner"]))["task"] == side.client]
    return own[-1] if len({one["node"] for one in own}) >= quorum(len(run.nodes_of(side.key))) else None


def _ttl_given(run: Recorded, evidence: Evidence, side: Side) -> int | None:
    """The TTL in milliseconds that a majority of the nodes were told at most, if it is shorter than the lease."""
    granted = (one.granted for one in replies(run, evidence, side).values() if one.granted is not None)
    ttls_ms = [given_ttl(evidence, one, side.start_ns) for one in granted]
    short = [
        ttl_ms
        for ttl_ms in ttls_ms
        if ttl_ms is not None and ttl_ms + 1 < min(side.validity_ms or run.lease_ms, run.lease_ms)
    ]
    return max(short) if len(short) >= quorum(len(run.nodes)) else None


OUTLASTS_KEYS: Final = FindingKind(
    "lease-outlasts-keys",
    "lease",
    _explained,
    stands_for="expired",
    comes_of=("too few nodes", "granted on errors", "granted when refused", "own old key", "another reply"),
    noun="lease(s) longer than their keys live",
    surveyed="validity",
)
