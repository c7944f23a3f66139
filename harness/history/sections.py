"""Critical sections, derived from the operations: one row for every granted acquire.

client, life, section, key
asked_ns         the first acquire attempt that led to this section was invoked
start_ns         the acquire completed: from here on the client may use the resource
end_ns           the release was invoked, or the last time at which the client may have used the resource
ended            "release", "killed" (by the nemesis) or "open" (the run, or the client, ended inside)
deadline_min_ns  the earliest time at which the reported validity may have ended
deadline_max_ns  the latest such time; equal to deadline_min_ns if the lock reported its deadline
validity_ms, granted_ms, requested_ns, token, token_source (each may be missing), extensions
lapsed_from_ns, lapsed_to_ns  the longest time in which the client certainly had no lease, before an extension that came
                 too late; both 0 if there is none. Only where some section of the run has one
shared           whether its client came as a reader. Only where some client did

If the client asked the lock whether it still holds it, the section is vouched for until the last yes. So it is until
its release if no time was promised and the lock says that it released it. If the client acquired it once more, it may
have got a new lease.

The bounds err in one direction: if the record leaves a choice, `deadline_min_ns` takes the reading that makes the
certain window shorter, and `deadline_max_ns` the one that makes the possible window longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from fencepost.errors import UsageError
from fencepost.history import ClientEnd, FaultEvent
from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import (
    Bools,
    Codes,
    Groups,
    Ints,
    address,
    codes_in,
    known,
    look_up,
    placed,
    width_of,
)
from harness.history.leases import derive_leases, find_lapses, granted_open_ended

ENDED: Final = ("release", "killed", "open")
POSITION: Final = "position"
_LAPSED: Final = ("lapsed_from_ns", "lapsed_to_ns")
_OF_CHAINS: Final = [
    *("f", "complete_ns", "validity_ms", "told_at_return"),
    *("deadline_min_ns", "deadline_max_ns", "computed_min_ns"),
]


def derive_sections(ops: pd.DataFrame, ends: Sequence[ClientEnd], faults: Sequence[FaultEvent]) -> pd.DataFrame:
    """The sections, ordered by start, with the columns above.

    If a client's end was not recorded (the harness was killed), its open section ends with the last operation that it
    recorded: perhaps too early, but this invents no overlap. Raises UsageError for a log that grants one section twice.
    """
    ops = ops.set_axis(pd.RangeIndex(len(ops)))
    ids = _Ids.of(ops)
    granted = ((ops["f"] == "acquire") & (ops["outcome"] == "ok")).to_numpy()
    places = np.flatnonzero(ids.groups.take(granted))
    granting, at = ids.groups.rows(places), np.searchsorted(ids.groups.edges, places, side="right") - 1
    if len(twice := np.flatnonzero(at[1:] == at[:-1])):
        row = ops.iloc[int(granting[twice[0]])]
        raise UsageError(
            f"the log of {row.client}, life {row.life}, grants section {row.section} twice: it was damaged or edited"
        )
    in_order = np.argsort(ops["complete_ns"].to_numpy(np.int64)[granting], kind="stable")
    granting, at = granting[in_order], at[in_order]
    leased = _leased(ops, ids, at, ids.section[granting], faults)
    names = ["client", "life", "section", "key", "complete_ns", "validity_ms", "granted_ms", "requested_ns", "token"]
    grants = ops[names].iloc[granting].reset_index(drop=True)
    start: Ints = grants["complete_ns"].to_numpy(np.int64)
    end, ended = _ends(ops, ids, at, ends)
    token, source = _tokens(ops, ids, at, grants)
    asked = ids.groups.first_times(ops["invoke_ns"].to_numpy(np.int64), FOREVER_NS, (ops["f"] == "acquire").to_numpy())
    columns = {
        **{name: grants[name] for name in ("client", "life", "section", "key")},
        "asked_ns": asked[at],
        "start_ns": start,
        "end_ns": np.maximum(end, start),
        "ended": ended,
        "deadline_min_ns": leased.pop("deadline_min_ns"),
        "deadline_max_ns": leased.pop("deadline_max_ns"),
        **{name: grants[name] for name in ("validity_ms", "granted_ms", "requested_ns")},
        "token": token,
        "token_source": source,
        **leased,
        **({"shared": ops["shared"].to_numpy(np.int8)[granting]} if ops["shared"].any() else {}),
    }
    return pd.DataFrame({name: pd.Series(values, copy=False) for name, values in columns.items()})


def _leased(ops: pd.DataFrame, ids: _Ids, at: Ints, sections: Codes, faults: Sequence[FaultEvent]) -> dict[str, Any]:
    """The columns of sections that follow from their leases. `at`: the sections' groups; `sections`: their numbers."""
    leases = derive_leases(ops, faults)[_OF_CHAINS]
    told, latest, extensions = _chain(leases, ids, sections)
    earliest, latest = _vouched(ops, ids, at, told, latest)
    columns = {"deadline_min_ns": earliest, "deadline_max_ns": latest, "extensions": extensions}
    of_lease = ids.section[leases.index.to_numpy()].astype(np.int64)
    lapses = find_lapses(leases, of_lease)
    if not len(lapses.rows):
        return columns
    lapsed_from, lapsed_to = lapses.longest_of(of_lease, sections.astype(np.int64))
    # A client that was told meanwhile that it still holds the lock had a lease.
    has_none = earliest == told
    return columns | dict(zip(_LAPSED, (lapsed_from * has_none, lapsed_to * has_none), strict=True))


def positions_of(writes: pd.DataFrame, sections: pd.DataFrame) -> Ints:
    """For each accepted write the position of its section in `sections`; -1 if that section was not recorded.

    If the index of `writes` is named `position`, it already holds the positions.
    """
    if writes.index.name == POSITION:
        return writes.index.to_numpy(np.int64)
    names = sections["client"].astype("category").cat.categories
    client = codes_in(names, writes["client"])
    numbers = sections["section"].to_numpy(), writes["section"].to_numpy()
    known, wanted = address((codes_in(names, sections["client"]), client), numbers)
    return look_up(known, np.where(client < 0, -1, wanted))


@dataclass(frozen=True, slots=True)
class _Ids:
    """One number for each row's life and one for its section, in the same order; `names` gives a client's part.

    `groups`: the rows of each attempted section, ordered by these numbers.
    """

    life: Codes
    section: Codes
    groups: Groups
    names: dict[str, int]
    lives: int

    @classmethod
    def of(cls, ops: pd.DataFrame) -> _Ids:
        client = ops["client"].astype("category").cat
        names = {str(name): code for code, name in enumerate(client.categories)}
        lives, sections = ops["life"].to_numpy(), ops["section"].to_numpy()
        lives = lives - lives.min(initial=0)
        life = placed(client.codes.to_numpy(), lives)
        section = placed(life, sections)
        return cls(life, section, Groups.of_equal(section), names, width_of(lives))


def _chain(leases: pd.DataFrame, ids: _Ids, at: Codes) -> tuple[Ints, Ints, Codes]:
    """The deadlines of each section and the number of its extensions. `at`: the sections' numbers.

    An extension replaces the lease before it. If that lease may have expired when the client received the new one, the
    client may have had no lease in between, and nothing after that is certain: the earliest deadline stays.
    """
    section, complete = ids.section[leases.index.to_numpy()], leases["complete_ns"].to_numpy(np.int64)
    order = np.lexsort((complete, section))
    section, complete = section[order], complete[order]
    earliest: Ints = leases["deadline_min_ns"].to_numpy(np.int64)[order]
    latest: Ints = leases["deadline_max_ns"].to_numpy(np.int64)[order]
    last = np.append(section[1:] != section[:-1], True)[: len(section)]
    lapsed = np.append(complete[1:] > earliest[:-1], True)[: len(section)]
    stays = np.flatnonzero(last | lapsed)
    first_stay = stays[np.searchsorted(section[stays], at)]
    final = np.searchsorted(section, at, side="right") - 1
    extensions = (final - np.searchsorted(section, at)).astype(np.int32)
    return earliest[first_stay], latest[final], extensions


def _vouched(ops: pd.DataFrame, ids: _Ids, at: Ints, earliest: Ints, latest: Ints) -> tuple[Ints, Ints]:
    """The deadlines of sections in which the lock was asked whether it is still held, or acquired once more. `at`: the
    sections' groups.

    A yes to the question vouches for the section up to some time within the call, and perhaps the lock had just renewed
    its lease. Who acquires once more may be granted what had been free for a while. A lock that promised no time, and
    says that it released the section's lease, vouches for it up to then.
    """
    is_question, is_nested = ((ops["f"] == f).to_numpy(np.bool_) for f in ("held", "reenter"))
    is_question = is_question | _open_ended_releases(ops, ids)
    rows = np.flatnonzero((is_question | is_nested) & (ops["outcome"] == "ok").to_numpy(np.bool_))
    if not len(rows):
        return earliest, latest
    yes = ops.iloc[rows]
    granted_ms = yes["granted_ms"].fillna(yes["validity_ms"]).fillna(0).to_numpy(np.float64)
    may_last = yes["complete_ns"].to_numpy(np.int64) + np.ceil(granted_ms * 1e6).astype(np.int64)
    group = np.searchsorted(ids.section[ids.groups.rows(ids.groups.edges[:-1])], ids.section[rows])
    surely, perhaps = np.full((2, len(ids.groups.edges) - 1), -1, np.int64)
    np.maximum.at(surely, group, np.where(is_question[rows], yes["invoke_ns"].to_numpy(np.int64), -1))
    np.maximum.at(perhaps, group, may_last)
    return np.maximum(earliest, surely[at]), np.maximum(latest, perhaps[at])


def _open_ended_releases(ops: pd.DataFrame, ids: _Ids) -> Bools:
    """Which rows release a lease for which no time was promised."""
    is_grant = granted_open_ended(ops)
    if not is_grant.any():
        return is_grant
    is_release = (ops["f"] == "release").to_numpy(np.bool_)
    return is_release & np.isin(ids.section, ids.section[is_grant])


def _ends(ops: pd.DataFrame, ids: _Ids, at: Ints, ends: Sequence[ClientEnd]) -> tuple[Ints, pd.Categorical[str]]:
    """When each section ended, and how. `at`: the sections' groups."""
    invoke, complete = ops["invoke_ns"].to_numpy(np.int64), ops["complete_ns"].to_numpy(np.int64)
    released = ids.groups.first_times(invoke, FOREVER_NS, (ops["f"] == "release").to_numpy())[at]
    shape = len(ids.names) * ids.lives
    life_last = np.full(shape, -1, np.int64)
    np.maximum.at(life_last, ids.life, complete)
    ended_at, killed = np.full(shape, -1, np.int64), np.zeros(shape, np.bool_)
    for end in ends:
        if end.client in ids.names and end.life < ids.lives:
            which = ids.names[end.client] * ids.lives + end.life
            # A client that ended during its release had left its section before; only the time was not recorded.
            ended_at[which] = -1 if end.under_way == "releasing" else end.at_ns
            killed[which] = end.how == "killed"
    life_of = ids.groups.take(ids.life)[ids.groups.edges[:-1]]
    life = life_of[at]
    # A client that started its next section without a recorded release had left this one by then.
    went_on = np.append(life_of[1:] == life_of[:-1], False)[at]
    next_ns = np.append(ids.groups.first_times(invoke, FOREVER_NS)[1:], FOREVER_NS)[at]
    open_end = np.where(went_on, next_ns, np.maximum(life_last[life], ended_at[life]))
    by_release = released < FOREVER_NS
    how = np.where(by_release, 0, np.where(killed[life] & ~went_on, 1, 2))
    return np.where(by_release, released, open_end), pd.Categorical.from_codes(how, pd.Index(ENDED))


def _tokens(ops: pd.DataFrame, ids: _Ids, at: Ints, grants: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The token of each section and its source: the lock's own token, or else the one drawn from the resource."""
    own, granted = known(grants["token"])
    drawn = np.flatnonzero(((ops["f"] == "token") & (ops["outcome"] == "ok")).to_numpy())
    there, tokens = known(ops["token"].iloc[drawn])
    drawn, tokens = drawn[there], tokens[there]
    tries = len(ids.groups.edges) - 1
    of_section, from_resource = np.zeros(tries, np.int64), np.zeros(tries, np.bool_)
    group = np.searchsorted(ids.section[ids.groups.rows(ids.groups.edges[:-1])], ids.section[drawn])
    of_section[group], from_resource[group] = tokens, True
    token = np.where(own, granted, of_section[at])
    code = np.where(own, 0, np.where(from_resource[at], 1, -1))
    source = pd.Series(pd.Categorical.from_codes(code, categories=pd.Index(["lock", "resource"])))
    return pd.Series(pd.arrays.IntegerArray(token, code < 0)), source
