"""Spool of received ECGs: durable from the moment a sender is told of success until they are in the store.

A received file lies in ``incoming`` under a pseudonym. Once parsed, it is a pseudonymous recording in ``parsed``, and
the file is removed. A file that cannot be parsed moves to ``refused``, for the operator. ``taken`` lists all names.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Final

from clocs.core.errors import StoreError
from clocs.core.recording import Recording
from clocs.core.storage.files import append_bytes, make_folders, remove_file, sync_file, write_bytes
from clocs.service.parsing.messages import HEAD, ParsedRecording, decode_recording, encode_recording, pack_message

TAKEN: Final = "taken"
FOLDERS: Final = ("incoming", "parsed", "refused")


class Spool:
    """Folder of received ECGs, used by one process. Its methods may be called from several threads.

    Args:
        folder: The folder. It is created, readable only by its owner.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in FOLDERS:
            make_folders(folder / name)
        os.chmod(folder, 0o700)
        self._lock = threading.Lock()
        listed = (folder / TAKEN).read_text().split() if (folder / TAKEN).exists() else []
        self._taken = {name for name in listed if len(name) == len(listed[0])}  # a killed process may cut the last

    def __contains__(self, name: str) -> bool:
        return name in self._taken or (self.folder / "incoming" / name).exists()

    def add(self, name: str, content: bytes) -> bool:
        """Keep a received file. When this returns, it survives a power loss.

        Args:
            name: Pseudonym of the file. A name that was taken before is not taken again.
            content: Bytes of the file.

        Returns:
            True if the file is new.

        Raises:
            StoreError: The file cannot be written.
        """
        with self._lock:
            if name in self:
                return False
            write_bytes(self.folder / "incoming" / name, content)
            return True

    def names(self, folder: str) -> list[str]:
        """Return the names of the complete files in ``incoming``, ``parsed`` or ``refused``."""
        return sorted(path.name for path in (self.folder / folder).iterdir() if "." not in path.name)

    def read(self, name: str) -> bytes:
        """Return the bytes of a received file."""
        return (self.folder / "incoming" / name).read_bytes()

    def finish(self, name: str, recording: Recording) -> None:
        """Replace a received file by its pseudonymous recording."""
        metadata, raw = encode_recording(recording, recording.seconds, with_patient=True, with_time=True)
        write_bytes(self.folder / "parsed" / name, pack_message(metadata, len(raw)) + raw)
        self._leave(name)

    def refuse(self, name: str, reason: str) -> None:
        """Move a received file to ``refused``, and note the reason, which names no one."""
        write_bytes(self.folder / "refused" / name, self.read(name))
        append_bytes(self.folder / "refused.jsonl", json.dumps({"name": name, "reason": reason}).encode() + b"\n")
        self._leave(name)

    def _leave(self, name: str) -> None:
        """Note that a file was taken, then remove it from ``incoming``."""
        with self._lock:
            if name not in self._taken:
                append_bytes(self.folder / TAKEN, f"{name}\n".encode())
                sync_file(self.folder / TAKEN)
                self._taken.add(name)
            remove_file(self.folder / "incoming" / name)

    def remove_parsed(self, name: str) -> None:
        """Remove a recording that is in the store."""
        remove_file(self.folder / "parsed" / name)


def read_parsed(path: Path) -> Recording:
    """Read a recording of ``parsed``. Its patient id is a pseudonym, or empty.

    Raises:
        StoreError: The file is damaged.
    """
    raw = path.read_bytes()
    length, _ = HEAD.unpack_from(raw)
    try:
        metadata = ParsedRecording.model_validate_json(raw[HEAD.size : HEAD.size + length])
    except ValueError as error:
        raise StoreError(f"{path}: damaged. Remove it, and send the ECG again.") from error
    return decode_recording(metadata, raw[HEAD.size + length :])
