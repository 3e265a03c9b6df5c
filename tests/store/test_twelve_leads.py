"""Tasks and published splits on the full twelve-lead data, counted again with pandas."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clocs
from clocs.datasets.ptbxl import PTBXL
from clocs.signals.quality import GATE_OFF
from clocs.store.splits import PARTS

COUNTS = {
    "all": (17418, 2183, 2198),
    "diagnostic": (17088, 2147, 2159),
    "sub": (17088, 2147, 2159),
    "super": (17088, 2147, 2159),
    "form": (7200, 901, 881),
    "rhythm": (16832, 2100, 2098),
}
"""Recordings of folds 1-8, 9 and 10 in each task."""


def twelve_leads(name: str) -> Path:
    """Return the folder of a dataset with twelve leads, or skip the test."""
    folder = Path(os.environ.get("CLOCS_TWELVE", "missing")) / name
    if not folder.exists():
        pytest.skip(f"no twelve-lead data: set CLOCS_TWELVE to the folder that has {name}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder", "refused", "parts"),
    [
        ("physionet2020", "cpsc2018", {}, {"train": 4401, "validation": 1099, "test": 1374, "unused": 3}),
        ("chapman", "chapman", {"flat": 40}, {"train": 6358, "validation": 2119, "test": 2120, "unused": 9}),
    ],
)
def test_twelve_leads_take_the_parts_of_the_four(
    name: str, folder: str, refused: dict[str, int], parts: dict[str, int], tmp_path: Path
) -> None:
    """Only recordings that are zero throughout are left out. Those that the four-lead store refused are unused."""
    store = clocs.ingest(name, twelve_leads(folder), tmp_path / "store", gate=GATE_OFF, workers=2)
    assert store.manifest.quarantined == refused
    assert clocs.split_published(store, "clocs").metadata["records"] == parts


@pytest.mark.slow
def test_tasks_of_ptbxl_agree_with_pandas(tmp_path: Path) -> None:
    source, options = twelve_leads("ptbxl"), {"sampling_rate": "100"}
    store = clocs.ingest("ptbxl", source, tmp_path / "store", gate=GATE_OFF, options=options, workers=2)
    split = clocs.split_published(store, "folds")
    table = pd.read_csv(source / "ptbxl_database.csv", index_col="ecg_id")
    table = table.loc[[int(name.partition("_")[0]) for name in store.table("record_id").column(0).to_pylist()]]
    codes = table["scp_codes"].map(lambda text: set(ast.literal_eval(text)))
    statements = pd.read_csv(source / "scp_statements.csv", index_col=0)
    parts = pd.cut(table["strat_fold"], [0, 8, 9, 10], labels=PARTS[:3])
    for name, counts in COUNTS.items():
        targets = clocs.task_targets(store, name)
        if name in ("sub", "super"):
            column = {"sub": "diagnostic_subclass", "super": "diagnostic_class"}[name]
            group_of = statements.loc[statements["diagnostic"] == 1, column].to_dict()
        else:
            group_of = {code: code for code in statements.index if name == "all" or statements.loc[code, name] == 1}
        groups = codes.map(lambda found, of=group_of: {of[code] for code in found if code in of})
        expected = np.array([[each in found for each in targets.classes] for found in groups])
        np.testing.assert_array_equal(targets.truth, expected)
        assert set(group_of.values()) == set(targets.classes)
        assert tuple(int(((parts == part).to_numpy() & expected.any(axis=1)).sum()) for part in PARTS[:3]) == counts
        assert tuple(targets.count(split.mask(part)) for part in PARTS[:3]) == counts
    assert clocs.task_targets(store, "age").count() == int(table["age"].notna().sum())
    assert clocs.task_targets(store, "sex").positives() == {"female": int((table["sex"] == 1).sum())}
    assert set(PTBXL.tasks) == {*COUNTS, "age", "sex"}
