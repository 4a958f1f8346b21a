"""Numbers that remember how they came about: what was computed with some, to be computed again with others.

Code that runs on :class:`Traced` integers runs as it would on plain ones. Besides, it leaves a record: the
expression of every number that it makes, and as a condition everything that it decides by comparing. Where
the conditions hold for other inputs, the code would have gone the same way with them, so the expressions
give what it would have given. :meth:`Trace.replay` is that as one straight piece of Python.

What cannot be followed is no danger: where a traced number becomes a plain one (as an index, a key of a
dictionary, an argument of a C function), its value is a condition too, and the record holds for it alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

Terms = tuple[tuple[int, int], ...]
"""Nodes and their factors, in the order of nodes."""
Range = tuple[Any, Any]
"""The least and the greatest value that are possible: integers, or infinities."""

P = ParamSpec("P")
T = TypeVar("T")

_INFINITE = math.inf
_ANY: Range = (-_INFINITE, _INFINITE)


class Sum:
    """A sum of nodes with factors. There is one object of each in a trace, so that they compare quickly."""

    __slots__ = ("_canonical", "terms")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._canonical: tuple[Sum, int] | None = None

    def canonical(self, trace: Trace) -> tuple[Sum, int]:
        """It as a factor of a sum whose first factor is positive and whose factors have no common divisor."""
        if self._canonical is None:
            common = math.gcd(*[factor for _, factor in self.terms])
            if self.terms[0][1] < 0:
                common = -common
            shape = self
            if common != 1:
                shape = trace.sum(tuple([(node, factor // common) for node, factor in self.terms]))
            self._canonical = (shape, common)
        return self._canonical


class Trace:
    """One run of code. Its inputs are made by :meth:`number` and :meth:`real`; everything else follows."""

    def __init__(self) -> None:
        self.inputs: list[int] = []
        self.leaked = False
        """Whether a number was written as text, where nothing can be said about its use."""
        self.nodes: list[tuple[str, tuple[Any, ...]]] = []
        self.limits: dict[Sum, list[Any]] = {}
        """Conditions: what a sum lies between."""
        self.unequal: dict[Sum, set[int]] = {}
        self.tests: dict[tuple[str, Any, Any], bool] = {}
        """Conditions: comparisons with numbers that are no integers, and their outcomes."""
        self.functions: list[Callable[..., Any]] = []
        self._ranges: list[Range] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._sums: dict[Terms, Sum] = {}
        self._added: dict[tuple[Sum, Sum, int], Sum] = {}
        self._negative: dict[tuple[Sum, int], bool] = {}
        self.nothing = self.sum(())

    def number(self, value: int, low: int = 0) -> Traced:
        """An input that is an integer of at least ``low``."""
        if value < low:
            raise ValueError(f"{value} is less than {low}")
        node = self._node("input", (len(self.inputs),), (low, _INFINITE))
        self.inputs.append(node)
        # What is taken for granted of an input is a condition as well: a replay is tried with anything.
        terms = self.sum(((node, 1),))
        self.limits[terms] = [low, _INFINITE]
        return Traced(self, terms, 0, value)

    def real(self, value: float) -> TracedReal:
        """An input that is no integer."""
        node = self._node("input", (len(self.inputs),))
        self.inputs.append(node)
        return TracedReal(self, node, value)

    def replay(self, outputs: Sequence[object]) -> Replay:
        """What the run made of its inputs, as a function of them. ``outputs``: numbers, traced or plain."""
        return Replay(self, outputs)

    # ---- what nodes are made by --------------------------------------------------------------------

    def integer(self, op: str, arguments: tuple[Any, ...], value: int, within: Range = _ANY) -> Traced:
        """An integer that is no sum of others."""
        return Traced(self, self.sum(((self._node(op, arguments, within), 1),)), 0, value)

    def fraction(self, op: str, arguments: tuple[Any, ...], value: float) -> TracedReal:
        """A number that is no integer."""
        return TracedReal(self, self._node(op, arguments), value)

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """The result of a function of numbers, and of tuples of them, that is not looked into."""
        value = function(*_plain(arguments))
        if function not in self.functions:
            self.functions.append(function)
        key = (self.functions.index(function), _frozen(arguments))
        return (
            self.integer("call", key, value) if isinstance(value, int) else self.fraction("call", key, value)
        )

    def _node(self, op: str, arguments: tuple[Any, ...], within: Range = _ANY) -> int:
        key = (op, arguments)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            self.nodes.append(key)
            self._ranges.append(within)
        return found

    def sum(self, terms: Terms) -> Sum:
        """The one object for a sum."""
        found = self._sums.get(terms)
        if found is None:
            found = self._sums[terms] = Sum(terms)
        return found

    def range_of(self, terms: Sum, constant: int = 0) -> Range:
        """What a sum certainly lies between."""
        if not terms.terms:
            return constant, constant
        low: Any = 0
        high: Any = 0
        for node, factor in terms.terms:
            a, b = self._ranges[node]
            low += factor * (a if factor > 0 else b)
            high += factor * (b if factor > 0 else a)
        shape, factor = terms.canonical(self)
        found = self.limits.get(shape)
        if found is not None:
            a, b = (factor * found[0], factor * found[1])[:: 1 if factor > 0 else -1]
            low, high = max(low, a), min(high, b)
        return low + constant, high + constant

    # ---- what is decided ---------------------------------------------------------------------------

    def is_negative(self, terms: Sum, constant: int, value: int) -> bool:
        """Whether a sum, now of this value, is less than 0: a condition unless it is certain."""
        known = self._negative.get((terms, constant))
        if known is not None:
            return known
        if not terms.terms:
            return constant < 0
        low, high = self.range_of(terms, constant)
        negative = self._negative[terms, constant] = value < 0
        if high < 0 or low >= 0:
            return negative
        shape, factor = terms.canonical(self)
        limits = self.limits.setdefault(shape, [-_INFINITE, _INFINITE])
        # factor * shape <= most, or factor * shape >= most + 1
        most = -constant - 1
        if negative and factor > 0:
            limits[1] = min(limits[1], most // factor)
        elif negative:
            limits[0] = max(limits[0], -(most // -factor))
        elif factor > 0:
            limits[0] = max(limits[0], -(-(most + 1) // factor))
        else:
            limits[1] = min(limits[1], (most + 1) // factor)
        return negative

    def sum_of(self, left: Sum, right: Sum, sign: int) -> Sum:
        """The sum of two sums, or their difference."""
        key = (left, right, sign)
        found = self._added.get(key)
        if found is None:
            factors = dict(left.terms)
            for node, factor in right.terms:
                factors[node] = factors.get(node, 0) + sign * factor
            found = self.sum(tuple(sorted([(node, factor) for node, factor in factors.items() if factor])))
            self._added[key] = found
        return found

    def is_zero(self, terms: Sum, constant: int, value: int) -> bool:
        """Whether a sum, now of this value, is 0: a condition unless it is certain."""
        if not terms.terms:
            return constant == 0
        shape, factor = terms.canonical(self)
        root, rest = divmod(-constant, factor)
        low, high = self.range_of(terms, constant)
        if rest or low > 0 or high < 0 or root in self.unequal.get(shape, ()):
            return False
        if low == high == 0:
            return True
        if value:
            self.unequal.setdefault(shape, set()).add(root)
            return False
        limits = self.limits.setdefault(shape, [root, root])
        limits[0] = limits[1] = root
        return True

    def is_true(self, op: str, left: object, right: object) -> bool:
        """The outcome of a comparison of numbers that are not both integers; always a condition."""
        outcome = bool(_COMPARE[op](_plain(left), _plain(right)))
        self.tests[op, _frozen(left), _frozen(right)] = outcome
        return outcome


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


class Traced:
    """An integer: a sum of nodes and a constant. Acts like ``int``, of which it is none."""

    __slots__ = ("constant", "terms", "trace", "value")

    def __init__(self, trace: Trace, terms: Sum, constant: int, value: int) -> None:
        self.trace = trace
        self.terms = terms
        self.constant = constant
        self.value = value

    # ---- sums --------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int):
            return Traced(self.trace, self.terms, self.constant + other, self.value + other)
        if isinstance(other, Traced):
            return self._plus(other, 1)
        return _mixed("+", self, other)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, int):
            return Traced(self.trace, self.terms, self.constant - other, self.value - other)
        if isinstance(other, Traced):
            return self._plus(other, -1)
        return _mixed("-", self, other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            return self._times(other)
        if not isinstance(other, Traced):
            return _mixed("*", self, other)
        if not self.terms.terms or not other.terms.terms:
            return other._times(self.constant) if not self.terms.terms else self._times(other.constant)
        (a, b), (c, d) = self.range(), other.range()
        within = (a * c, b * d if b * d == b * d else _INFINITE) if a >= 0 and c >= 0 else _ANY
        pair = (_frozen(self), _frozen(other))
        return self.trace.integer("*", pair, self.value * other.value, within)

    def __radd__(self, other: Any) -> Any:
        return self + other if isinstance(other, int) else _mixed("+", other, self)

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, int) else _mixed("-", other, self)

    def __rmul__(self, other: Any) -> Any:
        return self._times(other) if isinstance(other, int) else _mixed("*", other, self)

    def __neg__(self) -> Any:
        return self._times(-1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    # ---- quotients ---------------------------------------------------------------------------------

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, int) and other and not self.constant % other and self._divides(other):
            terms = self.trace.sum(tuple([(node, factor // other) for node, factor in self.terms.terms]))
            return Traced(self.trace, terms, self.constant // other, self.value // other)
        return self._quotient("//", other)

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, int) and other and self._divides(other):
            return self.constant % other
        return self._quotient("%", other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rfloordiv__(self, other: Any) -> Any:
        return _traced(self.trace, other)._quotient("//", self)

    def __rmod__(self, other: Any) -> Any:
        return _traced(self.trace, other)._quotient("%", self)

    def __truediv__(self, other: Any) -> Any:
        return _mixed("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _mixed("/", other, self)

    def __ceil__(self) -> Any:
        return self

    def __floor__(self) -> Any:
        return self

    def __trunc__(self) -> Any:
        return self

    def __round__(self, digits: int | None = None) -> Any:
        return self

    # ---- decisions ---------------------------------------------------------------------------------

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, Traced):
            return self._less(other)
        if isinstance(other, int):
            return self.trace.is_negative(self.terms, self.constant - other, self.value - other)
        return self.trace.is_true("<", self, other)

    def __ge__(self, other: Any) -> bool:
        return not self < other if isinstance(other, (int, Traced)) else self.trace.is_true(">=", self, other)

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, Traced):
            return other._less(self)
        if isinstance(other, int):
            terms = self.trace.sum_of(self.trace.nothing, self.terms, -1)
            return self.trace.is_negative(terms, other - self.constant, other - self.value)
        return self.trace.is_true(">", self, other)

    def __le__(self, other: Any) -> bool:
        return not self > other if isinstance(other, (int, Traced)) else self.trace.is_true("<=", self, other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, Traced)):
            apart = self - other
            return self.trace.is_zero(apart.terms, apart.constant, apart.value)
        if isinstance(other, (float, TracedReal)):
            return self.trace.is_true("==", self, other)
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    # ---- where it becomes a plain number, its value is a condition -----------------------------------

    def __index__(self) -> int:
        assert self == self.value
        return self.value

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __str__(self) -> str:
        self.trace.leaked = True
        return str(self.value)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        self.trace.leaked = True
        return format(self.value, spec)

    # ---- helpers -----------------------------------------------------------------------------------

    def range(self) -> Range:
        """What it certainly lies between."""
        return self.trace.range_of(self.terms, self.constant)

    def _less(self, other: Traced) -> bool:
        terms = self.trace.sum_of(self.terms, other.terms, -1)
        return self.trace.is_negative(terms, self.constant - other.constant, self.value - other.value)

    def _divides(self, by: int) -> bool:
        return all(not factor % by for _, factor in self.terms.terms)

    def _times(self, by: int) -> Traced:
        terms = tuple([(node, factor * by) for node, factor in self.terms.terms]) if by else ()
        return Traced(self.trace, self.trace.sum(terms), self.constant * by, self.value * by)

    def _plus(self, other: Traced, sign: int) -> Traced:
        terms = self.trace.sum_of(self.terms, other.terms, sign)
        constant = self.constant + sign * other.constant
        return Traced(self.trace, terms, constant, self.value + sign * other.value)

    def _quotient(self, op: str, other: Any) -> Any:
        if not isinstance(other, (int, Traced)):
            return _mixed(op, self, other)
        by = _traced(self.trace, other)
        value = int(_COMPUTE[op](self.value, by.value))
        (a, b), (c, d) = self.range(), by.range()
        within: Range = _ANY
        if op == "%" and c > 0:
            within = (0, d - 1)
        elif op == "//" and c == d > 0:
            within = (a // c if a > -_INFINITE else a, b // c if b < _INFINITE else b)
        elif op == "//" and c > 0 and a >= 0:
            within = (0, b)
        return self.trace.integer(op, (_frozen(self), _frozen(by)), value, within)


class TracedReal:
    """A number that is no integer, or need not be one. Acts like ``float``."""

    __slots__ = ("node", "trace", "value")

    def __init__(self, trace: Trace, node: int, value: float) -> None:
        self.trace = trace
        self.node = node
        self.value = value

    def __add__(self, other: Any) -> Any:
        return _mixed("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _mixed("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _mixed("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _mixed("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return _mixed("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _mixed("*", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _mixed("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _mixed("/", other, self)

    def __neg__(self) -> Any:
        return self * -1

    def __lt__(self, other: Any) -> bool:
        return self.trace.is_true("<", self, other)

    def __le__(self, other: Any) -> bool:
        return self.trace.is_true("<=", self, other)

    def __gt__(self, other: Any) -> bool:
        return self.trace.is_true(">", self, other)

    def __ge__(self, other: Any) -> bool:
        return self.trace.is_true(">=", self, other)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, float, Traced, TracedReal)) and self.trace.is_true("==", self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __ceil__(self) -> Any:
        return self.trace.integer("ceil", (_frozen(self),), math.ceil(self.value))

    def __floor__(self) -> Any:
        return self.trace.integer("floor", (_frozen(self),), math.floor(self.value))

    def __round__(self, digits: int | None = None) -> Any:
        if digits is not None:
            return round(float(self), digits)
        return self.trace.integer("round", (_frozen(self),), round(self.value))

    def __float__(self) -> float:
        assert self == self.value
        return float(self.value)

    def __int__(self) -> int:
        return int(float(self))

    def __hash__(self) -> int:
        return hash(float(self))

    def __str__(self) -> str:
        self.trace.leaked = True
        return str(self.value)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        self.trace.leaked = True
        return format(self.value, spec)


# ---- functions for code that is to be traced ----------------------------------------------------------


def larger(a: Any, b: Any) -> Any:
    """``max`` of two numbers; of traced ones without a condition on which it is."""
    return _extreme("max", a, b)


def smaller(a: Any, b: Any) -> Any:
    """``min`` of two numbers; of traced ones without a condition on which it is."""
    return _extreme("min", a, b)


def _extreme(op: str, a: Any, b: Any) -> Any:
    choose = max if op == "max" else min
    trace = _trace_of((a, b))
    if trace is None:
        return choose(a, b)
    value = choose(_plain(a), _plain(b))
    if not all(isinstance(x, (int, Traced)) for x in (a, b)):
        return trace.fraction(op, (_frozen(a), _frozen(b)), value)
    ranges = [_traced(trace, x).range() for x in (a, b)]
    within = tuple(choose(ends) for ends in zip(*ranges, strict=True))
    return trace.integer(op, (_frozen(a), _frozen(b)), value, cast(Range, within))


def opaque(function: Callable[P, T]) -> Callable[P, T]:
    """For a function of integers and tuples of them: called as it is, and not looked into when traced."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        trace = _trace_of(args)
        if trace is None or kwargs:
            return function(*args, **kwargs)
        return cast(T, trace.call(function, args))

    return call


gcd = opaque(math.gcd)


def _trace_of(value: object) -> Trace | None:
    if isinstance(value, (Traced, TracedReal)):
        return value.trace
    if isinstance(value, tuple):
        for item in value:
            found = _trace_of(item)
            if found is not None:
                return found
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, (Traced, TracedReal)):
        return value.value
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _frozen(value: object) -> tuple[Any, ...]:
    """A number, or a tuple of numbers, as part of the key of a node."""
    if isinstance(value, Traced):
        return ("sum", value.terms, value.constant)
    if isinstance(value, TracedReal):
        return ("node", value.node)
    if isinstance(value, tuple):
        return ("tuple", tuple(map(_frozen, value)))
    if isinstance(value, (int, float)):
        # Not the number itself: 1, 1.0 and True are equal keys, and so are 0.0 and -0.0.
        return ("plain", repr(value))
    raise TypeError(f"{value!r} is no number")


def _traced(trace: Trace, value: Any) -> Traced:
    return value if isinstance(value, Traced) else Traced(trace, trace.nothing, value, value)


def _mixed(op: str, left: Any, right: Any) -> Any:
    trace = _trace_of((left, right))
    if trace is None or not all(isinstance(x, (int, float, Traced, TracedReal)) for x in (left, right)):
        return NotImplemented
    value = _COMPUTE[op](_plain(left), _plain(right))
    return trace.fraction(op, (_frozen(left), _frozen(right)), value)


# ---- the replay ---------------------------------------------------------------------------------------


class Replay:
    """A run as a function of its inputs. ``source`` is what is called."""

    def __init__(self, trace: Trace, outputs: Sequence[object]) -> None:
        # It brings Numba, which whoever replays nothing need not wait for.
        from kernel.inequalities import Inequalities

        rows = _inequalities(trace)
        compared = sorted({node for _, terms in rows for node, _ in terms})
        self.source = "\n".join(_lines(trace, compared, [_frozen(output) for output in outputs]))
        place = {node: column for column, node in enumerate(compared)}
        hold = Inequalities([(c, [(place[node], f) for node, f in terms]) for c, terms in rows]).hold
        names: dict[str, Any] = {f"f{i}": function for i, function in enumerate(trace.functions)}
        names |= {"ceil": math.ceil, "floor": math.floor, "hold": hold}
        exec(compile(self.source, "<replay>", "exec"), names)
        self._call: Callable[[Sequence[int | float]], tuple[Any, ...] | None] = names["replay"]

    def __call__(self, inputs: Sequence[int | float]) -> tuple[Any, ...] | None:
        """The outputs for these inputs, or ``None`` where the run would have gone another way."""
        try:
            return self._call(inputs)
        except (ZeroDivisionError, OverflowError):
            return None


def _inequalities(trace: Trace) -> list[tuple[int, Terms]]:
    """All conditions that say what a sum is not less than: each sum's constant and terms."""
    found: dict[tuple[int, Terms], None] = {}
    for shape, (low, high) in trace.limits.items():
        if low > -_INFINITE and low != high:
            found[-low, shape.terms] = None
        if high < _INFINITE and low != high:
            found[high, tuple([(node, -factor) for node, factor in shape.terms])] = None
    return list(found)


def _lines(trace: Trace, compared: Sequence[int], outputs: list[tuple[Any, ...]]) -> Iterator[str]:
    conditions = sorted(_conditions(trace), key=lambda condition: condition[0])
    first = _closure(trace, [*compared, *(node for _, _, uses in conditions for node in uses)])
    later = _closure(trace, [node for output in outputs for node in _nodes_in(output)]) - first
    yield "def replay(inputs):"
    yield f"    {', '.join(f'v{node}' for node in trace.inputs)}, = inputs"
    place = 0
    for node in [*sorted(first), len(trace.nodes)]:
        while place < len(conditions) and conditions[place][0] < node:
            yield f"    if not {conditions[place][1]}: return None"
            place += 1
        if node < len(trace.nodes) and trace.nodes[node][0] != "input":
            yield f"    v{node} = {_expression(*trace.nodes[node])}"
    if compared:
        yield f"    if not hold([{', '.join(f'v{node}' for node in compared)}]): return None"
    for node in sorted(later):
        if trace.nodes[node][0] != "input":
            yield f"    v{node} = {_expression(*trace.nodes[node])}"
    yield f"    return ({', '.join(map(_text, outputs))},)" if outputs else "    return ()"


def _closure(trace: Trace, nodes: Iterable[int]) -> set[int]:
    """Nodes with all that they are made of."""
    found: set[int] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += _nodes_in(trace.nodes[node][1])
    return found


def _conditions(trace: Trace) -> Iterator[tuple[int, str, list[int]]]:
    """Conditions but the inequalities of integers, as (last node that it needs, text, nodes)."""
    for shape, (low, high) in trace.limits.items():
        if low == high:
            uses = [node for node, _ in shape.terms]
            yield max(uses), f"{_sum(shape.terms, 0)} == {low}", uses
    for shape, roots in trace.unequal.items():
        uses = [node for node, _ in shape.terms]
        low, high = trace.limits.get(shape, _ANY)
        for root in sorted(root for root in roots if low <= root <= high):
            yield max(uses), f"{_sum(shape.terms, 0)} != {root}", uses
    for (op, left_side, right_side), outcome in trace.tests.items():
        uses = [*_nodes_in(left_side), *_nodes_in(right_side)]
        yield max(uses), f"({_text(left_side)} {op} {_text(right_side)}) is {outcome}", uses


def _nodes_in(frozen: Any) -> Iterator[int]:
    if not isinstance(frozen, tuple) or not frozen:
        return
    if frozen[0] == "sum":
        yield from (node for node, _ in frozen[1].terms)
    elif frozen[0] == "node":
        yield frozen[1]
    elif frozen[0] != "plain":
        for item in frozen:
            yield from _nodes_in(item)


def _expression(op: str, arguments: tuple[Any, ...]) -> str:
    if op == "call":
        number, given = arguments
        return f"f{number}({', '.join(map(_text, given[1]))})"
    texts = list(map(_text, arguments))
    if op in _COMPUTE:
        return f"({texts[0]}) {op} ({texts[1]})"
    return f"{op}({', '.join(texts)})"


def _text(frozen: tuple[Any, ...]) -> str:
    kind = frozen[0]
    if kind == "sum":
        return _sum(frozen[1].terms, frozen[2])
    if kind == "node":
        return f"v{frozen[1]}"
    if kind == "tuple":
        return f"({''.join(f'{_text(item)}, ' for item in frozen[1])})"
    return str(frozen[1])


def _sum(terms: Terms, constant: int) -> str:
    parts = []
    for node, factor in terms:
        parts.append(f"v{node}" if factor == 1 else f"{factor} * v{node}")
    if constant or not parts:
        parts.append(str(constant))
    return " + ".join(parts)
