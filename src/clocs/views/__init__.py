"""Layer 3: augmentations, segments and leads to batches."""
