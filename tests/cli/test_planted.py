"""Synthetic identities planted in files of all formats: commands never print, draw or write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.formats.reading import read
from clocs.formats.writing import WRITERS
from clocs.store.store import open_store
from tests.cli.conftest import Command
from tests.store.planted import COPIES, Planted, encoded, faker, occurring, planted_samples, write_planted

DRAWN = 12
"""Every so many recordings."""


@pytest.fixture(params=[1, pytest.param(COPIES, marks=pytest.mark.slow)])
def planted(hospital_files: Path, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, dict[str, Planted]]:
    """An archive whose files have names that say nothing; in a folder of it the same files, each cut short."""
    random = np.random.default_rng(1)
    folder, damaged = tmp_path / "archive", tmp_path / "archive" / "damaged"
    damaged.mkdir(parents=True)
    samples = planted_samples(hospital_files, tmp_path / "trial", random, request.param)
    every = [*samples, *encoded(faker(random), words=False)]
    found = write_planted(every, folder, named=False)
    for path in [path for path in folder.iterdir() if path.is_file()]:
        (damaged / path.name).write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    return folder, found


def test_no_identity_is_in_a_log_an_error_a_figure_or_an_export(
    planted: tuple[Path, dict[str, Planted]], command: Command, tmp_path: Path
) -> None:
    archive, found = planted
    every = [fake for one in found.values() for fake in one.fakes]
    assert len(every) >= 200
    assert set(occurring(every, archive)) == set(every)
    key, store, out = tmp_path / "key", tmp_path / "store", tmp_path / "out"
    out.mkdir()
    said = [*command("data", "make-key", key), *command("data", "ingest", "folder", archive, store, "--key", key)]
    said += command("data", "report", store, "--source", archive, "--key", key, "--plot", out / "report.svg")
    for writer in WRITERS.names():
        target = out / "exports.parquet" if writer == "parquet" else out / writer
        said += command("convert", store, target, "--to", writer, "--fill-missing")
    said += command("convert", archive, out / "files", "--to", "edf", "--fill-missing")
    for record in open_store(store).table(["record_id"]).column(0).to_pylist()[::DRAWN]:
        said += command("data", "plot", store, "--record", record, "--out", out / f"{record}.svg")
    for path in archive.rglob("*.*"):
        try:
            said.append(repr(read(path).provenance))
        except FormatError as error:
            said.append(str(error))
    (out / "said").write_text("\n".join(said))
    assert occurring(every, out) == []
