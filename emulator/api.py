"""The Python surface: ``run``, ``predict``, ``mse_loss_backward``, ``soc``."""

from __future__ import annotations

import math
import operator as operators
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from emulator import backend as backends
from emulator.arrays import as_tensor, bfloat16, check_out, dtype_name
from emulator.backend import Backend
from emulator.defaults import DEFAULT_SOC as DEFAULT_SOC
from emulator.device.engines import ENGINES as ENGINES
from emulator.result import Result
from emulator.states import check_l2
from kernel.mse_loss_backward import OPERATOR
from kernel.operators import Operator, Request, find
from kernel.plan import MAX_ELEMENTS, PARAM_INVALID
from kernel.tiling import TilingOptions
from socs import load
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import OverflowMode, Soc

PARAM_NULLPTR = 161001
"""ACLNN_ERR_PARAM_NULLPTR (opbase ``op_errno.h``)."""

DEFAULT_ENGINE = "simpy"
MAX_INPUTS = 64
"""Tensors that ``add_n`` adds at most; a limit of this package."""

SocLike = Soc | str | os.PathLike[str]


def soc(name: SocLike, overrides: Mapping[str, object] | None = None) -> Soc:
    """A chip by CANN name, product or path of a TOML file, with numbers replaced by dotted key.

    ``soc("Ascend910B3", {"memory.hbm_bytes_per_s": 1.2e12})``. Raises ``AtlasError``.
    """
    if overrides is not None and not isinstance(overrides, Mapping):
        raise AtlasError(f"overrides = {overrides!r}: must map dotted keys to numbers")
    if isinstance(name, Soc):
        if overrides:
            raise AtlasError("overrides need a name, a product or a file, not a chip that is loaded already")
        return name
    return load(name, overrides)


def run(
    operator: str,
    /,
    *,
    soc: SocLike = DEFAULT_SOC,
    backend: str | Backend | None = None,
    kernel: str | None = None,
    tiling: TilingOptions | Mapping[str, int] | None = None,
    l2: str = "cold",
    engine: str | None = None,
    reduction: str | int = "mean",
    overflow: str | None = None,
    bits: str = "compiled",
    out: object = None,
    overrides: Mapping[str, object] | None = None,
    release: str = "newer",
    scalar: float | None = None,
    to: str | None = None,
    without: Iterable[str] = (),
    **tensors: object,
) -> Result:
    """Bits and time of one call.

    ``operator``: by its name or the vendor's (``kernel.operators``). ``tensors``: its inputs by name, of
    ``mse_loss_backward`` ``grad_output``, ``self`` and ``target``, of others ``x`` and ``y`` (``add_n``:
    ``x0``, ``x1``, ...): array-likes of a dtype that the chip takes and of shapes (rank 0 to 8) that
    broadcast together. ``scalar``: the number of ``fill`` and ``muls``; ``to``: the dtype that ``cast``
    makes. ``out``: where to write, else a new array; ``Result.output`` is it (of a torch tensor its NumPy
    view). ``kernel``: another than the chip's own (``docs/elementwise.md``).
    ``tiling``: ``tile_length`` and ``buffer_num`` in elements and buffers, ``block_dim`` in cores.
    ``l2``: ``cold`` (none of the tensors is in L2), ``hot`` (the same call ran before), ``dirty`` (cold, with
    L2 full of what other kernels wrote). ``without``: mechanisms of the timing model to switch off, by name
    (``emulator.device.mechanisms``). ``overflow``: ``inf_nan`` or ``saturation`` where the chip has both.
    ``backend``: by name, or an object (``emulator.backend``); default: the environment's, else ``emulated``.
    With ``npu`` the chip that is not named is the card's, and ``Result.measured`` has the times.
    ``release``: of the operator library, ``newer`` or ``older``; they differ on the 950.
    ``bits``: ``compiled`` (fused, fast) or ``interpreted`` (instruction by instruction); equal results.

    Raises ``AtlasError`` on bad input, with ``.status`` where aclnn has one.
    """
    return _run(
        operator,
        tensors,
        soc=None if soc is DEFAULT_SOC and overrides is None else _soc(soc, overrides),
        backend=backend,
        kernel=kernel,
        tiling=tiling,
        l2=l2,
        engine=engine,
        reduction=reduction,
        overflow=overflow,
        bits=bits,
        out=out,
        timed=True,
        release=release,
        scalar=scalar,
        to=to,
        without=without,
    )


def mse_loss_backward(
    grad_output: object,
    self: object,
    target: object,
    *,
    reduction: str | int = "mean",
    soc: SocLike = DEFAULT_SOC,
    out: object = None,
    backend: str | Backend | None = None,
    overflow: str | None = None,
) -> Any:
    """The gradient that the chip writes, bit for bit; nothing is timed.

    ``soc``, ``backend`` and ``overflow`` as in :func:`run`.
    Arrays that broadcast together, of one dtype (float32, float16, bfloat16 as ``ml_dtypes.bfloat16``;
    torch tensors too). Returns ``out`` itself, or a new NumPy array of the broadcast shape and that dtype.
    Raises ``AtlasError``.
    """
    result = _run(
        OPERATOR,
        {"grad_output": grad_output, "self": self, "target": target},
        soc=None if soc is DEFAULT_SOC else _soc(soc, None),
        backend=backend,
        kernel=None,
        tiling=None,
        l2="cold",
        engine=None,
        reduction=reduction,
        overflow=overflow,
        bits="compiled",
        out=out,
        timed=False,
        release="newer",
    )
    assert result.output is not None
    return result.output if out is None else out


def predict(
    operator: str,
    /,
    *,
    soc: SocLike = DEFAULT_SOC,
    shape: Sequence[int],
    dtype: str,
    reduction: str | int = "mean",
    grad_shape: Sequence[int] | None = None,
    target_shape: Sequence[int] | None = None,
    l2: str = "cold",
    kernel: str | None = None,
    tiling: TilingOptions | Mapping[str, int] | None = None,
    engine: str | None = None,
    overrides: Mapping[str, object] | None = None,
    release: str = "newer",
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    input_dtypes: Mapping[str, str] | None = None,
    inputs: int | None = None,
    scalar: float | None = None,
    to: str | None = None,
    without: Iterable[str] = (),
) -> Result:
    """The time of a call, without data; arguments as in :func:`run`.

    ``shape`` and ``dtype`` are those of the operator's first input (``self`` of ``mse_loss_backward``, else
    ``x``); the others have them too unless ``input_shapes`` and ``input_dtypes`` say otherwise, by name:
    ``predict("mul", shape=(512, 768), dtype="float16", input_shapes={"y": (768,)})``. Shapes broadcast as in
    NumPy. ``grad_shape`` and ``target_shape`` are short for those of ``grad_output`` and ``target``.
    ``inputs``: how many tensors ``add_n`` adds.
    """
    chip = _soc(soc, overrides)
    chosen = find(operator)
    check_l2(l2)
    counted_by = engine or DEFAULT_ENGINE
    _check_choice("engine", counted_by, ENGINES)
    if not isinstance(dtype, str) or not dtype:
        raise AtlasError(f"dtype = {dtype!r}: must be the name of a dtype, such as float32")
    own = _dims("shape", shape)
    names = input_names(chosen, inputs)
    shapes = dict.fromkeys(names, own)
    dtypes = dict.fromkeys(names, dtype)
    for name, given in (("grad_output", grad_shape), ("target", target_shape)):
        if given is not None:
            short = "grad_shape" if name == "grad_output" else "target_shape"
            _check_name(chosen, name, names, short)
            shapes[name] = _dims(short, given)
    for name, dims in (input_shapes or {}).items():
        _check_name(chosen, name, names, "input_shapes")
        shapes[name] = _dims(name, dims)
    for name, kind in (input_dtypes or {}).items():
        _check_name(chosen, name, names, "input_dtypes")
        dtypes[name] = kind
    _check_extras(chosen, scalar=scalar, to=to)
    request = Request(shapes, dtypes, reduction, scalar, to, kernel, _options(tiling), release)
    # The compiled engine knows by itself of most launches that they are in order.
    made = (chosen.decide if counted_by == "fast" else chosen.plan)(chip, request)
    mode = chip.numerics.default_overflow_mode
    call = backends.Call(
        made,
        shapes,
        {},
        None,
        l2,
        mode,
        timed=True,
        bits="compiled",
        engine=counted_by,
        without=_without(without),
    )
    return backends.find("emulated")[1].run(call)


def _run(
    operator: str,
    tensors: Mapping[str, object],
    *,
    soc: Soc | None,
    backend: str | Backend | None,
    kernel: str | None,
    tiling: TilingOptions | Mapping[str, int] | None,
    l2: str,
    engine: str | None,
    reduction: str | int,
    overflow: str | None,
    bits: str,
    out: object,
    timed: bool,
    release: str,
    scalar: float | None = None,
    to: str | None = None,
    without: Iterable[str] = (),
) -> Result:
    described = find(operator)
    check_l2(l2)
    counted_by = engine or DEFAULT_ENGINE
    _check_choice("engine", counted_by, ENGINES)
    _check_choice("bits", bits, ("compiled", "interpreted"))
    _, chosen = backends.find(backend)
    soc = backends.chip_of(chosen, soc) or _soc(DEFAULT_SOC, None)
    names = input_names(described, len(tensors) if described.variadic else None)
    extra = sorted(set(tensors) - set(names))
    if extra:
        raise AtlasError(f"{operator} has no argument {extra[0]!r}: it takes {', '.join(names)}")
    _check_extras(described, scalar=scalar, to=to)
    arrays = {}
    for name in names:
        if tensors.get(name) is None:
            raise AtlasError(f"{name} is missing: a null tensor is refused", status=PARAM_NULLPTR)
        arrays[name] = as_tensor(tensors[name], name, views=backends.tensors_as_views(chosen))
    dtypes = {name: dtype_name(array) for name, array in arrays.items()}
    mode = _overflow(soc, overflow)
    shapes = {name: array.shape for name, array in arrays.items()}
    request = Request(shapes, dtypes, reduction, scalar, to, kernel, _options(tiling), release)
    made = described.plan(soc, request)
    if out is None:
        dtype = bfloat16() if made.dtype is DType.BFLOAT16 else np.dtype(str(made.dtype))
        target = np.empty(made.shape, dtype)
    else:
        target = check_out(out, made.shape, (str(made.dtype),), arrays)
    if not described.reads:
        arrays = {}
    if not described.writes:
        raise AtlasError(f"{described.name} has no result: it can only be predicted")
    call = backends.Call(
        made,
        shapes,
        arrays,
        target,
        l2,
        mode,
        timed=timed,
        bits=bits,
        engine=counted_by,
        without=_without(without),
    )
    return chosen.run(call)


def _without(names: Iterable[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    from emulator.device.mechanisms import parse

    return parse(names)


def input_names(operator: Operator, count: int | None) -> tuple[str, ...]:
    """The names of the inputs; ``count`` is for an operator that takes any number of them."""
    if count is not None and not operator.variadic:
        raise AtlasError(f"inputs = {count}: {operator.name} takes {', '.join(operator.inputs)}")
    if count is not None and not (_is_whole(count) and 2 <= count <= MAX_INPUTS):
        raise AtlasError(f"{operator.name} of {count!r} tensors: it takes 2 to {MAX_INPUTS}")
    return operator.arguments(count)


def _check_name(operator: Operator, name: str, names: Sequence[str], where: str) -> None:
    if name not in names:
        raise AtlasError(f"{where}: {operator.name} has no {name!r}, it takes {', '.join(names)}")


def _check_extras(operator: Operator, *, scalar: float | None, to: str | None) -> None:
    if scalar is not None and not operator.scalar:
        raise AtlasError(f"scalar = {scalar!r}: {operator.name} takes no scalar")
    if to is not None and not operator.casts:
        raise AtlasError(f"to = {to!r}: {operator.name} takes no dtype of its result")


def _soc(name: SocLike, overrides: Mapping[str, object] | None) -> Soc:
    return soc(name, overrides)


def _overflow(chip: Soc, wanted: str | None) -> OverflowMode:
    modes = chip.numerics.overflow_modes
    if wanted is None:
        return chip.numerics.default_overflow_mode
    if wanted not in modes:
        raise AtlasError(
            f"overflow = {wanted!r}: {chip.name} has {', '.join(modes)} "
            f"({chip.origin}: numerics.overflow_modes)"
        )
    return wanted


def _options(tiling: TilingOptions | Mapping[str, int] | None) -> TilingOptions:
    if tiling is None:
        return TilingOptions()
    if isinstance(tiling, TilingOptions):
        tiling = asdict(tiling)
    known = ("tile_length", "buffer_num", "block_dim")
    if not isinstance(tiling, Mapping):
        raise AtlasError(f"tiling = {tiling!r}: must map {', '.join(known)} to whole numbers")
    for key, value in tiling.items():
        if key not in known:
            raise AtlasError(f"tiling has no {key!r}: it takes {', '.join(known)}")
        if value is not None and not _is_whole(value):
            raise AtlasError(f"{key} = {value!r}: must be a whole number")
    return TilingOptions(**{k: None if v is None else operators.index(v) for k, v in tiling.items()})


def _is_whole(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, (bool, np.bool_))


def _dims(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions, few enough elements for NumPy to broadcast with."""
    if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
        raise AtlasError(f"{name} = {shape!r}: must be a sequence of whole numbers")
    given = tuple(shape)
    for dim in given:
        if not _is_whole(dim):
            raise AtlasError(f"{name} = {given!r}: {dim!r} must be a whole number")
    dims = tuple(operators.index(dim) for dim in given)
    for dim in dims:
        if dim < 0:
            raise AtlasError(f"{name} {list(dims)}: dimension {dim} is negative", status=PARAM_INVALID)
        if dim > MAX_ELEMENTS:
            raise AtlasError(f"{name} {list(dims)}: dimension {dim} is more than {MAX_ELEMENTS}")
    # NumPy would call the product of such dimensions impossible to broadcast.
    total = math.prod(dim for dim in dims if dim)
    if total > MAX_ELEMENTS:
        raise AtlasError(f"{name} {list(dims)}: {total} elements are more than {MAX_ELEMENTS}")
    return dims


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise AtlasError(f"{name} = {value!r}: must be {' or '.join(choices)}")


__all__ = ["PARAM_INVALID", "PARAM_NULLPTR", "mse_loss_backward", "predict", "run", "soc"]
