"""Random histories of a lock, correct ones and subtly wrong ones, and their form for the peer (see README.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from hypothesis import strategies as st

from fencepost.history import ClientEnd, Op, Write

MS: Final = 1_000_000
FOREVER: Final = 2**60
QUESTIONS: Final = ("section", "possible", "certain", "fenced", "fence", "counter")


@dataclass(frozen=True, slots=True)
class Plan:
    """One section, in small numbers; times in ms. `gap`: from the end of the previous section to the start of this one;
    0 or less is an overlap."""

    client: int
    gap: int
    asked: int
    length: int
    told: int
    unsure: int
    ending: Literal["ok", "fail", "info", "killed", "cut-off"]
    before: Literal["", "fail", "info"]
    token_step: int
    wrote: int


small = st.integers(0, 4)
gaps = st.sampled_from([1, 2, 1, 3, 1, 2, 1, 1, 0, -1, -3])
plans = st.builds(
    Plan,
    client=st.integers(1, 3),
    gap=gaps,
    asked=small,
    length=st.integers(0, 6),
    told=st.integers(-1, 8),
    unsure=st.sampled_from([0, 0, 1, 3]),
    ending=st.sampled_from(["ok", "ok", "ok", "fail", "info", "killed", "cut-off"]),
    before=st.sampled_from(["", "", "fail", "info"]),
    token_step=st.sampled_from([1, 1, 1, 1, 2, 0, -1]),
    wrote=st.sampled_from([1, 1, 1, 1, 1, 0, -1]),
)
histories = st.lists(plans, min_size=1, max_size=6)


@dataclass(slots=True)
class Section:
    owner: str
    number: int
    invoke: int
    start: int
    end: int
    low: int
    high: int
    token: int
    last: bool
    """Its client died inside, so the time at which its lock became free is unknown."""


@dataclass(slots=True)
class Recording:
    """A history as it is recorded: for each life of each client its operations in order."""

    ops: dict[tuple[str, int], list[Op]] = field(default_factory=dict)
    ends: list[ClientEnd] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)


def record(plans_: list[Plan], key: str) -> Recording:
    """Carry out the plans, all on one key, with clients that do one thing at a time."""
    made = Recording()
    lives: dict[str, int] = {}
    numbers: dict[str, int] = {}
    free: dict[str, int] = {}
    last_end, token, value = 10, 0, 0
    for plan in plans_:
        client = f"{key}-c{plan.client}"
        life = lives.setdefault(client, 1)
        number = numbers[client] = numbers.get(client, 0) + 1
        start = max(last_end + plan.gap, free.get(client, 0))
        invoke = max(start - plan.asked, free.get(client, 0))
        ops = made.ops.setdefault((client, life), [])
        if plan.before:
            ops.append(Op("acquire", plan.before, key, number, invoke * MS, invoke * MS))
        unsure = min(plan.unsure, start - invoke)
        high = start + plan.told
        lease: dict[str, Any] = {"validity_ms": float(plan.told)}
        if unsure:
            lease |= {"computed_after_ns": (start - unsure) * MS, "computed_before_ns": start * MS}
        else:
            lease["deadline_ns"] = high * MS
        token += plan.token_step
        ops.append(Op("acquire", "ok", key, number, invoke * MS, start * MS, token=token, token_source="lock", **lease))
        end = start + plan.length
        value += plan.wrote
        made.writes.append(Write(key, 0, client, number, value, token))
        gone = plan.ending == "killed" or plan.ending == "cut-off"
        if gone:
            made.ends.append(ClientEnd(client, life, plan.ending, end * MS))
            lives[client] = life + 1
            free[client] = end
        else:
            free[client] = end + plan.asked // 2
            ops.append(Op("release", plan.ending, key, number, end * MS, free[client] * MS))
        made.sections.append(Section(f"{client}.{life}", number, invoke, start, end, high - unsure, high, token, gone))
        last_end = end
    return made


def questions(made: Recording) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """The peer's model and operations for each of `QUESTIONS`."""
    for window in ("section", "possible", "certain"):
        yield "mutex", _lock_ops(made, window)
    yield "fenced-mutex", _lock_ops(made, "section")
    writes: list[dict[str, object]] = [
        {"kind": "write", "token": write.token, "value": write.value, "call": at, "return": at}
        for at, write in enumerate(made.writes)
    ]
    yield "fence", writes
    yield "counter", writes


def _lock_ops(made: Recording, window: str) -> list[dict[str, object]]:
    """Times are doubled, and the end of a section is half a tick later, so that sections that share a time overlap."""
    ops: list[dict[str, object]] = []
    before: dict[str, int] = {}
    for section in made.sections:
        # Whoever learns of a lease together with its end outlived none: it may last forever.
        latest = section.high if section.high > section.start else FOREVER
        limit = {"section": FOREVER, "possible": latest, "certain": section.low}[window]
        end = min(section.end, limit)
        if end < section.start:
            continue
        same = {"owner": section.owner, "section": section.number, "token": section.token}
        ops.append(
            {
                "kind": "acquire",
                "reentry": before.get(section.owner) == section.start,
                "call": 2 * section.invoke,
                "return": 2 * section.start,
                **same,
            }
        )
        over = FOREVER if section.last else 2 * end + 1
        ops.append({"kind": "release", "call": 2 * end + 1, "return": over, **same})
        before[section.owner] = section.end
    for (client, life), recorded in made.ops.items():
        for op in recorded:
            if op.f == "acquire" and op.outcome != "ok":
                over = 2 * op.complete_ns // MS if op.outcome == "fail" else FOREVER
                ops.append(
                    {"kind": op.outcome, "owner": f"{client}.{life}", "call": 2 * op.invoke_ns // MS, "return": over}
                )
    return ops
