"""Which fused loops the C libraries need, and their way from a recorded kernel to an object file.

For every chip, dtype and overflow mode the expression is derived from the record as for a call from Python
(:mod:`kernel.fuse`); equal expressions share their loops. The loops' source is that of
:mod:`kernel.codegen`, compiled by Numba ahead of time in processes of their own (:mod:`emulator.cann.aot`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel import registry
from kernel.codegen import Step, Walk, source_of
from kernel.compile import available_threads, cache_dir
from kernel.fuse import Fused, fuse
from kernel.interpret import CARRIERS
from kernel.mse_loss_backward import Reduction, plan, supported_dtypes
from kernel.numerics import vector
from kernel.operators import Request, find
from kernel.surrounding import cast
from socs.errors import AtlasError
from socs.isa import DType, Op
from socs.spec import Numerics, Soc

TYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""The operator's dtypes, in the order of the C tables."""

X86_FEATURES = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
"""What every CPU of the level x86-64-v3 has."""

_RUN, _ONE, _STRIDE = Step.RUN, Step.ONE, Step.STRIDE

WALKS = {
    "run": Walk((_RUN,) * 4, streamed=False),
    "run_streamed": Walk((_RUN,) * 4, streamed=True),
    "one": Walk((_ONE, _RUN, _RUN, _RUN), streamed=False),
    "one_streamed": Walk((_ONE, _RUN, _RUN, _RUN), streamed=True),
    "strided": Walk((_STRIDE,) * 4, streamed=False),
}
"""The loops of an expression, by their member in the C table; tensors are grad_output, self, target, out."""

PAIRS = ("mul", "add", "sub")
"""The operators of two tensors, in the order of the C tables. They are compiled in float32 alone: of 16-bit
tensors they are the float32 operation between casts, which are loops of their own."""

_PROBE = (4, 8)

_MEANS = {
    "mse_loss_grad_v2": "coefficient.v2(dims)",
    "mse_loss_grad": "coefficient.tbe(count)",
    "mse_loss_grad_v2_950": "coefficient.register_based(count)",
    "mse_loss_grad_950": "coefficient.atvoss(count)",
}
"""The factor of reduction ``mean`` of each kernel, from ``dims`` or their product ``count``."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function to compile: its symbol in the object, its kind (``mse``, ``cast``, ...), its source."""

    symbol: str
    kind: str
    source: str


@dataclass
class Loops:
    """All functions, and by numerics the members of the C tables."""

    functions: list[Function] = field(default_factory=list)
    numerics: list[Numerics] = field(default_factory=list)
    mse: dict[tuple[int, int, int], dict[str, str]] = field(default_factory=dict)
    """(numerics, type, saturates): symbols by member."""
    casts: dict[tuple[int, int, int, int], str] = field(default_factory=dict)
    """(numerics, from, to, saturates): the symbol."""
    pairs: dict[tuple[int, str, int], str] = field(default_factory=dict)
    """(numerics, operator, saturates): the symbol of the operation on two tensors of float32."""
    rows: dict[int, str] = field(default_factory=dict)
    """Numerics: the symbol of the sums of rows of float32."""
    means: dict[str, str] = field(default_factory=dict)
    """Kernel: the symbol of its factor."""
    _known: dict[Fused, dict[str, str]] = field(default_factory=dict)

    def of(self, numerics: Numerics) -> int:
        """The row of the C table for chips with ``numerics``."""
        return self.numerics.index(numerics)


def collect(chips: Sequence[Soc]) -> Loops:
    """The loops that ``chips`` need. Raises ``AtlasError`` where kernels of one chip compute differently."""
    loops = Loops()
    for kernel, expression in _MEANS.items():
        loops.means[kernel] = symbol = f"atlas_mean_{kernel}"
        loops.functions.append(Function(symbol, "mean", _mean_source(expression)))
    for chip in chips:
        if chip.numerics in loops.numerics and all(
            (loops.of(chip.numerics), TYPES.index(dtype), 0) in loops.mse
            or (loops.of(chip.numerics), TYPES.index(dtype), 1) in loops.mse
            for dtype in supported_dtypes(chip)
        ):
            continue
        if chip.numerics not in loops.numerics:
            loops.numerics.append(chip.numerics)
        _add_chip(loops, chip)
    return loops


def _add_chip(loops: Loops, chip: Soc) -> None:
    row = loops.of(chip.numerics)
    dtypes = supported_dtypes(chip)
    loops.rows[row] = _rows(loops, chip.numerics)
    for mode in chip.numerics.overflow_modes:
        saturates = mode == "saturation"
        for name in PAIRS:
            fused = _pair(chip, name, saturates)
            loops.pairs[row, name, int(saturates)] = _symbols(loops, fused, ["pair"])["pair"]
        for dtype in dtypes:
            fused = _operator(chip, dtype, saturates)
            # The mode that A2 and A3 keep for compatibility alone makes do with the loop for any strides.
            usual = mode == chip.numerics.default_overflow_mode or fused in loops._known
            place = (row, TYPES.index(dtype), int(saturates))
            loops.mse[place] = _symbols(loops, fused, list(WALKS) if usual else ["strided"])
            for target in dtypes:
                if target is not dtype:
                    launch = cast(chip, dtype, target, (32,))
                    symbols = _symbols(loops, fuse(launch, chip.numerics, saturates), ["cast"])
                    loops.casts[row, TYPES.index(dtype), TYPES.index(target), int(saturates)] = symbols[
                        "cast"
                    ]


def _operator(chip: Soc, dtype: DType, saturates: bool) -> Fused:
    """The one expression that all of the chip's kernels of the operator compute."""
    found = set()
    for alike in (True, False):
        for release in registry.RELEASES:
            name = registry.choose(chip, alike=alike, release=release)
            launch = plan(
                chip,
                shape=_PROBE,
                dtype=dtype,
                reduction=Reduction.NONE,
                grad_shape=_PROBE if alike else (),
                kernel=name,
            ).launch
            assert launch is not None
            found.add(fuse(launch, chip.numerics, saturates))
    if len(found) != 1:
        raise AtlasError(f"the kernels of {chip.name} compute {len(found)} different things for {dtype}")
    return found.pop()


def _pair(chip: Soc, name: str, saturates: bool) -> Fused:
    operator = find(name)
    shapes = dict.fromkeys(operator.inputs, _PROBE)
    launch = operator.plan(chip, Request(shapes, dict.fromkeys(shapes, "float32"))).launch
    assert launch is not None
    return fuse(launch, chip.numerics, saturates)


def _rows(loops: Loops, numerics: Numerics) -> str:
    settle = vector.lookup(
        Op.MUL,
        DType.FLOAT32,
        DType.FLOAT32,
        nan=numerics.nan,
        subnormals=numerics.subnormals,
        float32_overflow=numerics.float32_overflow,
    )
    symbol = f"atlas_rows_{settle}"
    if symbol not in (function.symbol for function in loops.functions):
        loops.functions.append(Function(symbol, "rows", _rows_source(settle)))
    return symbol


def _symbols(loops: Loops, fused: Fused, members: Sequence[str]) -> dict[str, str]:
    known = loops._known.setdefault(fused, {})
    number = list(loops._known).index(fused)
    for member in members:
        if member not in known:
            known[member] = symbol = f"atlas_loop_{number}_{member}"
            if member in WALKS:
                function = Function(symbol, "mse", _loop_source(fused, WALKS[member]))
            elif member == "pair":
                function = Function(symbol, "pair", _pair_source(fused))
            else:
                function = Function(symbol, member, _short_source(fused))
            loops.functions.append(function)
    return known


def _loop_source(fused: Fused, walk: Walk) -> str:
    return re.sub(
        r"^@njit\(\[(types\.void\(.*\))\], cache=CACHE, nogil=True\)$",
        r"SIGNATURE = \1",
        source_of(fused, walk),
        flags=re.MULTILINE,
    )


def _element_source(fused: Fused) -> tuple[str, str, list[str]]:
    """The generated module up to its loops; the type of each tensor; the names of the inputs."""
    source = _loop_source(fused, Walk((_RUN,) * len(fused.tensors), streamed=False))
    arrays = ", ".join(
        f"types.Array(types.{CARRIERS[dtype].__name__}, 1, 'C', readonly={name != fused.output})"
        for name, dtype in fused.tensors
    )
    inputs = [f"t{place}" for place, (name, _) in enumerate(fused.tensors) if name != fused.output]
    return source[: source.index("@njit(nogil=True)\ndef line(")], arrays, inputs


def _short_source(fused: Fused) -> str:
    """Where consecutive elements are all there is: the element is the generated one, the loop is short."""
    head, arrays, inputs = _element_source(fused)
    names = ", ".join([*inputs, f"t{len(inputs)}"])
    values = ", ".join(f"{name}[low:high]" for name in inputs)
    return (
        f"{head}SIGNATURE = types.void(types.int64, types.int64, {arrays})\n"
        f"def run(low, high, {names}):\n"
        f"    out = t{len(inputs)}[low:high]\n"
        f"    {', '.join(f'p{name}' for name in inputs)} = {values}\n"
        "    for i in range(out.size):\n"
        f"        out[i] = element({', '.join(f'p{name}[i]' for name in inputs)})\n"
    )


def _pair_source(fused: Fused) -> str:
    """Consecutive elements of the first input and the result; ``step`` 0: one element of the second."""
    head, arrays, inputs = _element_source(fused)
    assert len(inputs) == 2
    return (
        f"{head}SIGNATURE = types.void(types.int64, types.int64, types.int64, {arrays})\n"
        "def run(low, high, step, t0, t1, t2):\n"
        "    x, out = t0[low:high], t2[low:high]\n"
        "    if step == 0:\n"
        "        one = t1[0]\n"
        "        for i in range(out.size):\n"
        "            out[i] = element(x[i], one)\n"
        "    else:\n"
        "        y = t1[low:high]\n"
        "        for i in range(out.size):\n"
        "            out[i] = element(x[i], y[i])\n"
    )


def _rows_source(settle: str) -> str:
    """The sums of the rows ``low`` .. ``high`` of ``count`` elements each (:mod:`kernel.reduce_sum`).

    ``settle``: the multiplication, here by one, that gives a NaN the chip's bits.
    """
    arrays = ", ".join(f"types.Array(types.float32, 1, 'C', readonly={name})" for name in (True, False))
    return (
        "import numpy as np\n"
        "from numba import types\n"
        "from kernel.numerics import vector\n"
        "from kernel.reduce_sum import TILE, summed\n"
        f"settle = vector.function({settle!r})\n"
        f"SIGNATURE = types.void(types.int64, types.int64, types.int64, {arrays})\n"
        "def run(low, high, count, t0, t1):\n"
        "    tile = np.empty(TILE, np.float32)\n"
        "    for row in range(low, high):\n"
        "        t1[row] = settle(summed(t0, row * count, count, tile), np.float32(1.0))\n"
    )


def _mean_source(expression: str) -> str:
    rule = re.match(r"coefficient\.(\w+)", expression)
    assert rule is not None
    return "\n".join(
        [
            "from numba import njit, types",
            "from kernel import coefficient",
            f"{rule[1]} = njit(coefficient.{rule[1]}, error_model='numpy')",
            "SIGNATURE = types.float32(types.int64[::1])",
            "def run(dims):",
            "    count = 1",
            "    for dim in dims:",
            "        count *= dim",
            f"    return {expression.removeprefix('coefficient.')}",
            "",
        ]
    )


def environment() -> tuple[str, dict[str, str]]:
    """The CPU level that the loops are compiled for, and what tells Numba so.

    x86-64-v3 where this machine has it, else the baseline, with conversions of float16 in integers;
    on AArch64 the generic level, which has them.
    """
    if platform.machine().lower() in {"x86_64", "amd64"}:
        if _has_avx2():
            return "x86-64-v3", {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": X86_FEATURES}
        return "x86-64", {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
    return "generic", {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}


def _has_avx2() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return all(f" {flag}" in flags for flag in ("avx2", "f16c", "fma", "bmi2", "movbe", "abm"))


def objects(loops: Loops, level: str, variables: Mapping[str, str]) -> list[Path]:
    """The object files with all functions: compiled, or from the cache. Raises ``AtlasError``."""
    folder = cache_dir() / "cann" / _key(loops, level)
    found = sorted(folder.glob("*.o"))
    if found and (folder / "complete").exists():
        return found
    folder.mkdir(parents=True, exist_ok=True)
    workers = max(1, min(available_threads(), 4))
    # Costly ones first, so that the shares are even.
    order = sorted(loops.functions, key=lambda function: ("streamed" not in function.symbol, function.kind))
    running = []
    for number in range(workers):
        path = folder / f"loops{number}.o"
        share = [{"symbol": f.symbol, "source": f.source} for f in order[number::workers]]
        process = subprocess.Popen(
            [sys.executable, "-m", "emulator.cann.aot"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables, "NUMBA_DISABLE_JIT": "0"},
        )
        running.append((process, json.dumps({"output": str(path), "functions": share}), path))
    for process, text, _ in running:
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
    for process, _, _ in running:
        assert process.stderr is not None
        errors = process.stderr.read()
        process.stderr.close()
        if process.wait() != 0:
            last = errors.strip().splitlines()[-1:] or ["no reason given"]
            raise AtlasError(f"the kernels cannot be compiled ahead of time: {last[0]}")
    (folder / "complete").touch()
    return [path for _, _, path in running]


def _key(loops: Loops, level: str) -> str:
    import llvmlite
    import numba

    from emulator.cann import aot
    from kernel import coefficient, reduce_sum

    parts: list[Any] = [numba.__version__, llvmlite.__version__, level, vector.source_digest()]
    parts += [Path(str(module.__file__)).read_text() for module in (aot, coefficient, reduce_sum)]
    parts += [(function.symbol, function.source) for function in loops.functions]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]
