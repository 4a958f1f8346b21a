"""What an equal call gave before: plans and compiled loops never change, and cost milliseconds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from kernel.program import Launch
from socs.spec import Soc

P = ParamSpec("P")
T = TypeVar("T")


def remembered(entries: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep the last ``entries`` results of a function whose arguments say all and whose result is immutable.

    Chips and launches count by identity: to compare them costs more than it saves. A call with an
    argument that cannot be hashed, and one that raises, is made anew each time.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept: OrderedDict[Any, tuple[T, Any]] = OrderedDict()
        lock = Lock()

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            key = (*map(_key, args), *((name, _key(value)) for name, value in sorted(kwargs.items())))
            try:
                with lock:
                    found = kept.get(key)
                    if found is not None:
                        kept.move_to_end(key)
                        return found[0]
            except TypeError:
                return function(*args, **kwargs)
            result = function(*args, **kwargs)
            with lock:
                # The arguments are kept too, so that no other object gets their identity.
                kept[key] = (result, (args, kwargs))
                if len(kept) > entries:
                    kept.popitem(last=False)
            return result

        return call

    return decorate


def _key(value: object) -> object:
    if isinstance(value, (Soc, Launch)):
        return (type(value), id(value))
    # 1, 1.0 and True are equal and mean different things.
    return (type(value), value)
