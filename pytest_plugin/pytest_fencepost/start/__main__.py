"""`python …/pytest_fencepost/start package.module:Class` calls the author's lock for one client of a run.

The folder is started as a program because Python then looks for modules here first, where nothing else is, and not in
the current folder: the lock is found as pytest finds it.
"""

from pytest_fencepost.adapter.main import main

main()
