"""Layer 1: what can be said and done with samples, whatever file they came from."""
