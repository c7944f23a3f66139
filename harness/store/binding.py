"""What binds `verdict.json` to the record that it was made from: a digest of both, in the document itself.

A verdict that was edited, that came from another run, or whose record was changed and sealed anew does not fit. The
digest is no signature: it shows what was changed by hand, and `fencepost analyze` judges the record itself.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from fencepost.errors import UsageError
from fencepost.files import kind_of, read_document

_FIELD: Final = re.compile(rb'\A\{\s*"fits": "([0-9a-f]{64})",')
_NOT_YET: Final = b"0" * 64
_SEALS: Final = ("manifest.json", "sealed.json", "config.json")
"""Of these the first one that is there vouches for the record."""


class UnfitVerdictError(UsageError):
    """verdict.json does not fit the record beside it."""


def bound(document: bytes, run: Path) -> bytes:
    """A JSON object with the digest as its first field, `fits`."""
    unbound = b'{\n  "fits": "' + _NOT_YET + b'",' + document.removeprefix(b"{")
    return unbound.replace(_NOT_YET, _digest(unbound, run), 1)


def check_fits(document: bytes, path: Path) -> None:
    """Raises UnfitVerdictError unless this verdict, read from `path`, and the record beside it are what they were when
    the run was judged."""
    found = _FIELD.match(document)
    if found is None or _digest(document.replace(found[1], _NOT_YET, 1), path.parent) != found[1]:
        raise UnfitVerdictError(
            f"{path} does not fit the record: one of them was changed after the run had been judged; `fencepost "
            f"analyze {path.parent}` judges it anew"
        )


def _digest(unbound: bytes, run: Path) -> bytes:
    seal = next((run / name for name in _SEALS if kind_of(run / name) is not None), None)
    record = hashlib.sha256(read_document(seal) if seal else b"").digest()
    return hashlib.sha256(record + unbound).hexdigest().encode()
