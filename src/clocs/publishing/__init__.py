"""Layer 6: publish an encoder with classifiers and a model card."""
