"""A second judge, slow and plain: Python's standard library and nothing of the product.

It was written from docs/verdicts.md, docs/run-folder.md and the two docstrings that describe the files
(fencepost/history.py and harness/store/run_folder.py). Everything is a list and a loop over all pairs, so that it can
be read next to the document, sentence by sentence. Where the two judges disagree, one of them or the document is wrong.
"""

from tests.peers.plain_judge.folder import DamagedError
from tests.peers.plain_judge.verdict import Judgement, judge

__all__ = ["DamagedError", "Judgement", "judge"]
