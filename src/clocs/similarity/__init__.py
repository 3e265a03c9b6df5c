"""Search for similar patients: archives of embeddings, indexes, patient maps, patient groups and privacy audits."""
