"""``clocs evaluate``: JSON, tables and messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clocs
from clocs.cli.evaluate import _show
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 80, "leads": 4}))
    return folder


def test_a_probe_as_json_and_as_a_table(command: Command, store: Path) -> None:
    words = ("evaluate", "probe", "random", store, "--label-fraction", 1, "--representation", "frames")
    out, err = command(*words, "--json")
    found = json.loads(out)
    assert err == ""
    interval = found["test"]["frame"]["auc"]
    assert 0 < interval["low"] < interval["value"] < interval["high"] < 1
    assert found["already_finished"] is False

    table, _ = command(*words)
    lines = [line.split() for line in table.splitlines()]
    assert [line[2] for line in lines if line[1:2] == ["per"]] == ["frame,", "recording,", "patient,"]
    classes = found["test"]["recording"]["classes"]
    assert [line[1] for line in lines if line[3:4] == ["recordings"]] == sorted(f"{name}," for name in classes)
    assert f"{interval['value']:.3f} ({interval['low']:.3f} to {interval['high']:.3f})" in table
    assert f"SR, {classes['SR']['positives']} recordings" in table
    assert table.endswith(f"Stored in {found['run']}\n")


def test_groups_of_columns_are_scored(command: Command, store: Path) -> None:
    words = ("evaluate", "probe", "random", store, "--label-fraction", 1, "--subgroups", "sex, age")
    found = json.loads(command(*words, "--json")[0])["subgroups"]
    by_sex = sum(values["recordings"] for name, values in found.items() if not name.startswith("age"))
    assert by_sex == sum(values["recordings"] for name, values in found.items() if name.startswith("age"))
    assert f"female, {found['female']['recordings']} recordings: too few recordings" in command(*words)[0]
    assert "Unknown column ward" in command(*words[:-1], "ward", code=1)[1]


def test_label_options_exclude_each_other(command: Command, store: Path) -> None:
    words = ("evaluate", "probe", "random", store, "--num-labelled-patients", 3, "--label-fraction", 0.25)
    assert "--label-fraction and --num-labelled-patients exclude each other" in command(*words, code=1)[1]


def test_what_is_undefined_is_a_dash_and_names_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"value": None, "low": None, "high": None}
    perfect = {"value": 1.0, "low": None, "high": None}
    of_class = {"auc": nothing, "average_precision": perfect, "calibration_error": 0.25, "positives": 0}
    level = {**of_class, "rows": 1234, "classes": {"[red]AF[/red]": of_class}}
    long = "/a/" + 300 * "b" + "/[run]"
    found: dict[str, Any] = {"test": dict.fromkeys(("patient", "recording", "frame"), level), "notes": ["so"]}
    _show({**found, "run": long}, as_json=False)
    out = capsys.readouterr().out
    assert "[red]AF[/red], 0" in out
    assert [cell.strip() for cell in out.split("per patient")[1].splitlines()[0].split("│")[1:4]] == [
        "-",
        "1.000",
        "0.250",
    ]
    assert out.endswith(f"note: so\nStored in {long}\n")


def test_fine_tuning_and_a_comparison(command: Command, store: Path) -> None:
    words = ("finetune", "random", store, "--max-epochs", 1, "--batch-size", 16, "--json")
    tuned = json.loads(command("evaluate", *words)[0])
    assert tuned["training"]["epochs"] == 1
    assert json.loads(command("evaluate", *words)[0])["already_finished"] is True
    probed = json.loads(command("evaluate", "probe", "random", store, "--json")[0])
    out, _ = command("evaluate", "compare", tuned["run"], f"{probed['run']},{probed['run']}", "--json")
    found = json.loads(out)
    values = [one["test"]["patient"]["auc"]["value"] for one in (tuned, probed)]
    assert found["patient"]["value"] == pytest.approx(values[0] - values[1], abs=1e-9)
    assert found["patient"]["low"] < found["patient"]["value"] < found["patient"]["high"]
    out, _ = command("evaluate", "compare", tuned["run"], tuned["run"])
    title, *lines = out.splitlines()
    assert title == "AUC of the first minus AUC of the second, with 95 % intervals over patients"
    assert [line.split() for line in lines] == [
        ["per", level, "+0.0000", "(+0.0000", "to", "+0.0000)"] for level in ("frame", "recording", "patient")
    ]


def test_labels_of_a_few_patients(command: Command, store: Path) -> None:
    few = ("--num-labelled-patients", 4, "--json")
    told = ("--max-epochs", 1, "--batch-size", 4, "--passes-per-epoch", 2, "--monitor", "auc", "--optimizer", "adamw")
    probed = json.loads(command("evaluate", "probe", "random", store, *few)[0])
    assert probed["patients"]["train"] == 4
    assert probed["notes"][0].startswith("no labelled patient has "), "there are more classes than patients"
    tuned = json.loads(command("evaluate", "finetune", "random", store, *told, "--learning-rate", 1e-3, *few)[0])
    assert tuned["training"]["epochs"] == 1
    assert tuned["notes"] == probed["notes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("probe", "random", "{store}", "--frames", "mine"), "frames: Input should be 'encoder' or 'paper'"),
        (("probe", "random", "{store}", "--solver", "sgd"), "solver: "),
        (("probe", "random", "{store}", "--label-fraction", "0"), "fraction: "),
        (("finetune", "random", "{store}", "--label-unit", "leads"), "label_unit: "),
        (("finetune", "random", "{store}", "--batch-size", "1"), "batch_size: "),
        (("finetune", "random", "{store}", "--monitor", "luck"), "monitor: Input should be 'loss' or 'auc'"),
        (
            ("probe", "random", "{store}", "--num-labelled-patients", "100000"),
            "num_labelled_patients=100000: the training part has",
        ),
        (
            ("probe", "random", "{store}", "--num-labelled-patients", "1", "--representation", "frames"),
            "or more labelled patients (--label-fraction, --num-labelled-patients)",
        ),
        (("probe", "nowhere", "{store}"), "neither a folder nor a shipped encoder"),
        (("probe", "random", "{store}", "--split", "none"), "no split 'none'"),
        (("probe", "random", "nowhere"), "nowhere"),
        (("compare", "nowhere", "nowhere"), "has no finished evaluation"),
    ],
)
def test_mistakes_are_messages(arguments: tuple[str, ...], message: str, command: Command, store: Path) -> None:
    out, err = command("evaluate", *(argument.format(store=store) for argument in arguments), code=1)
    assert message in " ".join(err.split())
    assert err.startswith("error: ")
    assert out == ""


@pytest.mark.parametrize("words", [("evaluate", "probe"), ("evaluate", "finetune"), ("audit",)], ids=" ".join)
@pytest.mark.parametrize("option", [("--num-threads", "0"), ("--seed", "-1")], ids=" ".join)
def test_numbers_out_of_range_are_refused(
    words: tuple[str, ...], option: tuple[str, str], command: Command, store: Path
) -> None:
    out, err = command(*words, "random", store, *option, code=2)
    assert f"Invalid value for '{option[0]}'" in err
    assert out == ""
