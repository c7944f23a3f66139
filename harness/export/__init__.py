"""A recorded run in the formats of other tools: one format a file, whose `write` turns a run into bytes.

See docs/export.md for what each is good for and how to open it.
"""
