"""Which runs the list shows, in which order: chosen by lock, nemesis, verdict, tag and text, so many on a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from harness.serve.index import RunSummary

ON_A_PAGE: Final = 100
SORTS: Final = ("newest", "most severe", "lock")
_SEVERITY: Final = ("violation", "limit missed", "unknown", "under way", "damaged", "changed")
"""Of verdicts, the gravest first; a valid run of which something is said beside that comes next, and then the rest."""
_NAMES: Final = ("lock", "nemesis", "verdict", "text", "tag", "sort")


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What was asked for; an empty text asks for nothing. `page`: counted from 1."""

    lock: str = ""
    nemesis: str = ""
    verdict: str = ""
    text: str = ""
    tag: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def read(cls, argument: Callable[[str], str]) -> RunFilter:
        """`argument`: the value that the address gives to a name, or an empty text."""
        page = argument("page")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        named = {name: argument(name) for name in _NAMES}
        if named["sort"] not in SORTS:
            named["sort"] = ""
        return cls(**named, page=max(number, 1))

    def chosen(self, runs: Sequence[RunSummary], tags: Mapping[str, Sequence[str]] | None = None) -> list[RunSummary]:
        """In the order that was asked for; of equals the newest first. `tags`: of each run, by its name."""
        tagged = tags or {}
        found = [
            run
            for run in runs
            if self.lock in ("", run.lock)
            and self.nemesis in ("", run.nemesis)
            and self.verdict in ("", run.verdict)
            and (not self.tag or self.tag in tagged.get(run.name, ()))
            and (not self.text or run.has(self.text) or self.text in tagged.get(run.name, ()))
        ]
        if self.sort == "most severe":
            found.sort(key=_gravity)
        elif self.sort == "lock":
            found.sort(key=lambda run: run.lock.casefold())
        return found

    def on_page(self, runs: Sequence[RunSummary]) -> Sequence[RunSummary]:
        return runs[(self.page - 1) * ON_A_PAGE : self.page * ON_A_PAGE]

    def at(self, page: int) -> str:
        """The part of an address that asks for another page of the same runs."""
        other = replace(self, page=page)
        named = {name: getattr(other, name) for name in _NAMES}
        return "?" + urlencode({name: value for name, value in named.items() if value} | {"page": str(page)})


def _gravity(run: RunSummary) -> int:
    if run.verdict in _SEVERITY:
        return _SEVERITY.index(run.verdict)
    return len(_SEVERITY) + (0 if run.verdict == "valid" and run.says else 1)
