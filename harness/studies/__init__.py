"""The studies that come with fencepost and are played by name (`fencepost study NAME`), a folder each."""
