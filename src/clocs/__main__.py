"""``python -m clocs``."""

from clocs.cli.main import main

main()
