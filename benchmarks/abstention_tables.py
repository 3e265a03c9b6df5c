"""Tables of the page on abstention, from ``results/abstention.json``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gate_effect import CLASSES
from page_tables import table


def _classes_rows(rows: dict[str, Any]) -> str:
    titles = ["signals", "recordings", "with classes before", "with classes now", "reasons"]
    return table(
        titles,
        [
            [
                name,
                str(row["recordings"]),
                str(row["before"]),
                str(row["now"]),
                ", ".join(f"{reason} {count}" for reason, count in sorted(row["reasons"].items())),
            ]
            for name, row in rows.items()
        ],
    )


def _ordinary_rows(rows: dict[str, Any]) -> str:
    titles = ["test patients of", "classes before", "classes now", "withheld", "AUC before", "AUC now", "reasons"]
    found = []
    for name, row in rows.items():
        counted = row["withheld_not_paced_or_child"]
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(row["reasons"].items()))
        areas = [f"{row['auc'][time]['macro']:.4f} ({row['auc'][time]['recordings']:,})" for time in ("before", "now")]
        shares = [f"{row['before']:,} of {row['recordings']:,}", f"{row['now']:,}"]
        found.append([name, *shares, f"{counted} ({counted / row['recordings']:.1%})", *areas, reasons])
    return table(titles, found)


def _auc_rows(rows: dict[str, Any]) -> str:
    found = []
    for name, row in rows.items():
        classes = [row["auc"][time]["classes"] for time in ("before", "now")]
        for label in CLASSES:
            if label in classes[0]:
                pairs = [(f"{one[label]['auc']:.4f}", f"{one[label]['recordings']}") for one in classes]
                found.append([name, label, pairs[0][1], pairs[0][0], pairs[1][1], pairs[1][0]])
    titles = ["test patients of", "class", "with the class", "AUC before", "with the class now", "AUC now"]
    return table(titles, found)


def _speed_rows(rows: dict[str, Any]) -> str:
    works = ("measuring", "gate, signal", "classes without the gate", "classes with the gate")
    found = [
        [name, str(row["recordings"]), *(f"{row[work]['median']:.0f} ({row[work]['p95']:.0f})" for work in works)]
        for name, row in rows.items()
    ]
    return table(["test recordings of", "recordings", *works], found)


def _share(count: int, total: int) -> str:
    return f"{count} of {total} ({count / max(1, total):.1%})"


def _paced_rows(title: str, found: dict[str, Any]) -> str:
    rows = [[name, _share(row["paced"], row["recordings"])] for name, row in found.items()]
    return table([title, "pacing spikes found"], rows)


def _quality_rows(found: dict[str, Any]) -> str:
    rows = []
    for name, row in found.items():
        either = row.get("rejected", 0) + row.get("leads_dropped", 0)
        shares = [_share(row.get(key, 0), row["recordings"]) for key in ("rejected", "leads_dropped")]
        rows.append([name, *shares, _share(either, row["recordings"])])
    return table(["quality by annotators", "rejected", "with leads left out", "either"], rows)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "no_ecg": lambda results: _classes_rows(results["no_ecg"]),
    "ordinary": lambda results: _ordinary_rows(results["ordinary"]),
    "auc": lambda results: _auc_rows(results["ordinary"]),
    "paced": lambda results: _paced_rows("PTB-XL, folds 9 and 10", results["paced"]),
    "paced_mitdb": lambda results: _paced_rows("MIT-BIH, parts of 10 s", results["paced_mitdb"]),
    "speed": lambda results: _speed_rows(results["speed"]),
    "quality": lambda results: _quality_rows(results["quality"]),
}
