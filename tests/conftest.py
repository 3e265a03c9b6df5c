"""What several tests share: where the real data lie, and small stores made once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from clocs.core.recording import Recording, quantize
from tests import forked, object_server

ROOT = Path(__file__).resolve().parents[1]

# Several tests run at once: threads that wait for each other sleep, or they take the processors from other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The same examples in every run, however long a busy machine takes to make them. With --hypothesis-profile thorough
# there are more of them, where a test does not state a number.
for name, examples in (("any-machine", 30), ("thorough", 300)):
    settings.register_profile(
        name,
        settings(),
        deadline=None,
        derandomize=True,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("any-machine")


gc.disable()  # until tests are collected: what is imported and collected stays


def pytest_collection_finish() -> None:
    """Leave what is there now out of later searches for garbage."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    forked.end()


@pytest.fixture(scope="session", autouse=True)
def _no_onnx_file_unless_asked_for() -> None:
    """Tests train hundreds of small encoders, and an ONNX file takes as long as most of their trainings."""
    if find_spec("torch") is None:
        return
    from clocs.training.config import PretrainConfig

    PretrainConfig.model_fields["onnx"].default = False
    PretrainConfig.model_rebuild(force=True)


def data_folder() -> Path:
    """The folder of real data: ``CLOCS_DATA``, or ``shared/data`` beside the project."""
    return Path(os.environ.get("CLOCS_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with chapman.zip, cpsc2018.zip, cinc2017.zip, cardiology.zip, originals.zip."""
    folder = data_folder()
    if not (folder / "originals.zip").exists():
        pytest.skip(f"no real ECG data in {folder}; set CLOCS_DATA to the folder that has originals.zip")
    return folder


@pytest.fixture(scope="session")
def originals(real_data: Path) -> Path:
    """Untouched original files of six publishers, as a zip."""
    return real_data / "originals.zip"


@pytest.fixture(scope="session")
def hospital_files(real_data: Path) -> Path:
    """Files of hospital formats, genuine or for demonstration, as a zip: read in place, never copied here."""
    return real_data / "formats.zip"


@pytest.fixture(scope="session")
def running_object_server() -> Iterator[object_server.ObjectServer]:
    """A real S3 server with a bucket, for all tests of this process."""
    server = object_server.ObjectServer()
    try:
        server.start()
        server.make_bucket()
        yield server
    finally:
        server.close()


@pytest.fixture
def bucket(running_object_server: object_server.ObjectServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """URL of an empty folder in a bucket, which this process and its children can read and write."""
    for name, value in running_object_server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CLOCS_CACHE", str(tmp_path / "object-cache"))
    return f"s3://{object_server.BUCKET}/{tmp_path.name}"


def make_recording(
    leads: tuple[str, ...] = ("I", "II", "V2"),
    num_samples: int = 5000,
    sampling_rate: float = 500.0,
    seed: int = 0,
    record_id: str = "r0",
    patient_id: str = "p0",
    labels: tuple[str, ...] = (),
) -> Recording:
    """A smooth random signal of about 1 mV that passes the gate."""
    random = np.random.default_rng(seed)
    walk = np.cumsum(random.normal(size=(len(leads), num_samples)), axis=1)
    millivolts = walk / np.abs(walk).max(axis=1, keepdims=True)
    return Recording(
        digital=quantize(millivolts),
        gain=np.full(len(leads), 1000.0),
        baseline=np.zeros(len(leads), np.int32),
        sampling_rate=sampling_rate,
        leads=leads,
        record_id=record_id,
        patient_id=patient_id,
        labels=labels,
    )
