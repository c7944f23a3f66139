"""What a claim is: what a document says, what tests it, and what we predict."""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["supports", "contradicts", "control"]
"""What an experiment means to a claim if its expectation holds. `control`: it has to hold before the claim is judged.
It repeats the steps with the one thing changed on which the claim depends, so it shows that the experiment would have
seen the opposite."""

Answer = Literal["confirmed", "not refuted", "refuted", "undecided"]
"""`not refuted`: of a claim that something always holds, which too few runs tried to break."""


class Document(msgspec.Struct, frozen=True):
    """A source. `short`: as it is cited in a table. `url` is empty if the text has no lasting address of its own."""

    short: str
    title: str
    url: str = ""


class Trial(msgspec.Struct, frozen=True, omit_defaults=True):
    """What tests a claim. `script`: the name of an experiment of `harness/scripts/experiments/`, or of a load of
    `harness/claims/loads.py`; its runs are filed under it, and claims that share an experiment share its runs."""

    script: str
    role: Role = "supports"


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One claim. `sources`: who makes it, by the names in `DOCUMENTS`. `gist`: what they say, in our words.

    `says`: `can` claims that something is possible, so one run that shows it confirms it. `always` claims that
    something holds, so one run that does not show it refutes it. `mostly` claims a tendency, so a sign test over the
    runs of its loads decides. `prediction`: what we expected before any run; None
    where the documents disagree and we had no opinion. `remark`: what a reader has to know about the answer. `edge`:
    where it stops to hold, by its name in `harness/claims/edges.py`; the answer does not depend on it."""

    name: str
    sources: tuple[str, ...]
    gist: str
    says: Literal["can", "always", "mostly"]
    trials: tuple[Trial, ...]
    prediction: Answer | None = None
    remark: str = ""
    edge: str = ""
