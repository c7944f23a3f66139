"""The languages that a foreign lock may be written in: one a file, with a `LANGUAGE` (`workloads.languages.base`);
FENCEPOST_PATH adds more (`fencepost.extensions`)."""

from fencepost.extensions import extended

__path__ = extended(__path__, __name__)
