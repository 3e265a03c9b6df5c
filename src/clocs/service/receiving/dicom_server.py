"""DICOM receiver: answers C-ECHO, and C-STORE of ECG waveforms once they are on disk."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from clocs.core.errors import ConfigError, MissingExtraError, StoreError
from clocs.core.privacy.pseudonyms import PatientKey
from clocs.service.receiving.spool import Spool

ECG_CLASSES: Final = (
    "1.2.840.10008.5.1.4.1.1.9.1.1",
    "1.2.840.10008.5.1.4.1.1.9.1.2",
    "1.2.840.10008.5.1.4.1.1.9.1.3",
)
"""SOP classes 12-lead ECG, General ECG and Ambulatory ECG Waveform Storage."""
VERIFICATION: Final = "1.2.840.10008.1.1"
TRANSFER_SYNTAXES: Final = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1")
"""Implicit and explicit little endian."""
SUCCESS, OUT_OF_RESOURCES, NOT_SUPPORTED = 0x0000, 0xA700, 0x0122
MAX_TITLE_LENGTH: Final = 16


@contextmanager
def dicom_server(
    spool: Spool, key: PatientKey, *, address: tuple[str, int], title: str, callers: Sequence[str], max_bytes: int
) -> Iterator[int]:
    """Receive ECGs by DICOM until the block ends.

    Other SOP classes, encapsulated PDF too, and senders that are not listed are refused during the association.

    Args:
        spool: Spool that keeps the files before success is answered.
        key: Key of the pseudonyms of instance UIDs.
        address: Host and port to listen on; port 0 selects a free one.
        title: Own AE title.
        callers: AE titles of the permitted senders.
        max_bytes: Maximum size of an instance.

    Yields:
        The port.

    Raises:
        ConfigError: A title is invalid, no sender is listed, or the address is in use.
        MissingExtraError: The package pynetdicom is not installed.
    """
    try:
        from pynetdicom import AE, evt
    except ImportError as error:
        raise MissingExtraError("dicom-network", "receiving by DICOM") from error
    if not callers or not all(0 < len(name) <= MAX_TITLE_LENGTH for name in (title, *callers)):
        raise ConfigError("Pass the AE titles of the permitted senders with --caller, 1 to 16 characters each.")
    logging.getLogger("pynetdicom").setLevel(logging.CRITICAL)  # its messages may quote what a sender typed
    entity = AE(ae_title=title)
    entity.require_called_aet = True
    entity.require_calling_aet = list(callers)
    entity.add_supported_context(VERIFICATION)
    for sop_class in ECG_CLASSES:
        entity.add_supported_context(sop_class, list(TRANSFER_SYNTAXES))

    def store(event: Any) -> int:
        if event.request.AffectedSOPClassUID not in ECG_CLASSES:
            return NOT_SUPPORTED
        try:
            content = event.encoded_dataset()  # a DICOM file; the data set is not decoded here
            if len(content) > max_bytes:
                return OUT_OF_RESOURCES
            spool.add(key.record(f"dicom\0{event.request.AffectedSOPInstanceUID}"), content)
        except (StoreError, OSError):
            return OUT_OF_RESOURCES
        return SUCCESS

    handlers: list[Any] = [(evt.EVT_C_ECHO, lambda event: SUCCESS), (evt.EVT_C_STORE, store)]
    try:
        server: Any = entity.start_server(address, block=False, evt_handlers=handlers)
    except OSError as error:
        raise ConfigError(f"Cannot listen on {address[0]}:{address[1]}: {error.strerror or error}.") from error
    try:
        yield server.socket.getsockname()[1]
    finally:
        server.shutdown()
