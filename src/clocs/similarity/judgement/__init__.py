"""What embeddings are worth, and what they give away."""
