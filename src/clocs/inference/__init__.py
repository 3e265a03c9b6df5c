"""Layer 5: load a trained encoder; embed and classify recordings."""
