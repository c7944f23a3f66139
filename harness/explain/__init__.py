"""Explains findings: from a verdict and its record to one plain sentence.

`cases` finds the sections of an example. `evidence` collects what the nodes are known to have done. `nodes` derives
what each node replied to the two clients and what happened to it in between. `sentences` turns that into text. The text
states only what the record shows, and names what the record does not show.
"""
