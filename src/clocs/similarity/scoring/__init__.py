"""Scores of embeddings: neighbours, distances, and what they reveal."""
