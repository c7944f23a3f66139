"""Did an extension change a key that somebody else owned?

An extension prolongs the client's own keys. A lock that does not compare, or compares too early, prolongs or overwrites
the key of whoever got it in the meantime, and counts that node as its own. The witness sees both:

- *overwritten*: while the extension was under way, the value of another section or attempt was replaced by that of the
  section which was extended;
- *prolonged*: meanwhile another client's key was given more time, though that client had not yet asked for an
  extension, or had only tried to acquire. Nothing is said while a fault may have held up requests of that client, nor
  of locks that renew by themselves: those that prolonged a key when nobody had asked for an extension.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from fencepost.text import listed, plural
from harness.figures import KEYS_ON_NODES, CheckerFigures, Part, Row
from harness.history.fault_windows import FOREVER_NS, hits_link, longest_windows
from harness.history.key_owners import Owners, rows_of
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding

ARRIVES_WITHIN_NS: Final = 250_000_000
"""What an extension asked for may arrive so long after it had returned."""

How = Literal["overwritten", "prolonged"]


class Figures(CheckerFigures, frozen=True):
    """`extensions`: those that were asked for. `overwritten`, `prolonged`: keys of others, on single nodes, that they
    changed."""

    extensions: int
    overwritten: int
    prolonged: int

    def rows(self) -> Iterator[Row]:
        counts = {"overwrote": self.overwritten, "prolonged": self.prolonged}
        done = " and ".join(f"{how} {plural(number, 'key')}" for how, number in counts.items() if number)
        if done:
            yield Row("extended", f"extensions {done} of other clients", order=85)

    def parts(self) -> Iterator[Part]:
        for row in self.rows():
            yield Part(KEYS_ON_NODES, order=27, sentences=(row.text,))


class _Extension(NamedTuple):
    section: int
    from_ns: int
    to_ns: int


class _Row(NamedTuple):
    """The columns of `Owners.holdings` that matter here."""

    node: str
    lock_key: str
    section: int
    value: str | None
    ended: str
    from_min_ns: int
    from_max_ns: int
    to_max_ns: int
    renewals: tuple[int, ...]


class _Touched(NamedTuple):
    """The key of section `of` on the node, changed by an extension of section `by`; both by their places. `of`: -1 for
    that of an attempt."""

    how: How
    node: str
    by: int
    of: int
    at_ns: int


def check(run: Recorded) -> Answer:
    """No figures where the nodes were not watched, or the lock does not show what it sets."""
    owners = run.owners
    if owners is None or not owners.are_shown:
        return Answer()
    extensions, first_asked = _extensions(run)
    touched = [*_overwritten(owners, extensions), *_prolonged(run, owners, extensions, first_asked)]
    number = {how: sum(one.how == how for one in touched) for how in ("overwritten", "prolonged")}
    figures = Figures(sum(map(len, extensions.values())), number["overwritten"], number["prolonged"])
    return Answer(figures, (_finding(run, touched),) if touched else ())


def _extensions(run: Recorded) -> tuple[dict[str, list[_Extension]], dict[int, int]]:
    """The extensions by key, whatever their outcome, and by section when the first was asked for."""
    places = {of: place for place, of in enumerate(rows_of(run.sections, "client", "life", "section"))}
    by_key: defaultdict[str, list[_Extension]] = defaultdict(list)
    first: dict[int, int] = {}
    ops = run.ops[run.ops["f"].isin(["extend", "held", "reenter"]).to_numpy(bool)]
    for f, key, *of, invoke, complete in rows_of(
        ops, "f", "key", "client", "life", "section", "invoke_ns", "complete_ns"
    ):
        if (place := places.get(tuple(of))) is not None:
            first[place] = min(invoke, first.get(place, FOREVER_NS))
            if f == "extend":
                by_key[str(key)].append(_Extension(place, invoke, complete + ARRIVES_WITHIN_NS))
    return by_key, first


def _overwritten(owners: Owners, extensions: dict[str, list[_Extension]]) -> Iterator[_Touched]:
    before: dict[tuple[str, str], _Row] = {}
    for row in map(_Row._make, rows_of(owners.holdings, *_Row._fields)):
        last, before[row.node, row.lock_key] = before.get((row.node, row.lock_key)), row
        if last is None or last.value is None or last.ended != "overwritten":
            continue
        if last.section != row.section and any(
            one.section == row.section and one.from_ns <= row.from_min_ns and row.from_max_ns <= one.to_ns
            for one in extensions.get(row.lock_key, ())
        ):
            yield _Touched("overwritten", row.node, row.section, last.section, row.from_max_ns)


def _prolonged(
    run: Recorded, owners: Owners, extensions: dict[str, list[_Extension]], first_asked: dict[int, int]
) -> list[_Touched]:
    if run.config.renewal_ms is not None:
        return []
    sections = list(rows_of(run.sections, "client", "asked_ns", "start_ns", "end_ns"))
    faults = longest_windows(run.faults)
    rows = [_Row._make(row) for row in rows_of(owners.holdings, *_Row._fields)]
    own: defaultdict[int, list[_Row]] = defaultdict(list)
    for row in rows:
        own[row.section].append(row)
    found = []
    for row in rows:
        if row.value is None:
            continue
        # Nobody extends what an attempt has set.
        whose = (None, row.from_min_ns, row.from_max_ns, FOREVER_NS) if row.section < 0 else sections[row.section]
        client, asked_ns, start_ns, end_ns = whose
        until_ns = min(end_ns, first_asked.get(row.section, FOREVER_NS))
        hits = [(since, until) for event, since, until in faults if hits_link(event, client, row.node)]
        for at_ns in row.renewals:
            if not start_ns <= at_ns < until_ns or any(a <= at_ns and b >= asked_ns for a, b in hits):
                continue
            meanwhile = [one for one in extensions.get(row.lock_key, ()) if one.from_ns <= at_ns <= one.to_ns]
            by = [one for one in meanwhile if sections[one.section][0] != client and _is_there(own[one.section], at_ns)]
            if not by:
                return []  # this lock renews by itself
            found.append(_Touched("prolonged", row.node, by[0].section, row.section, at_ns))
    return found


def _is_there(own: list[_Row], at_ns: int) -> bool:
    """Whether some node held the section's value then. If not, the lock may have changed it, and not shown that."""
    return any(row.from_min_ns <= at_ns <= row.to_max_ns for row in own)


def _finding(run: Recorded, touched: list[_Touched]) -> Finding:
    nodes = listed(sorted({one.node for one in touched}))
    text = (
        f"extensions changed {plural(len(touched), 'key')} of other clients, on {nodes}: an extension may prolong only "
        "what still has its own value"
    )
    clients = run.sections["client"].astype(str).tolist()
    keys = run.sections["key"].astype(str).tolist()
    examples = tuple(
        {
            "how": one.how,
            "node": one.node,
            "key": keys[one.by],
            "by": clients[one.by],
            **({} if one.of < 0 else {"of": clients[one.of]}),
            "at_ms": (one.at_ns - run.timeline.start_ns) / 1e6,
        }
        for one in sorted(touched, key=lambda one: one.at_ns)[:3]
    )
    return Finding("anothers-key", "lock", text, ("lease",), len(touched), examples)
