"""Findings that explain themselves: from a verdict and the record beside it to one sentence in plain words.

`cases` finds the sections of an example, `evidence` what the nodes are known to have done, `nodes` what each
of them said to the two and what happened to it in between, `sentences` puts that into words. Nothing is said that the
record does not show; what it does not show is said, too.
"""
