"""The backend: a checked call in, its bits and measured times out."""

from __future__ import annotations

from emulator.accuracy import Accuracy
from emulator.aclnn import AclTensor
from emulator.aclnn.elsewhere import RemoteExecutor
from emulator.backend import Call
from emulator.backends.npu import stream as streams
from emulator.backends.npu import tensors as descriptions
from emulator.backends.npu import two_phase
from emulator.backends.npu.call import Launches
from emulator.backends.npu.device import Device, open_device
from emulator.backends.npu.functions import OPERATOR
from emulator.backends.npu.held import Held
from emulator.backends.npu.memory import Mirror
from emulator.backends.npu.timing import measure
from emulator.measured import Measured
from emulator.result import Result
from kernel import mse_loss_backward
from kernel.mse_loss_backward import Reduction
from kernel.plan import Plan
from socs import load, names
from socs.errors import AtlasError
from socs.spec import Soc

WARM_UP = 3
REPEATS = 20
MOST_LAUNCHES = 100_000


class Npu:
    """Runs calls on a card. An object may serve any number of threads; it holds nothing itself.

    ``device``: its number; default ``ATLAS_EMU_DEVICE``, else 0. ``stream``: the address of a stream of the
    caller's, in whose context the thread is (``torch.npu.current_stream().npu_stream``); default: a new one
    for each call. ``warm_up`` and ``repeats``: launches before timing, and timed.

    Raises ``AtlasError`` for numbers that are none. Libraries are looked for at the first call.
    """

    takes_views = True

    def __init__(
        self,
        device: int | None = None,
        stream: int | None = None,
        warm_up: int = WARM_UP,
        repeats: int = REPEATS,
    ) -> None:
        for name, value, least in (("warm_up", warm_up, 0), ("repeats", repeats, 1)):
            if not isinstance(value, int) or not least <= value <= MOST_LAUNCHES:
                raise AtlasError(f"{name} = {value!r}: must be a number from {least} to {MOST_LAUNCHES:,}")
        for name, given in (("device", device), ("stream", stream)):
            if given is not None and (not isinstance(given, int) or isinstance(given, bool) or given < 0):
                raise AtlasError(f"{name} = {given!r}: must be a number from 0 on")
        self._number = device
        self._stream = stream
        self._warm_up = warm_up
        self._repeats = repeats

    def chip(self, asked: Soc | None) -> Soc:
        """The chip that the card has; ``asked`` where that may be it.

        A chip of the catalogue other than the card's is refused; a file of the user's is taken for the card.
        """
        name = open_device(self._number).soc_name
        if asked is None:
            try:
                return load(name)
            except AtlasError as error:
                raise AtlasError(f"the card is {name!r}: {error}; name a chip file by soc") from None
        if asked.name != name and asked.name in names():
            raise AtlasError(f"soc = {asked.name}: the card is {name}, which cannot be chosen")
        return asked

    def run(self, call: Call) -> Result:
        """Fill ``call.out`` on the card, and measure if that is asked for.

        Raises ``NpuError`` with the function that failed, ``AtlasError`` for what only an emulator can do.
        """
        _check(call)
        return _result(call, self._measured(call, open_device(self._number)))

    def phase_1(
        self, tensors: tuple[AclTensor | None, ...], reduction: int, soc: Soc | None
    ) -> tuple[int, int, RemoteExecutor | None]:
        """Phase 1 of ``emulator.aclnn``, with the card's own status. ``AtlasError`` without a card."""
        self.chip(soc)
        return two_phase.phase_1(open_device(self._number), tensors, reduction)

    def _measured(self, call: Call, device: Device) -> Measured | None:
        plan, libraries = call.plan, device.libraries
        assert call.out is not None
        operands = [descriptions.described(call.tensors[name]) for name in mse_loss_backward.TENSORS]
        # Exactly its own bytes, since what lies around them is not to be written back.
        operands.append(AclTensor(call.out.reshape(-1), call.out.shape, operands[1].dtype))
        pieces = [descriptions.memory_of(operand) for operand in operands]
        mode = None if call.overflow == plan.soc.numerics.default_overflow_mode else call.overflow
        with Held(libraries) as memory:
            streams.enter(device, memory, self._stream)
            mirror = Mirror(libraries, memory, pieces)
            for piece in pieces[:3]:
                mirror.upload(piece)
            handles = [
                descriptions.create(libraries, memory, operand, mirror.on_device(piece))
                for operand, piece in zip(operands, pieces, strict=True)
            ]
            with Held(libraries) as work:
                stream = streams.stream_of(device, work, self._stream, mode)
                assert plan.reduction is not None
                reduction = int(Reduction.parse(plan.reduction))
                launches = Launches(libraries, memory, work, handles, reduction, stream)
                launches.enqueue(launches.prepare())
                launches.wait()
                mirror.download(pieces[3])
                if not call.timed or plan.sketch is None:
                    return None
                return measure(
                    launches, memory, plan.soc, l2=call.l2, warm_up=self._warm_up, repeats=self._repeats
                )


def _check(call: Call) -> None:
    plan = call.plan
    if plan.operator != mse_loss_backward.OPERATOR:
        raise AtlasError(f"backend npu: runs {mse_loss_backward.OPERATOR}; {plan.operator} is only emulated")
    if plan.stand_in_for is not None:
        raise AtlasError(f"backend npu: kernel = {plan.kernel}: a card runs {plan.stand_in_for}, its own")
    if plan.tiling is not None and plan.tiling.chosen_by == "user":
        raise AtlasError("backend npu: a card cuts by its own tiling, which cannot be chosen")
    if call.bits != "compiled":
        raise AtlasError(f"backend npu: bits = {call.bits!r}: nothing is interpreted on a card")
    if call.without:
        raise AtlasError(f"backend npu: without = {', '.join(sorted(call.without))}: a card has everything")


def _result(call: Call, measured: Measured | None) -> Result:
    """No prediction is in it: cycles and times of the model are 0."""
    plan, sketch = call.plan, call.plan.sketch
    return Result(
        operator=plan.operator,
        backend="npu",
        soc=plan.soc,
        kernel=OPERATOR,
        stand_in_for=None,
        dtype=str(plan.dtype),
        shapes={**call.shapes, "out": plan.shape},
        reduction=plan.reduction,
        l2=call.l2,
        overflow=call.overflow,
        block_dim=0,
        tiling=None,
        cycles=0,
        time_us=0.0,
        bounds=None,
        pipes=(),
        launch_cycles=0,
        bytes_read=sketch.bytes_read if sketch else 0,
        bytes_written=sketch.bytes_written if sketch else 0,
        assumed=(),
        accuracy=_ACCURACY,
        warnings=_warnings(plan, call, measured),
        measured=measured,
        output=call.out,
    )


_ACCURACY = Accuracy(False, None, None, None, "measured, not predicted", "measured, not predicted")


def _warnings(plan: Plan, call: Call, measured: Measured | None) -> tuple[str, ...]:
    found = []
    if measured is not None and measured.emulated:
        found.append("by the emulated libraries: these times say nothing about a card")
    if measured is not None and measured.l2 != call.l2:
        found.append(f"L2 was {measured.l2} before each launch: a card cannot be made {call.l2}")
    return tuple(found)
