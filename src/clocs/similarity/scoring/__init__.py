"""Scores of embeddings: neighbour agreement, retrieval, distances and privacy audit."""
