"""The text of a PDF that matplotlib wrote, line by line, as far as it is Latin."""

from __future__ import annotations

import re
import zlib

STREAM = re.compile(rb"/FlateDecode.*?stream\r?\n(.*?)\r?\nendstream", re.DOTALL)
LINE = re.compile(rb"\nBT\n(.*?)\nET\n", re.DOTALL)
PIECE = re.compile(rb"\(((?:\\.|[^()\\])*)\)", re.DOTALL)
"""A line is written in pieces, with the space between them."""
ESCAPED = re.compile(rb"\\([()\\])")


def printed_text(pdf: bytes) -> str:
    """Return the lines of all pages."""
    contents = [zlib.decompress(stream) for stream in STREAM.findall(pdf)]
    lines = [b"".join(PIECE.findall(line)) for content in contents for line in LINE.findall(content)]
    return ESCAPED.sub(rb"\1", b"\n".join(lines)).decode("latin-1")
