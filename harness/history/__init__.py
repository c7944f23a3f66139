"""The recorded history as tables: sections, overlaps, fault windows, and what each node held when."""
