"""The reproduction of the CLOCS paper: its numbers, its grid of experiments, and the report."""
