"""The backends: one way to run servers a file; FENCEPOST_PATH adds more (`fencepost.extensions`). The class is in
`cluster/backend.py`."""

from fencepost.extensions import extended

__path__ = extended(__path__, __name__)
