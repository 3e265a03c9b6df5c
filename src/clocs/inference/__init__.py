"""Layer 5: load an encoder; embed and classify recordings with it."""
