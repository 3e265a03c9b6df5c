"""Benchmarks of the service: its demonstration, overhead of HTTP, overload, and shutdown under load."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from measuring import in_turns, line, processor_seconds, ratios, scratch
from service_load import processor_seconds_of

import clocs
from clocs.formats.writing import write
from clocs.inference.preparation import prepare
from clocs.service.demo import RECORDS, make_demo

ENCODER = "clocs-small"
LEADS = ("II", "V2", "aVL", "aVR")
SECONDS, ROUNDS, CLIENTS = 3.0, 5, 4
OVERLOAD, OVERLOAD_SECONDS = 5.0, 10.0
CROWD, CROWD_ROUNDS = (8, 200), 2
ENDS = 3
LOAD = Path(__file__).with_name("service_load.py")


def demo_time() -> None:
    """Compare making the demonstration with its network alone on the same number of prepared frames."""
    encoder = clocs.load_encoder(ENCODER)
    with scratch() as folder:
        places = (folder / str(number) for number in itertools.count())
        recording = next(iter(clocs.ingest("synthetic", None, folder / "one", options={"num_records": 1, "leads": 12})))
        prepared = prepare(recording, encoder.input)
        ways = {
            "network": lambda: [encoder.embed_prepared(prepared) for _ in range(RECORDS)],
            "demonstration": lambda: make_demo(next(places), ENCODER),
        }
        taken = in_turns(ways, 3, processor_seconds)
    alone, whole = (statistics.median(times) for times in taken.values())
    print(f"  processor time: network alone {alone:.1f} s, demonstration {whole:.1f} s")
    found = ratios(taken["demonstration"], taken["network"])
    line("demonstration / network alone", found, 4.0, at_least=False, unit="x")


def service_speed() -> None:
    """Compare functions alone, the service's processes without HTTP, and the service, in turns.

    All by torch, so that like is compared with like; then the service by ONNX Runtime.
    """
    with scratch() as folder, ExitStack() as stack:
        ecg = _four_leads(folder)
        service, by_onnx = (stack.enter_context(_served(folder, *device)) for device in (("--device", "cpu"), ()))
        bare, pool = (stack.enter_context(_helper(kind, ecg, ENCODER)) for kind in ("bare", "pool"))
        clients, others = (
            stack.enter_context(_helper("clients", ecg, one.port, one.token)) for one in (service, by_onnx)
        )
        ways: dict[str, Callable[[], dict[str, Any]]] = {
            "functions, one thread": lambda: bare.measured(seconds=SECONDS),
            "processes and threads, 4 at once": lambda: pool.measured(clients=CLIENTS, seconds=SECONDS),
            "service, 4 clients": lambda: _asked(service, clients, CLIENTS),
            "processes and threads, one at a time": lambda: pool.measured(clients=1, seconds=SECONDS),
            "service, one client": lambda: _asked(service, clients, 1),
            "service by ONNX Runtime, 4 clients": lambda: _asked(by_onnx, others, CLIENTS),
            "service by ONNX Runtime, one client": lambda: _asked(by_onnx, others, 1),
        }
        for way in ways.values():
            way()
        rounds = [{name: way() for name, way in ways.items()} for _ in range(ROUNDS)]
    rates = {name: [_rate(found[name]) for found in rounds] for name in ways}
    costs = {name: [found[name]["processor"] / len(found[name]["times"]) for found in rounds] for name in ways}
    for name in ways:
        _print_times(name, [seconds for found in rounds for seconds in found[name]["times"]])
        requests_per_second, cost = statistics.median(rates[name]), statistics.median(costs[name]) * 1e3
        print(f"    {requests_per_second:.0f}/s, {cost:.1f} ms of processor time")
    functions, processes, served, *_ = ways
    print(f"  service / functions: {_ratio(rates[served], rates[functions]):.2f} x in requests/s, ", end="")
    print(f"{_ratio(costs[functions], costs[served]):.2f} x in processor time")
    line("classify, service / without HTTP, requests/s", _ratio(rates[served], rates[processes]), 0.5, unit="x")


def service_overload() -> None:
    """Measure refusals and memory at five times the sustained load, on kept and on new connections."""
    with scratch() as folder, ExitStack() as stack:
        ecg = _four_leads(folder)
        service = stack.enter_context(_served(folder))
        clients = stack.enter_context(_helper("clients", ecg, service.port, service.token))
        sustained = clients.measured(clients=CLIENTS, seconds=2 * SECONDS)
        requests_per_second = OVERLOAD * len(sustained["answers"]) / sustained["seconds"]
        clients.measured(requests_per_second=requests_per_second, seconds=SECONDS, keep=False)
        load = f"{requests_per_second:.0f}/s for {OVERLOAD_SECONDS:.0f} s"
        print(f"  sustained {requests_per_second / OVERLOAD:.0f}/s, now {load}")
        for name, keep in (("kept connections", True), ("a connection each", False)):
            _overloaded(
                service, clients, name, requests_per_second=requests_per_second, seconds=OVERLOAD_SECONDS, keep=keep
            )


def _overloaded(service: _Service, clients: _Helper, name: str, **asked: Any) -> None:
    before = peak = service.memory()
    clients.ask(**asked)
    while not clients.answered():
        peak = max(peak, service.memory())
        time.sleep(0.1)
    found = clients.result()
    outcomes = Counter(status for status, _, _ in found["answers"])
    refused = [seconds for status, seconds, _ in found["answers"] if status == 503]
    told = ", ".join(f"{count} {status}" for status, count in outcomes.most_common())
    print(f"  {name}: {told}; the clients took {found['processor'] / found['seconds']:.2f} of a processor")
    print(f"    memory {before >> 20} MB before, {peak >> 20} MB at most")
    _print_times("  refused, within the service", service.refusal_seconds(len(found["answers"])))
    _print_times("  refused, as the client sees it", refused)
    line(f"refusals at 5 x, {name}, p99", _percentile(refused, 99) * 1e3, 1500, at_least=False, unit="ms")
    line(f"memory at 5 x, {name}, peak / before", peak / before, 1.05, at_least=False, unit="x")


def service_crowd() -> None:
    """Compare 200 clients that retry at once with 8 clients. The load process has low priority (nice 19).

    CLOCS_CROWD_SECONDS: how long each measurement takes.
    """
    rates: dict[int, list[float]] = {few: [] for few in CROWD}
    seconds = float(os.environ.get("CLOCS_CROWD_SECONDS", "60"))
    with scratch() as folder, ExitStack() as stack:
        service = stack.enter_context(_served(folder))
        clients = stack.enter_context(_helper("clients", _four_leads(folder), service.port, service.token))
        psutil.Process(clients.process.pid).nice(19)
        clients.measured(clients=CROWD[0], seconds=SECONDS)
        for _ in range(CROWD_ROUNDS):
            for count in CROWD:
                used = processor_seconds_of(service.process.pid)
                found = clients.measured(clients=count, seconds=seconds)
                used = processor_seconds_of(service.process.pid) - used
                outcomes = Counter(status for status, _, _ in found["answers"])
                rates[count].append(outcomes[200] / found["seconds"])
                told = ", ".join(f"{number} {status}" for status, number in outcomes.most_common())
                shares = used / found["seconds"], found["processor"] / found["seconds"]
                print(f"  {count} clients: {rates[count][-1]:.0f} answers/s; {told} in {found['seconds']:.0f} s")
                print("    of a processor: the service took {:.2f}, the clients {:.2f}".format(*shares))
                _print_times("  answered", [time for status, time, _ in found["answers"] if status == 200])
                if set(outcomes) - {200, 503}:
                    raise RuntimeError(f"neither answered nor refused: {outcomes}")
    few, many = rates.values()
    line("200 clients / 8 clients, requests/s", _ratio(many, few), 0.5, unit="x")


def service_end() -> None:
    """Send SIGTERM under load, and check that clients have all answers that the service logged."""
    lost = cut = accepted = 0
    for _ in range(ENDS):
        with scratch() as folder, ExitStack() as stack:
            service = stack.enter_context(_served(folder))
            clients = stack.enter_context(_helper("clients", _four_leads(folder), service.port, service.token))
            clients.ask(clients=4 * CLIENTS, seconds=60)
            time.sleep(2.0)
            service.process.terminate()
            if service.process.wait(70):
                raise RuntimeError("the service did not end well")
            answers = clients.result()["answers"]
            said = {entry["request_id"] for entry in service.requests()}
            got = {request_id for status, _, request_id in answers if status == 200}
            lost, cut = lost + len(said - got), cut + sum(isinstance(status, str) for status, _, _ in answers)
            accepted += len(said)
    print(f"  {ENDS} ends: {accepted} accepted; {cut} connections closed before their next request was accepted")
    line("accepted requests lost at SIGTERM", lost, 0, at_least=False)


def _asked(service: _Service, clients: _Helper, count: int) -> dict[str, Any]:
    """Return times and the processor time of the service, in the form of the other measurements."""
    used = processor_seconds_of(service.process.pid)
    found = clients.measured(clients=count, seconds=SECONDS)
    if {status for status, _, _ in found["answers"]} != {200}:
        raise RuntimeError("the service refused")
    times = [seconds for _, seconds, _ in found["answers"]]
    return {"times": times, "processor": processor_seconds_of(service.process.pid) - used, "seconds": found["seconds"]}


def _rate(found: dict[str, Any]) -> float:
    return len(found["times"]) / float(found["seconds"])


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median ratio over rounds."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def _four_leads(folder: Path) -> Path:
    """Write ten seconds of four leads at 500 Hz as a WFDB record."""
    dataset = clocs.DATASETS.get("synthetic")
    options = dataset.parse_options({"num_records": 1, "leads": 12})
    nothing: Any = None
    recording = dataset.load(nothing, next(iter(dataset.entries(nothing, options))), options).select(LEADS)
    (folder / "ecg").mkdir()
    write(replace(recording, record_id="ecg"), folder / "ecg" / "ecg.hea")
    return folder / "ecg"


class _Service:
    """A running ``clocs serve``."""

    def __init__(self, place: Path, *more: str) -> None:
        self.token, folder = secrets.token_urlsafe(24), Path(tempfile.mkdtemp(dir=place))
        self._log = folder / "log"
        (folder / "token").write_text(self.token)
        (folder / "token").chmod(0o600)
        options = ("--encoder", ENCODER, "--port", 0, "--token-file", folder / "token", "--audit-log", folder / "audit")
        command = [sys.executable, "-m", "clocs", "serve", *map(str, options), *more]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rstrip("/\n").rsplit(":", 1)[1])

    def memory(self) -> int:
        """Return the resident bytes of the main process."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def requests(self) -> list[dict[str, Any]]:
        entries = [json.loads(entry) for entry in self._log.read_text().splitlines()]
        return [entry for entry in entries if entry.get("endpoint") == "/api/v1/classify"]

    def refusal_seconds(self, last: int) -> list[float]:
        """Return the seconds from request to answer of the last requests that were refused."""
        entries = [json.loads(entry) for entry in self._log.read_text().splitlines()]
        return [entry["seconds"] for entry in entries[-last:] if entry.get("status") == 503]


@contextmanager
def _served(folder: Path, *more: str) -> Iterator[_Service]:
    service = _Service(folder, *more)
    try:
        yield service
    finally:
        service.process.kill()
        service.process.wait()


class _Helper:
    """A process of ``service_load.py``."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, str(LOAD), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self._answers = self.process.stdout
        self.result()

    def ask(self, **asked: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def measured(self, **asked: Any) -> dict[str, Any]:
        self.ask(**asked)
        return self.result()

    def answered(self) -> bool:
        return bool(select.select([self._answers], [], [], 0)[0])

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._answers.readline())
        return found


@contextmanager
def _helper(*arguments: object) -> Iterator[_Helper]:
    helper = _Helper(*arguments)
    try:
        yield helper
    finally:
        helper.process.kill()
        helper.process.wait()


def _percentile(seconds: Sequence[float], share: int) -> float:
    return statistics.quantiles(seconds, n=100)[share - 1] if len(seconds) > 1 else float("nan")


def _print_times(name: str, seconds: Sequence[float]) -> None:
    middle, high = (_percentile(seconds, share) * 1e3 for share in (50, 99))
    print(f"  {name}: {len(seconds)} requests, p50 {middle:.1f} ms, p99 {high:.1f} ms", flush=True)
