"""Measurements of ECGs: rate, intervals and axes."""
