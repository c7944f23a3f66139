"""An example of a finding, and the sections that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from fencepost.text import listed, milliseconds, plural, printable
from harness.explain.replies import Span
from harness.history.groups import rows_of
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

    def made(self, rows: pd.DataFrame, *calls: str) -> pd.Series[bool]:
        """Which of these rows of the ledger requests of its calls made; of these calls only, if there are any."""
        own = (rows["task"] == self.client) & (rows["section"] == self.section) & (rows["life"] == self.life)
        return own & rows["f"].isin(calls) if calls else own

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

    def text(self, name: str) -> str:
        """A field of the example, to be printed."""
        return printable(str(self.example[name]))

    def texts(self, *names: str) -> tuple[str, ...]:
        return tuple(map(self.text, names))

    def listed(self, name: str) -> str:
        """`n1 and n2`; empty if the field lists nothing."""
        names = [printable(str(one)) for one in self.example[name]]
        return listed(names) if names else ""

    def at(self, name: str = "at_ms") -> str:
        """`+2,310.4 ms`, since the start of the load."""
        return f"{float(self.example[name]):+,.1f} ms"

    def lasting(self, name: str = "for_ms") -> str:
        return milliseconds(float(self.example[name]))

    def counted(self, name: str, noun: str) -> str:
        """`1 request`, `3 requests`."""
        return plural(int(self.example[name]), noun)

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
    names = [field.name for field in fields(Side) if field.name in sections]
    ((*values,),) = rows_of(sections.iloc[rows[:1]], *names)
    row: dict[str, Any] = {name: None if pd.isna(value) else value for name, value in zip(names, values, strict=True)}
    ops = ops_of(run, client, row["section"])
    granted = ops[(ops["f"] == "acquire") & (ops["outcome"] == "ok")]
    invoked_ns = int(granted["invoke_ns"].iloc[0]) if len(granted) else row["start_ns"]
    requested_ns = row.get("requested_ns") or invoked_ns
    return Side(**row, asked_from_ns=max(invoked_ns, min(requested_ns, row["start_ns"])))


def ops_of(run: Recorded, client: str, section: int) -> pd.DataFrame:
    """The operations of one section."""
    ops = run.ops[(run.ops["section"] == section).to_numpy(np.bool_)]
    return ops[(ops["client"].astype(str) == client).to_numpy(np.bool_)]
