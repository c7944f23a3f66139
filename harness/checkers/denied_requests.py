"""Did the servers reject the lock's requests because it had not logged in, or lacked a permission?

The servers count that themselves, by the first word of the error. Some client libraries ask before they log in, and are
turned away once a connection; that does no harm. But a run in which no client acquired the lock, and requests were
turned away, says nothing about the lock: it had no access.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from fencepost.text import count, listed, printable
from harness.figures import CheckerFigures, Row
from harness.history.recorded import Recorded
from harness.verdict import Answer

_MEANS: Final = {
    "NOAUTH": "it must log in as the default user with the password of `open`",
    "WRONGPASS": "it logged in with a name or password other than that of `open`",
    "NOPERM": "it sent a command that locks may not send",
}


class Figures(CheckerFigures, frozen=True):
    """`times`: how many requests all nodes together turned away, by the first word of the error."""

    times: dict[str, int]

    def rows(self) -> Iterator[Row]:
        """`the servers answered the lock with NOAUTH 1,204 times: it has to log in with the password of open`."""
        yield Row("denied", self.in_words(), order=11, is_input=True)

    def in_words(self) -> str:
        each = [f"{printable(error)} {count(times)} times" for error, times in self.times.items()]
        means = dict.fromkeys(_MEANS[error] for error in self.times if error in _MEANS)
        return f"the servers answered the lock with {listed(each)}: {'; '.join(means)}"


def check(run: Recorded) -> Answer:
    """No figures where nothing was turned away."""
    times = Counter[str]()
    for denied in run.denied:
        times[denied.error] += denied.times
    if not times:
        return Answer()
    figures = Figures(dict(times.most_common()))
    return Answer(figures, unknown=(figures.in_words(),) if run.had_no_access else ())
