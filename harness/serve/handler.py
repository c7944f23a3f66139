"""What every answer of the server has in common: who may ask, what is said of an error, and where files are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tornado.web import HTTPError, RequestHandler

from fencepost.boundary import say_error, unexpected
from fencepost.errors import FencepostError, UsageError
from harness.report.html import render
from harness.serve.access import HEADERS, OUR_PAGE, Gate
from harness.serve.campaigns import Campaigns
from harness.serve.files import run_named
from harness.serve.findings_so_far import FindingsSoFar
from harness.serve.index import Index
from harness.serve.started_runs import StartedRuns


@dataclass(frozen=True, slots=True)
class Shared:
    """What all requests share. Files are read in one other thread, `reader`, one request after the other."""

    index: Index
    campaigns: Campaigns
    access: Gate
    reader: ThreadPoolExecutor
    findings: FindingsSoFar
    started: StartedRuns


class Handler(RequestHandler):
    """Of an unknown address; the others derive from it."""

    def initialize(self, shared: Shared) -> None:
        self.shared = shared

    @property
    def root(self) -> str:
        """What every address begins with."""
        return self.shared.access.root

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Security-Policy", OUR_PAGE)

    def prepare(self) -> None:
        asked, access = self.request, self.shared.access
        if not access.is_ours(asked.host, asked.headers.get("Origin")) or not access.has_token(asked.path):
            raise HTTPError(403)
        if asked.method == "POST" and type(self).post is not RequestHandler.post:
            site, token = asked.headers.get("Sec-Fetch-Site"), self.get_body_argument("form", "")
            if not access.is_our_form(asked.headers.get("Origin"), site, token):
                raise HTTPError(403)
        if type(self) is Handler:
            raise HTTPError(404)

    def write_error(self, status_code: int, **what: Any) -> None:
        """As a page. To a request that does not know the token (403), it does not tell it."""
        said = {403: "Use the whole address that `fencepost serve` printed.", 404: "There is nothing here."}
        error = what["exc_info"][1] if "exc_info" in what else None
        text = str(error) if isinstance(error, FencepostError) else said.get(status_code, "This cannot be shown.")
        if isinstance(error, UsageError):
            self.set_status(400)
        self.finish(render("error.html.j2", text=text, root="" if status_code == 403 else self.root))

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        """What is wrong with a request or a folder, the answer says; a bug of ours is told where the server runs."""
        if not isinstance(error, HTTPError | FencepostError):
            say_error(unexpected(error))

    async def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.shared.reader, function, *arguments)

    def run_folder(self, name: str) -> Path:
        return found(run_named(self.shared.index.results, name))

    def campaign_folder(self, name: str) -> Path:
        return found(self.shared.campaigns.named(name))


def found(path: Path | None) -> Path:
    """The path; raises HTTPError if there is none."""
    if path is None:
        raise HTTPError(404)
    return path
