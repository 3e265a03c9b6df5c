"""Layer 6: publish an encoder with its classifiers and a model card."""
