"""``FrameDataset``: batches against frames, in workers, from several stores."""

from __future__ import annotations

import doctest
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader

from clocs.core.errors import ConfigError
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import GATE_OFF
from clocs.store.frames import Frames
from clocs.store.ingest import ingest
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.training import frame_dataset
from clocs.training.frame_dataset import FrameDataset

LEADS = ("I", "II", "V1", "V2")


def arrays(folder: Path, seed: int = 0, sampling_rate: float = 500.0, recordings: int = 12) -> Store:
    """Return recordings of 10 s with four leads, two for each patient, and two labels."""
    signals = np.random.default_rng(seed).normal(scale=0.2, size=(recordings, len(LEADS), int(10 * sampling_rate)))
    table = {
        "patient_id": [f"p{number // 2}" for number in range(recordings)],
        "labels": [("A",) if number % 3 else ("B",) for number in range(recordings)],
    }
    return Store.from_arrays(folder, signals, sampling_rate=sampling_rate, leads=LEADS, table=table, gate=GATE_OFF)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return arrays(tmp_path_factory.mktemp("store") / "arrays")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = ingest("synthetic", None, tmp_path_factory.mktemp("store") / "synthetic", options={"num_records": 24})
    make_split(made)
    return made


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(values, other[name]) for name, values in one.items())


def test_the_example_of_the_docstring_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, run = doctest.testmod(frame_dataset)
    assert failed == 0 < run


def test_a_batch_of_single_leads_holds_what_frames_give(store: Store) -> None:
    dataset = FrameDataset(store, leads="each", seconds=2, views=2)
    frames = Frames(store, FramePolicy(num_samples=1000, num_segments=2, sampling_rate=500))
    items = np.array([5, 0, len(frames) - 1])
    batch = dataset.batch(items)
    assert (len(dataset), dataset.num_channels, dataset.num_samples) == (len(frames), 1, 1000)
    assert batch["signal"].shape == (3, 2, 1, 1000)
    np.testing.assert_array_equal(batch["signal"].numpy()[:, :, 0], frames.gather(items))
    assert batch["lead_mask"].tolist() == [[True]] * 3
    assert batch["item"].tolist() == items.tolist()
    assert batch["record"].tolist() == frames.locate(items)[0].tolist()
    assert batch["patient"].tolist() == dataset.patients(items).tolist()
    assert dataset.locate(items)[2].tolist() == frames.locate(items)[2].tolist()
    assert dataset.unit == "mV"


def test_a_batch_of_all_leads_has_them_as_channels(store: Store) -> None:
    wanted = ("V2", "III", "I")
    dataset = FrameDataset(store, leads=("v2", "III", "I"), seconds=2, views=2)
    batch = dataset.batch([3, 1])
    assert (dataset.leads, dataset.num_channels) == (wanted, 3)
    assert batch["signal"].shape == (2, 2, 3, 1000)
    for row, (record, frame) in enumerate(zip(*dataset.locate([3, 1])[:2], strict=True)):
        whole = store.recording(int(record)).select(wanted).signal[:, frame * 2000 : (frame + 1) * 2000]
        expected = whole.reshape(3, 2, 1000).swapaxes(0, 1)
        np.testing.assert_allclose(batch["signal"][row].numpy(), expected, atol=1e-6)


def test_frames_and_targets_of_a_part(synthetic: Store) -> None:
    split = synthetic.split()
    dataset = FrameDataset(synthetic, split="default", part="train", policy="evaluation")
    same = FrameDataset(synthetic, split=split, part="train")
    assert dataset.policy == same.policy
    batch = dataset.batch(np.arange(len(dataset)))
    assert set(batch["record"].tolist()) == set(np.flatnonzero(split.mask("train")).tolist())
    labels = synthetic.table(["labels"]).column(0).to_pylist()
    groups = synthetic.manifest.dataset["classes"].values()
    expected = [[bool(set(labels[record]) & set(group)) for group in groups] for record in batch["record"].tolist()]
    assert batch["target"].tolist() == expected
    assert "target" not in dataset.batch([0], targets=False)
    fewer = np.zeros(len(synthetic), bool)
    fewer[batch["record"][0]] = True
    small = FrameDataset(synthetic, split=split, part="train", records=fewer)
    assert set(small.batch(np.arange(len(small)))["record"].tolist()) == {int(batch["record"][0])}


def test_items_are_batches_without_the_batch_dimension(store: Store) -> None:
    dataset = FrameDataset(store, leads=LEADS, seconds=5)
    batch = dataset.batch(range(len(dataset)))
    for number in (0, 3, -1):
        assert equal(dataset[number], {name: values[number] for name, values in batch.items()})
    with pytest.raises(IndexError):
        dataset[len(dataset)]
    assert equal(next(iter(DataLoader(dataset, batch_size=len(dataset)))), batch)


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")
@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_make_the_same_batches(synthetic: Store, context: str) -> None:
    dataset = FrameDataset(
        synthetic, split="default", part="train", leads=("I", "II", "V1"), seconds=2, sampling_rate=100, views=2
    )
    plain = list(DataLoader(dataset, batch_size=7))
    workers = DataLoader(dataset, batch_size=7, num_workers=2, multiprocessing_context=context)
    made = list(workers)
    assert len(plain) == len(made) > 4
    assert all(equal(one, other) for one, other in zip(plain, made, strict=True))


def test_a_pickled_dataset_is_small_and_stays_at_its_version(store: Store) -> None:
    records = np.arange(len(store)) < 5
    dataset = FrameDataset(store, seconds=2, records=records, all_leads=True)
    before = dataset.batch(range(len(dataset)))
    raw = pickle.dumps(dataset)
    samples = dataset.frames.gather(np.arange(len(dataset))).nbytes
    assert len(raw) < 20_000 < samples
    again: FrameDataset = pickle.loads(raw)
    assert equal(again.batch(range(len(again))), before)
    assert again.policy == dataset.policy


def test_stores_share_no_patient_number(store: Store, tmp_path: Path) -> None:
    other = arrays(tmp_path / "other", seed=1)
    makers = [FrameDataset(each, leads=LEADS, seconds=5) for each in (store, other, open_store(store.folder))]
    joined: ConcatDataset[dict[str, Tensor]] = ConcatDataset(makers)
    numbers = [joined[at]["patient"].item() for at in range(len(joined))]
    size = len(makers[0])
    first, second, again = numbers[:size], numbers[size : 2 * size], numbers[2 * size :]
    assert first == again
    assert len(set(first)) == len(set(second)) == 6
    assert not set(first) & set(second)
    assert min(numbers) >= 0


def test_a_patient_keeps_its_number_when_a_store_grows(tmp_path: Path) -> None:
    before = arrays(tmp_path / "store", recordings=4)
    numbers = FrameDataset(before, seconds=5).patients([0])
    after = arrays(tmp_path / "store", recordings=12)
    assert (before.manifest.version, after.manifest.version) == (1, 2)
    assert FrameDataset(after, seconds=5).patients([0]).tolist() == numbers.tolist()


def test_options_that_contradict_each_other_are_refused(store: Store, tmp_path: Path) -> None:
    policy = FramePolicy(num_samples=1000, sampling_rate=500)
    with pytest.raises(ConfigError, match=r"policy= and leads=, seconds= exclude each other"):
        FrameDataset(store, policy=policy, leads="12", seconds=5)
    with pytest.raises(ConfigError, match="Pass split= and part= together"):
        FrameDataset(store, policy=policy, part="train")
    with pytest.raises(ConfigError, match="excludes all_leads=True"):
        FrameDataset(store, leads="each", seconds=5, all_leads=True)
    with pytest.raises(ConfigError, match="Pass seconds="):
        FrameDataset(store, leads=LEADS, sampling_rate=100)
    with pytest.raises(ConfigError, match="has the leads"):
        FrameDataset(store, leads="12", seconds=5)
    assert FrameDataset(store, policy=policy, all_leads=True).leads == (*LEADS, *STANDARD_LEADS[2:6])


def test_a_store_of_two_sampling_rates_needs_sampling_rate(tmp_path: Path) -> None:
    made = [arrays(tmp_path / f"{sampling_rate:g}", sampling_rate=sampling_rate) for sampling_rate in (250.0, 500.0)]
    assert [FrameDataset(store, seconds=2).num_samples for store in made] == [500, 1000]
    resampled = [FrameDataset(store, seconds=2, sampling_rate=250).num_samples for store in made]
    assert resampled == [500, 500]


def test_frames_that_lack_leads_are_left_out_or_masked(store: Store) -> None:
    with pytest.raises(ConfigError, match="has the leads"):
        FrameDataset(store, leads=("II", "V5"), seconds=5)
    dataset = FrameDataset(store, leads="12", seconds=5, allow_missing_leads=True, normalization="typical")
    batch = dataset.batch(range(len(dataset)))
    there = torch.tensor([lead in (*LEADS, "III", "aVR", "aVL", "aVF") for lead in STANDARD_LEADS])
    assert torch.equal(batch["lead_mask"], there.expand(len(dataset), 12))
    assert not batch["signal"][:, :, ~there].any()
    np.testing.assert_allclose(batch["signal"][:, :, there].std(dim=-1, correction=0), 0.15, rtol=1e-4)
    over = FrameDataset(
        store, leads="12", seconds=5, allow_missing_leads=True, normalization="typical", normalization_scope="frame"
    )
    joint = over.batch(range(len(over)))["signal"][:, :, there]
    np.testing.assert_allclose(joint.flatten(2).std(dim=-1, correction=0), 0.15, rtol=1e-4)


@pytest.mark.parametrize("leads", ["each", LEADS])
def test_cached_frames_make_the_same_batches(tmp_path: Path, leads: str | tuple[str, ...]) -> None:
    store = arrays(tmp_path / "store")
    for records in (None, np.arange(len(store)) % 3 == 1):
        plain, cached = (
            FrameDataset(store, records=records, leads=leads, seconds=2, sampling_rate=100, disk_cache=disk_cache)
            for disk_cache in (False, True)
        )
        expected = plain.batch(range(len(plain)))
        assert equal(cached.batch(range(len(plain))), expected)
        assert equal(pickle.loads(pickle.dumps(cached)).batch(range(len(plain))), expected)
    assert len(list((store.folder / "frames").glob("*.npy"))) == 1
