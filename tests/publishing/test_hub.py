"""Encoders go to the Hugging Face Hub and come back, with its own client and a small server in place of the hub."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError, DownloadError, IntegrityError
from clocs.training.shipped import shipped_encoders

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """A hub with the files of one commit a repository."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.repositories: dict[str, dict[str, bytes]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Requests(BaseHTTPRequestHandler):
    """The part of the hub's API that creating, uploading and downloading ask for."""

    server: Hub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.server.repositories.setdefault(name, {})
            return self._send({"url": f"{self.server.address}/{name}"})
        if path == "/api/validate-yaml":
            return self._send({"errors": [], "warnings": []})
        name, verb = path.removeprefix("/api/models/").rsplit("/", 2)[:2]
        if verb == "preupload":
            found = [
                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                for each in json.loads(body)["files"]
            ]
            return self._send({"files": found})
        assert verb == "commit", path
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.server.repositories[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        return self._send({"commitUrl": f"{self.server.address}/{name}/commit/{COMMIT}", "commitOid": COMMIT})

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        name = "/".join(parts[2:4] if parts[0] == "api" else parts[:2])
        files = self.server.repositories.get(name)
        if files is None:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if "tree" in parts:
            blobs = {path: hashlib.sha1(raw).hexdigest() for path, raw in files.items()}
            found = [
                {"type": "file", "path": path, "size": len(files[path]), "oid": oid} for path, oid in blobs.items()
            ]
            return self._send(found)
        if parts[0] == "api":
            siblings = [{"rfilename": path} for path in files]
            return self._send({"id": name, "sha": COMMIT, "siblings": siblings, "private": False})
        raw = files["/".join(parts[4:])]  # NAME/resolve/REVISION/PATH
        self._head(len(raw), **{"ETag": f'"{hashlib.sha1(raw).hexdigest()}"', "X-Repo-Commit": COMMIT})
        if self.command == "GET":
            self.wfile.write(raw)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, answer: Any) -> None:
        raw = json.dumps(answer).encode()
        self._head(len(raw), **{"Content-Type": "application/json"})
        self.wfile.write(raw)

    def _head(self, length: int, **headers: str) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        print(self.command, self.path, *args)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    constants = pytest.importorskip("huggingface_hub.constants")
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        # Both are read from HF_ENDPOINT when the client is imported.
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, server.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", shipped_encoders())
def test_an_encoder_is_the_same_after_a_round_trip(name: str, hub: Hub, tmp_path: Path) -> None:
    encoder = clocs.load_encoder(name)
    address = clocs.push_to_hub(encoder, "clinic/encoder")
    assert address == f"{hub.address}/clinic/encoder/commit/{COMMIT}"
    files = hub.repositories["clinic/encoder"]
    assert files == {
        path.relative_to(encoder.folder).as_posix(): path.read_bytes()
        for path in encoder.folder.rglob("*")
        if path.is_file()
    }
    files["model.pkl"] = b"not one of an encoder's files"
    loaded = clocs.from_pretrained("clinic/encoder", cache=tmp_path)
    assert {path.name for path in loaded.folder.iterdir()} == {path.split("/")[0] for path in files} - {"model.pkl"}
    assert list(loaded.classifiers) == list(encoder.classifiers)
    shape = (2, encoder.input.in_channels, encoder.input.num_samples)
    frames = np.random.default_rng(0).uniform(size=shape).astype(np.float32)
    np.testing.assert_array_equal(loaded.embed_frames(frames), encoder.embed_frames(frames))


def test_damaged_encoders_do_not_travel(hub: Hub, tmp_path: Path) -> None:
    clocs.push_to_hub("cmsc-physionet2020", "clinic/encoder")
    files = hub.repositories["clinic/encoder"]
    files["model.onnx"] = files["model.onnx"][:-1] + b"\0"
    with pytest.raises(IntegrityError, match=r"model\.onnx: content differs from its hash"):
        clocs.from_pretrained("clinic/encoder", cache=tmp_path / "cache")
    folder = tmp_path / "encoder"
    for path, raw in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(raw)
    with pytest.raises(IntegrityError, match=r"model\.onnx: content differs from its hash"):
        clocs.push_to_hub(folder, "clinic/other")
    assert "clinic/other" not in hub.repositories


def test_what_is_missing_is_named(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"'clinic/none' is neither a folder nor a shipped encoder \(clocs-base"):
        clocs.from_pretrained("clinic/none", cache=tmp_path)
    with pytest.raises(DownloadError, match="Repo id must"):
        clocs.from_pretrained("no/such/folder", cache=tmp_path)
    with pytest.raises(ConfigError, match="'clocs-small' is not a repository"):
        clocs.from_pretrained("clocs-small", revision="v1")
