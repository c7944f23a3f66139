"""The server of `fencepost serve`: on loopback, for requests with the token.

tornado comes with `distributed` in any case, so the server needs no other package.
"""

from __future__ import annotations

import asyncio
import mimetypes
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final
from urllib.parse import quote

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from fencepost.errors import UsageError
from harness.serve.access import A_RUN_S_FILE, MOST_OF_A_FORM, Gate
from harness.serve.actions import Repeat, Start, StopRun, Tag
from harness.serve.active_runs import with_those_under_way
from harness.serve.campaigns import Campaigns
from harness.serve.files import file_named, write_zip
from harness.serve.filter import ON_A_PAGE, RunFilter
from harness.serve.findings_so_far import FindingsSoFar
from harness.serve.handler import Handler, Shared, found
from harness.serve.index import Index
from harness.serve.live import CampaignEvents, LiveCampaignPage, LiveRunPage, RunEvents
from harness.serve.markdown_page import beside, markdown_page
from harness.serve.pages import list_page, report_address, run_page
from harness.serve.started_runs import StartedRuns
from harness.serve.trend import trend_page
from harness.serve.two_runs import two_runs_page

LOOPBACK: Final = "127.0.0.1"
_PIECE: Final = 1 << 16
_READ_AT_ONCE: Final = 50
"""Runs; some tenths of a second."""
_SHOWN_AS_TEXT: Final = (".csv", ".json", ".jsonl", ".log", ".md", ".txt", "")


async def serve(index: Index, campaigns: Campaigns, port: int, ready: Callable[[str], None]) -> None:
    """Answer until SIGINT or SIGTERM. `ready` gets the address to open. Raises UsageError if the port is taken."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        sockets = bind_sockets(port, LOOPBACK)
    except OSError as error:
        raise UsageError(
            f"--port {port} cannot be used ({error.strerror}); choose another one, or leave it out"
        ) from None
    port = sockets[0].getsockname()[1]
    access = Gate.fresh(port)
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as judge:
        started = StartedRuns(index.results)
        shared = Shared(index, campaigns, access, reader, FindingsSoFar(judge), started)
        server = HTTPServer(_application(shared), max_body_size=MOST_OF_A_FORM)
        server.add_sockets(sockets)
        ready(f"http://{LOOPBACK}:{port}{access.root}")
        await stop.wait()
        server.stop()
        await server.close_all_connections()
        started.end_all()


def _application(shared: Shared) -> Application:
    paths: Sequence[tuple[str, type[Handler]]] = [
        (r"/[^/]+/", _List),
        (r"/[^/]+/two", _TwoRuns),
        (r"/[^/]+/start", Start),
        (r"/[^/]+/runs/([^/]+)/repeat", Repeat),
        (r"/[^/]+/runs/([^/]+)/stop", StopRun),
        (r"/[^/]+/runs/([^/]+)/tags", Tag),
        (r"/[^/]+/runs/([^/]+)/", _Run),
        (r"/[^/]+/runs/([^/]+)/live", LiveRunPage),
        (r"/[^/]+/runs/([^/]+)/events", RunEvents),
        (r"/[^/]+/runs/([^/]+)/trend", _Trend),
        (r"/[^/]+/runs/([^/]+)/zip", _Zip),
        (r"/[^/]+/runs/([^/]+)/files/(.+)", _File),
        (r"/[^/]+/reports/([^/]+)/live", LiveCampaignPage),
        (r"/[^/]+/reports/([^/]+)/events", CampaignEvents),
        (r"/[^/]+/reports/([^/]+)/files/(.+)", _ReportFile),
        (r"/[^/]+/documents/([^/]+)", _Document),
    ]
    arguments = {"shared": shared}
    return Application(
        [(path, handler, arguments) for path, handler in paths],
        default_handler_class=Handler,
        default_handler_args=arguments,
        log_function=lambda handler: None,  # addresses have the token in them
    )


class _List(Handler):
    async def get(self) -> None:
        choice = RunFilter.read(lambda name: self.get_query_argument(name, ""))
        self.finish(await self.read(self._page, choice))

    def _page(self, choice: RunFilter) -> str:
        index, campaigns = self.shared.index, self.shared.campaigns
        runs = with_those_under_way(index.runs(most=ON_A_PAGE), index.results)
        self.shared.reader.submit(_read_on, index, self.shared.reader)
        return list_page(
            self.root,
            index.results,
            runs,
            choice,
            campaigns.all(),
            campaigns.documents(),
            self.shared.access.form_token,
        )


def _read_on(index: Index, reader: ThreadPoolExecutor) -> None:
    """Read runs that the list left unread, a few at a time: other requests come in between."""
    if index.read_on(_READ_AT_ONCE):
        with suppress(RuntimeError):  # the server is being closed
            reader.submit(_read_on, index, reader)


class _TwoRuns(Handler):
    async def get(self) -> None:
        names = self.get_query_arguments("run", strip=False)
        if len(names) != 2:
            raise UsageError("Choose two runs in the list, and only two.")
        folders = [self.run_folder(name) for name in names]
        self.finish(await self.read(two_runs_page, self.root, *folders))


class _Run(Handler):
    async def get(self, name: str) -> None:
        form, tab = self.shared.access.form_token, self.get_query_argument("tab", "")
        self.finish(await self.read(run_page, self.root, self.run_folder(name), form, tab))


class _Trend(Handler):
    async def get(self, name: str) -> None:
        self.finish(await self.read(self._page, self.run_folder(name)))

    def _page(self, folder: Path) -> str:
        return trend_page(self.root, folder, self.shared.index.runs(most=ON_A_PAGE))


class _Zip(Handler):
    async def get(self, name: str) -> None:
        folder = self.run_folder(name)
        with TemporaryFile() as file:
            await self.read(write_zip, folder, file)
            self.set_header("Content-Type", "application/zip")
            self.set_header("Content-Disposition", 'attachment; filename="run.zip"')
            file.seek(0)
            await self._send(file)

    async def _send(self, file: Any) -> None:
        while piece := await self.read(file.read, _PIECE):
            self.write(piece)
            await self.flush()


class _File(_Zip):
    def folder(self, name: str) -> Path:
        return self.run_folder(name)

    async def get(self, name: str, file: str) -> None:  # type: ignore[override]
        await self.send_file(await self.read(file_named, self.folder(name), file))

    async def send_file(self, there: Path | None) -> None:
        path = found(there)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if path.suffix in _SHOWN_AS_TEXT:
            kind = "text/plain"
        self.set_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        self.set_header("Content-Security-Policy", A_RUN_S_FILE)
        self.set_header("Referrer-Policy", "no-referrer")
        with path.open("rb") as opened:
            await self._send(opened)


class _Published(_File):
    """A file among the reports. Markdown is shown as a page, unless it is asked for as it is."""

    async def send_published(self, folder: str, there: Path | None) -> None:
        path = found(there)
        if path.suffix != ".md" or self.get_query_argument("raw", ""):
            await self.send_file(path)
        else:
            self.finish(await self.read(self._as_page, folder, path))

    def _as_page(self, folder: str, path: Path) -> str:
        return markdown_page(
            self.root, path.name, path.read_text("utf-8", "replace"), lambda link: self._address(folder, link)
        )

    def _address(self, folder: str, link: str) -> str | None:
        to = beside(folder, link)
        if to is None:
            return None
        where, name = to
        if not where:
            return f"{self.root}documents/{quote(name, safe='')}"
        return report_address(self.root, where, name) if self.shared.campaigns.named(where) else None


class _ReportFile(_Published):
    def folder(self, name: str) -> Path:
        return self.campaign_folder(name)

    async def get(self, name: str, file: str) -> None:  # type: ignore[override]
        await self.send_published(name, await self.read(file_named, self.folder(name), file))


class _Document(_Published):
    async def get(self, name: str) -> None:  # type: ignore[override]
        campaigns = self.shared.campaigns
        is_there = name in await self.read(campaigns.documents)
        await self.send_published("", campaigns.reports / name if is_there else None)
