"""Names for files made of recordings: inside one folder, distinct, whatever a source calls them."""

from __future__ import annotations

from itertools import count
from pathlib import Path, PurePosixPath

from clocs.core.sources import without_ending
from clocs.formats.writing import Writer, plain_name

LONGEST, SHORTER = 180, 160
"""Bytes of a part of a path, and of one that a number follows; file systems take 255, and endings come on top."""


class FileNames:
    """Gives each recording a path of its own under a folder; the same names in the same order, the same paths."""

    def __init__(self, folder: Path, writer: Writer) -> None:
        self._folder = folder
        self._writer = writer
        self._taken: set[str] = set()

    def of_file(self, name: str, *, alone: bool = True) -> Path:
        """For a recording in a file of a source: its place is kept, its ending replaced.

        Not ``alone``: others differ from it in their endings, or in signs that the format does not take, so it keeps
        its own ending as well, whichever came first.
        """
        path = PurePosixPath(name)
        return self._free(path.parent.parts, without_ending(path.name) if alone else path.name, path.name)

    def of_record(self, record_id: str) -> Path:
        """For a recording of a store; slashes in its id make folders."""
        *folders, last = record_id.split("/")
        return self._free(folders, last, last)

    def written(self, name: str) -> str:
        """The parts of a name as file system and format take them."""
        *folders, last = (safe(part) for part in name.split("/"))
        return "/".join((*folders, plain_name(last) if self._writer.plain_names else last))

    def _free(self, folders: list[str] | tuple[str, ...], stem: str, whole: str) -> Path:
        """The stem where it is free, else the whole name, else that with a number."""
        parent = "/".join(safe(part) for part in folders if part)
        for number in count(0):
            name = stem if number == 0 else whole if number == 1 else f"{safe(whole, SHORTER)}-{number}"
            name = self.written(name)
            path = f"{parent}/{name}{self._writer.suffixes[0]}" if parent else name + self._writer.suffixes[0]
            if path not in self._taken:
                self._taken.add(path)
                break
        return self._folder / path


def safe(part: str, longest: int = LONGEST) -> str:
    """One part of a path that leads nowhere else and that file systems take."""
    printable = "".join(sign if sign.isprintable() and sign != "/" else "_" for sign in part)
    short = printable.encode(errors="replace")[:longest].decode(errors="ignore")
    return "_" if short in ("", ".", "..") else short
