"""Layer 3: one loss each."""
