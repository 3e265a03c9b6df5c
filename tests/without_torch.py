"""Encoders in use where torch is not installed: ``python tests/without_torch.py FOLDER ENCODER...``.

Needs no more than the package and its extra ``serve``. Commands embed and classify a file, embed a store with worker
processes, build an index and search it; the service answers an upload. Prints what was found as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

TRAIN = ("torch", "lightning_fabric", "onnx", "onnxscript")
TOKEN = "a token of this test alone"
BORDER = "border-of-parts"


def _command(*arguments: object) -> Any:
    """Return what a command prints as JSON."""
    from typer.testing import CliRunner

    from clocs.cli.main import app

    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return json.loads(done.stdout)


def use(folder: Path, encoder: str) -> dict[str, Any]:
    """Put an encoder to use in every way."""
    import clocs

    folder.mkdir(parents=True)
    store = clocs.ingest("synthetic", None, folder / "store", options={"num_records": 24, "leads": 12})
    file = folder / "one.csv"
    clocs.write(store.recording(0), file)
    chosen = ("--encoder", encoder)
    (embedded,) = _command("embed", file, *chosen)["files"]
    archive = _command("embed", folder / "store", *chosen, "--out", folder / "archive", "--workers", 2)
    index = _command("index", "build", folder / "archive", folder / "index")
    found = {
        "pooled": embedded["pooled"],
        "archive": archive["embedded"],
        "index": index["patients"],
        "similar": _command("similar", file, "--index", folder / "index", "-k", 3)["neighbours"],
        "served": asyncio.run(_served(folder, file.read_bytes())),
    }
    if clocs.load_encoder(encoder).classifiers:
        found["classes"] = _command("classify", file, *chosen)["classifications"]
    return found


async def _served(folder: Path, upload: bytes) -> dict[str, Any]:
    """Return what the service answers to an upload."""
    from clocs.service.app import create_app
    from clocs.service.settings import ServiceSettings

    given = {"index": folder / "index", "token": TOKEN, "audit_log": folder / "searches.jsonl", "unconfined": False}
    app = create_app(ServiceSettings.model_validate({**given, "limits": {"active": 1, "parsing_processes": 1}}))
    async with app.router.lifespan_context(app):
        paths = ("/api/v1/similar", "/api/v1/classify")
        return {path.rpartition("/")[2]: await _post(app, path, upload) for path in paths}


async def _post(app: Any, path: str, upload: bytes) -> Any:
    head = f'--{BORDER}\r\ncontent-disposition: form-data; name="files"; filename="one.csv"\r\n\r\n'
    body = head.encode() + upload + f"\r\n--{BORDER}--\r\n".encode()
    headers = {
        "host": "localhost",
        "authorization": f"Bearer {TOKEN}",
        "content-type": f"multipart/form-data; boundary={BORDER}",
        "content-length": str(len(body)),
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return {"status": sent[0]["status"], **json.loads(b"".join(message.get("body", b"") for message in sent))}


def main(folder: Path, encoders: list[str]) -> None:
    """Use each encoder, and print what was found."""
    found = {encoder: use(folder / str(number), encoder) for number, encoder in enumerate(encoders)}
    assert not set(TRAIN) & set(sys.modules)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
