"""How things are installed: shared by `make setup` (`tools/`), which has nothing but a bare Python, and by
`fencepost setup`, which installs foreign locks. So nothing in here imports more than the standard library."""
