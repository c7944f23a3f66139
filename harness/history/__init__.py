"""The recorded history in tables: sections, overlaps, fault windows, and what the nodes held when."""
