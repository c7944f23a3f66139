"""Scripted experiments: clients, nodes and links that are told what to do, step by step."""
