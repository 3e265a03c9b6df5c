"""The exceptions of clocs. Each message says what is wrong, what is allowed and what to do."""

from __future__ import annotations

from typing import Self


class ClocsError(Exception):
    """Base class of all errors of this package."""

    code_hint: str = ""
    """Advice for Python users, appended to the message. Other interfaces show :attr:`message` without it."""

    def __str__(self) -> str:
        return f"{self.message} In code: {self.code_hint}." if self.code_hint else self.message

    @property
    def message(self) -> str:
        """Return the message without the advice for Python users."""
        return super().__str__()

    def with_code_hint(self, hint: str) -> Self:
        """Set the advice for Python users and return the error itself."""
        self.code_hint = hint
        return self


class FormatError(ClocsError):
    """A file cannot be read as an ECG, because it is damaged, malicious or of an unsupported format."""


class UnitError(ClocsError):
    """A signal has no values in millivolt, because its file states no gain."""


class LeadError(ClocsError):
    """A recording does not have a requested lead and cannot derive it."""


class SignalError(ClocsError):
    """A recording is not usable: faulty, out of scale, too short, or with swapped leads."""


class ConfigError(ClocsError):
    """An option, name or table of the user is invalid."""


class OptionError(ConfigError):
    """An option of a request is invalid. The message holds nothing confidential and can be sent to the client."""


class StoreError(ClocsError):
    """A store is missing, incomplete or locked, or cannot be written."""


class IntegrityError(StoreError):
    """The bytes of a file differ from the hash in its manifest."""


class ExistsError(StoreError):
    """An object that is never overwritten exists and has other bytes."""


class CacheFullError(StoreError):
    """The files that processes use leave no space for another one in the cache of this machine."""


class LeakError(ClocsError):
    """A split has the same patient or the same signal in two parts."""


class EngineError(ClocsError):
    """A task failed after all retries, or the engine could not start."""


class DownloadError(ClocsError):
    """A dataset could not be downloaded, or its checksum is wrong."""


class MissingExtraError(ClocsError):
    """An optional dependency is not installed.

    Args:
        extra: Name of the extra, as in ``pip install 'clocs[extra]'``.
        purpose: The feature that needs it, as the subject of a sentence.
    """

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the extra '{extra}'. Install it: pip install 'clocs[{extra}]'")
        self._arguments = (extra, purpose)

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return MissingExtraError, self._arguments  # unpickling calls the constructor with these


TRAIN_PACKAGES = frozenset({"torch", "lightning_fabric", "onnx", "onnxscript"})
"""Import names of the packages in the extra ``train``."""


def missing_train_extra(error: ModuleNotFoundError, purpose: str) -> MissingExtraError | None:
    """Return the error to raise if a package of the extra ``train`` is not installed.

    Args:
        error: The failed import.
        purpose: The feature that needs the package, as the subject of a sentence.

    Returns:
        The error, or None if the missing package is not in the extra ``train``.
    """
    package = (error.name or "").partition(".")[0]
    return MissingExtraError("train", purpose) if package in TRAIN_PACKAGES else None
