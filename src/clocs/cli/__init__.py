"""Layer 7: the command line, one file a command group, no logic."""
