"""Scores of embeddings: neighbor agreement, retrieval, distances and privacy audit."""
