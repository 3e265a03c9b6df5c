"""The path of a researcher on a system without some modules: ``python tests/without_posix.py FOLDER``.

Reads, stores, splits, converts, embeds, searches and trains in one process, and prints what was found as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

MODULES = ("fcntl", "grp", "pwd", "resource", "syslog", "termios")
"""Modules that not every system has."""
CALLS = (
    *("fork", "forkpty", "getloadavg", "getpgid", "killpg", "memfd_create", "nice", "posix_fadvise", "posix_fallocate"),
    *("posix_spawn", "pread", "preadv", "pwrite", "sched_getaffinity", "sched_setaffinity", "sched_yield", "sendfile"),
    *("setsid", "statvfs", "sysconf"),
)
"""Functions of ``os`` that not every system has."""


def remove() -> None:
    """Make modules and functions unavailable; other libraries have been imported before."""
    for name in ("lightning_fabric", "onnxruntime", "scipy.signal", "sklearn.linear_model"):
        importlib.import_module(name)
    sys.modules.update(dict.fromkeys(MODULES))  # type: ignore[arg-type]
    for name in CALLS:
        if hasattr(os, name):
            delattr(os, name)


def use(folder: Path) -> dict[str, Any]:
    """Go the whole way from a file to a trained encoder."""
    import clocs
    from clocs import encoders, methods

    store = clocs.ingest("synthetic", None, folder / "store", options={"num_records": 24, "leads": 12})
    clocs.split(store)
    clocs.write(store.recording(0), folder / "one.dcm")
    clocs.convert(folder / "one.dcm", folder / "one.edf")
    recording = clocs.read(folder / "one.edf")
    encoder = clocs.load_encoder("clocs-small")
    clocs.embed_store(encoder, store, folder / "archive")
    clocs.build_index(folder / "archive", folder / "index")
    method = methods.CMSC(encoders.ResNet(in_channels=2, embedding_dim=16, width=4, depth=2))
    run = clocs.pretrain(method, store, leads="I,II", batch_size=8, max_steps=2, runs=str(folder / "runs"), onnx=False)
    return {
        "leads": len(recording.leads),
        "faults": len(clocs.verify(store)),
        "dimension": len(encoder.embed(recording).pooled()),
        "neighbors": len(clocs.open_index(folder / "index").similar(folder / "one.edf", 3).neighbors),
        "steps": run["steps"],
    }


if __name__ == "__main__":
    remove()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        found = use(Path(sys.argv[1]))
    imported = sorted(name for name in sys.modules if name.startswith("clocs.service"))
    print(json.dumps({**found, "service": imported, "warnings": [str(item.message) for item in caught]}))
