"""Benchmarks of search: the package against bare FAISS and numpy, and scaling with patients."""

from __future__ import annotations

import functools
import importlib
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import (
    ROOT,
    in_child,
    in_turns,
    line,
    memory_of_this_process,
    peak_memory,
    processor_seconds,
    ratios,
    scratch,
    seconds,
)
from synthetic_archive import queries_near, write_synthetic_archive
from threadpoolctl import threadpool_limits

import clocs
from clocs.similarity.index.faiss_index import EF_SEARCH
from clocs.similarity.index.filters import Filter
from clocs.similarity.index.updates import build_index
from clocs.similarity.index.withdraw import hide_patients
from clocs.store.named_patients import NamedPatients

K, ROWS, ROUNDS = 10, 100_000, 15
SIZES = (10_000, 100_000, 1_000_000)
SHARES = (1.0, 0.5, 0.05, 0.005)
PICTURE = ROOT / "docs" / "images" / "search-growth.png"


def search_speed() -> None:
    """Compare bare search with the package on the same vectors, in turns with one thread."""
    import faiss

    with scratch() as folder, threadpool_limits(1):
        write_synthetic_archive(folder / "archive", ROWS)
        build_index(folder / "archive", folder / "hnsw", "hnsw")
        build_index(folder / "archive", folder / "exact")
        faiss.omp_set_num_threads(1)
        vectors = clocs.open_archive(folder / "archive").vectors()
        queries = queries_near(vectors, 500)
        _graph_speed(folder / "hnsw", queries)
        exact = clocs.open_index(folder / "exact")
        for count in (1, 16, 64):
            some = queries[:count]
            _compare(
                f"exact, {count} at once, package / product + partition",
                functools.partial(_bare_product, vectors, some),
                functools.partial(exact.search, some, K),
                floor=0.8,
            )


def _graph_speed(folder: Path, queries: Any) -> None:
    """Compare FAISS on the file of the index with the package, also with hidden patients."""
    faiss: Any = importlib.import_module("faiss")  # its types lack what its C++ classes have
    index = clocs.open_index(folder)
    bare = faiss.read_index(str(folder / "volumes" / "000001-0" / "graph.faiss"), faiss.IO_FLAG_MMAP_IFC)
    params = faiss.SearchParametersHNSW(efSearch=EF_SEARCH)
    _compare(
        "HNSW, 500 queries at once, package / bare",
        lambda: bare.search(queries, K, params=params),
        lambda: index.search(queries, K),
    )
    _compare(
        "HNSW, one query at a time, package / bare",
        lambda: [bare.search(queries[at : at + 1], K, params=params) for at in range(200)],
        lambda: [index.search(queries[at : at + 1], K) for at in range(200)],
        floor=0.75,
    )
    gone = {f"{number:09d}" for number in range(0, ROWS, 100)}
    hide_patients(index.snapshot, NamedPatients({name: frozenset({name}) for name in gone}))
    alive = np.ones(ROWS, bool)
    alive[::100] = False
    chosen = faiss.IDSelectorBitmap(np.packbits(alive, bitorder="little"))
    hidden = faiss.SearchParametersHNSW(efSearch=-(-EF_SEARCH * ROWS // int(alive.sum())), sel=chosen)
    _compare(
        "HNSW, 1 % hidden, package / bare with a selector",
        lambda: bare.search(queries, K, params=hidden),
        lambda: index.search(queries, K),
    )


def _bare_product(vectors: Any, queries: Any) -> Any:
    """Return the k highest cosines in order, by a partition in memory."""
    cosines = queries @ vectors.T
    places = np.argpartition(cosines, len(vectors) - K, axis=1)[:, len(vectors) - K :]
    found = np.take_along_axis(cosines, places, 1)
    return np.take_along_axis(places, np.argsort(-found, axis=1), 1)


def _compare(name: str, bare: Callable[[], Any], ours: Callable[[], Any], floor: float = 0.9) -> None:
    taken = in_turns({"bare": bare, "package": ours}, ROUNDS, processor_seconds)
    print("  " + ", ".join(f"{way} {statistics.median(times) * 1e3:.2f} ms" for way, times in taken.items()))
    line(name, ratios(taken["bare"], taken["package"]), floor, unit="x")


def measure_build(archive: str, folder: str, kind: str) -> dict[str, float]:
    """Measure building an index, in a separate process."""
    if kind != "exact":
        import faiss  # noqa: F401  # its import is no part of a build
    start = memory_of_this_process("RssAnon")
    with peak_memory(lambda: memory_of_this_process("RssAnon")) as peak:
        spent = seconds(lambda: build_index(archive, folder, kind))
    return {"build": spent, "memory": peak[0] - start}


def measure_queries(folder: str, exact: str) -> dict[str, Any]:
    """Measure opening, single queries and recall with and without filters, in a separate process."""
    import faiss

    threadpool_limits(1)
    faiss.omp_set_num_threads(1)
    opening = {
        name: statistics.median(seconds(lambda place=place: clocs.open_index(place)) for _ in range(9))  # type: ignore[misc]
        for name, place in (("open", folder), ("exact open", exact))
    }
    index, truth = clocs.open_index(folder), clocs.open_index(exact)
    vectors = truth.snapshot.volumes[0].vectors
    queries = queries_near(vectors, 100)
    found: dict[str, Any] = opening | {"query": _query_time(index, queries, Filter())}
    found["exact query"] = _query_time(truth, queries, Filter())
    for share, site in zip(SHARES, (None, "s0", "s1", "s2"), strict=True):
        rows = [opened.search(queries, K, Filter(site=site)).rows for opened in (index, truth)]
        found[f"recall {share:g}"] = float(np.mean([len(set(a) & set(b)) / K for a, b in zip(*rows, strict=True)]))
        found[f"filtered {share:g}"] = _query_time(index, queries, Filter(site=site))
    return found


def _query_time(index: Any, queries: Any, wanted: Filter) -> float:
    """Return the seconds of one query, with the rows of the filter cached."""
    index.search(queries[:1], K, wanted)

    def at(place: int) -> Callable[[], Any]:
        return lambda: index.search(queries[place : place + 1], K, wanted)

    return statistics.median(seconds(at(place)) for place in range(30))


def search_growth() -> None:
    """Measure an index of 10 thousand, 100 thousand and a million patients, and draw the plot of the docs."""
    found: list[dict[str, float]] = []
    for size in SIZES:
        with scratch() as folder:
            write_synthetic_archive(folder / "archive", size)
            built = in_child(measure_build, folder / "archive", folder / "hnsw", "hnsw")
            plain = in_child(measure_build, folder / "archive", folder / "exact", "exact")
            row = built | {"exact build": plain["build"], "exact memory": plain["memory"]}
            row |= in_child(measure_queries, folder / "hnsw", folder / "exact")
        found.append(row)
        print(f"  {size:,}: " + ", ".join(f"{name} {value:.4g}" for name, value in row.items()), flush=True)
    line("recall at 10 of HNSW, 1,000,000 patients", found[-1]["recall 1"], 0.99)
    line("exact / HNSW, time of a query, 1,000,000", found[-1]["exact query"] / found[-1]["query"], 1.0, unit="x")
    opening = found[-1]["exact open"] / found[0]["exact open"]
    line("opening an exact index, 1,000,000 / 10,000", opening, 2.0, at_least=False, unit="x")
    draw_growth(found)


def search_lists() -> None:
    """Measure size and recall of IVF-PQ for a hundred thousand patients."""
    with scratch() as folder:
        write_synthetic_archive(folder / "archive", ROWS)
        row = in_child(measure_build, folder / "archive", folder / "ivfpq", "ivfpq")
        build_index(folder / "archive", folder / "exact")
        row |= in_child(measure_queries, folder / "ivfpq", folder / "exact")
        size = (folder / "ivfpq" / "volumes" / "000001-0" / "lists.faiss").stat().st_size
    print(
        f"  {ROWS:,}, {size / ROWS:.0f} bytes each: " + ", ".join(f"{name} {value:.4g}" for name, value in row.items())
    )
    line("recall at 10 of IVF-PQ, 100,000 patients", row["recall 1"], 0.99)


def draw_growth(found: list[dict[str, float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = {
        "building, s": (("build", "HNSW"), ("exact build", "exact")),
        "own memory while building, MB": (("memory", "HNSW"), ("exact memory", "exact")),
        "one query, ms": (("query", "HNSW"), ("exact query", "exact")),
        "opening, ms": (("open", "HNSW"), ("exact open", "exact")),
    }
    sizes = np.array(SIZES, float)
    figure, grid = pyplot.subplots(1, 4, figsize=(14, 3.6), layout="constrained")
    for axis, (title, curves) in zip(grid, panels.items(), strict=True):
        for (key, name), colour in zip(curves, ("#0072b2", "#d55e00"), strict=False):
            values = np.array([row[key] for row in found]) * (1e3 if title.endswith("ms") else 1)
            slope = np.polyfit(np.log(sizes), np.log(values), 1)[0]
            axis.loglog(sizes, values, "o-", color=colour, label=f"{name}, slope {slope:.2f}")
        axis.set(title=title, xlabel="patients")
        axis.set_xticks(sizes, [f"{int(size):,}" for size in sizes])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="upper left")
        low, high = axis.get_ylim()
        axis.set_ylim(low / 3, high * 12)
    figure.savefig(PICTURE, dpi=110)
    print(f"  drawn: {PICTURE.relative_to(ROOT)}")
