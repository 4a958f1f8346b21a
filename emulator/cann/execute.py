"""A program on the emulated NPU: its environment, its launches, and the device time that they would take."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from emulator.aclnn import AclTensor, aclnnMseLossBackwardGetWorkspaceSize
from emulator.aclnn.timing import RouteTime
from emulator.cann import clocks, devicetime
from emulator.cann.signals import Signals, handled
from emulator.cann.variables import settings
from emulator.states import check_l2
from emulator.wording import counted
from kernel.compile import cache_dir
from socs.errors import AtlasError
from socs.spec import Soc

ANY_STORAGE = 1 << 60
"""Elements of a storage of which the log does not tell the size."""

SOCKET_PATH = 107
"""Bytes that the path of a socket may have (unix(7))."""

_TYPES = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "DT_BF16"}

_COLUMNS = (
    *("Device_id", "Task ID", "Stream ID", "Op Name", "OP Type", "Task Type", "Task Start Time(us)"),
    *("Task Duration(us)", "Block Dim", "Input Shapes", "Input Data Types", "Output Shapes"),
    "Output Data Types",
)


@dataclass(frozen=True, slots=True)
class Launched:
    """One line of the launch log, with the predicted device time of its kernels (``None``: not known)."""

    call: Mapping[str, Any]
    time: RouteTime | None
    start_us: float

    @property
    def process(self) -> int:
        return int(self.call["pid"])

    @property
    def stream(self) -> int:
        return int(self.call["stream"])

    @property
    def time_us(self) -> float:
        return self.time.time_us if self.time is not None else 0.0


@dataclass(frozen=True, slots=True)
class Execution:
    """How the program ended, and what it launched. ``problems``: why the times of some calls are missing."""

    status: int
    launches: tuple[Launched, ...]
    problems: tuple[str, ...]

    @property
    def device_us(self) -> float:
        """Predicted device time of all launches, one after another."""
        return sum(launch.time_us for launch in self.launches)


class Times:
    """Predicted device times of calls, each computed once."""

    def __init__(self, soc: Soc, l2: str) -> None:
        self._soc = soc
        self._l2 = l2
        self._known: dict[str, RouteTime | str] = {}
        self._lock = threading.Lock()

    def of(self, call: Mapping[str, Any]) -> RouteTime | str:
        """The time of a call as the log describes it, or why there is none."""
        parts = ("operator", "kernel", "kernels", "steps", "reduction", "tensors")
        key = json.dumps({name: call[name] for name in parts if name in call})
        with self._lock:
            if key not in self._known:
                try:
                    self._known[key] = self._predict(call)
                except AtlasError as error:
                    self._known[key] = str(error)
            return self._known[key]

    def _predict(self, call: Mapping[str, Any]) -> RouteTime | str:
        if "kernels" in call:
            return devicetime.predict(call, self._soc, self._l2)
        whole = "ViewCopy" not in call["steps"]
        tensors = []
        for name, tensor in call["tensors"].items():
            shape = tuple(tensor["shape"])
            storage = shape if name == "out" and whole else (ANY_STORAGE,)
            tensors.append(
                AclTensor(
                    None, shape, tensor["dtype"], tensor["strides"], tensor["offset"], storage_dims=storage
                )
            )
        release = "older" if call["kernel"] == "mse_loss_grad_950" else "newer"
        grad, own, target, out = tensors
        status, _, executor = aclnnMseLossBackwardGetWorkspaceSize(
            grad, own, target, call["reduction"], out, soc=self._soc, release=release, backend="emulated"
        )
        found = executor.predict(self._l2) if executor is not None else None
        return found if found is not None else f"status {status}"


@contextlib.contextmanager
def _socket_path(folder: str) -> Iterator[str]:
    """Of a socket in ``folder``, or in one of ``/tmp`` where that path would be too long for it."""
    path = f"{folder}/predictor"
    if len(os.fsencode(path)) <= SOCKET_PATH:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="atlas-emu-", dir="/tmp") as short:
        yield f"{short}/predictor"


@contextlib.contextmanager
def predictor(times: Times, path: str) -> Iterator[None]:
    """Answer the C library: for each line with a call, a line with its microseconds (0 where unknown)."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise AtlasError(f"{path}: no socket can be made there ({error.strerror or error})") from None
    listener.listen()

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rw", encoding="utf-8") as stream:
            for line in stream:
                found = times.of(json.loads(line))
                stream.write(f"{found.time_us if isinstance(found, RouteTime) else 0.0!r}\n")
                stream.flush()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def default_root(soc: Soc, tell: Callable[[str], None]) -> Path:
    """The root in the cache, laid out when it is not there for these sources. Raises ``AtlasError``."""
    from emulator.cann.root import lay_out

    digest = hashlib.sha256()
    # Everything that the libraries are made of: C, kernels, chips, texts.
    for package in ("emulator.cann", "emulator.aclnn", "kernel", "socs"):
        with resources.as_file(resources.files(package)) as path:
            for file in sorted(path.rglob("*")):
                if file.suffix in (".c", ".h", ".py", ".toml"):
                    digest.update(file.name.encode() + file.read_bytes())
    digest.update(soc.model_dump_json().encode())
    root = cache_dir() / "roots" / digest.hexdigest()[:24]
    if not (root / "version.cfg").exists():
        lay_out(root, soc, tell=tell)
    return root


def environment(root: Path, soc: Soc) -> dict[str, str]:
    """The variables of ``set_env.sh`` and of the emulator, on top of this process's own."""
    return os.environ | settings(root.resolve(), os.environ) | {"ATLAS_EMU_SOC": soc.name}


def execute(
    command: Sequence[str], root: Path, soc: Soc, *, l2: str = "cold", log: Path | None = None
) -> Execution:
    """Run ``command`` on the emulated ``soc`` and wait for it. ``log``: keep the launch log there.

    A program that a signal ended has the status of shells, 128 and the number. SIGTERM and SIGHUP go on to
    the program while it runs. Raises ``AtlasError`` where the program cannot be started, and for an unknown
    state ``l2``.
    """
    check_l2(l2)
    times = Times(soc, l2)
    with handled() as signals, tempfile.TemporaryDirectory(prefix="atlas-emu-") as temporary:
        path = Path(temporary) / "launches.jsonl" if log is None else log.absolute()
        if log is not None:
            path.unlink(missing_ok=True)
        variables = environment(root, soc)
        with _socket_path(temporary) as asked, predictor(times, asked):
            variables |= {"ATLAS_EMU_LOG": str(path), "ATLAS_EMU_PREDICTOR": asked}
            status = _run(command, variables, signals)
        lines = path.read_text().splitlines() if path.exists() else []
    calls = [json.loads(line) for line in lines]
    found = [times.of(call) if "launch" in call else "" for call in calls]
    begins = clocks.starts(calls, [0.0 if isinstance(time, str) else time.time_us for time in found])
    launches = tuple(
        Launched(call, None if isinstance(time, str) else time, start)
        for call, time, start in zip(calls, found, begins, strict=True)
        if "launch" in call
    )
    problems = dict.fromkeys(time for time in found if isinstance(time, str) and time)
    return Execution(status, launches, tuple(problems))


def _run(command: Sequence[str], variables: Mapping[str, str], signals: Signals) -> int:
    try:
        status = signals.wait_for(lambda: subprocess.Popen(command, env=variables))
    except OSError as error:
        raise AtlasError(f"{command[0]}: cannot be run ({error.strerror})") from None
    return 128 - status if status < 0 else status


def op_summary(execution: Execution) -> str:
    """All kernels in the columns of msprof's ``op_summary``: times are predicted, in microseconds."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    number = 0
    for launch in execution.launches:
        if launch.time is None:
            continue
        start = launch.start_us
        for place, step in enumerate(launch.time.steps):
            op_type = step.name.split("(")[0]
            read, written = _tensors_of(launch.call, place, step.name)
            writer.writerow(
                (
                    0,
                    number,
                    launch.stream,
                    f"{launch.call['operator']}_{op_type}",
                    op_type,
                    "AI_VECTOR_CORE",
                    f"{start:.3f}",
                    f"{step.time_us:.3f}",
                    step.block_dim,
                    ";".join(_dims(tensor) for tensor in read),
                    ";".join(_type(tensor) for tensor in read),
                    _dims(written),
                    _type(written),
                )
            )
            start += step.time_us
            number += 1
    return out.getvalue()


def _tensors_of(
    call: Mapping[str, Any], place: int, step: str
) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """What the kernel at a place reads and writes."""
    if "kernels" in call:
        return devicetime.tensors(call["kernels"][place])
    tensors = call["tensors"]
    if "(" in step:
        return [tensors[step.split("(")[1].rstrip(")")]], tensors["out"]
    if step.startswith("Mse"):
        return [tensors[name] for name in ("self", "target", "grad_output")], tensors["out"]
    return [tensors["out"]], tensors["out"]


def _type(tensor: Mapping[str, Any]) -> str:
    dtype = str(tensor["dtype"])
    return _TYPES.get(dtype, dtype.upper())


def _dims(tensor: Mapping[str, Any]) -> str:
    return ",".join(map(str, tensor["shape"]))


def table(execution: Execution, soc: Soc) -> str:
    """Launches that look alike in one line: how many, and the predicted device time of one and of all."""
    groups: dict[tuple[str, ...], list[Launched]] = {}
    for launch in execution.launches:
        tensors = launch.call["tensors"]
        named = {name: tensor for name, tensor in tensors.items() if name != "out"}
        key = (
            launch.call["operator"],
            "+".join(launch.call["steps"]) or "-",
            " ".join(f"[{_dims(tensor)}]" for tensor in named.values()),
            " ".join(dict.fromkeys(tensor["dtype"] for tensor in named.values())),
        )
        groups.setdefault(key, []).append(launch)
    lines = [f"atlas-emu: {counted(len(execution.launches), 'launch')} on {soc.name}"]
    for (operator, steps, shapes, dtype), found in groups.items():
        one = f"{found[0].time_us:.2f} us" if found[0].time is not None else "unknown"
        total = sum(launch.time_us for launch in found)
        lines.append(
            f"  {len(found):>7} x {one:>12} = {total:>14.2f} us  {operator} ({steps}) {dtype} {shapes}"
        )
    lines.append(f"  predicted device time: {execution.device_us:.2f} us")
    lines += [f"  not in it: {problem}" for problem in execution.problems[:5]]
    return "\n".join(lines) + "\n"
