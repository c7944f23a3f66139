"""Which runs the list shows: chosen by lock, nemesis, verdict and text, so many on a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from harness.serve.index import RunSummary

ON_A_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What was asked for; an empty text asks for nothing. `page`: counted from 1."""

    lock: str = ""
    nemesis: str = ""
    verdict: str = ""
    text: str = ""
    page: int = 1

    @classmethod
    def read(cls, argument: Callable[[str], str]) -> RunFilter:
        """`argument`: the value that the address gives to a name, or an empty text."""
        page = argument("page")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        named = {name: argument(name) for name in ("lock", "nemesis", "verdict", "text")}
        return cls(**named, page=max(number, 1))

    def chosen(self, runs: Sequence[RunSummary]) -> Sequence[RunSummary]:
        return [
            run
            for run in runs
            if self.lock in ("", run.lock)
            and self.nemesis in ("", run.nemesis)
            and self.verdict in ("", run.verdict)
            and (not self.text or run.has(self.text))
        ]

    def on_page(self, runs: Sequence[RunSummary]) -> Sequence[RunSummary]:
        return runs[(self.page - 1) * ON_A_PAGE : self.page * ON_A_PAGE]

    def at(self, page: int) -> str:
        """The part of an address that asks for another page of the same runs."""
        other = replace(self, page=page)
        named = {"lock": other.lock, "nemesis": other.nemesis, "verdict": other.verdict, "text": other.text}
        return "?" + urlencode({name: value for name, value in named.items() if value} | {"page": str(page)})
