"""Decode the samples of a WFDB signal file, in the formats of signal(5) of the WFDB manual, and FLAC."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.recording import Digital, missing_value

FLAC_BITS = {508: 8, 516: 16, 524: 24}
CHUNK_FRAMES = 1 << 14
"""Number of frames that are decoded at once. An even number, because format 212 packs samples in pairs."""
SPARE_BYTES = 32 << 20
"""Number of bytes that compressed signals may take in addition to four times the size of their file."""


def decode(data: bytes, code: int, channels: int, num_samples: int | None, name: str) -> Digital:
    """Decode one signal file to shape (channels, samples).

    All samples in the file are returned, except padding after ``num_samples``. The quality gate compares their number
    with the header. The file is decoded in chunks, so memory stays close to the size of the result.
    """
    if code in FLAC_BITS:
        return _decode_flac(data, FLAC_BITS[code], channels, name)
    if code not in UNPACKERS:
        supported = sorted([*UNPACKERS, *FLAC_BITS])
        raise FormatError(f"{name}: WFDB signal format {code} is not supported; supported: {supported}")
    bits, dtype, unpack = UNPACKERS[code]
    frames = len(data) * 8 // bits // channels
    if num_samples and num_samples < frames and _is_padding(data[-(-num_samples * channels * bits // 8) :]):
        frames = num_samples
    digital: Digital = np.empty((channels, frames), dtype)
    for start in range(0, frames, CHUNK_FRAMES):
        stop = min(start + CHUNK_FRAMES, frames)
        chunk = data[start * channels * bits // 8 : -(-stop * channels * bits // 8)]
        digital[:, start:stop] = unpack(chunk)[: (stop - start) * channels].reshape(-1, channels).T
    return digital


def _is_padding(rest: bytes) -> bool:
    """Return whether bytes all have one value, or only fill up a packed sample."""
    return len(rest) <= 2 or rest.count(rest[:1]) == len(rest)


def _unpack_80(data: bytes) -> Digital:
    return _replace_missing_marker(np.frombuffer(data, np.uint8).astype(np.int16) - 128, -128)


def _unpack_24(data: bytes) -> Digital:
    triples = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int32)
    return _replace_missing_marker(
        ((triples[:, 2] << 24) | (triples[:, 1] << 16) | (triples[:, 0] << 8)) >> 8, -(2**23)
    )


def _unpack_212(data: bytes) -> Digital:
    """Unpack two 12-bit samples from three bytes. A last single sample takes two bytes."""
    padded = np.frombuffer(data + b"\0" * (-len(data) % 3), np.uint8).reshape(-1, 3).astype(np.int16)
    low = padded[:, 0] | ((padded[:, 1] & 0x0F) << 8)
    high = padded[:, 2] | ((padded[:, 1] & 0xF0) << 4)
    flat = np.stack([low, high], axis=1).reshape(-1)
    flat = np.where(flat > 2047, flat - 4096, flat).astype(np.int16)
    return _replace_missing_marker(flat[: len(data) * 2 // 3], -2048)


def _decode_flac(data: bytes, bits: int, channels: int, name: str) -> Digital:
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if file.format != "FLAC" or file.channels != channels:
                raise FormatError(f"{name}: {file.channels} channels of {file.format}, header says {channels} of FLAC")
            width = 2 if bits <= 16 else 4
            if file.frames * channels * width > 4 * len(data) + SPARE_BYTES:
                raise FormatError(
                    f"{name}: claims {file.frames} samples, more than {len(data)} bytes are trusted to hold"
                )
            values = file.read(dtype="int16" if width == 2 else "int32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{name}: damaged FLAC: {error}") from error
    if bits == 16:
        return np.asarray(values.T)
    return _replace_missing_marker(values.T >> (8 * width - bits), -(1 << (bits - 1)))


def _replace_missing_marker(values: npt.NDArray[np.int16 | np.int32], missing: int) -> Digital:
    """Replace the value that marks missing samples in the file by the value for the data type."""
    marked: Digital = np.where(values == missing, values.dtype.type(missing_value(values.dtype)), values)
    return marked


UNPACKERS: dict[int, tuple[int, type[np.signedinteger[Any]], Callable[[bytes], Digital]]] = {
    16: (16, np.int16, lambda data: np.frombuffer(data, "<i2")),
    24: (24, np.int32, _unpack_24),
    32: (32, np.int32, lambda data: np.frombuffer(data, "<i4")),
    61: (16, np.int16, lambda data: np.frombuffer(data, ">i2")),
    80: (8, np.int16, _unpack_80),
    212: (12, np.int16, _unpack_212),
}
"""Bits per sample, data type and unpacking function of each format."""


def signal_bytes(code: int, channels: int, num_samples: int) -> int | None:
    """Return the number of bytes of the samples in a signal file, or None if it is compressed."""
    return -(-num_samples * channels * UNPACKERS[code][0] // 8) if code in UNPACKERS else None
