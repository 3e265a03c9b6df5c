"""Layer 5. Grids of resumable cells: each is computed once, by one process or many."""
