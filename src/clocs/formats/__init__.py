"""Readers and writers of ECG file formats. Files are recognized by their content, never by their extension."""

from clocs.formats.reading import FORMATS, Format, read, read_from

__all__ = ["FORMATS", "Format", "read", "read_from"]
