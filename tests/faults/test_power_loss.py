"""Simulated power loss at every write, sync and rename: reported data exist, and the work can continue."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import clocs
import clocs.training.loop
from clocs.core.hashes import find_damage
from clocs.store.ingest import ingest
from clocs.store.manifest import versions
from clocs.store.shard import SHARDS
from clocs.store.task_records import TASK_RECORDS, read_task_record
from clocs.training.checkpoint import newest_undamaged, save_checkpoint
from clocs.training.encoder_module import load_encoder_folder
from tests.faults.recording_disk import Crash, Event, Tree, crashes, put, quick, recording
from tests.faults.stores import FIRST, MORE, check_readable, fingerprint, grown_source, small_dataset, small_ingest

States = Callable[[Crash, random.Random], Iterator[Tree]]
SOME: States = lambda crash, choose: crash.some(1, choose)  # noqa: E731
EVERY: States = lambda crash, choose: crash.every()  # noqa: E731
STORED = {1: FIRST - 1, 2: FIRST + MORE - 2}
"""Number of recordings of each version. One of each part is truncated and quarantined."""


def found_after(events: list[Event], states: States, stride: int = 1) -> Iterator[tuple[Tree, list[Any]]]:
    """Iterate over unique states after a power loss at every ``stride``-th event, with the events reported before."""
    seen, choose = set(), random.Random(0)
    for crash in itertools.islice(crashes(events), 0, None, stride):
        for tree in states(crash, choose):
            digest = hashlib.sha256(repr(crash.reported).encode())
            for path, content in tree.items():
                digest.update(
                    f"{path} ".encode() + (b"folder" if content is None else hashlib.sha256(content).digest())
                )
            if digest.digest() not in seen:
                seen.add(digest.digest())
                yield tree, list(crash.reported)


def content(folder: Path) -> dict[str, str]:
    """Return the hashes of all files except unfinished ones, which are ignored or overwritten."""
    return {name: sha256 for name, sha256 in fingerprint(folder).items() if not name.endswith(".partial")}


class Growing:
    """Recorded events of a store that is made in new folders and then grows."""

    def __init__(self, originals: Path, tmp_path: Path) -> None:
        self.small, self.large = grown_source(originals, tmp_path)
        self.root = tmp_path / "disk"
        self.root.mkdir()
        self.place = Path("archive/store")
        store = self.root / self.place
        with recording(self.root) as disk:
            for version, source in ((1, self.small), (2, self.large)):
                ingest(
                    small_dataset(),
                    source,
                    store,
                    progress=lambda records, refused: disk.report(sorted(os.listdir(store / TASK_RECORDS))),
                )
                disk.report(version)
        self.events, self.expected = disk.events, content(store)

    def check(self, tree: Tree, reported: list[Any], folder: Path) -> None:
        """Assert that reported data are readable, and that the same ingests complete the store."""
        put(tree, self.root, folder)
        store = folder / self.place
        there = versions(store)
        assert set(there) >= {each for each in reported if isinstance(each, int)}
        for version in there:
            check_readable(store, version, STORED[version])
        for name in next((each for each in reversed(reported) if isinstance(each, list)), []):
            receipt = read_task_record(store, store / TASK_RECORDS / name)
            assert receipt is not None
            assert not any(
                find_damage(store / SHARDS / shard.file, shard.sha256, shard.bytes) for shard in receipt.shards
            )
        with quick():
            if not there:
                small_ingest(self.small, store)
            small_ingest(self.large, store)
        assert content(store) == self.expected


@pytest.fixture
def growing(originals: Path, tmp_path: Path) -> Growing:
    return Growing(originals, tmp_path)


def lose_power_while_growing(growing: Growing, folder: Path, states: States, stride: int = 1) -> int:
    count = 0
    for tree, reported in found_after(growing.events, states, stride):
        growing.check(tree, reported, folder)
        shutil.rmtree(folder)
        count += 1
    return count


def test_recorded_events_contain_every_write(growing: Growing, tmp_path: Path) -> None:
    """Otherwise a write outside the file layer would never be lost, and the tests below would prove nothing."""
    *_, last = crashes(growing.events)
    put(last.everything(), growing.root, tmp_path / "again")
    assert fingerprint(tmp_path / "again") == fingerprint(growing.root)
    assert last.reported[-1] == 2


def test_power_loss_during_ingest(growing: Growing, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A durable write has five events, so that a stride of three reaches each of them."""
    count = lose_power_while_growing(growing, tmp_path / "found", SOME, stride=3)
    assert count >= 20
    with capsys.disabled():
        print(f"\npower loss in an ingest: {count} of {count} states hold what was reported and go on")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_power_loss_during_ingest_in_full(growing: Growing, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = lose_power_while_growing(growing, tmp_path / "found", EVERY)
    with capsys.disabled():
        print(f"\npower loss in an ingest, in full: {count} of {count} states hold what was reported and go on")


class Training:
    """Recorded events of eight training steps in two epochs, with a checkpoint after every second step."""

    def __init__(self, folder: Path) -> None:
        store = clocs.ingest("synthetic", None, folder / "store", options={"num_records": 48, "leads": 1})
        clocs.split(store)
        self.settings = [
            f"store={store.folder}",
            "batch_size=8",
            "max_epochs=2",
            "checkpoint_every=2",
            "encoder.embedding_dim=8",
        ]
        self.root = folder / "disk"
        self.root.mkdir()
        self.saved: dict[int, dict[str, bytes]] = {}

        def save(place: Path, step: int, *given: Any) -> None:
            save_checkpoint(place, step, *given)
            self.saved[step] = {path.name: path.read_bytes() for path in place.glob(f"step-{step:08d}.*")}
            disk.report(step)

        with recording(self.root) as disk, mock.patch.object(clocs.training.loop, "save_checkpoint", save):
            done = self.train(self.root)
        disk.report("finished")
        self.events, self.run = disk.events, Path(done["run"])
        self.expected = self.end(self.run)

    def train(self, folder: Path) -> dict[str, Any]:
        return clocs.pretrain("cmsc-synthetic", [*self.settings, f"runs={folder / 'new' / 'runs'}"])

    def end(self, run: Path) -> dict[str, str]:
        """Return the hashes of all results of a run, without times and the number of resumptions."""
        others = {"timing.jsonl", "result.json", "resumes.jsonl"}
        return {name: sha256 for name, sha256 in content(run).items() if name not in others}

    def check(self, tree: Tree, reported: list[Any], folder: Path) -> int | None:
        """Assert that the newest reported checkpoint, or a newer one, exists. Return its step."""
        put(tree, self.root, folder)
        run = folder / self.run.relative_to(self.root)
        chosen = newest_undamaged(run / "checkpoints", run / "metrics.jsonl")
        steps = [each for each in reported if isinstance(each, int)]
        if chosen is None:
            assert not steps
        else:
            assert chosen.step >= max(steps, default=0)
            assert not chosen.damaged
            for name, raw in self.saved[chosen.step].items():
                assert (run / "checkpoints" / name).read_bytes() == raw
        if "finished" in reported:
            assert self.train(folder)["already_finished"]
            load_encoder_folder(run / "best")
        return None if chosen is None else chosen.step

    def check_next_run(self, folder: Path) -> None:
        """Assert that the same command gives the weights and metrics of an undisturbed run.

        Checkpoints whose removal was not synced may be there again.
        """
        with quick():
            done = self.train(folder)
        assert self.end(Path(done["run"])).items() >= self.expected.items()


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    return Training(tmp_path_factory.mktemp("power"))


Kind = Callable[[dict[str, str]], object]
"""Function that groups states by the hashes of their files. One state per group is trained to the end."""


def lose_power_while_training(training: Training, folder: Path, states: States, kind: Kind) -> tuple[int, int]:
    """Return the number of states, and the number that were trained to the end: one per step and kind."""
    count, kinds = 0, set()
    for tree, reported in found_after(training.events, states):
        alike = training.check(tree, reported, folder), repr(kind(content(folder)))
        if alike not in kinds:
            training.check_next_run(folder)
        kinds.add(alike)
        shutil.rmtree(folder)
        count += 1
    return count, len(kinds)


def test_recorded_events_of_training_contain_every_write(training: Training, tmp_path: Path) -> None:
    *_, last = crashes(training.events)
    put(last.everything(), training.root, tmp_path / "again")
    assert fingerprint(tmp_path / "again") == fingerprint(training.root)
    assert sorted(training.saved) == [each for each in last.reported if isinstance(each, int)]
    assert len(training.saved) >= 4


def encoder_and_result(files: dict[str, str]) -> list[str]:
    """Return the files that decide how a run continues, in addition to its checkpoint."""
    return sorted(name for name in files if "/best/" in name or name.endswith("result.json"))


def test_power_loss_during_training(training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count, trained = lose_power_while_training(training, tmp_path / "found", SOME, encoder_and_result)
    with capsys.disabled():
        print(f"\npower loss in a training: {count} of {count} states keep checkpoints, {trained} trained to the end")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_power_loss_during_training_in_full(
    training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count, trained = lose_power_while_training(training, tmp_path / "found", EVERY, lambda files: files)
    with capsys.disabled():
        print(f"\npower loss in a training, in full: {count} of {count} states, {trained} trained to the end")
