"""Layer 5: judge an encoder: linear evaluation, fine-tuning, results, and the split contract."""
