"""Tables of the docs page on measurements, between markers in the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from measurement_files import COMPARED, differences
from page_tables import table, write_tables

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "measurements.md"
MARKS = {
    "p_onset": "start of P",
    "p_offset": "end of P",
    "qrs_onset": "start of QRS",
    "qrs_offset": "end of QRS",
    "t_offset": "end of T",
}
VALUES = {
    "heart_rate": "heart rate, /min",
    "p_duration": "P, ms",
    "pr_interval": "PR, ms",
    "qrs_duration": "QRS, ms",
    "qt_interval": "QT, ms",
    "qtc_bazett": "QTc (Bazett), ms",
    "qrs_axis": "QRS axis, degrees",
    "t_axis": "T axis, degrees",
}
FILE_VALUES = {
    "heart_rate": "rate",
    "pr_interval": "PR",
    "qrs_duration": "QRS",
    "qt_interval": "QT",
    "qtc_bazett": "QTc",
}


def write_page(results: dict[str, Any]) -> None:
    """Replace the tables of the page."""
    write_tables(PAGE, {name: make(results) for name, make in TABLES.items()})


def _ludb(results: dict[str, Any]) -> str:
    part = results["ludb"]["even"]
    rows = []
    for name, title in MARKS.items():
        row = part[name]
        beats, records = row["beats"], row["records"]
        measured = f"{records['n']} of {row['records_with_reference']}"
        spread = [f"{beats['sd']:.1f}", f"{records['sd']:.1f}", f"{row['cse_sd']:.1f}", f"{row['scatter']:.1f}"]
        rows.append([title, measured, f"{beats['bias']:+.1f}", *spread])
    titles = [
        "mark",
        "records measured",
        "bias",
        "SD over beats",
        "SD over records",
        "CSE limit of SD",
        "scatter of leads",
    ]
    return table(titles, rows)


def _chapman(results: dict[str, Any]) -> str:
    rows = []
    for name, title in VALUES.items():
        for group, row in results["chapman"].get(name, {}).items():
            shares = [f"{100 * row[key]:.0f} %" for key in ("within_10", "within_20")] if row["n"] else ["", ""]
            count = f"{row['n']:,} of {row['recordings']:,}"
            rows.append([title, group, count, f"{row['bias']:+.1f}", f"{row['sd']:.1f}", *shares])
    return table(["value", "rhythm", "measured", "bias", "SD", "within 10", "within 20"], rows)


def _mitdb(results: dict[str, Any]) -> str:
    found = results["mitdb"]
    worst = sorted(found["records"].items(), key=lambda item: -(item[1]["missed"] + item[1]["extra"]))[:6]
    rows = [[name, *(f"{row[key]:,}" for key in ("beats", "missed", "extra"))] for name, row in worst]
    missed, extra = (sum(row[key] for row in found["records"].values()) for key in ("missed", "extra"))
    rows.append(["all 48", f"{found['beats']:,}", f"{missed:,}", f"{extra:,}"])
    records = table(["record", "beats", "missed", "extra"], rows)
    sensitivity, ppv = (f"{100 * found[key]:.2f} %" for key in ("sensitivity", "ppv"))
    return f"Sensitivity {sensitivity}, positive predictive value {ppv}.\n\n{records}"


def _synthetic(results: dict[str, Any]) -> str:
    rows = []
    for name, title in VALUES.items():
        if row := results["synthetic"].get(name):
            shares = [f"{100 * row[key]:.0f} %" for key in ("within_10", "within_20")]
            rows.append([title, str(row["n"]), f"{row['bias']:+.1f}", f"{row['sd']:.1f}", *shares])
    return table(["value", "measured", "bias", "SD", "within 10", "within 20"], rows)


def _absent(results: dict[str, Any]) -> str:
    rows = [
        [name, str(row["recordings"]), str(row["with_rate"]), str(row["with_interval"])]
        for name, row in results["absent"].items()
    ]
    parts = [results["ludb"][part]["without_p"] for part in ("odd", "even")]
    count, given = sum(part["records"] for part in parts), sum(len(part["with_pr"]) for part in parts)
    rows.append(["LUDB records without P waves: PR", str(count), "", str(given)])
    for rhythm, title in (("AFIB", "atrial fibrillation"), ("AF", "atrial flutter")):
        row = results["chapman"]["pr_given"][rhythm]
        share = round(row["share"] * row["recordings"])
        rows.append([f"Chapman test patients with {title}: PR", str(row["recordings"]), "", str(share)])
    return table(["recordings", "number", "with a heart rate", "with the interval"], rows)


def _files(results: dict[str, Any]) -> str:
    rows = []
    for row in results["files"]:
        cells = [_beside(row, (name,)) for name in FILE_VALUES]
        rows.append([f"`{row['file']}`", *cells, _beside(row, ("qrs_axis", "t_axis"))])
    return table(["file", *(title for title in FILE_VALUES.values()), "QRS, T axis"], rows)


def _beside(row: dict[str, Any], names: tuple[str, ...]) -> str:
    """Return our values and those of the file; a line for each that is missing."""
    ours, stated = ([values.get(name) for name in names] for values in (row["ours"], row["stated"]))
    if all(value is None for value in stated):
        return ""
    return " / ".join(", ".join("-" if value is None else f"{value:.0f}" for value in side) for side in (ours, stated))


def _file_errors(results: dict[str, Any]) -> str:
    rows = []
    for name in COMPARED:
        found = np.array(differences(results["files"], name))
        stated = sum(name in row["stated"] for row in results["files"])
        shares = [f"{(np.abs(found) <= limit).sum()}" for limit in (10, 20)]
        largest = f"{found[np.argmax(np.abs(found))]:+.0f}"
        rows.append([VALUES[name], f"{len(found)} of {stated}", f"{np.median(found):+.0f}", *shares, largest])
    return table(["value", "measured", "median difference", "within 10", "within 20", "largest"], rows)


def _speed(results: dict[str, Any]) -> str:
    found = results["chapman"]
    return (
        f"{found['processor_ms']:.0f} ms of processor time for a recording of twelve leads and 10 s at 500 Hz (mean of "
        f"{found['recordings']:,}, one thread of a shared machine)."
    )


TABLES = {
    "ludb": _ludb,
    "chapman": _chapman,
    "mitdb": _mitdb,
    "synthetic": _synthetic,
    "absent": _absent,
    "files": _files,
    "file-errors": _file_errors,
    "speed": _speed,
}
