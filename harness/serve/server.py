"""The server of `fencepost serve`: on loopback, for whoever knows the token.

tornado comes with `distributed` in any case, so the server needs no other package.
"""

from __future__ import annotations

import asyncio
import mimetypes
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from fencepost.boundary import say_error, unexpected
from fencepost.errors import FencepostError, UsageError
from harness.serve.access import A_RUN_S_FILE, HEADERS, OUR_PAGE, Access
from harness.serve.beside import two_runs_page
from harness.serve.choice import Choice
from harness.serve.files import file_named, report_named, reports_in, run_named, write_zip
from harness.serve.index import Index
from harness.serve.pages import list_page, run_page

LOOPBACK: Final = "127.0.0.1"
_PIECE: Final = 1 << 16
_SHOWN_AS_TEXT: Final = (".json", ".jsonl", ".log", ".txt", "")


async def serve(index: Index, reports: Path, port: int, ready: Callable[[str], None]) -> None:
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
    access = Access.fresh(port)
    with ThreadPoolExecutor(1) as reader:
        server = HTTPServer(_application(index, reports, access, reader))
        server.add_sockets(sockets)
        ready(f"http://{LOOPBACK}:{port}{access.root}")
        await stop.wait()
        server.stop()
        await server.close_all_connections()


def _application(index: Index, reports: Path, access: Access, reader: ThreadPoolExecutor) -> Application:
    shared = {"index": index, "reports": reports, "access": access, "reader": reader}
    paths = [
        (r"/[^/]+/", _List),
        (r"/[^/]+/two", _TwoRuns),
        (r"/[^/]+/runs/([^/]+)/", _Run),
        (r"/[^/]+/runs/([^/]+)/zip", _Zip),
        (r"/[^/]+/runs/([^/]+)/files/(.+)", _File),
        (r"/[^/]+/reports/([^/]+)/(.+)", _ReportFile),
    ]
    return Application(
        [(path, handler, shared) for path, handler in paths],
        default_handler_class=_Handler,
        default_handler_args=shared,
        log_function=lambda handler: None,  # addresses have the token in them
    )


class _Handler(RequestHandler):
    """What every answer has in common. Files are read in one other thread, one request after the other."""

    def initialize(self, index: Index, reports: Path, access: Access, reader: ThreadPoolExecutor) -> None:
        self.index, self.reports, self.access, self._reader = index, reports, access, reader

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Security-Policy", OUR_PAGE)

    def prepare(self) -> None:
        asked = self.request
        if not self.access.is_ours(asked.host, asked.headers.get("Origin")) or not self.access.has_token(asked.path):
            raise HTTPError(403)
        if type(self) is _Handler:
            raise HTTPError(404)

    def write_error(self, status_code: int, **what: Any) -> None:
        said = {403: "Use the whole address that `fencepost serve` printed.", 404: "There is nothing here."}
        error = what["exc_info"][1] if "exc_info" in what else None
        text = str(error) if isinstance(error, FencepostError) else said.get(status_code, "This cannot be shown.")
        if isinstance(error, UsageError):
            self.set_status(400)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{text}\n")

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        """What is wrong with a request or a folder, the answer says; a bug of ours is told where the server runs."""
        if not isinstance(error, HTTPError | FencepostError):
            say_error(unexpected(error))

    async def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._reader, function, *arguments)

    def run_folder(self, name: str) -> Path:
        folder = run_named(self.index.results, name)
        if folder is None:
            raise HTTPError(404)
        return folder


class _List(_Handler):
    async def get(self) -> None:
        choice = Choice.read(lambda name: self.get_query_argument(name, ""))
        runs = await self.read(self.index.runs)
        reports = await self.read(reports_in, self.reports)
        self.finish(list_page(self.access.root, self.index.results, runs, choice, reports))


class _TwoRuns(_Handler):
    async def get(self) -> None:
        names = self.get_query_arguments("run", strip=False)
        if len(names) != 2:
            raise UsageError("Choose two runs in the list, and only two.")
        folders = [self.run_folder(name) for name in names]
        self.finish(await self.read(two_runs_page, self.access.root, *folders))


class _Run(_Handler):
    async def get(self, name: str) -> None:
        self.finish(await self.read(run_page, self.access.root, self.run_folder(name)))


class _Zip(_Handler):
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
        path = await self.read(file_named, self.folder(name), file)
        if path is None:
            raise HTTPError(404)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if path.suffix in _SHOWN_AS_TEXT:
            kind = "text/plain"
        self.set_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        self.set_header("Content-Security-Policy", A_RUN_S_FILE)
        with path.open("rb") as opened:
            await self._send(opened)


class _ReportFile(_File):
    def folder(self, name: str) -> Path:
        folder = report_named(self.reports, name)
        if folder is None:
            raise HTTPError(404)
        return folder
