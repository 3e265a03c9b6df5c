"""The ``clocs`` command. Commands import heavy modules only when they run."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Final

import typer
from typer.core import TyperGroup

from clocs import __version__
from clocs.cli.archive import archive_report, deidentify, make_key, scan_identities
from clocs.cli.benchmark import benchmark
from clocs.cli.convert import convert
from clocs.cli.data import data
from clocs.cli.embed import classify, embed
from clocs.cli.evaluate import evaluate
from clocs.cli.index import index, similar
from clocs.cli.measure import measure
from clocs.cli.pretrain import pretrain
from clocs.cli.receive import receive
from clocs.cli.serve import serve
from clocs.cli.show import show
from clocs.cli.similarity import audit, similarity
from clocs.cli.splits import check_leaks, split, tasks
from clocs.cli.store_versions import archive, compact, prune, withdraw
from clocs.core.errors import ClocsError, missing_train_extra
from clocs.core.storage.counters import counts, describe_counts

INTERRUPTED = 130
"""Exit code of typer after a KeyboardInterrupt, which ``app()`` does not raise."""
RESUMABLE: Final = {
    *("ingest", "deidentify", "download", "withdraw", "compact", "prune"),
    *("pretrain", "finetune", "benchmark", "embed"),
}
"""Commands that continue where they stopped when they are called again."""

PANELS: Final[dict[str, dict[str, typer.Typer | Callable[..., None]]]] = {
    "Data": {"data": data, "convert": convert, "measure": measure},
    "Encoders": {"pretrain": pretrain, "show": show, "evaluate": evaluate, "benchmark": benchmark},
    "Inference": {"embed": embed, "classify": classify, "serve": serve, "receive": receive},
    "Similar patients": {
        "archive": archive,
        "index": index,
        "similar": similar,
        "similarity": similarity,
        "audit": audit,
    },
}
"""Commands by help panel, in the order of typical use."""


class _OrderedGroup(TyperGroup):
    """Group that lists commands in the order of ``PANELS``."""

    def list_commands(self, context: object) -> list[str]:
        return [name for commands in PANELS.values() for name in commands]


app = typer.Typer(
    cls=_OrderedGroup,
    name="clocs",
    help="Self-supervised learning on ECGs: data, pre-training, evaluation and search.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
data.command()(split)
data.command("check-leaks")(check_leaks)
data.command()(tasks)
data.command("make-key")(make_key)
data.command()(deidentify)
data.command("scan-identities")(scan_identities)
data.command("report")(archive_report)
for command in (withdraw, compact, prune):
    data.command()(command)
for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    skip_checksums: Annotated[
        bool, typer.Option("--skip-checksums", help="Read stores without comparing checksums; damage is not detected.")
    ] = False,
    endpoint_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Send requests for s3://... to this server instead of Amazon's.")
    ] = None,
    ca_bundle: Annotated[
        str | None, typer.Option(metavar="FILE", help="Trust these certificates (PEM) of that server's authority, too.")
    ] = None,
) -> None:
    settings = {
        "CLOCS_SKIP_CHECKSUMS": "1" if skip_checksums else None,
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_CA_BUNDLE": ca_bundle and os.path.abspath(ca_bundle),
    }
    context.with_resource(_environment({name: value for name, value in settings.items() if value is not None}))
    context.call_on_close(partial(_log_counters, counts()))
    if version:
        typer.echo(__version__)
        raise typer.Exit


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set environment variables, which worker processes inherit, until the end of the command."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _log_counters(before: dict[str, int]) -> None:
    """Print what was asked of buckets since the counters were read, as the last line of a command that used one."""
    if used := describe_counts(before):
        typer.echo(f"bucket: {used}", err=True)


def main() -> None:
    """Run the command. Errors of clocs print a message and exit with code 1, without a traceback."""
    default_format = warnings.formatwarning
    warnings.formatwarning = lambda message, category, *location: (
        f"warning: {message}\n" if category is UserWarning else default_format(message, category, *location)
    )
    try:
        app()
    except ClocsError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)
    except ModuleNotFoundError as error:
        if (refusal := missing_train_extra(error, f"clocs {' '.join(sys.argv[1:2])}")) is None:
            raise
        typer.secho(f"error: {refusal}", fg="red", err=True)
        sys.exit(1)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            resumable = RESUMABLE & set(sys.argv[1:3]) or (sys.argv[1:2] == ["classify"] and "--out" in sys.argv)
            hint = "; the same command continues where it stopped" if resumable else ""
            typer.secho(f"interrupted{hint}", err=True)
        raise
    except OSError as error:  # e.g. a full disk under the output
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)
