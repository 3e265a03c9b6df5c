"""Encoders on the Hugging Face Hub: download one, upload one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clocs import __version__
from clocs.core.errors import ConfigError, DownloadError, MissingExtraError
from clocs.inference.classifier import FOLDER as CLASSIFIERS
from clocs.inference.pretrained import PretrainedEncoder
from clocs.training.encoder_folder import CONFIG, HEAD, ONNX, WEIGHTS, read_config, read_file, read_onnx
from clocs.training.seen_recordings import FILE as SEEN
from clocs.training.shipped import find_encoder_folder, shipped_encoders

if TYPE_CHECKING:
    from torch import nn

CARD: Final = "README.md"
FILES: Final = (CARD, CONFIG, WEIGHTS, HEAD, ONNX, SEEN, f"{CLASSIFIERS}/*")
"""Patterns of the files of an encoder's folder. Nothing else is uploaded or downloaded."""


def from_pretrained(
    name: str | os.PathLike[str],
    *,
    revision: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    device: str | None = None,
    num_threads: int = 1,
    module: nn.Module | None = None,
) -> PretrainedEncoder:
    """Load a trained encoder from the Hugging Face Hub, or from a folder.

    Only the files of an encoder are downloaded, and none of them can run code. ``config.json`` contains the hashes of
    the weights and of the network. Files in the cache are not downloaded again.

    Args:
        name: Repository, such as ``organization/encoder``; folder; or name of a shipped encoder. A folder or a shipped
            encoder of this name is preferred to a repository.
        revision: Branch, tag or commit of the repository. None: its main branch.
        cache: Folder of downloads. None: that of ``huggingface_hub``.
        device: Device of torch, such as ``cpu`` or ``cuda:0``. None: ONNX Runtime on the CPU.
        num_threads: Threads of ONNX Runtime.
        module: Module that the weights are loaded into, for an encoder that is not registered.

    Returns:
        The encoder, as :func:`clocs.load_encoder` returns it.

    Raises:
        DownloadError: The repository cannot be downloaded.
        StoreError: The repository or folder has no encoder.
        IntegrityError: A file has changed.
        MissingExtraError: The extra ``hub`` is not installed.

    Example:
        >>> from_pretrained("clocs-small").embedding_dim
        128
    """
    text = os.fspath(name)
    if Path(text).is_dir() or text in shipped_encoders():
        if revision is not None:
            raise ConfigError(f"'{text}' is not a repository, so it has no revision '{revision}'. Omit revision=.")
        folder = find_encoder_folder(text)
    else:
        folder = _download(text, revision, cache)
    return PretrainedEncoder(text, folder, device=device, num_threads=num_threads, module=module)


def push_to_hub(
    encoder: PretrainedEncoder | str | os.PathLike[str],
    repository: str,
    *,
    revision: str | None = None,
    private: bool | None = None,
    message: str = "Upload encoder",
) -> str:
    """Upload a trained encoder to the Hugging Face Hub.

    The repository is created if it does not exist. Log in first with ``hf auth login``, or set ``HF_TOKEN``. The model
    card is the ``README.md`` that :func:`clocs.publish` writes. Read it before you upload: embeddings are personal
    data, and ``seen.npy`` contains hashes of the signals that the encoder was trained on.

    Args:
        encoder: An encoder, the name of a shipped one, or the folder of a run or of an encoder.
        repository: Repository, such as ``organization/encoder``.
        revision: Existing branch to upload to. None: the main branch.
        private: Create a private repository. None: the default of the organization.
        message: Message of the commit.

    Returns:
        The address of the commit.

    Raises:
        IntegrityError: A file of the encoder has changed.
        MissingExtraError: The extra ``hub`` is not installed.

    Example:
        >>> push_to_hub("my-encoder", "organization/my-encoder", private=True)  # doctest: +SKIP
        'https://huggingface.co/organization/my-encoder/commit/0123456789abcdef'
    """
    hub = _client("uploading an encoder")
    folder = encoder.folder if isinstance(encoder, PretrainedEncoder) else find_encoder_folder(encoder)
    about = read_config(folder)
    read_file(folder, WEIGHTS, about["weights_sha256"])
    read_onnx(folder, about)
    hub.create_repo(repository, private=private, exist_ok=True)
    commit = hub.upload_folder(
        repo_id=repository, folder_path=folder, allow_patterns=list(FILES), commit_message=message, revision=revision
    )
    return str(commit.commit_url)


def _download(repository: str, revision: str | None, cache: str | os.PathLike[str] | None) -> Path:
    """Return the folder with the files of a repository."""
    hub = _client("downloading an encoder")
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(hub.snapshot_download(repository, revision=revision, cache_dir=cache, allow_patterns=list(FILES)))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise DownloadError(
            f"'{repository}' is neither a folder nor a shipped encoder ({', '.join(shipped_encoders())}), and the "
            f"repository cannot be downloaded: {error}"
        ) from error


def _client(purpose: str) -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise MissingExtraError("hub", purpose) from error
    return huggingface_hub.HfApi(library_name="clocs", library_version=__version__)
