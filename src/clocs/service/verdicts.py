"""Verdicts of users on classes, one JSON line each, without signal or identity, and their export as labels."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from clocs.core.errors import FormatError
from clocs.core.storage.files import write_bytes
from clocs.service.audit_log import AuditLog

Verdict = Literal["present", "absent"]
MAX_RESULTS: Final = 10_000
"""Maximum number of results that can be reported on; the oldest are forgotten."""
LABEL_COLUMNS: Final = ("request_id", "encoder_sha256", "classifier", "class", "probability", "label")


@dataclass(frozen=True)
class Result:
    """Classes that a request was answered with."""

    encoder_sha256: str
    classifier: str
    probabilities: dict[str, float]


class Verdicts:
    """Recent results in memory, and a file of the verdicts on them.

    The file is opened for each verdict, so it may be renamed at any time. It is created by the first one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._results: OrderedDict[str, Result] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, request_id: str, result: Result) -> None:
        """Keep a result, so that a user can report on it."""
        with self._lock:
            self._results[request_id] = result
            if len(self._results) > MAX_RESULTS:
                self._results.popitem(last=False)

    def write(self, request_id: str, name: str, verdict: Verdict) -> bool:
        """Append the verdict on a class of a request.

        Returns:
            False if the service does not know the request, or it was not answered with this class.

        Raises:
            AuditError: The line was not written.
        """
        with self._lock:
            result = self._results.get(request_id)
        if result is None or name not in result.probabilities:
            return False
        log = AuditLog(self._path)
        try:
            log.write(
                request_id=request_id,
                encoder_sha256=result.encoder_sha256,
                classifier=result.classifier,
                **{"class": name},
                probability=result.probabilities[name],
                verdict=verdict,
            )
        finally:
            log.close()
        return True


def export_labels(verdicts: Path, out: Path) -> int:
    """Write the verdicts of a service as labels: a CSV file with one row for each class of a request.

    Of several verdicts on the same class of a request, the last one counts. Lines that were cut off by a full disk are
    left out.

    Args:
        verdicts: File of the service, ``verdicts.jsonl`` beside its audit log.
        out: CSV file to write. The label is 1 for present and 0 for absent.

    Returns:
        Number of labels.

    Raises:
        FormatError: The file cannot be read, or has no verdict.
    """
    try:
        lines = verdicts.read_bytes().splitlines()
    except OSError as error:
        raise FormatError(f"{verdicts} cannot be read: {error.strerror}.") from error
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        row = _row(line)
        if row is not None:
            found[row["request_id"], row["class"]] = row
    if not found:
        raise FormatError(f"{verdicts} has no verdicts. Expected the file verdicts.jsonl beside a service's audit log.")
    text = io.StringIO()
    writer = csv.DictWriter(text, LABEL_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found.values())
    write_bytes(out, text.getvalue().encode())
    return len(found)


def _row(line: bytes) -> dict[str, Any] | None:
    """Return the row of a line, or None if it is cut off."""
    try:
        fields = json.loads(line)
        label = {"present": 1, "absent": 0}[fields["verdict"]]
        return {**{name: fields[name] for name in LABEL_COLUMNS[:-1]}, "label": label}
    except (ValueError, KeyError, TypeError):
        return None
