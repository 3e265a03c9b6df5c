"""Layer 5: evaluate an encoder by linear probes and fine-tuning, with a leakage check."""
