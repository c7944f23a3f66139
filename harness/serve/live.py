"""Live pages: a run or a campaign while it is under way, told by server-sent events until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from tornado.iostream import StreamClosedError

from fencepost.errors import UsageError
from harness.report.html import script_hash
from harness.serve.access import LIVE_PAGE
from harness.serve.handler import Handler
from harness.serve.live_message import End, LiveMessage
from harness.serve.live_pages import SCRIPT, campaign_live_page, end_of_campaign, end_of_run, run_live_page, unreadable
from harness.serve.run_so_far import RunSoFar
from harness.store.run_folder import RunFolder

_LOOK_EVERY_S: Final = 0.5
_SAY_SOMETHING_EVERY: Final = 20
"""Looks. A closed connection is noticed then, also if nothing happens."""


class _LivePage(Handler):
    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", LIVE_PAGE.format(script=script_hash(SCRIPT)))


class LiveRunPage(_LivePage):
    async def get(self, name: str) -> None:
        stop = self.shared.access.form_token if self.shared.started.is_under_way(name) else ""
        self.finish(await self.read(run_live_page, self.root, self.run_folder(name), stop))


class LiveCampaignPage(_LivePage):
    async def get(self, name: str) -> None:
        self.finish(await self.read(campaign_live_page, self.root, name, self.campaign_folder(name)))


class _Events(Handler):
    """A stream of `shown`, each time that something changed, and one `end`."""

    async def follow(self, look: Callable[[], tuple[bool, LiveMessage]], end: Callable[[], End]) -> None:
        """`look`: whether nothing more will come, and what to show; raises UsageError if it cannot be read. `end`: what
        became of it."""
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        sent, is_over, silent = b"", False, 0
        try:
            while not is_over:
                is_over, shown = await self.read(look)
                if (data := msgspec.json.encode(shown)) != sent or silent > _SAY_SOMETHING_EVERY:
                    sent, silent = data, 0
                    await self._send("shown", data)
                if not is_over:
                    silent += 1
                    await asyncio.sleep(_LOOK_EVERY_S)
            await self._send("end", msgspec.json.encode(await self.read(end)))
        except UsageError as error:
            await self._send("end", msgspec.json.encode(unreadable(self.root, error)))
        except StreamClosedError:  # the browser has gone
            return

    async def _send(self, event: str, data: bytes) -> None:
        self.write(b"event: " + event.encode() + b"\ndata: " + data + b"\n\n")
        await self.flush()


class RunEvents(_Events):
    async def get(self, name: str) -> None:
        path, findings = self.run_folder(name), self.shared.findings
        so_far = RunSoFar(RunFolder(path))
        try:
            await self.follow(
                lambda: (so_far.is_over, so_far.look(findings.latest(path))), lambda: end_of_run(self.root, path)
            )
        finally:
            findings.forget(path)


class CampaignEvents(_Events):
    async def get(self, name: str) -> None:
        # What reads campaigns takes long to import, and the other pages do without.
        from harness.serve.campaign_so_far import CampaignSoFar

        path = self.campaign_folder(name)
        so_far = CampaignSoFar(path, self.root)
        await self.follow(lambda: (so_far.is_over, so_far.look()), lambda: end_of_campaign(self.root, name, path))
