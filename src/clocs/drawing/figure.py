"""Figures: how one begins, and how it becomes a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.core.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """A white one of so many inches, that lays its parts out by itself."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "drawing") from error
    return Figure(figsize=(width, height), dpi=100, facecolor="white", layout="constrained")


def save_figure(figure: Figure, path: Path, dpi: int = 200) -> None:
    """Write a figure whole or not at all; the ending says the format (png, pdf, svg). Equal figures, equal bytes."""
    from matplotlib import rc_context

    ending = path.suffix.removeprefix(".").lower()
    dates: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    if ending not in dates:
        raise ConfigError(f"{path.name}: a picture's name must end in .png, .pdf or .svg")
    buffer = io.BytesIO()
    _show_dollars(figure)
    with rc_context({"svg.hashsalt": "clocs"}):
        figure.savefig(buffer, format=ending, dpi=dpi, metadata=dates[ending])
    write_bytes(path, buffer.getvalue())


def _show_dollars(figure: Figure) -> None:
    """Ids and labels are no formulas, whatever signs they hold; only matplotlib's own numbers at axes are."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text) and not text.get_text().startswith(r"$\mathdefault"):
            text.set_parse_math(False)
