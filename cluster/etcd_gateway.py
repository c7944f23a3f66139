"""Just enough of etcd's JSON gateway to ask a member something directly. Nothing is retried."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any, Final

from cluster.address import Address
from cluster.dialling import source_for

_RAISED: Final = (http.client.HTTPException, ValueError)


def get(address: Address, path: str, timeout_ms: float) -> Any:
    """The answer to a GET. Raises OSError if none comes in time, or an error."""
    return _ask(address, "GET", path, None, timeout_ms)


def post(address: Address, path: str, body: dict[str, object], timeout_ms: float) -> Any:
    """The answer to a call of the gateway. Raises OSError if none comes in time, or an error."""
    return _ask(address, "POST", f"/v3/{path}", json.dumps(body), timeout_ms)


def coded(text: str) -> str:
    """A key or a value, as the gateway wants it."""
    return base64.b64encode(text.encode()).decode()


def decoded(key: str) -> str:
    """The text of a key or a value of the gateway's. Raises ValueError."""
    return base64.b64decode(key).decode()


def range_of(prefix: str) -> dict[str, object]:
    """All keys that begin like this."""
    return {"key": coded(prefix), "range_end": coded(prefix[:-1] + chr(ord(prefix[-1]) + 1))}


def _ask(address: Address, method: str, path: str, body: str | None, timeout_ms: float) -> Any:
    connection = http.client.HTTPConnection(*address, timeout=timeout_ms / 1e3, source_address=source_for(address))
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        answer = json.loads(response.read() or b"null")
    except _RAISED as error:
        raise ConnectionError(f"{address} did not answer {path} with JSON: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise ConnectionError(f"{address} answered {path} with {response.status}: {answer}")
    return answer
