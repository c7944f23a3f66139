"""Critical sections, derived from the operations: one row for every time that a client was let in.

client, life, section, key
asked_ns         the first try to acquire that led to this section was invoked
start_ns         the acquire completed: from here on the client may use the resource
end_ns           the release was invoked, or the last moment at which the client can have used it
ended            "release", "killed" (by the nemesis) or "open" (the run, or the client, ended inside)
deadline_min_ns  the earliest moment at which the validity that the client was told can have ended
deadline_max_ns  the latest one; equal to deadline_min_ns where the lock reported its deadline
validity_ms, requested_ns (or missing), token (or missing), token_source (or missing), extensions

Everything is sound in one direction: where the record leaves a choice, the reading that makes the certain window
shorter is taken for `deadline_min_ns`, the one that makes the possible window longer for `deadline_max_ns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from fencepost.errors import UsageError
from harness.columns import codes_in
from harness.grouping import Bools, Ints, address, look_up
from harness.history import ClientEnd, FaultEvent
from harness.windows import FOREVER_NS, longest_windows

RESUME_SLACK_NS: Final = 50_000_000
"""A process that was just resumed has to be scheduled before it can stamp anything; for this long it counts as paused.
Longer only means more overlaps left undecided, for grants made right after a pause."""


def derive_sections(ops: pd.DataFrame, ends: Sequence[ClientEnd], faults: Sequence[FaultEvent]) -> pd.DataFrame:
    """The sections in the order in which they started, with the columns above.

    A client without a recorded end (the harness was killed) was there at least until the last thing it recorded, and
    its open section ends with that: too early perhaps, but no overlap is invented. Raises UsageError for a log that
    grants one section twice.
    """
    ids = _Ids.of(ops)
    leases = derive_leases(ops, faults)
    granting = np.flatnonzero((ops["f"] == "acquire") & (ops["outcome"] == "ok"))
    granting = granting[np.argsort(ids.section[granting], kind="stable")]
    at: Ints = ids.section[granting]
    if len(twice := np.flatnonzero(at[1:] == at[:-1])):
        row = ops.iloc[int(granting[twice[0]])]
        raise UsageError(
            f"the log of {row.client}, life {row.life}, grants section {row.section} twice: it was damaged or edited"
        )
    grants = ops.iloc[granting].reset_index(drop=True)
    start: Ints = grants["complete_ns"].to_numpy(np.int64)
    end, ended = _ends(ops, ids, at, ends)
    earliest, latest, extensions = _chain(leases, ids, at)
    token, source = _tokens(ops, ids, at, grants)
    sections = pd.DataFrame(
        {
            "client": grants["client"],
            "life": grants["life"],
            "section": grants["section"],
            "key": grants["key"],
            "asked_ns": _first(ids.section, ops["invoke_ns"], (ops["f"] == "acquire").to_numpy(), at),
            "start_ns": start,
            "end_ns": np.maximum(end, start),
            "ended": ended,
            "deadline_min_ns": earliest,
            "deadline_max_ns": latest,
            "validity_ms": grants["validity_ms"],
            "requested_ns": grants["requested_ns"],
            "token": token,
            "token_source": source,
            "extensions": extensions,
        }
    )
    return sections.sort_values("start_ns", kind="stable", ignore_index=True)


def derive_leases(ops: pd.DataFrame, faults: Sequence[FaultEvent]) -> pd.DataFrame:
    """Every lease that was granted, by an acquire or an extension: these rows of `ops`, with their index, and
    `deadline_min_ns`, `deadline_max_ns`.

    A validity counts from the moment at which the lock computed it. That lies within the call, not before the first
    request of the round that granted it, and within what the lock's own stamps allow. If the client was stopped while
    it stamped, the stamps may be late: their distance is taken as running time, and pauses are left out of it.
    """
    leases = ops[((ops["f"] == "acquire") | (ops["f"] == "extend")) & (ops["outcome"] == "ok")].copy(deep=False)
    invoke: Ints = leases["invoke_ns"].to_numpy(np.int64)
    complete: Ints = leases["complete_ns"].to_numpy(np.int64)
    before = np.clip(_or(leases["computed_before_ns"], complete), invoke, complete)
    after = np.clip(_or(leases["computed_after_ns"], invoke), invoke, before)
    exact: Bools = leases["deadline_ns"].notna().to_numpy()
    stamped = leases["computed_after_ns"].notna().to_numpy() & ~exact
    for client, pauses in pause_windows(faults).items():
        rows = np.flatnonzero(stamped & (leases["client"] == client).to_numpy())
        after[rows] = _without_pauses(after[rows], before[rows], pauses)
    after = np.clip(np.maximum(after, _or(leases["requested_ns"], invoke)), invoke, before)
    validity_ns = leases["validity_ms"].to_numpy(np.float64) * 1e6
    told = np.isfinite(validity_ns)
    validity_ns = np.where(told, validity_ns, 0)
    least, most = np.floor(validity_ns).astype(np.int64), np.ceil(validity_ns).astype(np.int64)
    earliest = np.where(told, after + least, invoke - 1)
    latest = np.where(told, before + most, FOREVER_NS)
    leases["deadline_min_ns"] = _or(leases["deadline_ns"], earliest)
    leases["deadline_max_ns"] = _or(leases["deadline_ns"], latest)
    return leases


def pause_windows(faults: Iterable[FaultEvent]) -> dict[str, list[tuple[int, int]]]:
    """By client, the longest times for which it can have been stopped, and slow to come back: disjoint, in order."""
    by_client: dict[str, list[tuple[int, int]]] = {}
    for event, began, done in longest_windows(faults):
        for client in event.paused_clients:
            windows = by_client.setdefault(client, [])
            until = done + RESUME_SLACK_NS
            if windows and began <= windows[-1][1]:
                before, its_end = windows.pop()
                windows.append((before, max(until, its_end)))
            else:
                windows.append((began, until))
    return by_client


def positions_of(writes: pd.DataFrame, sections: pd.DataFrame) -> Ints:
    """For each accepted write the position of its section in `sections`; -1 where the section is not on record.

    A column `position` of `writes`, where there is one, says it already.
    """
    if "position" in writes:
        return writes["position"].to_numpy(np.int64)
    names = sections["client"].astype("category").cat.categories
    client = codes_in(names, writes["client"])
    numbers = (sections["section"].to_numpy(np.int64), writes["section"].to_numpy(np.int64))
    known, wanted = address((codes_in(names, sections["client"]), client), numbers)
    return look_up(known, np.where(client < 0, -1, wanted))


def _without_pauses(after: Ints, before: Ints, pauses: Sequence[tuple[int, int]]) -> Ints:
    """The moments from which on a process ran, up to `before`, for as long as `before - after` without the pauses."""
    moved = after.copy()
    for began, done in reversed(pauses):
        hit = (moved <= done) & (before >= began)
        moved -= np.where(hit, np.minimum(done, before) - began, 0)
    return moved


@dataclass(frozen=True, slots=True)
class _Ids:
    """One number for each row's life and one for its section, ordered alike; `names` gives a client's part."""

    life: Ints
    section: Ints
    names: dict[str, int]
    lives: int
    sections: int

    @classmethod
    def of(cls, ops: pd.DataFrame) -> _Ids:
        client = ops["client"].astype("category").cat
        names = {str(name): code for code, name in enumerate(client.categories)}
        lives = int(ops["life"].max()) + 1 if len(ops) else 1
        sections = int(ops["section"].max()) + 1 if len(ops) else 1
        life = client.codes.to_numpy(np.int64) * lives + ops["life"].to_numpy(np.int64)
        return cls(life, life * sections + ops["section"].to_numpy(np.int64), names, lives, sections)


def _chain(leases: pd.DataFrame, ids: _Ids, at: Ints) -> tuple[Ints, Ints, Ints]:
    """The deadlines of each section and the number of its extensions.

    An extension replaces the lease before it. If that may have been over when the client got the new one, the client
    was without a lease in between, and nothing after that is certain any more: the earliest deadline stays.
    """
    section = ids.section[leases.index.to_numpy()]
    order = np.lexsort((leases["complete_ns"].to_numpy(), section))
    section = section[order]
    earliest: Ints = leases["deadline_min_ns"].to_numpy(np.int64)[order]
    latest: Ints = leases["deadline_max_ns"].to_numpy(np.int64)[order]
    complete: Ints = leases["complete_ns"].to_numpy(np.int64)[order]
    last = np.append(section[1:] != section[:-1], True)[: len(section)]
    lapsed = np.append(complete[1:] > earliest[:-1], True)[: len(section)]
    stays = np.flatnonzero(last | lapsed)
    first_stay = stays[np.searchsorted(section[stays], at)]
    final = np.searchsorted(section, at, side="right") - 1
    extensions = final - np.searchsorted(section, at)
    return earliest[first_stay], latest[final], extensions


def _ends(ops: pd.DataFrame, ids: _Ids, at: Ints, ends: Sequence[ClientEnd]) -> tuple[Ints, list[str]]:
    """When each section ended, and how."""
    invoke, complete = ops["invoke_ns"], ops["complete_ns"].to_numpy(np.int64)
    released = _first(ids.section, invoke, (ops["f"] == "release").to_numpy(), at)
    life = at // ids.sections
    shape = len(ids.names) * ids.lives + 1
    life_last = np.full(shape, -1, np.int64)
    np.maximum.at(life_last, ids.life, complete)
    ended_at, killed = np.full(shape, -1, np.int64), np.zeros(shape, np.bool_)
    for end in ends:
        if end.client in ids.names and end.life < ids.lives:
            which = ids.names[end.client] * ids.lives + end.life
            # Who was ended while it released had left before; only the line that would say when was never written.
            ended_at[which] = -1 if end.under_way == "releasing" else end.at_ns
            killed[which] = end.how == "killed"
    open_end = np.maximum(life_last[life], ended_at[life])
    # A client that went on to its next section without a recorded release was out by then.
    known = np.unique(ids.section)
    after = np.minimum(np.searchsorted(known, at, side="right"), max(len(known) - 1, 0))
    went_on = (known[after] > at) & (known[after] // ids.sections == life) if len(at) else np.zeros(0, np.bool_)
    next_invoke = _first(ids.section, invoke, np.ones(len(ops), np.bool_), known)
    open_end = np.where(went_on, next_invoke[after], open_end) if len(at) else open_end
    by_release = released < FOREVER_NS
    how = np.where(by_release, "release", np.where(killed[life] & ~went_on, "killed", "open"))
    return np.where(by_release, released, open_end), how.tolist()


def _tokens(ops: pd.DataFrame, ids: _Ids, at: Ints, grants: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The token of each section and its source: the lock's own, or else the one drawn from the resource."""
    drawn = np.flatnonzero((ops["f"] == "token") & (ops["outcome"] == "ok") & ops["token"].notna())
    drawn = drawn[np.isin(ids.section[drawn], at)]
    place = np.searchsorted(at, ids.section[drawn])
    token = grants["token"].copy()
    own = token.notna().to_numpy()
    from_resource = np.zeros(len(at), np.bool_)
    from_resource[place] = True
    from_resource &= ~own
    fitting = ~own[place]
    token.iloc[place[fitting]] = ops["token"].iloc[drawn[fitting]].to_numpy(np.int64)
    code = np.where(own, 0, np.where(from_resource, 1, -1))
    source = pd.Series(pd.Categorical.from_codes(code, categories=pd.Index(["lock", "resource"])))
    return token, source


def _first(section: Ints, times: pd.Series, chosen: Bools, at: Ints) -> Ints:
    """For each of the sorted section numbers `at`, the earliest of the chosen rows' times; FOREVER_NS without any."""
    result = np.full(len(at), FOREVER_NS, np.int64)
    if not len(at):
        return result
    rows = np.flatnonzero(chosen)
    place = np.minimum(np.searchsorted(at, section[rows]), len(at) - 1)
    fits = at[place] == section[rows]
    np.minimum.at(result, place[fits], times.to_numpy(np.int64)[rows[fits]])
    return result


def _or(values: pd.Series, otherwise: Ints) -> Ints:
    """The values, and where they are missing the others."""
    missing = values.isna().to_numpy()
    return np.where(missing, otherwise, values.fillna(0).to_numpy(np.int64))
