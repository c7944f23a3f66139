"""Requests of literal histories, for space-time diagrams. Times are milliseconds since the start."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from harness.checkers.judge import judge
from harness.explain.examples import case_of
from harness.explain.explanation import Explanation
from harness.explain.scenes import scene_of
from harness.explain.space_time import Picture, draw
from harness.explain.wire_requests import WireRequests
from harness.history.change_causes import SCRIPTS
from harness.history.recorded import Recorded
from harness.store.wire import CONNECTIONS_SCHEMA, ENDED, REQUESTS_SCHEMA, Wire
from harness.verdict import Finding
from tests.judge.histories import CHANGES, History, ms


class Links:
    """What the proxy recorded of the links."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.scripts: dict[str, str] = {}
        self.connections: dict[tuple[str, str, str], int] = {}
        self._did: set[int] = set()

    def asked(
        self,
        client: str,
        node: str,
        words: str,
        reply: object,
        *at: float | None,
        keys: tuple[str, ...] = ("k1",),
        did: bool | None = None,
        **more: Any,
    ) -> Links:
        """A request, its reply (`...`: none) and its four times; fewer: the rest never came."""
        command, *arguments = words.split()
        times = dict.fromkeys(("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns"), None)
        times |= {name: None if moment is None else ms(moment) for name, moment in zip(times, at, strict=False)}
        by = more.pop("by", "client")
        row = {"by": by, "user": "default", "database": 0, "transaction": None}
        row["connection"] = self.connections.setdefault((client, node, by), len(self.connections) + 1)
        said = None if reply is ... else msgspec.json.encode(reply).decode()
        row |= {"client": client, "node": node, "command": command, "keys": list(keys), "arguments": arguments}
        self.rows.append(row | times | {"reply": said} | more)
        usual = command in ("SET", "DEL") and reply not in (0, None) and "k1" in arguments and by == "client"
        if len(at) > 1 and at[1] is not None and (usual if did is None else did):
            self._did.add(id(self.rows[-1]))
        return self

    def doings(self) -> set[int]:
        """The places in order of the requests that did something."""
        return {place for place, row in enumerate(self.in_order()) if id(row) in self._did}

    def in_order(self) -> list[dict[str, Any]]:
        return sorted(self.rows, key=lambda row: row["from_client_ns"] or row["from_node_ns"])

    def wire(self, ended: float | None = None) -> Wire:
        """`ended`: when the record had become too large."""
        rows = self.in_order()
        columns = [pa.array([row.get(field.name) for row in rows], _plain(field.type)) for field in REQUESTS_SCHEMA]
        arrays = [
            column.dictionary_encode().cast(field.type) if pa.types.is_dictionary(field.type) else column
            for column, field in zip(columns, REQUESTS_SCHEMA, strict=True)
        ]
        table = pa.table(arrays, schema=REQUESTS_SCHEMA)
        table = table.replace_schema_metadata({SCRIPTS: msgspec.json.encode(self.scripts)})
        connections = CONNECTIONS_SCHEMA.empty_table()
        return Wire(
            table, connections.replace_schema_metadata({} if ended is None else {ENDED: str(ms(ended)).encode()})
        )


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def example_of(run: Recorded, kind: str) -> Explanation:
    """The first example of the finding of this kind."""
    finding = next(found for found in judge(run).findings if found.kind == kind)
    return explained(run, finding)


def explained(run: Recorded, finding: Finding) -> Explanation:
    case = case_of(run, finding, finding.examples[0])
    return Explanation(case, "", sides=case.sides)


def recorded(history: History, links: Links) -> Recorded:
    """The run with what went over its links. The requests that did something made the changes, in their order."""
    history.requests = links.in_order()
    for node in history.config.node_names:
        did = [
            number for number, row in enumerate(history.requests) if row["node"] == node and number in links.doings()
        ]
        did.sort(key=lambda number: history.requests[number]["to_node_ns"])
        events = [event for event in history.key_events if event.node == node and event.event in CHANGES]
        for event, number in zip(events, did, strict=False):
            history.by(event, number)
    history.told_values.clear()
    return history.recorded()


def picture(history: History, links: Links, kind: str = "overlap") -> Picture:
    run = recorded(history, links)
    scene = scene_of(run, example_of(run, kind))
    assert scene is not None
    drawn = draw(run, scene, WireRequests(links.wire(), run.config.node_names))
    assert drawn is not None
    return drawn
