"""`fencepost serve` as a process, and run folders to show."""

from __future__ import annotations

import html
import http.client
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from harness.checkers.judge import judge_folder
from harness.config import RunConfig
from harness.store.run_folder import RunFolder
from tests.harness.runs import command

ROOT = Path(__file__).parent.parent.parent
HOSTILE = "<script>alert(1)</script>"


@dataclass
class Served:
    """`host`: with the port. `root`: what every address begins with. `results`: the folder of runs."""

    host: str
    root: str
    results: Path

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        """`path`: below the token, or from the root if it begins with a slash; sent as it is."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            connection.putrequest(
                method, path if path.startswith("/") else self.root + path, skip_host="Host" in headers
            )
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def send(self, path: str, fields: Mapping[str, str], **headers: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Post a form, from one of our own pages unless `headers` say otherwise; an empty header is left out."""
        given = {"Origin": f"http://{self.host}", "Content-Type": "application/x-www-form-urlencoded"} | headers
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            told = {name.replace("_", "-"): value for name, value in given.items() if value}
            connection.request("POST", self.root + path, urlencode(fields), told)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def form_token(self) -> str:
        """What our forms are sent with."""
        found = re.search(r'name="form" value="([^"]+)"', self.page(""))
        assert found
        return found[1]

    @property
    def address(self) -> str:
        return f"http://{self.host}{self.root}"

    def page(self, path: str) -> str:
        status, headers, body = self.ask(path)
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=UTF-8"), body
        return body.decode()


def told(body: bytes) -> str:
    """What an error's page says, in a line."""
    found = re.search("<h1>(.+)</h1>", body.decode())
    assert found, body
    return html.unescape(found[1])


def a_run(results: Path, seed: int, **settings: object) -> Path:
    """A run that was judged (nothing was recorded, so it is unknown)."""
    folder = RunFolder.create(results, RunConfig(seed=seed, **settings))  # type: ignore[arg-type]
    judge_folder(folder)
    return folder.path


@contextmanager
def serving(place: Path, *, real: bool = False) -> Iterator[Served]:
    """Serve `place/runs` and `place/reports`. Runs whose state lies below `place` are under way; if `real`, those of
    this user, and runs can be started."""
    results = place / "runs"
    for each in (results, place / "reports"):
        each.mkdir(exist_ok=True)
    temporary = {} if real else {"TMPDIR": str(place)}
    server = subprocess.Popen(
        command("serve", "--results", str(results), "--reports", str(place / "reports")),
        env=os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(place / "cache")} | temporary,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = urlsplit(server.stdout.readline().split(" at ")[1].split()[0])
        yield Served(address.netloc, address.path, results)
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(120 if real else 30) == 0
