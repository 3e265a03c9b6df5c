"""Identifying content of files: its fields, patterns that find it, and pseudonyms in its place."""
