"""Layer 6. Reproducing the paper: its numbers, the grid, the report."""
