"""One plain sentence for each kind of finding, from what the record shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fencepost.quorum import quorum
from fencepost.text import listed, plural, printable
from harness.explain.capacity import find_cause
from harness.explain.cases import Case, Side, ops_of
from harness.explain.causes import Cause, of_finding, of_overlap
from harness.explain.evidence import Evidence
from harness.explain.node_replies import replies
from harness.explain.nodes import NodePart, parts
from harness.explain.overlap import by_client, by_lock, too_few, undecided
from harness.explain.phrases import at, lasting, out_of_order, yes_to_another_request
from harness.explain.requests import change_told, how_sent
from harness.history.obstacles import Obstacle, in_words
from harness.history.recorded import Recorded

_UNRECORDED: Final = "One of the two sections was not recorded, so it is unknown how this happened."


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence; `cause`: what it names as the cause; `because`: how both clients came to be inside, if the sentence
    is about something else; `parts`: each node's part (empty: unknown, or the nodes were not involved), `pair`: in the
    meeting of these two sections (empty: the only two)."""

    sentence: str
    because: str = ""
    parts: tuple[NodePart, ...] = ()
    pair: tuple[Side, ...] = ()
    cause: Cause | None = None


def is_told(kind: str) -> bool:
    """Whether there is more to say of a finding of this kind than it says itself."""
    return kind in _KINDS


def tell(run: Recorded, evidence: Evidence, case: Case) -> Told:
    """What happened, as text."""
    told = _KINDS.get(case.finding.kind, _other)(run, evidence, case)
    return told if told.cause else replace(told, cause=of_finding(case.finding, case.example))


def _overlap(run: Recorded, evidence: Evidence, case: Case) -> Told:
    if len(case.sides) < 2:
        return _not_on_record(case)
    earlier, later = case.sides
    found = parts(run, evidence, earlier, later)
    cause = of_overlap(found, bool(too_few(run, found, earlier, later))) if case.finding.blame == "lock" else None
    return Told(_because(run, evidence, found, case, earlier, later), parts=found, cause=cause)


def _because(
    run: Recorded, evidence: Evidence, found: Sequence[NodePart], case: Case, earlier: Side, later: Side
) -> str:
    match case.finding.blame:
        case "lock":
            return by_lock(run, evidence, found, earlier, later)
        case "client":
            return by_client(run, earlier, later)
    return undecided(run, found, earlier, later)


def _over_capacity(run: Recorded, evidence: Evidence, case: Case) -> Told:
    if "entered" not in case.named or len(case.sides) < 2:
        return _not_on_record(case)
    found = find_cause(run, evidence, case)
    return Told(found.sentence, parts=found.parts, pair=found.pair)


def _together(run: Recorded, evidence: Evidence, case: Case, sentence: str) -> Told:
    """The sentence of a finding about writes, and how both clients came to be inside at the same time, if they were."""
    if len(case.sides) < 2:
        return Told(sentence, _UNRECORDED)
    earlier, later = case.sides
    if later.start_ns > earlier.end_ns:
        left, came = at(run, earlier.end_ns), at(run, later.start_ns)
        return Told(
            sentence,
            f"The two were not inside at the same time: {earlier.client} left at {left}, {later.client} entered at "
            f"{came}.",
        )
    if case.finding.blame not in ("lock", "client", "undecided"):
        return Told(sentence)
    found = parts(run, evidence, earlier, later)
    return Told(sentence, f"Both were inside: {_because(run, evidence, found, case, earlier, later)}", found)


def _lost_update(run: Recorded, evidence: Evidence, case: Case) -> Told:
    lost, by = case.example["lost"], case.example["by"]
    text = f"{lost['client']} wrote {lost['value']}{_when(run, lost)}, which was acknowledged; "
    text += f"{by['client']} overwrote it with {by['value']}{_when(run, by)}"
    reads = [_read(run, write) for write in (lost, by)]
    if all(value is not None for value, _ in reads):
        (first, _), (second, when) = reads
        text += (
            f"; both had read {first}"
            if first == second
            else f", after it had read {second}{when}, without {lost['client']}'s write"
        )
    text += ". One update is lost."
    if case.finding.blame == "harness":
        return Told(f"{text} No two sections of the key overlapped, so the harness or its resource is wrong.")
    return _together(run, evidence, case, text)


def _stale_write(run: Recorded, evidence: Evidence, case: Case) -> Told:
    stale, after = case.example["stale"], case.example["after"]
    text = (
        f"{stale['client']} wrote {stale['value']}{_when(run, stale)}, after {after['client']}, a later holder, had "
        f"written {after['value']}{_when(run, after)}. The resource accepted it"
    )
    if stale.get("token") is not None and after.get("token") is not None:
        text += f" although it carried the token {stale['token']} and the resource had seen {after['token']}."
    else:
        text += ", because there were no tokens to compare."
    return _together(run, evidence, case, text)


def _overstated(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, ttl = case.example, run.lease_ms
    told = float(example["validity_ms"])
    text = (
        f"At +{float(example['at_ms']):,.1f} ms the lock reported a validity of {told:,.1f} ms to {example['client']}"
    )
    side = case.named.get("section")
    if side is None or side.requested_ns is None or told > ttl:
        return Told(f"{text}, but keys live for {ttl:,.0f} ms: {float(example['too_long_by_ms']):,.1f} ms too long.")
    return Told(
        f"{text}, but it had requested the keys {lasting(side.start_ns - side.requested_ns)} before (at "
        f"{at(run, side.requested_ns)}), and they live for {ttl:,.0f} ms: "
        f"{float(example['too_long_by_ms']):,.1f} ms too long."
    )


def _belief(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    when, for_ns = f"+{float(example['at_ms']):,.1f} ms", float(example["for_ms"]) * 1e6
    text = (
        f"{example['client']} was inside and within its reported validity, but for {lasting(for_ns)}, from {when} on, "
    )
    why = ", ".join(printable(str(node)) for node in example.get("nodes", ()))
    text = f"{text}no majority of the nodes can have held the lock for it{f': {why}' if why else ''}."
    side, majority = case.named.get("section"), quorum(len(run.nodes))
    said = {} if side is None else replies(run, evidence, side)
    granted = [node for node, one in said.items() if one.heard]
    if side is None or len(granted) >= majority or not all(one.is_known for one in said.values()):
        return Told(text)
    who = f"Only {listed(granted)}" if granted else "No node"
    late = [node for node, one in said.items() if one.has_earlier_yes]
    tail = f" ({yes_to_another_request(side.client, late)})" if late else ""
    cause: Cause = "not set" if late else "too few nodes"
    return Told(f"{text} {who} had said yes{tail}.", cause=cause)


def _late_grant(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example, side = case.example, case.named.get("section")
    over, when = lasting(float(example["over_for_ms"]) * 1e6), f"+{float(example['at_ms']):,.1f} ms"
    what = "its validity had ended" if example["shown_by"] == "deadline" else "its keys had expired on the nodes"
    took = "" if side is None else f", {lasting(side.start_ns - side.asked_from_ns)} after it had asked"
    return Told(f"The lock said yes to {example['client']} at {when}{took}, when {what} {over} before.")


def _early_grant(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    client, nodes = printable(str(example["client"])), [printable(str(node)) for node in example["answered"]]
    when, who = f"+{float(example['at_ms']):,.1f} ms", f"only {listed(nodes)}" if nodes else "no node"
    return Told(
        f"The lock said yes to {client} at {when}, when {who} had answered it; a majority is "
        f"{plural(int(example['needed']), 'answer')}."
    )


def _outlasts(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    lease, keys = float(example["lease_until_ms"]), float(example["keys_until_ms"])
    client, too_long = printable(str(example["client"])), lasting((lease - keys) * 1e6)
    anew = example.get("prolonged_on")
    if anew is not None and len(anew) < quorum(len(run.nodes)):
        nodes = f"only {listed([printable(str(node)) for node in anew])}" if anew else "no node"
        return Told(
            f"An extension at {float(example['at_ms']):+,.1f} ms told {client} that it holds the lock until "
            f"{lease:+,.1f} ms, although {nodes} can have prolonged its key by then; by {keys:+,.1f} ms the keys "
            f"expire on so many nodes that no majority is left: the lease is {too_long} too long.",
            cause="not prolonged",
        )
    return Told(
        f"{client} was told that it holds the lock until {lease:+,.1f} ms, but by {keys:+,.1f} ms the keys expire on "
        f"so many nodes that no majority is left: the lease is {too_long} too long."
    )


def _overlong(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    client, nodes = printable(str(example["client"])), [printable(str(node)) for node in example["nodes"]]
    return Told(
        f"The lock told {listed(nodes)} to keep the key of {client}, which got in at {float(example['at_ms']):+,.1f} "
        f"ms, for {float(example['ttl_ms']):,.0f} ms or longer, although it was asked for {run.lease_ms:,.0f} ms: if "
        f"{client} dies, nobody else gets in for as long."
    )


def _ineffective(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    nodes = [printable(str(node)) for node in example["nodes"]]
    how = "was set again" if example["set_again"] else "stayed"
    more = lasting(float(example["for_ms"]) * 1e6)
    return Told(
        f"The lock told {example['client']} at +{float(example['at_ms']):,.1f} ms that it was released, but its "
        f"value {how} on {listed(nodes)}, so that no majority was free for another {more}."
    )


def _late_request(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    client, node, command = (printable(str(example[name])) for name in ("client", "node", "command"))
    is_release = case.finding.kind == "renewal-after-release"
    done = "its lock was released" if is_release else "its acquire was refused"
    did = "prolonged" if example["how"] == "prolonged" else "set"
    return Told(
        f"{client} was told that {done}, but {lasting(float(example['sent_after_ms']) * 1e6)} later the lock sent "
        f"{command} for it to {node}, which {did} its key there by +{float(example['at_ms']):,.1f} ms: the key keeps "
        "others out until it expires.",
        cause="set again" if is_release and did == "set" else None,
    )


def _anothers_key(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    of, node, by = (printable(str(example[name])) for name in ("of", "node", "by"))
    when = f"+{float(example['at_ms']):,.1f} ms"
    did = {
        "deleted": "deleted the key of",
        "prolonged": "prolonged the key of",
        "removed": "took out of a key the member of",
    }.get(str(example["how"]), "set another value over the key of")
    change = None if run.ledger is None else change_told(run, run.ledger, example)
    how = f": {how_sent(run, change)}" if change is not None and change["cause"] == "request" else ""
    return Told(
        f"{by} {did} {of} on {node}, by {when}{how}. The lock did not compare the value, or not in the same step."
    )


def _unheld(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    held_by = example["held_by"]
    assert isinstance(held_by, Sequence)
    nodes = f"only {listed(list(map(str, held_by)))}" if held_by else "no node"
    client, at_ms = printable(str(example["client"])), float(example["at_ms"])
    if case.finding.kind == "nested-acquire-without-majority":
        return Told(
            f"{client}'s lease was over when it acquired once more what it held, and the yes came at "
            f"+{at_ms:,.1f} ms, although {nodes} can have had its value."
        )
    return Told(
        f"An extension of {client} was answered with yes at +{at_ms:,.1f} ms, "
        f"although {nodes} can still have had its value: the lock counted others, or too few."
    )


def _left_behind(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    where = f"{printable(str(example['node']))} kept its key of {printable(str(example['key']))}"
    after, when = lasting(float(example["for_ms"]) * 1e6), f"+{float(example['at_ms']):,.1f} ms"
    done = (
        f"{printable(str(example['by']))}'s release had ended, at {when}"
        if example["after"] == "release"
        else f"the attempt that had set it was refused, at {when}"
    )
    return Told(f"{where} for another {after} after {done}, although no fault was in the way of deleting it.")


def _no_way_in(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    nodes, absent = (tuple(printable(str(node)) for node in example.get(name, ())) for name in ("nodes", "absent"))
    obstacle = Obstacle(example["obstacle"], nodes, absent)
    clients = [printable(str(client)) for client in example["clients"]]
    return Told(
        f"For {lasting(float(example['for_ms']) * 1e6)} from +{float(example['at_ms']):,.1f} ms on, nobody was inside "
        f"{printable(str(example['key']))} and nobody got in, although {listed(clients)} tried and could reach a "
        f"majority of the nodes: {in_words(obstacle)}."
    )


def _waits_for_free(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    client, key = printable(str(example["client"])), printable(str(example["key"]))
    freed = _FREED.get(str(example.get("freed")), "")
    if freed:
        by = f" by {printable(str(example['freed_by']))}" if "freed_by" in example else ""
        freed = f" ({freed}{by} at {float(example['freed_ms']):+,.1f} ms)"
    for_ns = float(example["for_ms"]) * 1e6
    did = (
        f"had {example['answers']:,} requests answered, and was not let in"
        if example["answers"]
        else f"sent and heard nothing; {_LOOKS_AGAIN}"
    )
    return Told(
        f"{client} was waiting for {key}. From {float(example['at_ms']):+,.1f} ms on, for {lasting(for_ns)}, the key "
        f"was free{freed} and no fault was in the way; meanwhile {client} {did}."
    )


def _hung(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    client, call = printable(str(example["client"])), printable(str(example["call"]))
    end = "did not return" if not example["returned"] else "returned later"
    return Told(
        f"The {call} that {client} called at {float(example['called_ms']):+,.1f} ms sent nothing and heard nothing for "
        f"{lasting(float(example['for_ms']) * 1e6)}, from {float(example['at_ms']):+,.1f} ms on, although no fault was "
        f"in the way and {client} ran; it {end}."
    )


_FREED: Final[Mapping[str, str]] = {"deleted": "deleted", "expired": "expired", "lost": "lost by the node"}
_LOOKS_AGAIN: Final = "a client that is not woken up must look again by itself when the last lease that it saw is over"


def _overrun(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    began_ns = run.timeline.start_ns + round(float(example["at_ms"]) * 1e6)
    took_ns = round(float(example["took_ms"]) * 1e6)
    limit = "" if run.acquire_limit_ms is None else f"; the lock allows it {lasting(run.acquire_limit_ms * 1e6)}"
    meanwhile = out_of_order(run, began_ns, began_ns + took_ns)
    return Told(
        f"An acquire of {example['client']} took {lasting(took_ns)}, from {at(run, began_ns)} on{limit}. "
        f"Meanwhile {meanwhile or 'no fault was in force'}."
    )


def _outlasting(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    return Told(
        f"{printable(str(example['node']))} kept a key of {printable(str(example['key']))} that had no owner for "
        f"{lasting(float(example['for_ms']) * 1e6)}, from +{float(example['at_ms']):,.1f} ms on "
        f"({example['cause']}); keys are to live for {run.lease_ms:,.0f} ms."
    )


def _token(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    sections, when = run.sections, f"+{float(example['at_ms']):,.1f} ms"
    start_ns = run.timeline.start_ns + round(float(example["at_ms"]) * 1e6)
    here = (sections["key"].astype(str) == str(example["key"])) & sections["token"].notna()
    before = sections[(here & (sections["end_ns"] < start_ns)).to_numpy(bool)]
    text = f"{example['client']} entered at {when} with the token {example['token']}"
    if not len(before):
        return Told(f"{text}, which is not larger than that of an earlier section.")
    largest = before.iloc[int(before["token"].to_numpy(np.int64).argmax())]
    left = at(run, int(largest.end_ns))
    return Told(f"{text}, although {largest.client}, which had left at {left}, had the token {int(largest.token)}.")


def _other(run: Recorded, evidence: Evidence, case: Case) -> Told:
    return Told(f"{printable(case.finding.text).rstrip('.')}.")


def _not_on_record(case: Case) -> Told:
    return Told(_UNRECORDED)


def _when(run: Recorded, write: Mapping[str, Any]) -> str:
    """By when a write was made, or given up, if its operation was recorded."""
    ops = ops_of(run, str(write["client"]), int(write["section"]))
    ops = ops[(ops["f"] == "write") & (ops["value"] == write["value"]).fillna(False).to_numpy(bool)]
    if not len(ops):
        return ""
    moment = at(run, int(ops["complete_ns"].iloc[0]))
    return f" by {moment}" if ops["outcome"].iloc[0] == "ok" else f" (late: it had been given up at {moment})"


def _read(run: Recorded, write: Mapping[str, Any]) -> tuple[int | None, str]:
    """What a section had read before it wrote, and when."""
    ops = ops_of(run, str(write["client"]), int(write["section"]))
    ops = ops[(ops["f"] == "read") & (ops["outcome"] == "ok")]
    if not len(ops) or ops["value"].isna().iloc[-1]:
        return None, ""
    return int(ops["value"].iloc[-1]), f" at {at(run, int(ops['complete_ns'].iloc[-1]))}"


_KINDS: Final[Mapping[str, Callable[[Recorded, Evidence, Case], Told]]] = {
    "overlap": _overlap,
    "over-capacity": _over_capacity,
    "lost-update": _lost_update,
    "stale-write-accepted": _stale_write,
    "overstated-validity": _overstated,
    "token-not-increasing": _token,
    "unfounded-belief": _belief,
    "late-grant": _late_grant,
    "grant-before-majority": _early_grant,
    "lease-outlasts-keys": _outlasts,
    "keys-outlast-lease": _overlong,
    "release-without-effect": _ineffective,
    "anothers-key": _anothers_key,
    "renewal-after-release": _late_request,
    "request-after-refusal": _late_request,
    "anothers-key-prolonged": _anothers_key,
    "extension-without-majority": _unheld,
    "nested-acquire-without-majority": _unheld,
    "keys-left-behind": _left_behind,
    "no-way-in": _no_way_in,
    "waits-for-free-lock": _waits_for_free,
    "call-hung": _hung,
    "acquire-overrun": _overrun,
    "orphan-outlasts-ttl": _outlasting,
}
