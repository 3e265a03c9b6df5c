"""Tables of embeddings, read back by other libraries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clocs.core.errors import ConfigError
from clocs.formats.writing import write
from clocs.inference.embedding_files import embed_files
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.signals.framing import FramePolicy
from tests.conftest import make_recording
from tests.inference.conftest import EMBEDDING, LEADS, make_encoder

NAMES = [f"e{place}" for place in range(EMBEDDING)]


@pytest.fixture
def files(originals: Path) -> list[Path]:
    """Two that pass, and one whose lead the encoder does not know."""
    folder = originals / "ptbxl" / "records500" / "00000"
    return [folder / "00001_hr.hea", originals / "cinc2017" / "training2017" / "A00001.hea", folder / "00002_hr.hea"]


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_every_file_format_has_all_rows(
    ending: str, files: list[Path], encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    path = tmp_path / f"embeddings.{ending}"
    done = embed_files(encoder, files, path)
    if ending == "npz":
        with np.load(path, allow_pickle=False) as held:
            table = pd.DataFrame({name: held[name] for name in ("source", "lead", "start")})
            table[NAMES] = held["values"]
            assert held["values"].dtype == np.float32
    else:
        table = pd.read_csv(path) if ending == "csv" else pd.read_parquet(path)
    assert table.columns.tolist() == ["source", "lead", "start", *NAMES]
    whole = [str(files[0]), str(files[2])]
    assert table["source"].tolist() == [name for name in whole for _ in range(8)]
    assert table["lead"].tolist() == list(LEADS) * 4
    assert table["start"].tolist() == ([0.0] * 4 + [5.0] * 4) * 2
    expected = np.concatenate([encoder.embed(name).values for name in whole])
    np.testing.assert_array_equal(table[NAMES].to_numpy(np.float32), expected)
    assert list(done.embeddings) == whole
    assert list(done.refused) == [str(files[1])]
    assert "any_lead" in done.refused[str(files[1])]


def test_csv_has_no_spreadsheet_formulas(
    encoder: PretrainedEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File names come from others and may begin like a formula."""
    write(make_recording(LEADS), tmp_path / "=1+1.csv")
    monkeypatch.chdir(tmp_path)
    embed_files(encoder, ["=1+1.csv"], "embeddings.csv")
    table = pd.read_csv("embeddings.csv")
    assert set(table["source"]) == {"'=1+1.csv"}
    assert {kind.kind for kind in table[["start", *NAMES]].dtypes} <= {"f", "i"}


def test_any_lead_accepts_all_files(files: list[Path], encoder: PretrainedEncoder) -> None:
    done = embed_files(encoder, files, any_lead=True)
    assert not done.refused
    assert set(done.embeddings[str(files[1])].lead) == {"ECG"}


def test_no_table_is_written_if_all_files_are_refused(
    files: list[Path], encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    done = embed_files(encoder, [files[1], tmp_path / "nowhere.hea"], tmp_path / "x.npz")
    assert len(done.refused) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_folder_does_not_affect_other_files(files: list[Path], encoder: PretrainedEncoder, tmp_path: Path) -> None:
    done = embed_files(encoder, [files[0], tmp_path, files[2]], tmp_path / "x.npz")
    assert list(done.embeddings) == [str(files[0]), str(files[2])]
    assert list(done.refused) == [str(tmp_path)]
    assert "is a folder" in done.refused[str(tmp_path)]
    with np.load(tmp_path / "x.npz", allow_pickle=False) as held:
        assert set(held["source"]) == {str(files[0]), str(files[2])}


def test_an_encoder_without_sampling_rate_raises_one_error(files: list[Path], tmp_path: Path) -> None:
    """The reason is the encoder, not a file."""
    timeless = load_encoder(make_encoder(tmp_path, FramePolicy(num_samples=2500, num_source_samples=2500, leads=LEADS)))
    with pytest.raises(ConfigError, match="no sampling rate to resample"):
        embed_files(timeless, files)


def test_an_unknown_file_extension_is_rejected_first(encoder: PretrainedEncoder, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.npz, \.csv, \.parquet"):
        embed_files(encoder, ["nowhere"], tmp_path / "x.xlsx")
