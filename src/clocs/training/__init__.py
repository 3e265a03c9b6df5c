"""Layer 4: the loop, its batches, its checkpoints and runs."""
