"""Without torch, encoders embed, classify, search and are served; what trains names the extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clocs
from clocs.signals.leads import STANDARD_LEADS
from clocs.training.encoder_folder import read_config
from tests import forked
from tests.conftest import ROOT
from tests.inference.conftest import make_classifier, make_twelve_leads
from tests.without_torch import TRAIN


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that cannot import the packages of the extra ``train``, nor can their children."""
    folder = tmp_path_factory.mktemp("absent")
    for name in TRAIN:
        text = f'raise ModuleNotFoundError("No module named \'{name}\'", name="{name}")\n'
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    places = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(places)}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process that is forked from one in this environment."""
    return forked.run(*arguments, env=environment, imported=("clocs.cli.main",))


@pytest.fixture(scope="module")
def twelve_leads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of twelve leads at once, with a classifier."""
    folder = make_twelve_leads(tmp_path_factory.mktemp("twelve") / "best")
    weights = read_config(folder)["weights_sha256"]
    make_classifier(weights, lead_sets=(STANDARD_LEADS,), joint=True).save(folder / "classifiers" / "mine")
    return folder


@pytest.fixture(scope="module")
def used(
    twelve_leads: Path, without: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """What a process without torch did with both encoders: by name, the folder and what was found."""
    work, names = tmp_path_factory.mktemp("used") / "work", ["clocs-small", str(twelve_leads)]
    command = [sys.executable, str(ROOT / "tests" / "without_torch.py"), str(work), *names]
    done = subprocess.run(command, env=without, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: (work / str(number), found[name]) for number, name in enumerate(names)}


@pytest.mark.parametrize("which", ["clocs-small", "twelve leads"])
def test_an_encoder_is_used_in_every_way(
    which: str, twelve_leads: Path, used: dict[str, tuple[Path, dict[str, Any]]]
) -> None:
    name = which if which == "clocs-small" else str(twelve_leads)
    folder, found = used[name]
    truth = clocs.load_encoder(name, device="cpu")
    file = folder / "one.csv"
    np.testing.assert_allclose(found["pooled"], truth.embed(file).pooled(), atol=1e-5)
    for made in found["classes"]:
        classes = {item.name: item.probability for item in truth.classify(file, classifier=made["classifier"]).classes}
        assert {item["name"]: item["probability"] for item in made["classes"]} == pytest.approx(classes, abs=1e-5)
    assert (found["archive"], found["index"]) == (24, 12)
    answered = found["served"]
    assert [answered[path]["status"] for path in ("classify", "similar")] == [200, 200]
    near = clocs.open_index(file.parent / "index", device="cpu").similar(file, 3).neighbors
    assert [item["patient_id"] for item in found["similar"]] == [item.patient_id for item in near]
    similarities = [item["similarity"] for item in found["similar"]]
    np.testing.assert_allclose(similarities, [item.similarity for item in near], atol=1e-5)
    neighbours = answered["similar"]["neighbours"]
    assert len(neighbours) == 10
    assert {len(item["why"]) for item in neighbours} == ({4} if which == "clocs-small" else {0})


@pytest.mark.parametrize("name", ["pretrain", "probe", "finetune", "publish", "audit", "FinetuneConfig", "ProbeConfig"])
def test_a_public_name_that_needs_torch_says_so(name: str, without: dict[str, str]) -> None:
    done = run(without, "-c", f"import clocs\ntry: clocs.{name}\nexcept clocs.core.errors.ClocsError as e: print(e)")
    assert done.stdout == f"clocs.{name} needs the extra 'train'. Install it: pip install 'clocs[train]'\n", done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "pretrain cmsc-synthetic",
        "evaluate probe clocs-small nowhere",
        "evaluate finetune clocs-small nowhere",
        "evaluate publish clocs-small nowhere out --name mine",
        "audit clocs-small nowhere",
    ],
)
def test_a_command_that_needs_torch_says_so(command: str, without: dict[str, str], tmp_path: Path) -> None:
    given = [word.replace("nowhere", str(tmp_path)).replace("out", str(tmp_path / "out")) for word in command.split()]
    done = run(without, "-m", "clocs", *given)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "needs the extra 'train'. Install it: pip install 'clocs[train]'" in " ".join(done.stderr.split())
