"""On random histories the checkers `counter` and `fencing` find the same as comparing every pair of writes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.history import Write
from harness.checkers import counter, fencing
from harness.history.recorded import Recorded
from harness.verdict import Finding
from tests.judge.histories import History
from tests.judge.test_overlap_counts import by_hand

clients = st.sampled_from(["c1", "c2", "c3"])
keys = st.sampled_from(["k1", "k1", "k2"])
tokens = st.none() | st.integers(-2, 3)
sections = st.tuples(
    clients, keys, st.integers(-4, 3), st.integers(0, 5), st.integers(-2, 6), st.integers(0, 2), tokens
)
told = st.sampled_from(["both", "both", "both", "resource", "client"])
"""Who knows of a write; without an acknowledgement only the resource does."""
one_each = st.tuples(st.none(), st.integers(-3, 4), told, tokens)
any_section = st.tuples(st.integers(0, 5), st.integers(-3, 4), told, tokens)


def random_history(
    planned: list[tuple[str, str, int, int, int, int, int | None]],
    written: list[tuple[int | None, int, str, int | None]],
    shown: bool,
    fenced: bool,
    whole: bool = True,
) -> Recorded:
    """`shown`: every write carries a token. A write belongs to the next section, or to the one that it names."""
    history = History(clients=3, fencing="writes" if fenced else "none")
    history.final_is_last_write = whole
    at, free = 10, {"c1": 0, "c2": 0, "c3": 0}
    numbers: Counter[str] = Counter()
    made: list[tuple[str, int, str]] = []
    for client, key, gap, length, deadline, unsure, token in planned:
        numbers[client] += 1
        start = max(at + gap, free[client])
        at = start + length
        free[client] = at + 1
        until: Any = (start + deadline - unsure, start + deadline) if unsure else start + deadline
        more = {} if token is None else {"token": token, "token_source": "lock"}
        history.section(client, start, at, number=numbers[client], key=key, deadline=until, **more)
        made.append((client, numbers[client], key))
    for place, (named, value, known, token) in enumerate(written):
        # A section that was not recorded: its client left no log.
        client, number, key = dict(enumerate(made)).get(place if named is None else named, ("c0", 7, "k1"))
        token = value if shown and token is None else token if shown or place % 2 else None
        if known == "client":
            history.op(client, "write", "ok", number, place, place, key=key, value=value)
        elif client == "c0":
            history.writes.append(Write(key, 0, client, number, value, token))
        else:
            history.write(client, value, number=number, told=known == "both", key=key, token=token)
    return history.recorded()


histories = st.builds(
    random_history,
    st.lists(sections, max_size=6),
    st.lists(one_each, max_size=6) | st.lists(any_section, max_size=8),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


class Seen:
    """The run as plain lists: its sections, its writes, and for each write the place of its section or None."""

    def __init__(self, run: Recorded) -> None:
        self.sections = run.sections.to_dict("records")
        self.writes = run.writes.to_dict("records")
        for write in self.writes:
            same = ((s["client"], s["section"]) == (write["client"], write["section"]) for s in self.sections)
            write["of"] = next((place for place, found in enumerate(same) if found), None)
            write["since"] = None if write["of"] is None else self.sections[write["of"]]["start_ns"]

    def blame(self, one: int | None, other: int | None) -> str | None:
        if one is None or other is None:
            return None
        columns = ("client", "life", "key", "start_ns", "end_ns", "deadline_min_ns", "deadline_max_ns")
        rows: list[Any] = [tuple(self.sections[place][name] for name in columns) for place in (one, other)]
        return next(iter(by_hand(rows)), None)

    def is_earlier(self, one: int | None, other: int | None) -> bool:
        """Whether the one section stands before the other in the table."""
        return one is not None and other is not None and one < other

    def before(self, place: int) -> list[dict[Any, Any]]:
        return [write for write in self.writes[:place] if write["key"] == self.writes[place]["key"]]

    def after(self, place: int) -> list[dict[Any, Any]]:
        return [write for write in self.writes[place + 1 :] if write["key"] == self.writes[place]["key"]]


def counts(findings: tuple[Finding, ...]) -> dict[tuple[str, str], int]:
    return {(finding.kind, finding.blame): finding.count for finding in findings}


@settings(max_examples=60)
@given(histories)
def test_lost_unrecorded_and_impossible_writes_equal_those_of_comparing_every_pair(run: Recorded) -> None:
    seen, answer = Seen(run), counter.check(run)
    whole = run.final_values is not None
    ops = run.ops[(run.ops["f"] == "write") & (run.ops["outcome"] == "ok")].to_dict("records")
    said, known = ([(w["client"], w["section"], w["value"]) for w in table] for table in (ops, seen.writes))
    expected: Counter[tuple[str, str]] = Counter()
    lost = []
    for place, write in enumerate(seen.writes):
        if not 1 <= write["value"] <= 1 + max([0, *(other["value"] for other in seen.before(place))]):
            expected["impossible-value", "resource"] += 1
        by = [other for other in seen.after(place) if other["value"] <= write["value"]]
        if by and known[place] in said:
            crowded = any(
                seen.blame(i, j)
                for i, section in enumerate(seen.sections)
                for j in range(i)
                if section["key"] == write["key"] == seen.sections[j]["key"]
            )
            unsure = "undecided" if crowded or not whole else "harness"
            if seen.is_earlier(by[0]["of"], write["of"]) and known[seen.writes.index(by[0])] not in said:
                unsure = "client"  # its write arrived after it had left
            lost.append((seen.blame(write["of"], by[0]["of"]) or unsure, write, by[0]))
        elif by:
            expected["unacknowledged", ""] += 1
    expected.update(("lost-update", blame) for blame, _, _ in lost)
    if whole:
        expected["unrecorded-write", "resource"] = sum(write not in known for write in said)
    unacknowledged = expected.pop(("unacknowledged", ""), 0)
    assert counts(answer.findings) == {kind: count for kind, count in expected.items() if count}
    assert (answer.figures.lost, answer.figures.lost_unacknowledged) == (len(lost), unacknowledged)
    assert bool(answer.unknown) == (not whole and not lost)
    for finding in answer.findings:
        if finding.kind == "lost-update":
            shown = [(e["lost"], e["by"]) for e in finding.examples]
            keys_in_order = list(dict.fromkeys(write["key"] for write in seen.writes))
            mine = [
                tuple({name: write[name] for name in ("client", "section", "value")} for write in (one, by))
                for blame, one, by in sorted(lost, key=lambda found: keys_in_order.index(found[1]["key"]))
                if blame == finding.blame
            ]
            assert shown == mine[:5]


@settings(max_examples=120)
@given(histories)
def test_stale_writes_and_tokens_out_of_order_equal_those_of_comparing_every_pair(run: Recorded) -> None:
    seen, answer = Seen(run), fencing.check(run)
    expected: Counter[tuple[str, str]] = Counter()
    for place, write in enumerate(seen.writes):
        by_token = all(isinstance(w["token"], int) for w in seen.writes if w["key"] == write["key"])
        ranks = "token" if by_token else "since"
        higher = [w for w in seen.before(place) if w[ranks] is not None and w[ranks] > (write[ranks] or 0)]
        if write[ranks] is None or not higher:
            continue
        holder = max(higher, key=lambda other: other[ranks] if by_token else (other["since"], other["of"]))
        blame = seen.blame(write["of"], holder["of"]) or "client"
        expected["stale-write-accepted", "resource" if by_token and run.config.fencing != "none" else blame] += 1
    shown = [section for section in seen.sections if isinstance(section["token"], int)]
    expected["token-not-increasing", "lock"] = sum(
        any(s["key"] == t["key"] and s["end_ns"] < t["start_ns"] and s["token"] >= t["token"] for s in shown)
        for t in shown
    )
    assert counts(answer.findings) == {kind: count for kind, count in expected.items() if count}
    assert answer.figures.tokens_not_increasing == expected["token-not-increasing", "lock"]
