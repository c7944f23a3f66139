"""Scripted experiments: a script controls clients, nodes and links step by step."""
