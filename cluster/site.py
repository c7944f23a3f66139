"""Where the servers of one run are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from fencepost.errors import BrokenEnvironmentError


@dataclass(frozen=True, slots=True)
class Site:
    """Where the servers of a run will be: decided before it starts, kept in its state folder for what cleans up, and
    sent to the process that makes the run.

    `backend`: its name. `place`: what else the backend must know to find the servers, as text of its own; empty if
    that is nothing. `in_sandbox`: whether the run has namespaces of its own. `no_sandbox`: why this machine refuses
    them to a backend that could use them. `passed_over`: why `auto` left out a backend that it prefers; None if there
    is nothing to say.
    """

    backend: str
    place: str = ""
    in_sandbox: bool = False
    no_sandbox: str | None = None
    passed_over: str | None = None

    def encode(self) -> str:
        """As JSON, for `decode`."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Raises ValueError or TypeError for a text that is none."""
        return cls(**json.loads(text))


class UnavailableError(BrokenEnvironmentError):
    """A backend cannot have a run here. `found`: why, without what to do about it. `is_usual`: most machines are like
    that, so `auto` does not mention it. `cannot_have_runs`: nothing of this user's runs can be there."""

    kind = "lacking"
    is_usual: bool = False
    cannot_have_runs: bool = False

    def __init__(self, found: str, do: str) -> None:
        self.found = found
        super().__init__(f"{found}; {do}")
