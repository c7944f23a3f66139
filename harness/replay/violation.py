"""Which violation is meant, and when it happened.

Clients are not repeatable, so no two runs show the very same violation. They can show the same *kind*: the same finding
of the same checker, with the same blame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.errors import UsageError
from harness.explain.examples import case_of
from harness.history.recorded import Recorded
from harness.verdict import Blame, Finding, Verdict, breaking

_GRAVEST: Final[tuple[Blame, ...]] = ("lock", "resource", "harness", "undecided", "client")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding."""

    checker: str
    kind: str
    blame: Blame

    def __str__(self) -> str:
        return f"{self.kind}:{self.blame}"

    @classmethod
    def of(cls, finding: Finding) -> Kind:
        return cls(finding.checker, finding.kind, finding.blame)

    def among(self, verdict: Verdict) -> Finding | None:
        """The finding of this kind, if the verdict has one."""
        return next((finding for finding in verdict.findings if Kind.of(finding) == self), None)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a violation happened, in ms since the start of the load: from the start of the first section involved to the
    moment at which the violation could be seen."""

    from_ms: float
    to_ms: float


def gravest(verdict: Verdict) -> Kind | None:
    """The gravest kind that makes the run a violation: findings blamed on the lock before those blamed on a client,
    overlaps before other findings. None if it is none."""
    found = breaking(verdict)
    return Kind.of(min(found, key=lambda f: (_GRAVEST.index(f.blame), f.promise != "exclusion"))) if found else None


def choose_kind(verdict: Verdict, wanted: str | None) -> Kind:
    """The wanted kind, `overlap` or `overlap:client`; None: the gravest. Raises UsageError, naming the kinds that the
    run shows, if it does not show this one."""
    if wanted is None:
        if (kind := gravest(verdict)) is not None:
            return kind
        raise UsageError(f"this run shows no violation of --require {verdict.require}; {_shown(verdict)}")
    name, _, blame = wanted.strip().partition(":")
    fitting = [f for f in verdict.findings if f.kind == name and blame in ("", f.blame)]
    if not fitting:
        raise UsageError(f"--kind {wanted}: this run has no such finding; {_shown(verdict)}")
    return Kind.of(min(fitting, key=lambda finding: _GRAVEST.index(finding.blame)))


def _shown(verdict: Verdict) -> str:
    kinds = ", ".join(dict.fromkeys(str(Kind.of(finding)) for finding in verdict.findings))
    return f"--kind can be one of its findings: {kinds}" if kinds else "it has no findings"


def moments_of(run: Recorded, finding: Finding) -> tuple[Moment, ...]:
    """When each of the finding's examples happened, the earliest first. Leaves out examples without times."""
    moments = (_moment(run, finding, example) for example in finding.examples)
    return tuple(sorted((moment for moment in moments if moment), key=lambda moment: moment.to_ms))


def _moment(run: Recorded, finding: Finding, example: Mapping[str, object]) -> Moment | None:
    """From the start of the first section that it is about."""
    at_ms = example.get("at_ms")
    if not isinstance(at_ms, int | float):
        return None
    sides = case_of(run, finding, example).sides
    return Moment(min([at_ms, *(run.at_ms(side.start_ns) for side in sides)]), at_ms)
