"""Archives: embeddings of all recordings of a store, on disk."""
