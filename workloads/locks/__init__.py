"""The locks that come with fencepost: one a file; FENCEPOST_PATH adds more (`fencepost.extensions`)."""

from fencepost.extensions import extended

__path__ = extended(__path__, __name__)
