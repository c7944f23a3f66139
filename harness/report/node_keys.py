"""What the witness saw on the nodes, and how long acquires took, in short texts and rows."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.text import count, milliseconds, of_sections, printable
from harness.checkers.orphans import CAUSES
from harness.checkers.quorum_backing import LOSSES
from harness.report.wording import figure, figures
from harness.verdict import Verdict

NODE_COLUMNS = ("keys left without an owner", "in all", "longest", *CAUSES, "out of sight")


def orphans_line(verdict: Verdict) -> str | None:
    """`8 keys without an owner on a node, 5.4 s in all, the longest 994 ms: not released 3, given up 5`. None where
    nobody was to watch."""
    found = figures(verdict, "orphans")
    if not found.get("watched"):
        return "the nodes were not watched: logs/witness.log says why" if found.get("asked") else None
    unseen = [node for node, own in found_nodes(verdict).items() if _is_unseen(own)]
    blind = f"; {', '.join(map(printable, unseen))} out of sight for some time" if unseen else ""
    if not found.get("count"):
        return f"none was left on a node without an owner{blind}"
    causes = _counted(figures(verdict, "orphans", "by_cause"))
    noun = "key" if found["count"] == 1 else "keys"
    return (
        f"{count(found['count'])} {noun} without an owner on a node, {milliseconds(found.get('total_ms'))} in all, the "
        f"longest {milliseconds(found.get('longest_ms'))}: {causes}{blind}"
    )


def overruns_line(verdict: Verdict) -> str | None:
    """`19 of 320 acquire calls took longer than the lock allows (1 s), up to 4.21 s`. None where none did."""
    found = figures(verdict, "acquire_timeouts")
    if not found.get("overruns"):
        return None
    allowed = "the lock allows" if found.get("declared") else "the TTL"
    return (
        f"{count(found['overruns'])} of {count(found.get('acquires'))} acquire calls took longer than {allowed} "
        f"({milliseconds(found.get('limit_ms'))}), up to {milliseconds(found.get('longest_ms'))}"
    )


def beliefs_line(verdict: Verdict) -> str | None:
    """`0 of 295 sections (95 % upper bound 1.3 %) without a majority behind them`. None where that could not be
    seen."""
    found = figures(verdict, "quorum_backing")
    if not found.get("sections"):
        return None
    text = f"{of_sections(found.get('unfounded'), found.get('sections'))} without a majority behind them"
    if found.get("unfounded"):
        causes = _counted(figures(verdict, "quorum_backing", "by_cause"))
        text += f", up to {milliseconds(found.get('longest_ms'))}: {causes}"
    losses = _counted({how: figure(verdict, "key_losses", how) for how in ("deleted", "overwritten")})
    return f"{text}; on single nodes, while held: {losses}" if losses else text


def rows(verdict: Verdict) -> list[tuple[str, str]]:
    """The three lines that there are, with their names."""
    lines = {"keys": orphans_line(verdict), "beliefs": beliefs_line(verdict), "overruns": overruns_line(verdict)}
    return [(name, line) for name, line in lines.items() if line is not None]


def node_rows(verdict: Verdict) -> list[tuple[str, list[str]]]:
    """A row a node, with the cells of `NODE_COLUMNS`; none where nobody watched."""
    return [
        (
            printable(node),
            [
                count(own.get("count")),
                milliseconds(own.get("total_ms")),
                milliseconds(own.get("longest_ms")),
                *(count(figure(verdict, "orphans", "by_node", node, "causes", cause)) for cause in CAUSES),
                milliseconds(own.get("unseen_ms")),
            ],
        )
        for node, own in found_nodes(verdict).items()
    ]


def found_nodes(verdict: Verdict) -> dict[str, Mapping[str, object]]:
    return {node: figures(verdict, "orphans", "by_node", node) for node in figures(verdict, "orphans", "by_node")}


def _is_unseen(own: Mapping[str, object]) -> bool:
    unseen = own.get("unseen_ms")
    return isinstance(unseen, int | float) and unseen > 0


def _counted(counts: Mapping[str, object]) -> str:
    """`not released 3, given up 1`: those that are not zero, in the checkers' order."""
    order: tuple[str, ...] = (*CAUSES, *LOSSES)
    names = sorted(counts, key=lambda name: order.index(name) if name in order else len(order))
    return ", ".join(f"{printable(name)} {count(counts[name])}" for name in names if counts[name])
