"""``clocs serve``: the HTTP API and the viewer."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from clocs.cli.arguments import Device
from clocs.core.errors import ConfigError, MissingExtraError


def serve(
    encoder: Annotated[
        str | None,
        typer.Option(help="Serve this encoder: a name or a folder. Default: the index's encoder, or the shipped one."),
    ] = None,
    device: Device = None,
    index: Annotated[Path | None, typer.Option(help="Serve this index for similar patients and the map.")] = None,
    store: Annotated[Path | None, typer.Option(help="List the recordings of this store.")] = None,
    classified: Annotated[
        Path | None,
        typer.Option(help="Show measurements and classes of this table: clocs classify STORE --out TABLE.arrow."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a demonstration index of synthetic patients.")] = False,
    demo_folder: Annotated[
        Path | None, typer.Option(help="Keep the demonstration in this folder. Default: a temporary folder.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Listen on this address. Addresses other than loopback are reachable from the network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port; 0 selects a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Read the token, or named tokens with rights, from this file. Default: print a new token."),
    ] = None,
    open_access: Annotated[
        bool, typer.Option("--open-access", help="Require no token. Only allowed on loopback.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="Accept requests for this host name. Repeatable.")
    ] = None,
    show_ids: Annotated[bool, typer.Option("--show-ids", help="Return patient and record ids of the index.")] = False,
    allow_embeddings: Annotated[bool, typer.Option("--allow-embeddings", help="Return raw embeddings.")] = False,
    print_times: Annotated[
        bool, typer.Option("--print-times", help="Print on sheets when the ECG was recorded, as its file states.")
    ] = False,
    audit_log: Annotated[
        Path | None, typer.Option(help="Append searches to this file. Default: in ~/.local/state/clocs.")
    ] = None,
    without_landlock: Annotated[
        bool,
        typer.Option("--without-landlock", help="Start even if the kernel cannot protect files from hostile uploads."),
    ] = False,
    max_upload_mb: Annotated[int, typer.Option(min=1, help="Accept uploads of up to this size in MiB.")] = 64,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Use this number of parsing processes. Default: one per processor, between 2 and 8."),
    ] = None,
) -> None:
    """Serve an encoder and an index: classes, similar patients and a map for an uploaded ECG.

    Listens on loopback and requires a token by default. Stop it with Ctrl-C or SIGTERM; accepted requests are answered
    first.
    """
    if demo and index is not None:
        raise ConfigError("--demo creates its own index. Omit --index or --demo.")
    if demo_folder is not None and not demo:
        raise ConfigError("--demo-folder requires --demo.")
    if token_file is not None and open_access:
        raise ConfigError("--token-file and --open-access exclude each other. Pass one of them.")
    try:
        from pydantic import SecretStr

        from clocs.service.demo import demo_index
        from clocs.service.parsing.confinement import on_linux
        from clocs.service.parsing.confinement_check import check_confinement
        from clocs.service.server import check_address, run
        from clocs.service.settings import Limits, ServiceSettings, read_tokens
    except ImportError as error:
        raise MissingExtraError("serve", "clocs serve") from error

    printed = "" if open_access or token_file else secrets.token_urlsafe(24)
    tokens = read_tokens(token_file) if token_file else {"token": SecretStr(printed)} if printed else {}
    pool_size = {"parsing_processes": processes, "active": processes} if processes else {}
    paths: dict[str, Any] = {"audit_log": audit_log} if audit_log else {}
    unconfined = demo and not on_linux()
    if unconfined:
        typer.echo(
            "warning: uploads are parsed without a sandbox, because this is not Linux. Open only trusted files.",
            err=True,
        )
    with contextlib.ExitStack() as stack:
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that temporary folders are removed
        stack.callback(signal.signal, signal.SIGTERM, before)
        if demo:
            check_address(host, port)
            check_confinement(without_landlock=without_landlock, unconfined=unconfined)
            typer.echo("creating a demonstration index of synthetic patients ...", err=True)
            index = stack.enter_context(demo_index(demo_folder, encoder))
            paths = paths or {"audit_log": index.parent / "searches.jsonl"}
            store = store or index.parent / "store"
        settings = ServiceSettings(
            host=host,
            port=port,
            encoder=encoder,
            device=device,
            index=index,
            store=store,
            classified=classified,
            open_access=open_access,
            allowed_hosts=tuple(allowed_host or ()),
            show_ids=show_ids,
            allow_embeddings=allow_embeddings,
            print_times=print_times,
            token_file=token_file,
            without_landlock=without_landlock,
            unconfined=unconfined,
            limits=Limits(upload_bytes=max_upload_mb << 20, **pool_size),
            **tokens,
            **paths,
        )
        run(settings, lambda address: typer.echo(f"{address}/#token={printed}" if printed else f"{address}/"))
