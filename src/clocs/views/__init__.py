"""Layer 3: perturbations, segments and leads to batches."""
