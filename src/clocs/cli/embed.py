"""``clocs embed`` and ``clocs classify``: inference with trained encoders."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clocs.cli.arguments import AsJson, Device, Engine, EngineName
from clocs.cli.terminal import print_table, progress_bar
from clocs.core.errors import ConfigError
from clocs.core.storage.locations import to_location
from clocs.training.shipped import DEFAULT_ENCODER

if TYPE_CHECKING:
    from clocs.inference.results import Classification, ClassProbability

EncoderName = Annotated[str, typer.Option("--encoder", help="Use this encoder: a name or a folder.")]
AnyLead = Annotated[bool, typer.Option("--any-lead", help="Also use leads that the encoder was not trained on.")]


def embed(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...|STORE", parser=to_location, help="ECG files, or a store.")
    ],
    encoder: EncoderName = DEFAULT_ENCODER,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write this table (.npz, .csv or .parquet; default: embeddings.npz), or this archive of a store.",
        ),
    ] = None,
    any_lead: AnyLead = False,
    device: Device = None,
    workers: Annotated[int, typer.Option(min=1, help="Use this number of worker processes for a store.")] = 1,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Embed ECG files or a store.

    For files, writes a table with one embedding per lead and frame. Exits with code 1 if a file was refused; the others
    are written. With --json and without --out, no table is written.

    For a store, writes an archive with one embedding per recording. An interrupted command continues where it stopped.
    A repeated command does nothing.
    """
    from clocs.store.manifest import versions

    if len(files) == 1 and versions(files[0]):
        _embed_store(files[0], encoder, out, any_lead, device, workers, engine, as_json)
    else:
        _embed_files(files, encoder, out, any_lead, device, as_json)


def _embed_store(
    store: Path,
    encoder: str,
    out: Path | None,
    any_lead: bool,
    device: str | None,
    workers: int,
    engine: EngineName | None,
    as_json: bool,
) -> None:
    from clocs.inference.embedding_files import ENDINGS
    from clocs.similarity.archive.embedding import embed_store

    if out is None:
        raise ConfigError(f"{store} is a store. Pass the folder of the new archive with --out.")
    if out.suffix in ENDINGS and not out.exists():
        raise ConfigError(f"{store} is a store, so --out must be a folder, not the table '{out}'.")
    with progress_bar("recordings") as advance:
        made = embed_store(
            encoder,
            store,
            out,
            any_lead=any_lead,
            device=device,
            engine=engine.value if engine else None,
            workers=workers,
            progress=lambda done, refused: advance(done, None, f"{refused} refused"),
        )
    about = made.manifest
    counts = {"in": about.records_in, "embedded": about.embedded, "refused": about.refused}
    counts |= {"withdrawn": about.withdrawn}
    if as_json:
        typer.echo(json.dumps({"archive": str(out), "version": about.version, "sha256": about.sha256, **counts}))
        return
    rows = [("recordings of the store", about.records_in), ("embedded", about.embedded)]
    rows += [(f"refused: {reason}", count) for reason, count in about.refused.items()]
    rows += [("of withdrawn patients, left out", about.withdrawn)] if about.withdrawn else []
    print_table([str(out), f"version {about.version}"], rows)
    if about.refused:
        typer.echo(f"For the reasons see {out / about.refused_list.file}")
    typer.echo("Embeddings are personal data. Protect them like the recordings.")


def _embed_files(
    files: list[Path], encoder: str, out: Path | None, any_lead: bool, device: str | None, as_json: bool
) -> None:
    from clocs.inference.embedding_files import embed_files
    from clocs.inference.pretrained import load_encoder

    target = out or (None if as_json else Path("embeddings.npz"))
    done = embed_files(load_encoder(encoder, device=device), files, target, any_lead=any_lead)
    if as_json:
        found = [
            {"file": file, "leads": made.lead, "starts": made.start.tolist(), "notes": made.notes}
            | {"pooled": made.pooled().tolist()}
            for file, made in done.embeddings.items()
        ]
        written = str(target) if target and found else None
        typer.echo(json.dumps({"files": found, "refused": done.refused, "out": written}))
    elif done.embeddings:
        rows = [(file, str(len(made.lead)), "\n".join(made.notes)) for file, made in done.embeddings.items()]
        print_table(["file", "embeddings", "notes"], rows)
        typer.echo(str(target))
    for file, reason in done.refused.items():
        typer.secho(f"{file}: {reason.removeprefix(f'{Path(file).name}: ')}", fg="red", err=True)
    if done.refused:
        raise typer.Exit(1)


def classify(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER|STORE", parser=to_location, help="An ECG file, a folder or zip of them, or a store."
        ),
    ],
    encoder: EncoderName = DEFAULT_ENCODER,
    classifier: Annotated[
        list[str] | None,
        typer.Option(
            help="Use this classifier of the encoder. Repeatable. Default: the first two with leads of a file."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write this table of a folder or store: .csv, .parquet or .arrow.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Name the rows of the table by pseudonyms of this key file.")
    ] = None,
    device: Device = None,
    workers: Annotated[int, typer.Option(min=1, help="Use this number of worker processes for a folder or store.")] = 1,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the probability of each class of an encoder's classifier. Research use only, not a diagnosis.

    Uses the largest set of leads that a classifier and the file have in common: all twelve, six limb leads, I or II.
    Classes are withheld, with the reason, from noise, children, paced recordings and others unlike the training data.

    For a folder or a store, writes a table with measurements and classes, one row per recording. A row without classes
    has the reason. An interrupted command continues where it stopped.
    """
    if source.is_dir() or source.suffix.lower() == ".zip":
        _classify_all(source, encoder, classifier, out, key, device, workers, engine, as_json)
    elif out is not None or key is not None:
        raise ConfigError(f"{source} is not a folder. --out and --key are for a folder, a zip archive or a store.")
    else:
        _classify_file(source, encoder, classifier, device, as_json)


def _classify_all(
    source: Path,
    encoder: str,
    classifiers: list[str] | None,
    out: Path | None,
    key: Path | None,
    device: str | None,
    workers: int,
    engine: EngineName | None,
    as_json: bool,
) -> None:
    from clocs.inference.batch import classify_all
    from clocs.inference.report import NOTICE

    if out is None:
        raise ConfigError(f"{source} is a folder. Pass the new table with --out, for example --out classes.csv.")
    if classifiers and len(classifiers) > 1:
        raise ConfigError(f"{source} is a folder, and a table has the classes of one classifier. Pass one of them.")
    with progress_bar("recordings") as advance:
        made = classify_all(
            source,
            out,
            encoder=encoder,
            classifier=classifiers[0] if classifiers else None,
            key=key,
            device=device,
            engine=engine.value if engine else None,
            workers=workers,
            progress=lambda done, refused: advance(done, None, f"{refused} without classes"),
        )
    counts = {"recordings": made.recordings, "without_classes": len(made.withheld)}
    if as_json:
        typer.echo(json.dumps({"out": str(out), **counts}))
        return
    print_table([str(out), "recordings"], [("all", made.recordings), ("without classes", len(made.withheld))])
    typer.echo(NOTICE)


def _classify_file(file: Path, encoder: str, classifiers: list[str] | None, device: str | None, as_json: bool) -> None:
    from clocs.inference.pretrained import load_encoder
    from clocs.inference.recordings import as_recording

    loaded, recording = load_encoder(encoder, device=device), as_recording(file)
    results = loaded.classify_side_by_side(recording, classifiers or None)
    if as_json:
        found = [{**asdict(result), "set_statement": result.set_statement} for result in results]
        typer.echo(json.dumps({"file": str(file), "classifications": found}))
        return
    for finding in results[0].findings:
        typer.secho(f"finding: {finding}", bold=True)
    given = [result for result in results if not result.withheld]
    for result in given:
        _print_classes(result)
    if len(given) < len(results):
        typer.secho(f"No {'other ' if given else ''}classes are given:", bold=True)
    for sentence in dict.fromkeys(sentence for result in results for sentence in (*result.withheld, *result.notes)):
        typer.echo(sentence)
    typer.echo("Research use only, not a diagnosis.")


def _print_classes(found: Classification) -> None:
    from clocs.inference.classification import format_set

    if found.set_statement:
        typer.secho(f"{found.set_statement} (95% of the patients of each class have it among those named)", bold=True)
    rows = [
        (item.name, item.meaning, f"{item.probability:.1%}", _records(item), f"{item.prevalence:.1%}")
        for item in found.classes
    ]
    print_table(["class", "meaning", "probability", "how often that was right", "in training"], rows)
    typer.echo(f"classifier: {found.classifier}, from {format_set(found.leads)}")
    for sentence in found.limitations:
        typer.echo(sentence)
    typer.echo()


def _records(item: ClassProbability) -> str:
    """Return how often such a probability was right: on validation patients, and in the own hospital."""
    return "\n".join(filter(None, (item.track_record, item.local_record)))
