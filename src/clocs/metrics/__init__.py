"""Layer 1: metrics of scores and probabilities, with intervals over patients. It does not import torch."""
