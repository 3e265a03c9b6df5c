"""The command ``clocs measure``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

import clocs
from clocs.core.recording import quantize
from clocs.measurements.results import NAMES, TITLES
from tests.cli.conftest import Command
from tests.formats.xml_examples import muse
from tests.measurements.test_measurements import simulated


def test_a_file_as_a_table_and_as_json(command: Command, tmp_path: Path) -> None:
    signal, _ = simulated("SR", leads=("I", "II"))
    recording = clocs.Recording(quantize(signal), np.full(2, 1000.0), np.zeros(2, np.int32), 500, ("I", "II"))
    clocs.write(recording, tmp_path / "ecg.edf")
    out, _ = command("measure", tmp_path / "ecg.edf")
    assert "QTc (Fridericia) [ms]" in out
    assert "rhythm regular" in out
    values = json.loads(command("measure", tmp_path / "ecg.edf", "--json")[0])
    expected = clocs.measure(clocs.read(tmp_path / "ecg.edf"))
    assert values["qt_interval"]["value"] == expected.qt_interval.value
    assert set(NAMES) == set(TITLES) <= set(values)


def test_values_that_the_file_states_are_shown_beside_ours(command: Command, tmp_path: Path) -> None:
    stated = "<PRInterval>209</PRInterval><QTCorrected>463</QTCorrected>"
    file = tmp_path / "stated.xml"
    file.write_text(muse(about=f"<RestingECGMeasurements>{stated}</RestingECGMeasurements>"))
    out, _ = command("measure", file)
    assert re.search(r"PR \[ms\].* 209 ", out)
    assert "formula not named" in " ".join(out.split())
    assert json.loads(command("measure", file, "--json")[0])["stated"] == {"pr_interval": 209, "qtc_interval": 463}
