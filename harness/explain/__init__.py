"""Explains findings: from a verdict and its record to one plain sentence.

`examples` finds the sections of an example. `evidence` collects what the nodes are known to have done, from what they
were asked (`replies`) and what the witness saw (`witnessed`). `node_replies` derives what each node replied to a
client, `nodes` what happened to it between two of them. `overlap` turns that into text, and `meeting` asks what else
explains it. The text states only what the record shows, and names what the record does not show.
"""
