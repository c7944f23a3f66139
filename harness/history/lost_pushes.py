"""Wake-ups that can reach no client: a request pushed onto a list and deleted it at once, while a client was blocked on
it. The node serves a client that is blocked when the request is over, and the list is gone by then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from harness.history.key_owners import rows_of
from harness.history.ledger import Ledger
from harness.history.link_activity import Activity

PUSHES: Final = ("LPUSH", "RPUSH")
BLOCKS: Final = ("BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BLMPOP")


@dataclass(frozen=True)
class LostPushes:
    """By list, when it was deleted by the request that had pushed onto it, and in which row of the ledger."""

    of_list: Mapping[str, list[tuple[int, int]]]

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        rows = ledger.rows
        found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        pushed: dict[str, int] = {}
        own = rows[rows["key"].isin(rows["key"][rows["did"].isin(PUSHES)].unique()).to_numpy(bool)]
        names = ("key", "what", "did", "request", "at_ns")
        for row, (key, what, did, request, at_ns) in zip(own.index.tolist(), rows_of(own, *names), strict=True):
            if did in PUSHES:
                pushed[str(key)] = request
            elif what == "deleted" and request >= 0 and pushed.get(str(key)) == request:
                found[str(key)].append((at_ns, row))
        return cls(found)

    def missed(self, client: Activity, began_ns: int, until_ns: int) -> list[tuple[int, int]]:
        """Such pushes onto what the client was blocked on in this silence: when, and the row."""
        rows = client.requests
        last = rows[((rows["from_client_ns"] >= 0) & (rows["from_client_ns"] <= began_ns)).to_numpy(bool)].tail(1)
        if last.empty or last["command"].iloc[0] not in BLOCKS:
            return []
        pushes = (one for key in last["keys"].iloc[0] for one in self.of_list.get(str(key), ()))
        return [one for one in pushes if began_ns < one[0] < until_ns]
