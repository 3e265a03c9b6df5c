"""Benchmark of encoders: recording features, linear probes and untrained controls."""
