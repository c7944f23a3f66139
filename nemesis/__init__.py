"""What goes wrong: one kind of fault a file; FENCEPOST_PATH adds more (`fencepost.extensions`)."""

from fencepost.extensions import extended

__path__ = extended(__path__, __name__)
