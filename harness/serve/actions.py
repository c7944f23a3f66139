"""What changes something: a run is started, repeated, stopped or tagged, by a form of ours (`harness.serve.access`)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fencepost.errors import UsageError
from harness.serve.handler import Handler
from harness.serve.pages import address
from harness.serve.tags import tags_in, write_tags

_FIELDS = ("lock", "nemesis", "duration", "seed")


class Start(Handler):
    """Options of `fencepost test`: some in fields of their own, the others as they are typed in a shell."""

    async def post(self) -> None:
        name = await self.shared.started.start("test", self._words())
        self.redirect(address(self.root, name) + "live", status=303)

    def _words(self) -> Sequence[str]:
        given = {name: self.get_body_argument(name, "") for name in _FIELDS}
        words = [f"--{name}={value}" for name, value in given.items() if value]
        try:
            return [*words, *shlex.split(self.get_body_argument("options", ""))]
        except ValueError as error:
            raise UsageError(f"The options cannot be read: {error}.") from None


class Repeat(Handler):
    async def post(self, name: str) -> None:
        repeated = await self.shared.started.start("replay", [str(self.run_folder(name))])
        self.redirect(address(self.root, repeated) + "live", status=303)


class StopRun(Handler):
    async def post(self, name: str) -> None:
        self.run_folder(name)
        self.shared.started.stop(name)
        self.redirect(address(self.root, name) + "live", status=303)


class Tag(Handler):
    async def post(self, name: str) -> None:
        self.run_folder(name)
        tags = tags_in(self.get_body_argument("tags", ""))
        await self.read(write_tags, self.shared.index.results, name, tags)
        self.redirect(address(self.root, name), status=303)
