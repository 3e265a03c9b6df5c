"""Functions that all sources of files share: names, the limit of a file's size, the order of files, and errors."""

from __future__ import annotations

from pathlib import Path

from clocs.core.errors import ConfigError, FormatError

MAX_FILE_BYTES = 1 << 30
"""Maximum size of a file, 1 GiB. No supported format needs more, and memory use stays bounded."""


def strip_extension(name: str) -> str:
    """Return the name of a file, with its folders, without its extension.

    Digits after the last dot are not an extension, because DICOM files are named by numbers with dots.

    Args:
        name: Name of a file.

    Returns:
        The name without its extension.

    Example:
        >>> strip_extension("ecgs/a.xml"), strip_extension("1.2.840.7")
        ('ecgs/a', '1.2.840.7')
    """
    stem, dot, extension = name.rpartition(".")
    return name if not dot or not stem or "/" in extension or stem.endswith("/") or extension.isdigit() else stem


def walk_order(name: str) -> list[tuple[bool, str]]:
    """Return a sort key that lists the files of a folder before its folders."""
    *folders, file = name.split("/")
    return [*((True, folder) for folder in folders), (False, file)]


def check_size(data: bytes, name: str) -> bytes:
    """Return the bytes of a file that is not too large to be read."""
    if len(data) > MAX_FILE_BYTES:
        raise FormatError(f"{name}: larger than {MAX_FILE_BYTES >> 20} MiB. Split it before reading.")
    return data


def not_found(name: str, path: str) -> FormatError:
    """Return the error for a name without a file."""
    return FormatError(f"{name}: no such file in {path}")


def read_error(path: str | Path, error: OSError) -> Exception:
    """Return a ``ConfigError`` for a missing permission, otherwise an ``OSError``, which engines retry."""
    message = f"{path}: cannot be read: {error.strerror or error}"
    if isinstance(error, PermissionError):
        return ConfigError(f"{message}. Give this user permission to read it, or move it out of the source.")
    return OSError(error.errno, message)
