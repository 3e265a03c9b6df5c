"""CinC 2011, set A: text files with aVF before aVL, and lists of acceptable recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry, Options
from clocs.datasets.physionet2011 import PHYSIONET2011, TEXT_LEADS
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.source_check import AS_DECLARED, measure_signals
from tests.datasets.wfdb_trees import limb_leads

ORDER = [STANDARD_LEADS.index(lead) for lead in TEXT_LEADS]


def write_text(folder: Path, name: str, order: list[int] = ORDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = np.rint(limb_leads()[order].T / 5).astype(int)
    (folder / f"{name}.txt").write_text(
        "".join(f"{number},{','.join(map(str, row))}\n" for number, row in enumerate(rows))
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("1002603", "1002867", "1003574"):
        write_text(tmp_path / "set-a", name)
    (tmp_path / "set-a" / "RECORDS-acceptable").write_text("1002867\n")
    (tmp_path / "set-a" / "RECORDS-unacceptable").write_text("1002603\n1009999\n")
    (tmp_path / "set-b").mkdir()
    (tmp_path / "set-b" / "1000001.txt").touch()
    return tmp_path


def entries(tree: Path) -> dict[str, Entry]:
    return {entry.record_id: entry for entry in PHYSIONET2011.entries(open_source(tree), Options())}


def test_recordings_of_set_a_have_the_quality_of_the_lists(tree: Path) -> None:
    found = entries(tree)
    assert {name: entry.labels for name, entry in found.items()} == {
        "1002603": ("unacceptable",),
        "1002867": ("acceptable",),
        "1003574": (),
    }
    assert found["1002603"].patient_id == "1002603"


@pytest.mark.parametrize("names", [("acceptable.txt", "unacceptable.txt"), ("Group I.txt", "Group II.txt")])
def test_lists_may_have_other_names(tree: Path, names: tuple[str, str]) -> None:
    (tree / "Lists").mkdir()
    for quality, name in zip(("acceptable", "unacceptable"), names, strict=True):
        (tree / "set-a" / f"RECORDS-{quality}").rename(tree / "Lists" / f"RECORDS-{name}")
    assert entries(tree)["1002603"].labels == ("unacceptable",)
    assert entries(tree)["1002867"].labels == ("acceptable",)


def test_a_text_file_has_avf_before_avl_and_200_steps_per_millivolt(tree: Path) -> None:
    entry = entries(tree)["1002867"]
    recording = PHYSIONET2011.load(open_source(tree), entry, Options())
    assert (recording.sampling_rate, recording.unit, recording.num_samples) == (500.0, "mV", 5000)
    standard = recording.select(STANDARD_LEADS)
    np.testing.assert_allclose(standard.signal, limb_leads() / 1000, atol=0.003)
    assert measure_signals(recording).order == AS_DECLARED


def test_the_standard_order_would_be_found(tree: Path) -> None:
    write_text(tree / "set-a", "1002867", list(range(12)))
    recording = PHYSIONET2011.load(open_source(tree), entries(tree)["1002867"], Options())
    assert measure_signals(recording).order == "aVL is aVF, aVF is aVL"


def test_a_header_is_preferred_to_the_text(tree: Path) -> None:
    digital = limb_leads()
    digital.T.astype("<i2").tofile(tree / "set-a" / "1002867.dat")
    lines = [f"1002867.dat 16 1000/mV 16 0 0 0 0 {lead}" for lead in STANDARD_LEADS]
    (tree / "set-a" / "1002867.hea").write_text(
        "\n".join(["1002867 12 500 5000", *lines, "#Age: 0 ", "#Sex: F"]) + "\n"
    )
    entry = entries(tree)["1002867"]
    assert entry.file == "set-a/1002867.hea"
    recording = PHYSIONET2011.load(open_source(tree), entry, Options())
    assert (recording.age, recording.sex, recording.labels) == (None, "female", ("acceptable",))
    np.testing.assert_array_equal(recording.digital, digital)


@pytest.mark.parametrize(
    "text", ["", "0,1,2\n", "1" + 12 * ",0" + "\n", "0" + 12 * ",0.5" + "\n", "0" + 12 * ",70000" + "\n", "x\n"]
)
def test_another_text_raises_an_error(tree: Path, text: str) -> None:
    (tree / "set-a" / "1002867.txt").write_text(text)
    with pytest.raises(FormatError, match=r"1002867\.txt"):
        PHYSIONET2011.load(open_source(tree), entries(tree)["1002867"], Options())
