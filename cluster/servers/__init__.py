"""The servers: one kind a file; FENCEPOST_PATH adds more (`fencepost.extensions`). The protocol is in
`cluster/server.py`."""

from fencepost.extensions import extended

__path__ = extended(__path__, __name__)
