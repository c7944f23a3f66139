"""Which calls of a client had an answer of a node when they ended?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from harness.history.fault_windows import FOREVER_NS
from harness.history.groups import Bools, Ints


class Exchanges:
    """When a client asked a node, and was told something by it."""

    def __init__(self, sent: Ints, told: Ints) -> None:
        # What a node says unasked counts as if it had been asked for then.
        began = np.minimum(sent, told)
        order = np.argsort(began, kind="stable")
        self._sent, self._began = np.sort(sent), began[order]
        self._first_told = np.append(np.minimum.accumulate(told[order][::-1])[::-1], FOREVER_NS)

    def asked(self, invoke: Ints, complete: Ints) -> Bools:
        """Whether it asked in each of the calls."""
        return np.searchsorted(self._sent, complete, "right") > np.searchsorted(self._sent, invoke, "left")

    def answered(self, invoke: Ints, complete: Ints) -> Bools:
        """Whether an answer to that was on its way to the client when the call ended."""
        return self._first_told[np.searchsorted(self._began, invoke, "left")] <= complete


def answers_of(requests: pa.Table, nodes: Sequence[str]) -> Iterator[tuple[str, str, Exchanges]]:
    """By client process and node; `requests` as in `harness.store.wire`."""
    names = requests.select(["client", "node", "by"]).to_pandas().astype(str)
    sent, told = (
        requests[name].fill_null(FOREVER_NS).to_numpy().astype(np.int64) for name in ("from_client_ns", "to_client_ns")
    )
    own = names[(names["by"] == "client") & names["node"].isin(list(nodes))]
    for (client, node), rows in own.groupby(["client", "node"]):
        place = rows.index.to_numpy()
        yield str(client), str(node), Exchanges(sent[place], told[place])
