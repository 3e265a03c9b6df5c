"""Text in CSV files that people open in a spreadsheet, which runs a cell that begins like a formula."""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
"""How a formula begins, and how one begins that was made safe before."""
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def escape_cell(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula.

    An apostrophe goes before a formula, which spreadsheets understand as "this is text". A number stays a number.

    Example:
        >>> [escape_cell(text) for text in ("=1+1", "-aVR", "-1.5", "V2")]
        ["'=1+1", "'-aVR", '-1.5', 'V2']
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_cell(cell: str) -> str:
    """Return the text that ``escape_cell`` made a cell of.

    Example:
        >>> unescape_cell("'-aVR")
        '-aVR'
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def escape_json(line: str) -> str:
    """Return JSON in which no text holds a separator of cells, so that none of it begins a cell.

    Example:
        >>> escape_json('["AF,=1+1", -5]')
        '["AF\\\\u002c=1+1", -5]'
    """
    return _JSON_TEXT.sub(lambda text: text[0].replace(",", "\\u002c").replace(";", "\\u003b"), line)
