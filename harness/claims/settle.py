"""From the runs on record to an answer: confirmed, refuted or undecided, by rule.

A script is a forced interleaving, so it says what can happen, not how often; a load tells a rate or a cost. Evidence
that is missing decides nothing: a claim of which runs are missing or unknown, or whose control did not show what it
must, is undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.special import bdtrc

from fencepost.text import plural
from harness.campaign.folder import RunLine
from harness.campaign.statistics import Rate, rate
from harness.claims.claim import Answer, Claim, Trial
from harness.claims.edges import Seen
from harness.claims.loads import LOADS
from harness.claims.measured import Measured, measured_of, outcome_of

SIGNIFICANT: Final = 0.05
_MOST_RUNS: Final = 1_000
ENOUGH: Final = 60
"""In so many runs a claim that something always holds must not be broken before it is called confirmed: the exact 95 %
interval then leaves room for 6 % of such runs."""


@dataclass(frozen=True, slots=True)
class Tried:
    """The runs of one trial. `expects`: the expectation that it states before it runs. `unknown`: runs that show
    neither. `missing`: runs that were planned and are not there. `cannot`: why this machine cannot play it; empty if
    it can. `measured`: the numbers that were read of the runs of a load."""

    trial: Trial
    expects: str
    held: int
    failed: int
    unknown: int
    missing: int
    folders: tuple[str, ...]
    cannot: str = ""
    measured: Measured | None = None

    @property
    def is_random(self) -> bool:
        """Whether its runs may end either way by chance."""
        return self.trial.script in LOADS

    @property
    def rate(self) -> Rate:
        """In how many runs the expectation held."""
        return rate(self.held, self.held + self.failed)

    @property
    def always_the_same(self) -> bool:
        """Whether all runs had one outcome."""
        return not (self.held and self.failed)

    @property
    def supporting(self) -> int:
        """Runs that speak for the claim."""
        return self.failed if self.trial.role == "contradicts" else self.held

    @property
    def contradicting(self) -> int:
        """Runs that speak against it."""
        return self.held if self.trial.role == "contradicts" else self.failed


@dataclass(frozen=True, slots=True)
class SettledClaim:
    """A claim with its answer. `why`: one sentence. `edge`: what the sweep across its edge showed, if it has one."""

    claim: Claim
    answer: Answer
    why: str
    tried: tuple[Tried, ...]
    edge: Seen | None = None

    @property
    def as_predicted(self) -> bool | None:
        """None where nothing was predicted or decided."""
        if self.claim.prediction is None or self.answer == "undecided":
            return None
        return ("confirmed" if self.answer == "not refuted" else self.answer) == self.claim.prediction


def settle(claim: Claim, tried: Sequence[Tried], edge: Seen | None = None) -> SettledClaim:
    """Apply the rule to what was tried, in the order of the claim's trials."""
    answer, why = _rule(claim, tried)
    return SettledClaim(claim, answer, why, tuple(tried), edge)


def tried_of(trial: Trial, expects: str, planned: int, lines: Sequence[RunLine], cannot: str = "") -> Tried:
    """Count the runs of a trial. `lines`: of all cells; aborted runs do not count."""
    finished = [line for line in lines if line.cell == trial.script and line.error is None]
    load = LOADS.get(trial.script)
    counts = Counter(line.outcome if load is None else outcome_of(load, line, lines) for line in finished)
    return Tried(
        trial=trial,
        expects=expects,
        held=counts["held"],
        failed=counts["failed"],
        unknown=counts["unknown"],
        missing=0 if cannot else max(0, planned - len(finished)),
        folders=tuple(line.folder for line in finished),
        cannot=cannot,
        measured=None if load is None else measured_of(load, finished, lines),
    )


def _rule(claim: Claim, tried: Sequence[Tried]) -> tuple[Answer, str]:
    if lacking := _lacking(tried):
        return "undecided", lacking
    tests = [each for each in tried if each.trial.role != "control"]
    if claim.says == "mostly":  # a script ends the same way each time, so its runs are no evidence of how often
        drawn = [each for each in tests if each.is_random]
        return _tendency(sum(t.supporting for t in drawn), sum(t.contradicting for t in drawn))
    return _can(tests) if claim.says == "can" else _always(tests)


def _lacking(tried: Sequence[Tried]) -> str:
    """Why nothing can be said of the claim yet: a run that is missing, or a control that did not show what it must.
    Empty if all is there."""
    if cannot := next((each for each in tried if each.cannot), None):
        return f"This machine cannot play {cannot.trial.script}: {cannot.cannot}."
    if missing := sum(each.missing for each in tried):
        return f"{plural(missing, 'run')} {'is' if missing == 1 else 'are'} still to be made."
    for each in tried:
        if each.trial.role != "control":
            continue
        if each.failed and not (each.is_random and each.held):
            return _blind(each)
        if not each.held:
            runs = plural(each.unknown, "run")
            return f"{runs} of the control {each.trial.script} ended unknown and must be made again."
    return ""


def _can(tests: Sequence[Tried]) -> tuple[Answer, str]:
    """One run that shows it is enough."""
    supporting, runs = sum(t.supporting for t in tests), sum(t.held + t.failed for t in tests)
    if supporting:
        return "confirmed", f"It happened in {supporting} of {plural(runs, 'run')}."
    return _unjudged(tests) or ("refuted", f"It never happened in {plural(runs, 'run')} that force it.")


def _always(tests: Sequence[Tried]) -> tuple[Answer, str]:
    """One run that does not show it is enough."""
    worst = max(tests, key=lambda each: each.contradicting, default=None)
    if worst and worst.contradicting:
        runs = plural(worst.held + worst.failed, "run")
        return "refuted", f"{worst.trial.script} shows the opposite in {worst.contradicting} of {runs}."
    supporting = sum(t.supporting for t in tests)
    shown = "the one run that tried" if supporting == 1 else f"all {supporting} runs that tried"
    answer: Answer = "confirmed" if supporting >= ENOUGH else "not refuted"
    return _unjudged(tests) or (answer, f"It held in {shown} to break it.")


def _unjudged(tests: Sequence[Tried]) -> tuple[Answer, str] | None:
    if unknown := sum(each.unknown for each in tests):
        return "undecided", f"{plural(unknown, 'run')} ended unknown and must be made again."
    if not any(each.held + each.failed for each in tests):
        return "undecided", "No run was judged."
    return None


def _blind(control: Tried) -> str:
    """What is said of a control that did not show what it must, and how many runs would help."""
    said = (
        f"The control {control.trial.script} did not show the expected failure in {control.failed} of "
        f"{plural(control.held + control.failed, 'run')}"
    )
    if control.is_random:
        return f"{said}; one more run is enough if that shows it."
    return f"{said}. No number of runs decides that: a script must always end the same way, so it has to be mended."


def _tendency(supporting: int, contradicting: int) -> tuple[Answer, str]:
    """By a one-sided sign test in either direction: would so many runs agree if either outcome were as likely?"""
    runs = supporting + contradicting
    if not runs:
        return "undecided", "No run was judged."
    said = f"{supporting} of {plural(runs, 'run')} {'shows' if supporting == 1 else 'show'} it"
    if _sign_p(supporting, runs) < SIGNIFICANT:
        return "confirmed", f"{said}."
    if _sign_p(contradicting, runs) < SIGNIFICANT:
        return "refuted", f"{said}."
    share = max(supporting, contradicting) / runs
    enough = next((n for n in range(runs, _MOST_RUNS) if _sign_p(int(share * n), n) < SIGNIFICANT), None)
    return "undecided", (
        f"{said}, which is consistent with chance; "
        + (f"more than {_MOST_RUNS:,} runs" if enough is None else f"about {enough} runs")
        + " would decide it if that share remains."
    )


def _sign_p(agreeing: int, runs: int) -> float:
    return float(bdtrc(agreeing - 1, runs, 0.5))
