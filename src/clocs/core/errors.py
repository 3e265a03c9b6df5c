"""Every error clocs raises on purpose. Each message says what was wrong, what is allowed, what to do."""

from __future__ import annotations

from typing import Self


class ClocsError(Exception):
    """Base of all errors of this package."""

    code_hint: str = ""
    """What a programmer writes to have it otherwise: the last words of the message, which others are spared."""

    def __str__(self) -> str:
        return f"{self.message} In code: {self.code_hint}." if self.code_hint else self.message

    @property
    def message(self) -> str:
        """The message for people who have no code before them."""
        return super().__str__()

    def with_code_hint(self, hint: str) -> Self:
        """The same error with such advice."""
        self.code_hint = hint
        return self


class FormatError(ClocsError):
    """A file cannot be read as an ECG: damaged, hostile, or of an unsupported form."""


class UnitError(ClocsError):
    """Millivolt were asked of a signal whose file gives no gain."""


class LeadError(ClocsError):
    """A lead was asked for that a recording neither holds nor can derive."""


class SignalError(ClocsError):
    """A recording is not fit for what was asked of it: faulty, out of scale, too short, its leads exchanged."""


class ConfigError(ClocsError):
    """An option, name or table of the user's is wrong."""


class OptionError(ConfigError):
    """An option of a question is wrong; the message holds nothing that whoever asked may not read."""


class StoreError(ClocsError):
    """A store is missing, unfinished, locked, or could not be written."""


class IntegrityError(StoreError):
    """Bytes of a store differ from what its manifest says."""


class LeakError(ClocsError):
    """A split puts one patient, or one signal, into two parts."""


class EngineError(ClocsError):
    """A task kept failing, or the machinery that runs tasks could not start."""


class DownloadError(ClocsError):
    """A dataset could not be fetched, or arrived with another checksum."""


class MissingExtraError(ClocsError):
    """An optional dependency is needed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the extra '{extra}'. Install it: pip install 'clocs[{extra}]'")
        self._given = (extra, purpose)

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return MissingExtraError, self._given  # else it could not leave the worker that raised it


TRAIN_PACKAGES = frozenset({"torch", "lightning_fabric", "onnx", "onnxscript"})
"""Packages of the extra ``train``."""


def missing_train_extra(error: ModuleNotFoundError, purpose: str) -> MissingExtraError | None:
    """Return the error to raise where a package of the extra ``train`` is not installed; None for other packages."""
    package = (error.name or "").partition(".")[0]
    return MissingExtraError("train", purpose) if package in TRAIN_PACKAGES else None
