"""A headless Chromium that is told what to do through two pipes: the browser's own protocol, without a driver.

See https://chromedevtools.github.io/devtools-protocol/. A message is JSON and ends with a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import selectors
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, Self

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_ANSWER_WITHIN_S: Final = 60.0
_OPTIONS: Final = (
    "--headless=new",
    "--no-sandbox",  # root has none; only pages of this machine are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",
)


class ChromiumError(Exception):
    """The browser ended, did not answer, or says that something cannot be done."""


def find_chromium() -> str | None:
    """The browser's program; None if there is none on PATH."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Chromium:
    """A context manager. Raises ChromiumError if it cannot be started."""

    def __init__(self) -> None:
        program = find_chromium()
        if program is None:
            raise ChromiumError(f"none of {', '.join(_NAMES)} is on PATH")
        self._folder = TemporaryDirectory(prefix="fencepost-chromium-", ignore_cleanup_errors=True)
        near_in, self._to = os.pipe()
        self._from, near_out = os.pipe()
        theirs_in, theirs_out = (fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, 10) for near in (near_in, near_out))
        options = [*_OPTIONS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program, *options],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for theirs in (near_in, near_out, theirs_in, theirs_out):
            os.close(theirs)
        self._arrived = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(ChromiumError, OSError):
            self.do("Browser.close")
        os.close(self._to)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)
        self._folder.cleanup()

    def page(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """A new, empty page."""
        target = self.do("Target.createTarget", url="about:blank")["targetId"]
        session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, width, height, dark)

    def do(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        try:
            os.write(self._to, json.dumps(message).encode() + b"\0")
        except BrokenPipeError:
            raise ChromiumError("the browser has ended") from None
        until_s = monotonic() + _ANSWER_WITHIN_S
        while True:
            answer = self._next(until_s)
            if answer.get("id") != number:
                self.events.append(answer)
            elif "error" in answer:
                raise ChromiumError(f"{method}: {answer['error']['message']}")
            else:
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, until_s: float) -> dict[str, Any]:
        while b"\0" not in self._arrived:
            with selectors.DefaultSelector() as ready:
                ready.register(self._from, selectors.EVENT_READ)
                if not ready.select(max(0.0, until_s - monotonic())):
                    raise ChromiumError("the browser does not answer")
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise ChromiumError("the browser has ended")
            self._arrived += piece
        message, _, self._arrived = self._arrived.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded


class Page:
    """A tab of the browser."""

    def __init__(self, browser: Chromium, session: str, width: int, height: int, dark: bool) -> None:
        self._browser, self._session = browser, session
        self.width, self.height = width, height
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._do(f"{domain}.enable")
        self._do(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 700
        )
        scheme = "dark" if dark else "light"
        self._do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Go there, and wait until the page is complete."""
        old = self.evaluate("performance.timeOrigin")
        self._do("Page.navigate", url=address)
        self.wait_for(f"performance.timeOrigin !== {old!r} && document.readyState === 'complete'")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page. Raises ChromiumError for one that fails."""
        result = self._do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise ChromiumError(f"{expression}: {result['exceptionDetails']['text']}")
        return result["result"].get("value")

    def wait_for(self, expression: str, within_s: float = 60.0) -> None:
        """Wait until an expression is true. Raises ChromiumError."""
        until_s = monotonic() + within_s
        while True:
            with suppress(ChromiumError):  # between two pages
                if self.evaluate(f"Boolean({expression})"):
                    return
            if monotonic() > until_s:
                raise ChromiumError(f"not true within {within_s:.0f} s: {expression}; {self.text()[:1000]}")
            sleep(0.02)

    def text(self) -> str:
        return str(self.evaluate("document.body.innerText"))

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the element."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center'}})")
        x, y = self.evaluate(
            f"(({{left, top, width, height}}) => [left + width / 2, top + height / 2])({found}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        self._do("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Tab, Enter or Space."""
        name, number, text = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Space": (" ", 32, " ")}[key]
        common = {"key": name, "code": key, "windowsVirtualKeyCode": number}
        self._do("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self._do("Input.dispatchKeyEvent", type="keyUp", **common)

    def complaints(self) -> list[str]:
        """What the browser reported of this page: errors of scripts, and what its policy refused."""
        told = []
        for event in self._browser.events:
            if event.get("sessionId") == self._session:
                if event["method"] == "Runtime.exceptionThrown":
                    told.append(str(event["params"]["exceptionDetails"].get("exception", {}).get("description")))
                elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                    told.append(str(event["params"]["entry"]["text"]))
        return told

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """As PNG: what the window shows, or the `whole` page."""
        data = self._do("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))

    def _do(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.do(method, self._session, **parameters)
