"""Links through a real Toxiproxy. Any number of them is changed together, and every change is read back.

What a cut, a delay or a reset is made of there: `cluster.toxic_plan`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from time import monotonic, sleep

from cluster.address import Address, LinkKey
from cluster.base import CalledOff, Cut, CutKind, Delay, Direction, Impairment, NotInTimeError, Reset, Throttle, never
from cluster.ports import PortTakenError, is_listening
from cluster.toxic_plan import ToxicPlan, has_retired, owners
from cluster.toxiproxy_api import ProxyState, RefusedError, ToxiproxyApi
from fencepost.errors import BrokenEnvironmentError

CHANGE_LIMIT_S = 5.0
"""How long one change of links may take, however many there are."""
HEAL_LIMIT_S = 10.0
"""How long it may take to heal everything. One long try: a busy server also carries out what was asked in tries that
were given up, so several short ones may never end."""
_SETTLED_S = 0.05
"""How long a retired toxic is left alone: what dead connections had queued is gone long before."""

Draw = Callable[[ToxicPlan], None]


class ToxiproxyServer(ToxiproxyApi):
    """One running Toxiproxy and the links through it."""

    def __init__(self, path: Path, timeout_s: float = CHANGE_LIMIT_S, heal_s: float = HEAL_LIMIT_S) -> None:
        super().__init__(path, timeout_s)
        self._limit_s = timeout_s
        self._heal_s = heal_s
        self._changing = threading.Lock()

    def populate(self, wanted: Mapping[LinkKey, tuple[Address, Address]]) -> dict[LinkKey, ToxicLink]:
        """Make all links in one call, each (listen, upstream), by (client, node); see `create_all`."""
        made = self.create_all({_proxy_name(key): addresses for key, addresses in wanted.items()})
        return {key: ToxicLink(self, key, made[_proxy_name(key)]) for key in wanted}

    def impair(
        self, links: Iterable[ToxicLink], owner: str, impairment: Impairment | None, called_off: CalledOff = never
    ) -> None:
        """Make this, and nothing else, what this owner does to these links; None heals what it did. Errors are those of
        `cluster.base.Cluster.impair`."""

        def draw(plan: ToxicPlan) -> None:
            plan.impair(owner, impairment)

        with self._changing:
            problems = self._make(list(links), draw, self._limit_s, called_off)
        if problems:
            raise problems[0]

    def heal_all(self, links: Iterable[ToxicLink], called_off: CalledOff = never) -> None:
        """Remove everything from every proxy, regardless of its owner, and read back that nothing is left.

        Heals as much as can be healed before it raises BrokenEnvironmentError for what cannot, NotInTimeError if it
        took too long or was called off.
        """
        links = list(links)
        deadline_s = monotonic() + self._heal_s
        with self._changing:
            problems = self._make(links, ToxicPlan.heal_everyone, self._heal_s, called_off, is_thorough=True)
            if retired := [link for link in links if link.state is not None and has_retired(link.state)]:
                sleep(_SETTLED_S)
                problems += self._make(retired, ToxicPlan.remove_retired, deadline_s - monotonic(), called_off)
        if problems:
            raise problems[0]

    def _make(
        self,
        links: Collection[ToxicLink],
        draw: Draw,
        within_s: float,
        called_off: CalledOff,
        *,
        is_thorough: bool = False,
    ) -> list[BrokenEnvironmentError]:
        """Draw a plan for each link, and carry all of them out together. Returns what went wrong, one error a link; the
        last one is about all links that did not answer in time.

        The server may still carry out what was asked in a try that was given up, also between the reading of a state
        and what is asked then, or much later. So a link of which a try was given up, and that does not become what was
        planned, is planned anew; when the time is up it is late, not wrong.
        """
        deadline_s = monotonic() + within_s
        unsure = {link for link in links if link.was_given_up}
        failed = self._try(links, draw, deadline_s, called_off, is_thorough)
        while again := [link for link in unsure if not isinstance(failed.get(link), PortTakenError | None)]:
            if called_off() or monotonic() + _SETTLED_S >= deadline_s:
                break
            sleep(_SETTLED_S)
            failed = {link: error for link, error in failed.items() if link not in again}
            failed |= self._try(again, draw, deadline_s, called_off, is_thorough)
        problems = [
            error
            for link, error in failed.items()
            if isinstance(error, PortTakenError) or (error is not None and not link.was_given_up)
        ]
        if late := len(failed) - len(problems):
            took_s = monotonic() - deadline_s + within_s
            problems.append(NotInTimeError(f"{late} of {len(links)} links had not changed after {took_s:.1f} s"))
        return problems

    def _try(
        self, links: Collection[ToxicLink], draw: Draw, deadline_s: float, called_off: CalledOff, is_thorough: bool
    ) -> dict[ToxicLink, BrokenEnvironmentError | None]:
        """Ask once, and return the links that did not change: with what went wrong, or None if they did not answer.
        Unless it `is_thorough`, a link of which nothing is wanted that was not read back before is not asked again."""
        if unknown := {link.proxy_name: link for link in links if link.state is None}:
            found = self.change(dict.fromkeys(unknown, ()), deadline_s - monotonic(), called_off)
            for name, link in unknown.items():
                link.state = state if isinstance(state := found[name], ProxyState) else None
        plans = {link: link.plan(link.state) for link in links if link.state is not None}
        for plan in plans.values():
            draw(plan)
        asked = {link.proxy_name: plan.requests for link, plan in plans.items() if plan.requests or is_thorough}
        answers = self.change(asked, deadline_s - monotonic(), called_off)
        failed: dict[ToxicLink, BrokenEnvironmentError | None] = {link: None for link in links if link not in plans}
        for link, plan in plans.items():
            answer, link.state = answers.get(link.proxy_name, plan.state), None
            if answer is None:
                failed[link], link.was_given_up = None, True
                continue
            try:
                link.adopt(plan, answer)
            except BrokenEnvironmentError as error:
                failed[link] = error
        return failed


class ToxicLink:
    """`cluster.base.Link` on one proxy. `state`: what was read back last; None if unknown. `was_given_up`: the
    server may still carry out what was asked of it before."""

    def __init__(self, server: ToxiproxyServer, key: LinkKey, state: ProxyState) -> None:
        self.state: ProxyState | None = state
        self.was_given_up = False
        self._server = server
        self._client, self._node = key
        self._address = state.listen
        self._refusers: frozenset[str] = frozenset()
        self._settled_at_s = 0.0

    @property
    def client(self) -> str:
        return self._client

    @property
    def node(self) -> str:
        return self._node

    @property
    def address(self) -> Address:
        return self._address

    @property
    def proxy_name(self) -> str:
        return _proxy_name((self._client, self._node))

    def cut(self, owner: str, kind: CutKind, direction: Direction) -> None:
        self._server.impair([self], owner, Cut(kind, direction))

    def delay(self, owner: str, delay_ms: int, jitter_ms: int, direction: Direction) -> None:
        self._server.impair([self], owner, Delay(delay_ms, jitter_ms, direction))

    def throttle(self, owner: str, rate_kb_per_s: int, direction: Direction) -> None:
        self._server.impair([self], owner, Throttle(rate_kb_per_s, direction))

    def reset(self, owner: str) -> None:
        self._server.impair([self], owner, Reset())

    def heal(self, owner: str) -> None:
        self._server.impair([self], owner, None)

    def owners(self) -> frozenset[str]:
        """As far as it is known: no other process changes the proxy."""
        return self._refusers if self.state is None else owners(self.state, self._refusers)

    def plan(self, state: ProxyState) -> ToxicPlan:
        """An empty plan; if the proxy was idle for long enough, for removing what is left of healed toxics."""
        plan = ToxicPlan(self.proxy_name, state, self._refusers)
        if monotonic() >= self._settled_at_s:
            plan.remove_retired()
        return plan

    def adopt(self, plan: ToxicPlan, answer: ProxyState | RefusedError) -> None:
        """Take the plan as carried out. Raises BrokenEnvironmentError if it was refused or does not read back."""
        if isinstance(answer, RefusedError):
            if answer.request.body == {"enabled": True} and is_listening(self._address):
                raise PortTakenError(
                    f"link {self._client} to {self._node} cannot be healed: its port {self._address.port} was taken by "
                    "another program while it was refused"
                ) from answer
            raise answer
        if answer != plan.state:
            raise BrokenEnvironmentError(
                f"link {self._client} to {self._node} reads back as {answer} instead of {plan.state}"
            )
        if has_retired(answer):
            self._settled_at_s = monotonic() + _SETTLED_S
        self.state, self._refusers = answer, plan.refusers


def _proxy_name(key: LinkKey) -> str:
    return f"{key[0]}-{key[1]}"
