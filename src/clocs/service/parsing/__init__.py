"""Parsing of uploads in confined processes with limits on time, memory and file access."""
