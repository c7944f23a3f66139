"""Explains findings: from a verdict and its record to one plain sentence.

`cases` finds the sections of an example. `evidence` collects what the nodes are known to have done, from what they were
asked (`replies`) and what the witness saw (`witnessed`). `node_replies` derives what each node replied to a client,
`nodes` what happened to it between two of them. `sentences` turns that into text. The text states only what the record
shows, and names what the record does not show.
"""
