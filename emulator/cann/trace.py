"""The launches of a program as a Chrome trace: a row per stream of a process, at predicted device time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from emulator.cann.execute import Execution, Launched
from emulator.export import chrome
from socs.spec import Soc


def trace(execution: Execution, soc: Soc) -> str:
    """JSON that Perfetto and MindStudio Insight open.

    A slice per launch, with its kernels within; arguments are the call's, and ``host_us``, the host's clock
    when it was enqueued. A launch whose time is not known is a mark where its stream comes to it. The device
    clock of each process begins at zero.
    """
    processes = list(dict.fromkeys(launch.process for launch in execution.launches))
    order = {process: place for place, process in enumerate(processes)}
    streams = {(order[launch.process], launch.stream) for launch in execution.launches}
    # Counted on over the processes, so that the rows' numbers are unique however many streams there are.
    rows = {stream: row for row, stream in enumerate(sorted(streams), start=1)}
    names = [f"{soc.name}, process {process}" for process in processes] or [soc.name]
    events = [chrome.meta("process_name", place, 0, {"name": name}) for place, name in enumerate(names)]
    for (place, stream), row in rows.items():
        events.append(chrome.meta("thread_name", place, row, {"name": f"stream {stream}"}))
        events.append(chrome.meta("thread_sort_index", place, row, {"sort_index": row}))
    slices: list[dict[str, Any]] = []
    for launch in execution.launches:
        place = order[launch.process]
        slices += _slices(launch, chrome.place(place, rows[place, launch.stream]))
    # A slice comes before those within it.
    slices.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0), event["tid"]))
    other = {"soc": soc.name, "launches": len(execution.launches), "device_us": execution.device_us}
    return chrome.document([*events, *slices], other)


def _slices(launch: Launched, row: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    call = launch.call
    known = ("pid", "launch", "host_us", "steps", "reduction")
    arguments = {name: call[name] for name in known if name in call}
    for name, tensor in call["tensors"].items():
        arguments[name] = " ".join(f"{key} {value}" for key, value in tensor.items())
    event = {"name": call["operator"], "cat": "launch", **row, "args": arguments}
    start = launch.start_us
    if launch.time is None:
        yield {**event, "ph": "i", "s": "t", "ts": round(start * 1e3) / 1000}
        return
    # The same sum as the start of the launch behind, and never passed by a kernel: slices that overlap by
    # a nanosecond are dropped by viewers.
    last = start + launch.time_us
    yield {**event, **chrome.interval(start * 1e3, last * 1e3)}
    for number, step in enumerate(launch.time.steps, start=1):
        end = min(start + step.time_us, last) if number < len(launch.time.steps) else last
        kernel = {"block_dim": step.block_dim, "cycles": step.cycles}
        yield {
            **chrome.interval(start * 1e3, end * 1e3),
            "name": step.name,
            "cat": "kernel",
            **row,
            "args": kernel,
        }
        start = end
