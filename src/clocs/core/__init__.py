"""Layer 0: the types and services everything else stands on. Imports nothing of clocs above it."""
