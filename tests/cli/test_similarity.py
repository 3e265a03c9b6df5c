"""``clocs similarity`` and ``clocs audit``: JSON, tables, pictures and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clocs
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("similarity") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 240, "leads": 4}))
    return folder


def test_several_encoders_are_scored_in_one_table(command: Command, store: Path) -> None:
    words = ("similarity", "score", "random,cmsc-chapman", store, "--part", "all", "--frames", "segments", "-k", 5)
    found = json.loads(command(*words, "--json")[0])
    assert list(found) == ["random", "cmsc-chapman"]
    macro = found["random"]["agreement"]["macro"]
    table, _ = command(*words)
    lines = [line for line in table.splitlines() if "precision at 5, macro" in line]
    assert len(lines) == 2
    assert "random" in lines[0]
    assert f"{macro['value']:.3f} ({macro['low']:.3f} to {macro['high']:.3f})" in lines[0]
    assert "another segment, rank 1 " in table
    assert "another recording, rank 10 " in table


def test_few_repeated_patients_are_listed(command: Command, store: Path) -> None:
    """The test part has under thirty patients, so each is told by name."""
    found = json.loads(command("similarity", "score", "random", store, "--json")[0])["random"]
    examples = found["retrieval"]["other_recordings"]["examples"]
    table, _ = command("similarity", "score", "random", store)
    for example in examples:
        assert f"patient {example['patient']}, other recordings" in table
    assert f"rank {examples[0]['rank']:g}" in table


def test_distances_are_printed_and_plotted(command: Command, store: Path, tmp_path: Path) -> None:
    words = ("similarity", "distances", "random", store)
    found = json.loads(command(*words, "--json", "--plot", tmp_path / "d.png")[0])["random"]
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")
    table, _ = command(*words)
    assert f"{found['intra']['mean']:.4g}" in table
    assert f"{found['separation']['value']:.3f}" in table


def test_a_map_is_a_picture_or_json(command: Command, store: Path, tmp_path: Path) -> None:
    out, _ = command("similarity", "map", "random", f"{store},{store}", "--part", "all")
    assert out.startswith("patient-map.png\n")
    assert (tmp_path / "patient-map.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "patient-map.png").unlink()
    found = json.loads(command("similarity", "map", "random", store, "--json")[0])
    assert len(found["points"]) == len(found["label"]) == len(found["age"])
    assert list(found["notes"]) == [str(store)]
    assert not list(tmp_path.iterdir()), "no picture was asked for"


def test_groups_are_a_table_and_a_picture(command: Command, store: Path, tmp_path: Path) -> None:
    words = ("similarity", "groups", "random", store, "--part", "all", "--min-group-size", 4)
    told = json.loads(command(*words, "--json")[0])
    found = told["groups"]
    assert sum(group["patients"] for group in found) == told["patients"] == 120
    table, _ = command(*words, "--plot", tmp_path / "g.svg")
    picture = (tmp_path / "g.svg").read_text()
    assert f"stability with half of the patients: {told['stability']:.2f}" in table
    for group in found:
        title = "no group" if group["number"] < 0 else f"group {group['number']}"
        assert title in table
        assert f"<!-- {title}, {group['patients']}: " in picture


def test_an_audit_as_json_and_as_a_table(command: Command, store: Path) -> None:
    found = json.loads(command("audit", "random", store, "--json")[0])
    assert found["membership"]["false_positives"] == 0.01
    assert found == json.loads(json.dumps(clocs.audit("random", store)))
    table, _ = command("audit", "random", store)
    assert f"{found['membership']['auc']['value']:.3f}" in table
    assert "note: Random weights" in table
    assert table.endswith("Embeddings are personal data, whatever the results.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audit", "nowhere", "{store}"), "neither a folder nor a shipped encoder"),
        (("audit", "random", "{store}", "--split", "none"), "no split 'none'"),
        (("audit", "random", "{store}", "--frames", "mine"), "Unknown frames 'mine'"),
        (("similarity", "score", "random", "{store}", "--part", "mine"), "got 'mine'"),
        (("similarity", "score", "random", "{store}", "-k", "0"), "Expected k from 1"),
        (("similarity", "score", ",", "{store}"), "Expected at least one name"),
        (("similarity", "map", "random", "{store}", "--method", "tsne"), "Unknown projection 'tsne'"),
        (("similarity", "groups", "random", "{store}", "--min-group-size", "1"), "got 1"),
        (("similarity", "distances", "random", "nowhere"), "nowhere"),
    ],
)
def test_mistakes_are_messages(arguments: tuple[str, ...], message: str, command: Command, store: Path) -> None:
    out, err = command(*(argument.format(store=store) for argument in arguments), code=1)
    assert message in " ".join(err.split())
    assert err.startswith("error: ")
    assert out == ""
