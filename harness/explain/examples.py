"""An example of a finding, and the sections that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.explain.replies import Span
from harness.history.recorded import Recorded
from harness.verdict import Finding


@dataclass(frozen=True, slots=True)
class Side:
    """A section and the lease with which it started; the columns of `harness.history.sections`. `asked_from_ns`: no
    node was asked for that lease before this time."""

    client: str
    life: int
    section: int
    key: str
    asked_from_ns: int
    start_ns: int
    end_ns: int
    ended: str
    deadline_min_ns: int
    deadline_max_ns: int
    validity_ms: float | None
    requested_ns: int | None
    extensions: int
    token: int | None
    lapsed_from_ns: int = 0
    lapsed_to_ns: int = 0

    def has_lapsed(self, at_ns: int) -> bool:
        """Whether the client certainly had no lease then, although it got an extension later."""
        return self.lapsed_from_ns < at_ns < self.lapsed_to_ns

    @property
    def was_void(self) -> bool:
        """Whether the acquire succeeded with no validity left, and the lease was not extended later."""
        return self.validity_ms is not None and self.validity_ms <= 0 and not self.extensions


@dataclass(frozen=True, slots=True)
class Case:
    """One example of a finding. `sides`: those of its sections that were recorded, ordered by start. `named`: the same
    by their names in the example."""

    finding: Finding
    example: Mapping[str, Any]
    named: Mapping[str, Side]

    @property
    def sides(self) -> tuple[Side, ...]:
        return tuple(sorted(self.named.values(), key=lambda side: side.start_ns))

    @property
    def span(self) -> Span | None:
        """The time that matters for it; None without sections."""
        if not self.named:
            return None
        return Span(self.sides[0].key, min(s.asked_from_ns for s in self.sides), max(s.end_ns for s in self.sides))


def case_of(run: Recorded, finding: Finding, example: Mapping[str, Any]) -> Case:
    """The case of an example, with its sections looked up in the record."""
    sides = {name: _side(run, str(of["client"]), of["section"]) for name, of in _sections(example)}
    return Case(finding, example, {name: side for name, side in sides.items() if side is not None})


def _sections(example: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The sections that an example names, by the name of their field; the example itself may be one."""
    fields = ((name, one) for name, value in example.items() for one in (value if _is_list(value) else [value]))
    for number, (name, one) in enumerate([("section", example), *fields]):
        if isinstance(one, Mapping) and {"client", "section"} <= one.keys():
            yield f"{name} {number}" if _is_list(example.get(name)) else name, one


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _side(run: Recorded, client: str, section: object) -> Side | None:
    """A client's section numbers continue over its lives, so its name and the number identify a section."""
    sections = run.sections
    here = (sections["section"] == section).to_numpy(np.bool_)
    rows = np.flatnonzero(here)
    rows = rows[(sections["client"].iloc[rows].astype(str) == client).to_numpy(np.bool_)]
    if not len(rows):
        return None
    row = sections.iloc[int(rows[0])]
    ops = ops_of(run, client, int(row.section))
    granted = ops[(ops["f"] == "acquire") & (ops["outcome"] == "ok")]
    invoked_ns = int(granted["invoke_ns"].iloc[0]) if len(granted) else int(row.start_ns)
    requested_ns = _whole(row.get("requested_ns"))
    validity = row.get("validity_ms")
    return Side(
        client=client,
        life=int(row.life),
        section=int(row.section),
        key=str(row.key),
        asked_from_ns=invoked_ns if requested_ns is None else max(invoked_ns, min(requested_ns, int(row.start_ns))),
        start_ns=int(row.start_ns),
        end_ns=int(row.end_ns),
        ended=str(row.ended),
        deadline_min_ns=int(row.deadline_min_ns),
        deadline_max_ns=int(row.deadline_max_ns),
        validity_ms=None if validity is None or pd.isna(validity) else float(validity),
        requested_ns=requested_ns,
        extensions=int(row.get("extensions", 0)),
        token=_whole(row.get("token")),
        lapsed_from_ns=int(row.get("lapsed_from_ns", 0)),
        lapsed_to_ns=int(row.get("lapsed_to_ns", 0)),
    )


def ops_of(run: Recorded, client: str, section: int) -> pd.DataFrame:
    """The operations of one section."""
    ops = run.ops[(run.ops["section"] == section).to_numpy(np.bool_)]
    return ops[(ops["client"].astype(str) == client).to_numpy(np.bool_)]


def _whole(value: Any) -> int | None:
    return None if value is None or pd.isna(value) else int(value)
