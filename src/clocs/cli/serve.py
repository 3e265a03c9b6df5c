"""``clocs serve``: the API and the viewer on this machine."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import Device
from clocs.core.errors import ConfigError, MissingExtraError


def serve(
    encoder: Annotated[
        str | None, typer.Option(help="Name or folder of an encoder. Default: the index's, or the shipped one.")
    ] = None,
    device: Device = None,
    index: Annotated[Path | None, typer.Option(help="Folder of an index, for similar patients and the map.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Make an index of made-up patients, to try it.")] = False,
    demo_folder: Annotated[
        Path | None, typer.Option(help="Keep the demonstration here. Default: a temporary folder.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than loopback reach the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token that every request needs. Default: a new one, printed.")
    ] = None,
    open_access: Annotated[bool, typer.Option("--open-access", help="No token; on loopback only.")] = False,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="Host name under which browsers reach the service; may be repeated.")
    ] = None,
    show_ids: Annotated[bool, typer.Option("--show-ids", help="Give out patient and record ids of the index.")] = False,
    allow_embeddings: Annotated[bool, typer.Option("--allow-embeddings", help="Give out raw embeddings.")] = False,
    audit_log: Annotated[
        Path | None, typer.Option(help="File to which searches are appended. Default: in ~/.local/state/clocs.")
    ] = None,
    without_landlock: Annotated[
        bool,
        typer.Option("--without-landlock", help="Start also where the kernel cannot guard files from hostile uploads."),
    ] = False,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="Largest upload, in MiB.")] = 64,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Parsing processes. Default: one a processor, but 2 to 8.")
    ] = None,
) -> None:
    """Serve an encoder and an index on this machine: upload an ECG, see classes, similar patients and a map.

    Binds to loopback and needs a token unless told otherwise. Stop it with Ctrl-C or SIGTERM: requests that were
    accepted are answered first.
    """
    if demo and index is not None:
        raise ConfigError("--demo makes an index of its own; leave out --index, or --demo")
    if demo_folder is not None and not demo:
        raise ConfigError("--demo-folder goes with --demo")
    if token_file is not None and open_access:
        raise ConfigError("--token-file and --open-access exclude each other; choose one")
    try:
        from pydantic import SecretStr

        from clocs.service.demo import demo_index
        from clocs.service.parsing.confinement import on_linux
        from clocs.service.parsing.trial import try_confinement
        from clocs.service.server import check_address, run
        from clocs.service.settings import Limits, ServiceSettings, read_token
    except ImportError as error:
        raise MissingExtraError("serve", "clocs serve") from error

    token = None if open_access else read_token(token_file) if token_file else SecretStr(secrets.token_urlsafe(24))
    chosen = {"parsing_processes": processes, "active": processes} if processes else {}
    given = {"audit_log": audit_log} if audit_log else {}
    unconfined = demo and not on_linux()
    if unconfined:
        typer.echo("warning: uploads are parsed unconfined, as this is not Linux; open only files you trust", err=True)
    with contextlib.ExitStack() as stack:
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that temporary folders are removed
        stack.callback(signal.signal, signal.SIGTERM, before)
        if demo:
            check_address(host, port)
            try_confinement(without_landlock=without_landlock, unconfined=unconfined)
            typer.echo("making a demonstration archive of made-up patients ...", err=True)
            index = stack.enter_context(demo_index(demo_folder, encoder))
            given = given or {"audit_log": index.parent / "searches.jsonl"}
        settings = ServiceSettings(
            host=host,
            port=port,
            encoder=encoder,
            device=device,
            index=index,
            token=token,
            open_access=open_access,
            allowed_hosts=tuple(allowed_host or ()),
            show_ids=show_ids,
            allow_embeddings=allow_embeddings,
            token_file=token_file,
            without_landlock=without_landlock,
            unconfined=unconfined,
            limits=Limits(upload_bytes=max_upload_mb << 20, **chosen),
            **given,
        )
        secret = token.get_secret_value() if token and not token_file else ""
        run(settings, lambda address: typer.echo(f"{address}/#token={secret}" if secret else f"{address}/"))
