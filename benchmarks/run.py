"""All benchmarks: one line a result, with name, value and limit.

Ratios are taken inside one run, because machines differ and are noisy:

    python benchmarks/run.py [NAME ...]

Real data are looked for as the tests do (``CLOCS_DATA`` or ``../shared/data``). Stores are made in a
temporary folder (``CLOCS_SCRATCH`` chooses where).
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from checksums import checksum_cost
from commands import classify_time, help_time
from embedding import embedding_memory, embedding_speed
from encoder_forms import encoder_forms
from formats import reading_speed
from search import search_growth, search_lists, search_speed
from service import demo_time, service_crowd, service_end, service_overload, service_speed
from stores import gather_speed, ingest_speed, lead_gather_speed, memory_growth, open_growth, synthetic_speed
from training import loss_growth, training_speed

BENCHMARKS: dict[str, Callable[[], None]] = {
    "help": help_time,
    "classify": classify_time,
    "synthetic": synthetic_speed,
    "ingest": ingest_speed,
    "gather": gather_speed,
    "gather-leads": lead_gather_speed,
    "checksums": checksum_cost,
    "memory": memory_growth,
    "open": open_growth,
    "forms": encoder_forms,
    "training": training_speed,
    "growth": loss_growth,
    "embedding": embedding_speed,
    "embedding-memory": embedding_memory,
    "search": search_speed,
    "search-growth": search_growth,
    "search-lists": search_lists,
    "formats": reading_speed,
    "demo": demo_time,
    "service": service_speed,
    "service-overload": service_overload,
    "service-crowd": service_crowd,
    "service-end": service_end,
}


def main() -> None:
    """Run the given benchmarks, or all."""
    unknown = [name for name in sys.argv[1:] if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
