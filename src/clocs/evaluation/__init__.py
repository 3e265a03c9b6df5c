"""Using and judging an encoder: embeddings, linear evaluation, classifiers, the split contract."""
