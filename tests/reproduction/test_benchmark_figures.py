"""Figures of the benchmark by labels and by leads."""

from __future__ import annotations

from typing import Any

import pytest

from reproduction.report.benchmark_figures import benchmark_figures


def _cell(name: str, by_fraction: dict[float, float], leads: tuple[str, ...] = ()) -> dict[str, Any]:
    cell = {"dataset": "physionet2020", "task": "cpsc2018", **({"leads": list(leads)} if leads else {})}
    rows = [
        {
            "features": features,
            "selection": selection,
            "label_fraction": fraction,
            "macro": {"auc": {"value": auc + other, "low": auc + other - 0.01, "high": auc + other + 0.01}},
        }
        for fraction, auc in by_fraction.items()
        for features, selection, other in (
            ("embedding", "validation", 0.0),
            ("embedding, PCA", "validation", -0.2),
            ("embedding", "cross-validation", -0.3),
        )
    ]
    return {"cell": cell, "encoder": {"name": name}, "task": {"kind": "multi-label"}, "rows": rows}


def _drawn(figure: Any) -> dict[str, Any]:
    """Lines by their name in the legend."""
    (axes,) = figure.axes
    handles, names = axes.get_legend_handles_labels()
    return {name: handle[0] for name, handle in zip(names, handles, strict=True)}


def _lines(figure: Any) -> dict[str, list[float]]:
    """Values of each line by its name in the legend."""
    return {name: [float(value) for value in line.get_ydata()] for name, line in _drawn(figure).items()}


def test_embeddings_are_drawn_by_labels_and_by_leads() -> None:
    cells = [
        _cell("trained", {0.01: 0.7, 1.0: 0.9}),
        _cell("control", {0.01: 0.6, 1.0: 0.8}),
        _cell("trained, lead I", {1.0: 0.75}, ("I",)),
        _cell("trained, leads I, II", {1.0: 0.85}, ("I", "II")),
    ]
    by_labels, by_leads = benchmark_figures(cells)
    assert by_labels[0] == "figure-labels-physionet2020-cpsc2018"
    assert _lines(by_labels[1]) == {"trained": [0.7, 0.9], "control": [0.6, 0.8]}
    assert by_leads[0] == "figure-leads-physionet2020-cpsc2018"
    (axes,) = by_leads[1].axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["all leads", "leads I, II", "lead I"]
    assert _lines(by_leads[1]) == {"trained": pytest.approx([0.9, 0.85, 0.75])}, "the control has no fewer leads"


def test_an_encoder_has_one_color_in_all_figures() -> None:
    cells = [
        _cell("a", {0.1: 0.7, 1.0: 0.9}),
        _cell("b", {0.1: 0.6, 1.0: 0.8}),
        _cell("b, lead I", {1.0: 0.75}, ("I",)),
    ]
    colors = [
        {name: line.get_color() for name, line in _drawn(figure).items()} for _, figure, _ in benchmark_figures(cells)
    ]
    by_labels, by_leads = colors
    assert by_labels["a"] != by_labels["b"]
    assert by_leads == {"b": by_labels["b"]}, "also where it is the only line"


def test_one_share_of_labels_has_no_figure() -> None:
    assert benchmark_figures([_cell("trained", {1.0: 0.9})]) == []
    other = _cell("trained", {0.1: 30.0, 1.0: 20.0})
    assert benchmark_figures([other | {"task": {"kind": "regression"}}]) == []
