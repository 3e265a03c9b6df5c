"""Create and save figures, and the colors and line styles that they share."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.core.storage.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Colors of Okabe and Ito, which color-blind people can distinguish."""
LINE_STYLES: Final = ("-", "--", ":")
"""Line styles, which change when all colors are used."""
INK, GRAY = "#14324f", "#b9b9b9"
"""Colors of main lines and of reference lines."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty white figure with automatic layout.

    Args:
        width: Width in inches.
        height: Height in inches.

    Returns:
        The figure.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "drawing") from error
    return Figure(figsize=(width, height), dpi=100, facecolor="white", layout="constrained")


def save_figure(figure: Figure, path: Path, dpi: int = 200) -> None:
    """Write a figure to a file atomically. Equal figures give equal bytes.

    Args:
        figure: The figure.
        path: File with the extension .png, .pdf or .svg.
        dpi: Resolution of a PNG in dots per inch.

    Raises:
        ConfigError: The file has another extension.
    """
    from matplotlib import rc_context

    extension = path.suffix.removeprefix(".").lower()
    metadata: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    if extension not in metadata:
        raise ConfigError(f"{path.name}: unknown image format. Use the extension .png, .pdf or .svg.")
    buffer = io.BytesIO()
    _disable_math(figure)
    with rc_context({"svg.hashsalt": "clocs"}):
        figure.savefig(buffer, format=extension, dpi=dpi, metadata=metadata[extension])
    write_bytes(path, buffer.getvalue())


def _disable_math(figure: Figure) -> None:
    """Show dollar signs in ids and labels as text. Only numbers of axes, which Matplotlib writes, are formulas."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if isinstance(text, Text) and not text.get_text().startswith(r"$\mathdefault"):
            text.set_parse_math(False)
