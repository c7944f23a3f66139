"""A cluster whose nodes are servers of the user's own: links, proxy and resource are the run's, the nodes are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from cluster import resp
from cluster.address import Address
from cluster.lent_servers import life_of
from cluster.ports import Ports
from cluster.process import ProcessCluster
from cluster.process_node import ProcessNode
from cluster.relay import hand_over
from cluster.server_node import ASK_MS, Seen
from fencepost.errors import BrokenEnvironmentError

_LIFE: Final = (("INFO", "server"), ("INFO", "replication"), ("INFO", "stats"))


class LentNode(ProcessNode):
    """`cluster.base.Node` for a server that is not ours. No verb takes it down, pauses it or sets it: they raise
    BrokenEnvironmentError. It counts as down once it is another process than before, has another role, or has given up
    keys: then what it holds is no longer what the lock left there."""

    _life: str | None = None

    @property
    def address(self) -> Address:
        """That of the relay, which has logged in already."""
        return Address(*super().address)

    def start_first(self, ports: Ports) -> None:
        with self._becomes("up"):
            hand_over(self._folder.parent.parent, self._name, self.address)
            try:
                self._life = self._asked_life(ASK_MS)
            except OSError as error:
                raise BrokenEnvironmentError(f"{self._name} does not answer: {error}; see logs/relay.log") from error

    def start(self) -> None:
        raise self._not_ours("started")

    def stop(self) -> None:
        raise self._not_ours("shut down")

    def kill(self) -> None:
        raise self._not_ours("killed")

    def cut_power(self) -> None:
        raise self._not_ours("cut off its power")

    def pause(self) -> None:
        raise self._not_ours("paused")

    def went_unasked(self) -> bool:
        return False

    def is_up(self, timeout_ms: float = 200) -> bool:
        return self._server.answers(self.address, timeout_ms)

    def effective_config(self) -> Mapping[str, str]:
        return {}

    def footprint(self) -> None:
        return None

    def log_text(self) -> str:
        return ""

    def _is_running(self) -> bool:
        return True

    def _is_paused(self) -> bool:
        return False

    def _look(self, within_ms: float) -> Seen:
        try:
            return "up" if self._asked_life(within_ms) == self._life else "down"
        except OSError:
            return "silent"

    def _asked_life(self, within_ms: float) -> str:
        return life_of("\n".join(map(str, resp.ask(self.address, *_LIFE, timeout_ms=within_ms))))

    def _not_ours(self, done: str) -> BrokenEnvironmentError:
        return BrokenEnvironmentError(f"{self._name} is a server of --nodes-at, which cannot be {done}")


class ElsewhereCluster(ProcessCluster):
    """`cluster.base.Cluster`. Its nodes' addresses are the relay's, and the relay is told where they are by the command
    outside of the sandbox."""

    name: ClassVar[str] = "elsewhere"
    node_kind: ClassVar[type[ProcessNode]] = LentNode

    def _make_clocks(self) -> None:
        """Nodes keep their own; those of clients are the clients' matter."""
