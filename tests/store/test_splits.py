"""Splits have the sizes of the paper, and leaks raise errors."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError, LeakError, StoreError
from clocs.core.recording import Provenance
from clocs.core.seeds import generator
from clocs.datasets import DATASETS, SplitPolicy
from clocs.formats.writing import write
from clocs.signals.leads import add_derived_leads
from clocs.signals.quality import GATE_OFF
from clocs.store.ingest import ingest
from clocs.store.splits import PARTS, Split, _assign_parts, check_leaks, load_split, make_split, save_split
from clocs.store.store import Store
from tests.conftest import make_recording
from tests.store.conftest import Maker

PAPER = {
    "physionet2020": (6877, (4402, 1100, 1375)),
    "chapman": (10646, (6387, 2129, 2130)),
    "physionet2017": (8528, (5459, 1364, 1705)),
    "cardiology": (313, (201, 50, 62)),
}
"""Patients, and the paper's patients per part (its appendix A.2.2); 15 of Cardiology's 328 have only
frames of the class it leaves out."""


@pytest.mark.parametrize("name", PAPER)
def test_parts_have_the_patient_counts_of_the_paper(name: str) -> None:
    patients, expected = PAPER[name]
    parts = _assign_parts(np.arange(patients), DATASETS.get(name).split, generator(0, "split"))
    assert tuple(np.bincount(parts, minlength=3)[:3]) == expected


@settings(max_examples=50)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=30, max_size=300),
    seed=st.integers(0, 2**32),
    remainder=st.sampled_from(["train", "validation", "test"]),
)
def test_clusters_are_not_divided_and_fractions_are_close(sizes: list[int], seed: int, remainder: str) -> None:
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    policy = SplitPolicy.model_validate({"remainder": remainder})
    parts = _assign_parts(cluster, policy, generator(seed, "split"))
    for number in range(len(sizes)):
        assert len(set(parts[cluster == number])) == 1
    for place, part in enumerate(PARTS[:3]):
        assert abs((parts == place).sum() - getattr(policy, part) * len(cluster)) <= 2 + 2 * max(sizes)


@pytest.mark.parametrize("seed", range(5))
def test_a_large_cluster_does_not_empty_the_other_parts(seed: int) -> None:
    """Forty of a hundred patients share one demonstration ECG."""
    cluster = np.concatenate([np.zeros(40, np.int64), np.arange(1, 61)])
    parts = _assign_parts(cluster, SplitPolicy(), generator(seed, "split"))
    assert np.bincount(parts, minlength=3).tolist() == [64, 16, 20]
    assert set(parts[:40]) == {PARTS.index("train")}


@pytest.mark.parametrize("name", ["", "../manifest-000002", "a/b", ".hidden", "x" * 200])
def test_an_invalid_name_raises_an_error(store: Store, name: str) -> None:
    with pytest.raises(ConfigError, match="Invalid split name"):
        make_split(store, name)


@settings(max_examples=50)
@given(old=st.integers(5, 60), new=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_known_patients_keep_their_parts(old: int, new: int, seed: int) -> None:
    first = _assign_parts(np.arange(old), SplitPolicy(), generator(seed, "split"))
    known = np.concatenate([first, np.full(new, -1)]).astype(np.int8)
    grown = _assign_parts(np.arange(old + new), SplitPolicy(), generator(seed + 1, "split"), known)
    assert (grown[:old] == first).all()
    shares = np.bincount(grown, minlength=3) / (old + new)
    assert abs(shares[PARTS.index("test")] - 0.2) < 1 / (old + new)


def test_no_patient_moves_from_training_to_test() -> None:
    known = np.array([PARTS.index("test"), PARTS.index("train"), -1, PARTS.index("validation")], np.int8)
    parts = _assign_parts(np.array([0, 0, 0, 1]), SplitPolicy(), generator(0, "split"), known)
    assert parts.tolist() == [PARTS.index(part) for part in ("train", "train", "train", "validation")]


@pytest.mark.parametrize("other", ["edf", "hea"])
def test_one_ecg_in_two_files_stays_in_one_part(other: str, tmp_path: Path) -> None:
    """As carts export them: WFDB of twelve leads, and EDF, which has other steps, or again WFDB, of eight of them. No
    signals are equal."""
    eight = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
    for number in range(24):
        made = make_recording(leads=eight, seed=number)
        write(
            replace(add_derived_leads(made), provenance=Provenance()), tmp_path / "files" / "twelve" / f"{number}.hea"
        )
        write(made, tmp_path / "files" / "eight" / f"{number}.{other}")
    store = ingest("folder", tmp_path / "files", tmp_path / "store", gate=GATE_OFF)
    split = make_split(store)
    check_leaks(store, split, thorough=True)
    apart = make_split(store, "apart", allow_duplicates=True)
    check_leaks(store, apart)
    with pytest.raises(LeakError, match="are one ECG in several files"):
        check_leaks(store, apart, thorough=True)


@pytest.mark.parametrize("lead", ["V2", "aVL", "ECG"])
def test_an_extract_of_one_lead_stays_with_its_ecg(lead: str, tmp_path: Path) -> None:
    """This holds for any lead under any name."""
    for number in range(24):
        made = make_recording(leads=("I", "II", "V2", "aVL"), seed=number)
        write(made, tmp_path / "files" / "whole" / f"{number}.hea")
        alone = replace(made.select(("V2" if lead == "ECG" else lead,)), leads=(lead,))
        write(alone, tmp_path / "files" / "strip" / f"{number}.hea")
    store = ingest("folder", tmp_path / "files", tmp_path / "store", gate=GATE_OFF)
    check_leaks(store, make_split(store), thorough=True)
    with pytest.raises(LeakError, match="are one ECG in several files"):
        check_leaks(store, make_split(store, "apart", allow_duplicates=True), thorough=True)


def test_like_needs_common_patients(tmp_path: Path) -> None:
    """Without the table of the earlier ingest, every patient would be new."""
    signals = [make_recording(seed=number, num_samples=2600).signal for number in range(20)]
    leads, names = ("I", "II", "V2"), {"patient_id": [f"p{n // 2}" for n in range(20)]}
    make_split(Store.from_arrays(tmp_path, signals, sampling_rate=500, leads=leads, table=names))
    without = Store.from_arrays(tmp_path, signals[:18], sampling_rate=500, leads=leads)
    with pytest.raises(ConfigError, match="No patient of this version is in split 'default'"):
        make_split(without, "second", like="default")


def test_a_split_like_one_of_an_earlier_version(tmp_path: Path) -> None:
    signals = [make_recording(seed=number, num_samples=2600).signal for number in range(60)]

    def version(count: int) -> Store:
        table = {"record_id": [f"r{n}" for n in range(count)], "patient_id": [f"p{n // 2}" for n in range(count)]}
        return Store.from_arrays(tmp_path, signals[:count], sampling_rate=500, leads=("I", "II", "V2"), table=table)

    first = make_split(version(40))
    grown = version(60)
    with pytest.raises(StoreError, match="--like default"):
        load_split(grown)
    second = make_split(grown, "second", like="default")
    names = {
        name: part for name, part in zip(grown.table(["record_id"]).column(0).to_pylist(), second.parts, strict=True)
    }
    assert [names[f"r{number}"] for number in range(40)] == first.parts.tolist()
    assert second.metadata["like"] == first.sha256
    check_leaks(grown, second)


@pytest.fixture
def store(store_of: Maker) -> Store:
    """Return forty recordings of twenty patients. r0 and r30 are one signal of two patients."""
    recordings = [
        make_recording(seed=n, record_id=f"r{n}", patient_id=f"p{n // 2}", num_samples=2600) for n in range(40)
    ]
    recordings[30] = replace(recordings[0], record_id="r30", patient_id="p15")
    return store_of(recordings, per_shard=16)


def test_no_patient_and_no_signal_is_in_two_parts(store: Store) -> None:
    for seed in range(20):
        split = make_split(store, f"s{seed}", seed=seed)
        check_leaks(store, split)
        assert len(set(split.parts[[0, 1, 30, 31]])) == 1
        assert split.metadata["records"]["unused"] == 0


def test_a_split_depends_only_on_its_seed(store: Store) -> None:
    one, again = make_split(store, "a", seed=1), make_split(store, "b", seed=1)
    np.testing.assert_array_equal(one.parts, again.parts)
    assert not np.array_equal(one.parts, make_split(store, "c", seed=2).parts)
    np.testing.assert_array_equal(store.split("a").parts, one.parts)
    assert store.split("a").sha256 == one.sha256


def test_a_split_is_not_overwritten(store: Store) -> None:
    make_split(store, "a", seed=1)
    make_split(store, "a", seed=1)
    with pytest.raises(ConfigError, match="exists and differs"):
        make_split(store, "a", seed=2)


QUICKER = """
import fcntl, sys
from clocs.store.splits import make_split

def flock(*given, really=fcntl.flock):
    print("at the lock", flush=True)
    really(*given)

fcntl.flock = flock
make_split(sys.argv[1], seed=2)
"""


def test_concurrent_splits_of_one_name_are_consistent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process starts between the two files that the first writes."""
    begun: list[subprocess.Popen[str]] = []

    def reached(step: str, path: Path) -> None:
        if step == "before write" and path.name == "default.json" and not begun:
            command = [sys.executable, "-c", QUICKER, str(store.folder)]
            begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            assert begun[0].stdout is not None
            assert begun[0].stdout.readline() == "at the lock\n"

    monkeypatch.setattr("clocs.core.storage.files.on_write_step", reached)
    made = make_split(store, seed=1)
    (other,) = begun
    assert "exists and differs" in other.communicate()[1]
    np.testing.assert_array_equal(store.split().parts, made.parts)


def test_a_shared_patient_raises_an_error_with_both_records(store: Store) -> None:
    split = make_split(store)
    parts = split.parts.copy()
    parts[5] = (parts[4] + 1) % 3
    with pytest.raises(LeakError, match=r"'r4'.*'r5'.*one patient"):
        check_leaks(store, replace(split, parts=parts))


def test_a_duplicate_raises_an_error_with_both_records(store: Store) -> None:
    split = make_split(store)
    parts = split.parts.copy()
    parts[[30, 31]] = (parts[0] + 1) % 3
    with pytest.raises(LeakError, match=r"'r0'.*'r30'.*same signal"):
        check_leaks(store, replace(split, parts=parts))


def test_duplicates_are_allowed_only_if_the_split_records_it(store: Store) -> None:
    for seed in range(50):
        split = make_split(store, f"s{seed}", seed=seed, allow_duplicates=True)
        if split.parts[0] != split.parts[30]:
            break
    assert split.metadata["allow_duplicates"]
    assert split.metadata["shared_signals"] >= 2
    assert load_split(store, split.name, thorough=True).sha256 == split.sha256
    with pytest.raises(LeakError, match="same signal"):
        check_leaks(store, split)
    silent = {name: value for name, value in split.metadata.items() if name != "allow_duplicates"}
    save_split(store, "silent", split.parts, silent)
    with pytest.raises(LeakError, match="same signal"):
        load_split(store, "silent")


@pytest.mark.filterwarnings("default")
def test_a_part_without_patients_gives_a_warning(store_of: Maker) -> None:
    few = store_of([make_recording(seed=n, record_id=f"r{n}", patient_id=f"p{n}") for n in range(5)])
    with pytest.warns(UserWarning, match="No patient is in the validation part: there are too few patients"):
        make_split(few)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_split(few, "two", policy=SplitPolicy(train=0.6, validation=0, test=0.4))
    short = store_of([make_recording(num_samples=600)], name="short")
    with pytest.warns(UserWarning, match="train and validation and test part: no recording is long enough"):
        make_split(short)


def test_a_split_belongs_to_one_version(store: Store, store_of: Maker) -> None:
    make_split(store)
    grown = store_of([*store, make_recording(seed=99, record_id="new", patient_id="new")], per_shard=16)
    with pytest.raises(StoreError, match="another version") as found:
        grown.split()
    assert f"(clocs data split {grown.folder} --name NEW --like default)" in str(found.value)
    with pytest.raises(ConfigError, match="--name NEW"):
        make_split(grown)
    assert len(make_split(grown, "NEW").parts) == len(grown.split("NEW").parts) == 41, "as both say"


def test_recordings_without_a_frame_are_unused(store_of: Maker) -> None:
    store = store_of([make_recording(seed=n, record_id=f"r{n}", num_samples=2500 if n else 2000) for n in range(9)])
    split = make_split(store)
    assert np.flatnonzero(split.mask("unused")).tolist() == [0]
    with pytest.raises(ConfigError, match="got 'dev'"):
        split.mask("dev")


def test_fractions_must_sum_to_one() -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        SplitPolicy(train=0.9)


def test_a_split_of_another_length_raises_an_error(store: Store) -> None:
    split = Split("x", "", {}, np.zeros(3, np.int8))
    with pytest.raises(StoreError, match="has 3 recordings"):
        check_leaks(store, split)
