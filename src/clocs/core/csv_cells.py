"""Escape text for CSV files, because spreadsheets execute cells that begin like a formula."""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
"""Beginning of a formula, or of one that is already escaped."""
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def escape_cell(text: str) -> str:
    """Return text as a cell that spreadsheets do not execute as a formula.

    An apostrophe before a formula marks it as text. Numbers are not changed.

    Args:
        text: Text of the cell.

    Returns:
        The text, with a leading apostrophe where it begins like a formula.

    Example:
        >>> [escape_cell(text) for text in ("=1+1", "-aVR", "-1.5", "V2")]
        ["'=1+1", "'-aVR", '-1.5', 'V2']
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_cell(cell: str) -> str:
    """Return the text of a cell that :func:`escape_cell` wrote.

    Args:
        cell: A cell of a CSV file.

    Returns:
        The text without the escaping apostrophe.

    Example:
        >>> unescape_cell("'-aVR")
        '-aVR'
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def escape_json(line: str) -> str:
    """Replace commas and semicolons within JSON strings by escapes, so that no part of a string begins a cell.

    Args:
        line: JSON.

    Returns:
        JSON with the same values.

    Example:
        >>> escape_json('["AF,=1+1", -5]')
        '["AF\\\\u002c=1+1", -5]'
    """
    return _JSON_TEXT.sub(lambda text: text[0].replace(",", "\\u002c").replace(";", "\\u003b"), line)
