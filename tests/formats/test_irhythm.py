"""The iRhythm test set: digital values as numpy reads them, and episodes that count from 0."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import FormatError, UnitError
from clocs.core.recording import Episode
from clocs.core.sources.source import open_source
from clocs.formats import read, read_from
from clocs.formats.reading import missing_companions
from tests.formats.binary_examples import WRITERS

EPISODES = [
    {"onset": 1, "offset": 300, "rhythm_name": "NSR"},
    {"onset": 301, "offset": 500, "rhythm_name": "AFIB"},
    {"onset": 501, "offset": 1000, "rhythm_name": "NSR"},
]


def make(folder: Path, episodes: Any = EPISODES, num_samples: int = 1000, group: int = 0) -> Path:
    path = folder / "ab12_0003.ecg"
    np.arange(num_samples, dtype="<i2").tofile(path)
    text = episodes if isinstance(episodes, str) else json.dumps({"episodes": episodes})
    (folder / f"ab12_0003_grp{group}.episodes.json").write_text(text)
    (folder / "ab12_0003_rev0.episodes.json").write_text(
        json.dumps({"episodes": [{"onset": 1, "offset": 1000, "rhythm_name": "VT"}]})
    )
    return path


def test_every_recording_matches_numpy_and_json(real_data: Path, tmp_path: Path) -> None:
    source = open_source(real_data / "cardiology.zip")
    strips = [name for name in source.names() if name.endswith(".ecg")]
    assert len(strips) == 328
    with zipfile.ZipFile(real_data / "cardiology.zip") as archive:
        names = set(archive.namelist())
        for name in strips:
            recording = read_from(source, name)
            archive.extract(name, tmp_path)
            np.testing.assert_array_equal(recording.digital[0], np.fromfile(tmp_path / name, "<i2"))
            (committee,) = [found for group in range(3) if (found := f"{name[:-4]}_grp{group}.episodes.json") in names]
            expected = [
                (entry["onset"] - 1, entry["offset"], entry["rhythm_name"])
                for entry in json.loads(archive.read(committee))["episodes"]
            ]
            assert [(part.start, part.end, part.label) for part in recording.episodes] == sorted(expected)
            assert recording.episodes[0].start == 0
            assert (recording.sampling_rate, recording.unit, recording.leads) == (200.0, "adu", ("ECG",))


@pytest.mark.parametrize("group", [0, 1, 2])
def test_episodes_of_the_committee_count_from_0(tmp_path: Path, group: int) -> None:
    recording = read(make(tmp_path, group=group))
    assert recording.episodes == (Episode(0, 300, "NSR"), Episode(300, 500, "AFIB"), Episode(500, 1000, "NSR"))
    assert recording.labels == ("AFIB", "NSR")
    assert recording.record_id == "ab12_0003"
    assert recording.digital.tolist() == [list(range(1000))]


def test_unit_is_adu(tmp_path: Path) -> None:
    recording = read(make(tmp_path))
    with pytest.raises(UnitError):
        _ = recording.signal
    assert recording.physical()[0, 7] == 7


def test_file_without_episodes_does_not_match(tmp_path: Path) -> None:
    path = make(tmp_path)
    (tmp_path / "ab12_0003_grp0.episodes.json").unlink()
    with pytest.raises(FormatError, match="not a format clocs knows"):
        read(path)


def test_episode_file_is_a_companion_unless_another_format_matches(tmp_path: Path) -> None:
    path, source = make(tmp_path), open_source(tmp_path)
    assert missing_companions(source, path.name) == {}
    (tmp_path / "ab12_0003_grp0.episodes.json").unlink()
    assert missing_companions(source, path.name) == {"ab12_0003_grp0.episodes.json": None}
    path.write_bytes(WRITERS["ishne"](1))
    assert missing_companions(source, path.name) == {}


@pytest.mark.parametrize(
    "episodes",
    [
        "not json",
        "[" * 100_000,
        "[]",
        '{"episodes": 3}',
        '{"episodes": [3]}',
        [{"onset": "1", "offset": 5, "rhythm_name": "NSR"}],
        [{"onset": 1, "offset": 5}],
        [{"onset": 1, "offset": 5, "rhythm_name": None}],
        [{"onset": 0, "offset": 5, "rhythm_name": "NSR"}],
        [{"onset": 5, "offset": 4, "rhythm_name": "NSR"}],
        [{"onset": 1001, "offset": 1002, "rhythm_name": "NSR"}],
        [{"onset": 1, "offset": 5, "rhythm_name": "x" * (2 << 20)}],
    ],
    ids=range(12),
)
def test_invalid_episodes_are_rejected(tmp_path: Path, episodes: Any) -> None:
    with pytest.raises(FormatError, match=r"ab12_0003_grp0\.episodes\.json"):
        read(make(tmp_path, episodes))


@pytest.mark.parametrize("length", [0, 1, 1999])
def test_incomplete_sample_is_rejected(tmp_path: Path, length: int) -> None:
    path = make(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(FormatError, match="not a whole number of 16-bit samples"):
        read(path)
