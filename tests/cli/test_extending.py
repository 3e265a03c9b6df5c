"""The examples of docs/how-to/extending.md, installed as a package with entry points."""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from clocs.formats.writing import write
from clocs.store.ingest import ingest
from clocs.store.store import open_store
from tests import forked

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "extending.md").read_text()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH: a module a section, and the entry points as an installer writes them down."""
    folder, about = tmp_path / "site" / "my_package", tmp_path / "site" / "my_package-1.dist-info"
    folder.mkdir(parents=True)
    about.mkdir()
    for path, code in re.findall(r"```python\n# (src/\S+)\n(.*?)```", PAGE, re.DOTALL):
        (folder / f"{PurePosixPath(path).parent.name}.py").write_text(code)
    (table,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    groups = tomllib.loads(table)["project"]["entry-points"]
    lines = [line for group, names in groups.items() for line in (f"[{group}]", *map(" = ".join, names.items()))]
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    (about / "entry_points.txt").write_text("\n".join(lines))
    return folder.parent


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Headers and samples, with labels of the classes that the example's dataset has."""
    folder = tmp_path / "files"
    folder.mkdir()
    made = ingest("synthetic", None, tmp_path / "made", options={"num_records": 60, "leads": 1})
    for number, recording in enumerate(made):
        write(replace(recording, labels=(("SR", "AF", "AFL")[number % 3],)), folder / f"r{number}.hea")
    return folder


def test_every_section_has_an_entry_point_and_can_be_imported(package: Path) -> None:
    script = """
from clocs.datasets import DATASETS
from clocs.encoders import ENCODERS
from clocs.formats.reading import FORMATS
from clocs.formats.writing import WRITERS
from clocs.losses import LOSSES
from clocs.methods import METHODS
from clocs.training.ready_configs import ready_configs
from clocs.augmentations import AUGMENTATIONS
for registry in (FORMATS, WRITERS, DATASETS):
    assert registry.get("example").name == "example"
assert ENCODERS.get("example")(in_channels=2).in_channels == 2
assert METHODS.get("example").frame_policy == "segments"
assert AUGMENTATIONS.get("example")().size == 0.1
assert LOSSES.get("example")().weight == 1
assert {f"{method}-example" for method in ("cmsc", "recommended", "supervised", "example")} <= set(ready_configs())
"""
    (own_test,) = re.findall(r"```python\n# tests/formats/test_example.py\n(.*?)```", PAGE, re.DOTALL)
    _run(package, "-c", f"{script}\n{own_test}\ntest_samples_are_read_in_millivolt(Path())")


def test_a_run_with_all_of_them(package: Path, files: Path, tmp_path: Path) -> None:
    clocs = ("-m", "clocs")
    _run(package, *clocs, "data", "ingest", "example", str(files), "store")
    _run(package, *clocs, "data", "split", "store")
    told = [
        "store=store",
        "batch_size=8",
        "max_steps=2",
        "onnx=false",
        "encoder.name=example",
        "encoder.width=8",
        "encoder.embedding_dim=16",
    ]
    chosen = "method.augmentations=[{name: example, size: 0.2}]"
    done = json.loads(_run(package, *clocs, "pretrain", "example-example", *told, chosen, "--json").splitlines()[-1])
    training = json.loads((tmp_path / done["best"] / "config.json").read_bytes())
    assert training["encoder"]["options"]["width"] == 8
    assert training["training"]["method"]["augmentations"] == [{"name": "example", "probability": 1.0, "size": 0.2}]
    probed = json.loads(
        _run(package, *clocs, "evaluate", "probe", done["best"], "store", "--label-fraction", "1", "--json")
    )
    assert set(probed["test"]["recording"]["classes"]) == {"SR", "AF"}


def _script(name: str, folder: Path) -> Path:
    """Write a script of the page."""
    (code,) = re.findall(rf"```python\n# {name}\n(.*?)```", PAGE, re.DOTALL)
    script = folder / name
    script.write_text(code)
    return script


def test_files_of_an_own_format_are_ingested_with_patients_and_labels(package: Path, tmp_path: Path) -> None:
    _script("ward.py", tmp_path)
    lines = ["file,visit,person,rhythm"]
    for number, recording in enumerate(ingest("synthetic", None, tmp_path / "made", options={"num_records": 12})):
        name = f"bed{number % 2}/visit{number}.csv"
        (tmp_path / "ward" / name).parent.mkdir(parents=True, exist_ok=True)
        header = ",".join(recording.leads).upper()
        samples = np.rint(recording.signal.T * 1000)
        np.savetxt(tmp_path / "ward" / name, samples, fmt="%d", delimiter=",", header=header, comments="")
        lines.append(f"{name},v{number},p{number // 2},AFIB")
    (tmp_path / "ward" / "cohort.csv").write_text("\n".join(lines))
    assert _run(package, "ward.py") == "12 {}\n"
    read = open_store(tmp_path / "ward-store").recording("v11")
    assert (read.patient_id, read.labels, read.leads[3], read.sampling_rate) == ("p5", ("AFIB",), "aVR", 500)
    assert np.array_equal(read.signal, (samples.T / 1000).astype(np.float32))


def test_the_script_with_own_parts_trains_and_probes(package: Path, tmp_path: Path) -> None:
    _script("own_parts.py", tmp_path)
    assert 0 <= ast.literal_eval(_run(package, "own_parts.py"))["value"] <= 1


def _run(package: Path, *arguments: str) -> str:
    paths = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    done = forked.run(*arguments, cwd=package.parent, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
