"""``clocs embed``, ``clocs classify``, ``clocs export-onnx``: trained encoders put to use."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.printing import print_table
from clocs.evaluation.shipped import DEFAULT_ENCODER

EncoderName = Annotated[str, typer.Option("--encoder", help="Name or folder of an encoder.")]
AnyLead = Annotated[bool, typer.Option("--any-lead", help="Take leads that the encoder was not trained on, too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def embed(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="ECG files.")],
    encoder: EncoderName = DEFAULT_ENCODER,
    out: Annotated[
        Path | None, typer.Option("--out", help="Table to write: .npz, .csv or .parquet. Default: embeddings.npz.")
    ] = None,
    any_lead: AnyLead = False,
    as_json: AsJson = False,
) -> None:
    """Turn ECG files into embeddings, one a lead and frame. Exits 1 if a file was refused; the others are written.

    With --json and without --out, no table is written.
    """
    from clocs.evaluation.embedding_files import embed_files
    from clocs.evaluation.pretrained import load_encoder

    target = out or (None if as_json else Path("embeddings.npz"))
    done = embed_files(load_encoder(encoder), files, target, any_lead=any_lead)
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
        typer.secho(f"{file}: {reason}", fg="red", err=True)
    if done.refused:
        raise typer.Exit(1)


def classify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An ECG file.")],
    encoder: EncoderName = DEFAULT_ENCODER,
    any_lead: AnyLead = False,
    as_json: AsJson = False,
) -> None:
    """Say how probable each class of an encoder's classifier is. Research use only, not a diagnosis."""
    from clocs.evaluation.pretrained import load_encoder

    found = load_encoder(encoder).classify(file, any_lead=any_lead)
    if as_json:
        typer.echo(json.dumps({"file": str(file), **asdict(found)}))
        return
    rows = [
        (item.name, item.meaning, f"{item.probability:.1%}", item.track_record, f"{item.prevalence:.1%}")
        for item in found.classes
    ]
    print_table(["class", "meaning", "probability", "how often that was right", "in training"], rows)
    for sentence in (*found.notes, *found.cannot_recognise):
        typer.echo(sentence)
    typer.echo("Research use only, not a diagnosis.")


def export_onnx(
    encoder: Annotated[str, typer.Argument(metavar="ENCODER", help="Name or folder of an encoder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write, such as encoder.onnx.")],
    as_json: AsJson = False,
) -> None:
    """Write an encoder as ONNX, if onnxruntime then gives the same embeddings as torch."""
    from clocs.evaluation.onnx_export import export_onnx as run
    from clocs.evaluation.pretrained import load_encoder

    result = run(load_encoder(encoder), out)
    if as_json:
        typer.echo(json.dumps(result))
        return
    typer.echo(f"{result['path']}: opset {result['opset']}, at most {result['max_difference']:.1e} off torch")
