"""A progress bar for what takes longer than a second, on a terminal only."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PATIENCE_S = 1.0
"""Nothing is shown before this much time has passed."""


class Steps:
    """A context in which ``step("computing")`` names what is going on; ``count`` steps make the whole."""

    def __init__(self, count: int) -> None:
        console = Console(stderr=True)
        self._progress: Progress | None = None
        self._timer: threading.Timer | None = None
        # Rich calls any stream a terminal where FORCE_COLOR is set.
        if console.is_terminal and sys.stderr is not None and sys.stderr.isatty():
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
            self._task = self._progress.add_task("", total=count)
            self._timer = threading.Timer(PATIENCE_S, self._progress.start)
            self._timer.daemon = True
        self._begun = False

    def __enter__(self) -> Steps:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None and self._progress is not None:
            self._timer.cancel()
            self._timer.join()
            self._progress.stop()

    def tell(self, description: str) -> None:
        """More about the step that goes on."""
        if self._progress is not None:
            self._progress.update(self._task, description=description)

    def step(self, description: str) -> None:
        """The step before is done; this one begins."""
        if self._progress is not None:
            self._progress.update(self._task, description=description, advance=1 if self._begun else 0)
        self._begun = True
