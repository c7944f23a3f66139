"""Tiny histories with what clients asked the nodes, for explanations. Times are milliseconds since the start."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fencepost.history import HowDown
from harness.checkers.explained import spans_of, tell
from harness.checkers.judge import judge
from harness.explain.evidence import gather
from harness.explain.examples import case_of
from harness.explain.kinds import Told
from harness.history.recorded import Recorded
from harness.verdict import Verdict
from tests.judge.histories import History, ms
from workloads.locks.redlock import EXTEND_SCRIPT, RELEASE_SCRIPT

_REPLIES: Final = {"OK": '"OK"', "nil": "null", "ERR": '{"error":"ERR it is wrong"}', "1": "1", "0": "0"}


class Story(History):
    """Three nodes, and a TTL of 100 ms, unless told otherwise."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.scripts = {"release": RELEASE_SCRIPT.decode(), "extend": EXTEND_SCRIPT.decode()}

    def asked(
        self,
        client: str,
        f: Any,
        at: float,
        said: str,
        *,
        number: int = 1,
        value: str | None = None,
        done: float = 0,
        name: str = "k1",
    ) -> Story:
        """Requests to the nodes that take a millisecond, or until `done`; `said`: the nodes' answers in order, a word
        each, `-` for a node that is not asked; `name`: the key's on the nodes."""
        done, value = done or at + 1, value or f"{client}-{number}"
        words = {
            "acquire": f"SET {name} {value} NX PX {self.config.ttl_ms}",
            "extend": f"EVAL extend 1 {name} {value} {self.config.ttl_ms}",
            "free": f"DEL {name}",
        }.get(f, f"EVAL release 1 {name} {value}")
        for place, word in enumerate(said.split(), 1):
            answer: dict[str, Any] = {"sent": at, "told": done, "reply": _REPLIES.get(word)}
            answer["did"] = word in ("OK", "1", "silent")
            if word == "silent":
                self.request(client, f"n{place}", words, at, None, **answer | {"told": None})
            elif word != "-":
                self.request(client, f"n{place}", words, at, done, **answer)
        return self

    def let_in(self, client: str, at: float, end: float | None, said: str, **more: Any) -> Story:
        """Asked a millisecond ago, let in now, with a lease that is 3 ms shorter than the TTL."""
        number, name = more.pop("number", 1), more.pop("name", "k1")
        self.asked(client, "acquire", at - 1, said, number=number, value=more.pop("value", None), name=name)
        more.setdefault("deadline", at - 1 + self.config.ttl_ms - 3)
        self.section(client, at, end, number=number, requested_ns=ms(at - 1), **more)
        return self

    def watched(self, *nodes: str) -> Story:
        """From the start on the witness sees these nodes, or all three."""
        self.watch(*(nodes or ("n1", "n2", "n3")))
        return self

    def saw(self, at: float, event: Any, nodes: str, client: str | None = None, *, key: str = "k1") -> Story:
        """The witness was told of it 2 ms after; it happened in these. `client`: whose value it is."""
        value = None if client is None else f"{client}-1"
        for node in nodes.split():
            self.seen(node, event, at + 1, value, since=at - 1, ttl=100, key=key)
        if client is not None:
            self.sets(client, f"{client}-1")
        return self

    def killed(self, nodes: str, began: float, back: float, how: HowDown = "kill") -> Story:
        hit = tuple(nodes.split())
        self.fault(f"f{len(self.faults)}", began, back, nemesis="crash", nodes=hit, keys_at_stake=(), how_down=how)
        self.faults[-2] = msgspec.structs.replace(self.faults[-2], what=f"{how} {','.join(hit)}")
        return self

    def judged(self) -> tuple[Recorded, Verdict]:
        run = self.recorded()
        return run, judge(run)

    def told(self, kind: str) -> Told:
        """What is told of the first example of the one finding of this kind."""
        run, verdict = self.judged()
        (finding,) = (found for found in verdict.findings if found.kind == kind)
        case = case_of(run, finding, finding.examples[0])
        return tell(run, gather(run, spans_of(run, [case])), case)
