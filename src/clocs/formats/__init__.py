"""Layer 1: one file format each, bytes to ``Recording``; found by content, never by extension."""

from clocs.formats.reading import FORMATS, Format, read, read_from

__all__ = ["FORMATS", "Format", "read", "read_from"]
