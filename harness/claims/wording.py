"""What was found out about the claims, as sentences and rows for every form of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from fencepost.text import count, listed, plural
from harness.campaign import wording
from harness.claims.claim import Answer, Role
from harness.claims.edges import Seen
from harness.claims.settle import ENOUGH, SettledClaim, Tried

INTRODUCTION: Final = (
    "Much is said about locks on Redis: that they are safe, that they are not, and what would make them so. Each row "
    "is one claim from that debate, in our words, with what real servers and real client processes did when an "
    "experiment tried to show it.",
    "A scripted experiment forces one interleaving, step by step, and states what it expects before it runs. The judge "
    "does not know the script; it looks only at the recorded history. Next to each experiment runs a control: the same "
    "steps with the one thing changed on which the claim depends. A claim is decided only if its control showed what "
    "it must.",
    "What is possible has to be seen once. What always holds is refuted by one run; with fewer than "
    f"{ENOUGH} runs that tried to break it, it is “not refuted”, which is no more than that. A script shows "
    "what can happen, not how often it does. That is for the loads: seconds of work by several clients, mostly under "
    "faults that are drawn from a seed. They yield a rate, or a cost as the median of the runs with the least and the "
    "most. "
    "Where a claim is about a tendency, a sign test over the runs of its loads decides (5 % in either direction, each "
    "claim by itself: with several such claims, one may be decided by chance). Where a claim has an edge, "
    "such as the time for which a node must stay down, the same load is played on both sides of it.",
    wording.METHOD,
)

HEADS: Final = ("claim", "answer", "what is said", "who says it", "evidence", "predicted")
TRIAL_HEADS: Final = (
    "experiment",
    "it",
    "expected",
    "held in how many runs (95 % interval)",
    "measured",
    "unknown",
    "missing",
)

_ROLES: Final[dict[Role, str]] = {
    "supports": "supports the claim",
    "contradicts": "contradicts the claim",
    "control": "is the control",
}


def evidence(settled: SettledClaim) -> str:
    """The sentence of the rule, and what else a reader has to know."""
    varying = [each.trial.script for each in settled.tried if not each.is_random and not each.always_the_same]
    measured = [
        f"{each.trial.script}: {each.measured.in_words}."
        for each in settled.tried
        if each.measured and each.trial.role != "control"
    ]
    said = [settled.why, *measured]
    weak = [each for each in settled.tried if each.trial.role == "control" and each.is_random and each.failed]
    said += [f"The control {each.trial.script} showed the expected failure in only {_of_runs(each)}." for each in weak]
    if varying:
        said.append(f"The outcome of {listed(varying)} was not always the same.")
    if settled.claim.remark:
        said.append(settled.claim.remark)
    return " ".join(said)


def _of_runs(tried: Tried) -> str:
    """`1 of 3 runs`."""
    return f"{tried.held} of {plural(tried.held + tried.failed, 'run')}"


def prediction(settled: SettledClaim) -> str:
    """`confirmed`; `refuted: not as predicted`; `open` where nothing was predicted."""
    if settled.claim.prediction is None:
        return "open"
    return f"{settled.claim.prediction}{': not as predicted' if settled.as_predicted is False else ''}"


def trial_row(tried: Tried) -> tuple[str, ...]:
    """A row under `TRIAL_HEADS`."""
    return (
        tried.trial.script,
        _ROLES[tried.trial.role],
        tried.expects,
        wording.counted(tried.rate),
        tried.measured.in_words if tried.measured else "",
        count(tried.unknown),
        count(tried.missing),
    )


def edge_sentence(seen: Seen) -> str:
    """What the sweep says about the predicted edge."""
    edge = seen.edge
    safe, other = (wording.clause(seen.pooled(safe=side), edge.trials) for side in (True, False))
    where = "Up to" if edge.safe == "below" else "From"
    return (
        f"The predicted edge is at {edge.predicted:g} {edge.unit}, where {edge.why}. {where} there, {edge.what} were "
        f"seen in {safe}; on the other side in {other}."
    )


def headline(settled: Sequence[SettledClaim]) -> str:
    """`12 claims: 9 confirmed, 2 refuted, 1 undecided; 1 not as predicted`."""
    answers = [each.answer for each in settled]
    counted = [f"{answers.count(word)} {word}" for word in get_args(Answer) if word in answers]
    surprises = sum(each.as_predicted is False for each in settled)
    text = f"{plural(len(settled), 'claim')}: {', '.join(counted)}"
    return f"{text}; {surprises} not as predicted" if surprises else text
