"""Patients like this one: embeddings of an archive, search in it, maps and groups, and what it gives away."""
