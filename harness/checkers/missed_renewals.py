"""Did a lock that renews its leases let a lease end that it could have renewed?

A lock that renews by itself (`--renewal`) has promised to keep a key alive for as long as its client is inside. If it
loses a key it may say so, and its client leaves: then no client overstayed, and the lock has failed its user all the
same. That is certain if all of this was so, on a majority of the nodes that the section's acquire had set keys on:

- the key expired while the client was inside, after nearly a whole lease (`SHARE`), or the lock said then that it was
  no longer held, with the key still there or expired. The lease counts from the grant, or from when a request of the
  client prolonged the key last;
- since then the client sent no request that names the key, except reads in the calls in which it asked whether it still
  held the lock. So no renewal was late, lost or refused;
- no fault was in force on the client, nor on a majority of the nodes and its links to them, nor for a lease before that
  one began, or a second if that is longer, because a lock may try again after a while what failed. Nothing sent since
  then was left unanswered. Or the faults were over by `SILENT` of the lease, and had made nothing fail: in all this
  time no request of the client was answered with an error or not at all, and no connection was lost or could not be
  made; and after the faults `LEAST_ANSWERS` requests or more were answered;
- the client ran for most of the lease (`RAN`), as libraries renew after a third or half of it;
- until then the lock had said that it was still held, whenever it was asked.

A lock that did send renewals, the last by `EARLY` of the lease, has given up if all of them failed (by an error of the
node, or without an answer), if it sent none until the end of the lease, and if no fault was in force any more from
`SILENT` of a lease after the last one: others of its requests were answered then, `LEAST_ANSWERS` or more.

One such section may be a delay that is not on record. `LEAST` of them are a lock that does not renew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from fencepost.history import process_of
from fencepost.quorum import quorum
from fencepost.text import milliseconds, out_of, plural
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.renewals import renewed_another_key
from harness.figures import KeyFigures, Row
from harness.history.calls import GRANTS
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import columns_of, grouped, rows_of, where, which
from harness.history.key_changes import ENDINGS
from harness.history.ledger import Ledger
from harness.history.link_activity import Activity
from harness.history.node_requests import Request
from harness.history.recorded import Recorded, named
from harness.history.renewal_requests import could_renew, renewal_requests, renewals_of_another_key
from harness.history.standing_still import ran_ns
from harness.history.waits import SECOND_NS
from harness.verdict import Answer

SHARE: Final = 0.9
RAN: Final = 0.75
EARLY: Final = 0.4
SILENT: Final = 0.2
LEAST_ANSWERS: Final = 2
LEAST: Final = 2
_NESTED: Final = ("reenter", "leave")


class Figures(KeyFigures, frozen=True):
    """`sections`: in which the client stayed for longer than a lease. `missed`: those of them whose keys expired
    because the lock sent no renewal."""

    sections: int
    missed: int

    def rows(self) -> Iterator[Row]:
        if self.missed:
            sections = out_of(self.missed, self.sections, "long section", "long sections")
            yield Row("renewal", f"{sections} ended because the lock sent no renewal", order=82)


class _Granted(NamedTuple):
    """The `keys` that a section's acquire set, and the `nodes`; when requests of its client prolonged them, in nested
    acquires and their releases or otherwise; and by node how and when one of them ended: never, if that is not seen."""

    keys: set[str]
    nodes: set[str]
    renewed_ns: list[int]
    nested_ns: list[int]
    ended: dict[str, tuple[str, int]]


class _Missed(NamedTuple):
    """`section`: its place. `nodes`: on which the key had expired by `at_ns`, when the last of a majority did, or when
    the lock said that it was no longer held. `begun_ns`: when the lease began that ended then. `failed`: how many
    renewals had failed since. `was_renewed`: whether some had been done before."""

    section: int
    nodes: tuple[str, ...]
    begun_ns: int
    at_ns: int
    failed: int
    was_renewed: bool


def check(run: Recorded) -> Answer:
    """No figures where the lock was not to renew its leases, or what went over the links is not on record."""
    ledger = run.whole_ledger
    if ledger is None or run.config.renewal_ms is None:
        return Answer()
    start, end = columns_of(run.sections, "start_ns", "end_ns")
    missed = sorted(_missed(run, ledger), key=lambda one: one.at_ns)
    missed = missed if len(missed) >= LEAST else []
    figures = Figures(int((end - start > run.lease_ms * 1e6).sum()), len(missed))
    if not missed:
        return Answer(figures)
    text = (
        f"the lock let the leases of {plural(len(missed), 'section')} end and did not renew them, although the client "
        f"ran and no fault was in the way; for a whole lease it sent no renewal{_how_many(missed)}"
    )
    return Answer(figures, (MISSED.of(missed, text, partial(_example, run, ledger)),))


def _missed(run: Recorded, ledger: Ledger) -> Iterator[_Missed]:
    lease_ns = round(run.lease_ms * 1e6)
    for section, (keys, nodes, renewed_ns, nested_ns, ended) in _granted(run, ledger).items():
        row = run.sections.iloc[section]
        begun_ns = max([row.start_ns, *renewed_ns, *nested_ns])
        client, enough, no_ns = str(row.client), quorum(len(nodes)), _denied_ns(run, row)
        expired_ns = sorted(at for what, at in ended.values() if what == "expired")
        at_ns = min([no_ns, *expired_ns[enough - 1 : enough]])
        is_inside = at_ns < row.end_ns or at_ns == no_ns
        is_late = row.ended == "release" and begun_ns + SHARE * lease_ns <= at_ns
        if not is_inside or not is_late or not _was_vouched_for(run, row, at_ns):
            continue
        if sum(what == "expired" or at >= at_ns for what, at in ended.values()) < enough:
            continue
        sent = renewal_requests(run, ledger.sent, row, keys)
        asked = [one for one in sent if one.from_client_ns >= begun_ns]
        was_free = _gave_up if asked else _sent_none
        if not was_free(_Lease(run, ledger, row, begun_ns, at_ns), asked):
            continue
        if ran_ns(run, client, begun_ns, at_ns) >= RAN * lease_ns:
            gone = (node for node, (what, at) in ended.items() if what == "expired" and at <= at_ns)
            names = tuple(sorted(gone, key=run.nodes.index))
            yield _Missed(section, names, begun_ns, at_ns, len(asked), bool(renewed_ns))


def _granted(run: Recorded, ledger: Ledger) -> dict[int, _Granted]:
    """By section."""
    own, places = where(ledger.rows, key=run.lock_keys), run.places
    set_by = where(own, what=("set", "overwritten", "changed"), f=GRANTS, is_in_call=True, outcome="ok")
    ends = rows_of(where(own, what=ENDINGS), "of", "what", "at_ns")
    end_of = {of: (str(what), at) for of, what, at in ends}
    is_nested = which(own, f=_NESTED, is_in_call=True, what=("prolonged", "changed"))
    in_nested = rows_of(own[is_nested], "task", "life", "section", "at_ns")
    nested = grouped((tuple(of), at_ns) for *of, at_ns in in_nested)
    prolonged = rows_of(where(own, ~is_nested, what="prolonged"), "of", "client", "at_ns")
    renewed = grouped((tuple(of), at_ns) for *of, at_ns in prolonged)
    found: dict[int, _Granted] = {}
    for node, key, owner, client, *of in rows_of(set_by, "node", "key", "owner", "client", "task", "life", "section"):
        if (section := places.get(tuple(of))) is None:
            continue
        one = found.setdefault(section, _Granted(set(), set(), [], nested[tuple(of)], {}))
        one.keys.add(str(key))
        one.nodes.add(str(node))
        one.renewed_ns.extend(renewed[owner, client])
        one.ended[str(node)] = end_of.get(owner, ("", FOREVER_NS))
    return found


def _how_many(missed: Sequence[_Missed]) -> str:
    failed, renewed = (
        sum(map(bool, of)) for of in ([one.failed for one in missed], [one.was_renewed for one in missed])
    )
    told = [f"in {failed} of them, the last one before had failed"] if failed else []
    told += [f"in {renewed} of them, earlier ones had succeeded"] if renewed else []
    return f" ({'; '.join(told)})" if told else ""


def _asked(run: Recorded, section: Any) -> Iterator[tuple[str, int]]:
    """Each answer to whether the lock was still held, and when."""
    own = where(run.ops, f="held", client=section.client, life=section.life, section=section.section)
    return rows_of(own, "outcome", "complete_ns")


def _denied_ns(run: Recorded, section: Any) -> int:
    """When the lock said first that it was no longer held; never, if it did not."""
    return min((at_ns for outcome, at_ns in _asked(run, section) if outcome == "fail"), default=FOREVER_NS)


def _was_vouched_for(run: Recorded, section: Any, by_ns: int) -> bool:
    """Whether the lock had said that it was still held whenever it was asked before, and was asked at least once."""
    outcomes = [outcome for outcome, at_ns in _asked(run, section) if at_ns < by_ns]
    return bool(outcomes) and all(outcome == "ok" for outcome in outcomes)


class _Lease(NamedTuple):
    """The lease of a section: when it began, and when it ended."""

    run: Recorded
    ledger: Ledger
    section: Any
    begun_ns: int
    at_ns: int

    @property
    def wire(self) -> Activity:
        return self.ledger.links.of(str(self.section.client))

    @property
    def length_ns(self) -> int:
        """As long as it was promised."""
        return round(self.run.lease_ms * 1e6)

    def is_calm(self, since_ns: int) -> bool:
        """Whether from then on no fault, and no request under way, can have kept the client from renewing it."""
        section, stuck = self.section, self.wire.is_stuck(since_ns, self.at_ns)
        return not stuck and could_renew(
            self.run, process_of(str(section.client)), str(section.key), since_ns, self.at_ns
        )

    def had_answers(self, since_ns: int) -> bool:
        return self.wire.answered(since_ns, self.at_ns) >= LEAST_ANSWERS


def _gave_up(lease: _Lease, asked: Sequence[Request]) -> bool:
    """Whether all these renewals had failed, soon, and it was high time to try again."""
    last_ns, sent, length_ns = asked[-1].from_client_ns, lease.ledger.sent, lease.length_ns
    again_ns = last_ns + round(SILENT * length_ns)
    is_failed = all(one.reply is None or sent.error_of(one) is not None for one in asked)
    is_soon = is_failed and last_ns <= lease.begun_ns + round(EARLY * length_ns)
    return is_soon and lease.had_answers(again_ns) and lease.is_calm(again_ns)


def _sent_none(lease: _Lease, _asked: Sequence[Request]) -> bool:
    """Whether no fault was in the way, or only faults that made nothing fail and were soon over."""
    since_ns = lease.begun_ns - max(lease.length_ns, SECOND_NS)
    soon_ns = lease.begun_ns + round(SILENT * lease.length_ns)
    if lease.is_calm(since_ns):
        return True
    is_harmless = not lease.wire.failed(since_ns, lease.at_ns) and lease.had_answers(soon_ns)
    return is_harmless and lease.is_calm(soon_ns)


def _example(run: Recorded, ledger: Ledger, one: _Missed) -> dict[str, object]:
    row = run.sections.iloc[one.section]
    others = renewals_of_another_key(run, row, one.begun_ns, one.at_ns)
    return {
        **named(row),
        "at_ms": run.at_ms(one.at_ns),
        "granted_ms": run.at_ms(row.start_ns),
        "nodes": one.nodes,
        **({"failed": one.failed} if one.failed else {}),
        **({"renewed_ms": run.at_ms(one.begun_ns)} if one.was_renewed else {}),
        "left_ms": run.at_ms(row.end_ns),
        **({"instead": renewed_another_key(run, ledger, others)} if len(others) else {}),
    }


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    client, nodes = case.text("client"), case.listed("nodes")
    since = "renewed_ms" if "renewed_ms" in case.example else "granted_ms"
    after_ms = float(case.example["at_ms"]) - float(case.example[since])
    begun = f"it was last renewed, at {case.at(since)}" if since == "renewed_ms" else "the grant"
    sent = "had not sent one request to renew it" if since == "granted_ms" else "sent no request to renew it any more"
    if "failed" in case.example:
        sent = f"sent none after {case.counted('failed', 'request')} to renew it that failed"
    if "instead" in case.example:
        sent = case.text("instead")
    ended = f"The key had expired on {nodes} by" if nodes else "The lock said that it was no longer held at"
    return Told(
        f"{client} was granted the lock at {case.at('granted_ms')} and was inside until {case.at('left_ms')}. {ended} "
        f"{case.at()}, {milliseconds(after_ms)} after {begun}, because the lock {sent}. {client} ran, no fault was "
        "in the way, and whenever it had asked before, the lock had said that it was still held.",
        cause="renewed another key" if "instead" in case.example else "not renewed",
    )


MISSED: Final = FindingKind(
    "renewal-missed",
    "lease",
    _told,
    stands_for="not renewed",
    noun="lease(s) that the lock did not renew",
    surveyed="extension",
)
