"""The permits that calls kept which were over, in words: which client took each, by which request, and how its call
ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fencepost.text import listed, plural, printable
from harness.explain.requests import client_of, how_sent
from harness.history.permits_out import Out, PermitsOut
from harness.history.recorded import Recorded

_SHOWN: Final = 3


def kept_permits(run: Recorded, out: PermitsOut) -> dict[str, object]:
    """The same as an example of a finding."""
    return {
        "node": out.nodes[0],
        "nodes": out.nodes,
        "key": out.key,
        "at_ms": run.at_ms(out.permits[0].taken["at_ns"]),
        "permits": run.permits,
        **kept_by(run, out.permits),
    }


def kept_by(run: Recorded, permits: Sequence[Out]) -> dict[str, object]:
    """How many, and who has the first."""
    each = ({"client": client_of(one.taken), "sent": how_sent(run, one.taken), "how": one.how} for one in permits)
    return {"out": len(permits), "kept": tuple(each)[:_SHOWN]}


def kept_in_words(example: Mapping[str, Any]) -> str:
    """`k1:count on n1 counted 2 permits as taken, of 2, all by calls that were over, and no request gave any of them
    back. c2's: in its acquire it sent EVAL to n1 at +200.0 ms; the node answered 1; c2 was killed.`"""
    nodes, key = ([printable(str(node)) for node in example["nodes"]], printable(str(example["key"])))
    return (
        f"{key} on {listed(nodes)} counted {plural(int(example['out']), 'permit')} as taken, of "
        f"{int(example['permits'])}, all by calls that were over, and no request gave any of them back. "
        f"{each_in_words(example)}"
    )


def each_in_words(example: Mapping[str, Any]) -> str:
    """Which client had taken each of the first, by which request, and how its call ended."""
    kept: Sequence[Mapping[str, Any]] = example["kept"]
    each = [f"{printable(str(one['client']))}'s: {printable(str(one['sent']))}; {one['how']}." for one in kept]
    more = int(example["out"]) - len(kept)
    return " ".join([*each, f"So it is with {more} more."] if more > 0 else each)
