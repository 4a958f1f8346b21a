"""What is imported when: help and the catalogue must come at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"numba", "llvmlite", "pydantic", "typer", "click", "rich", "simpy", "numpy", "ml_dtypes", "torch"}


def modules(code: str) -> set[str]:
    """The top-level modules that ``code`` has imported by its end."""
    show = "import sys; print('\\n' + ' '.join({name.partition('.')[0] for name in sys.modules}))"
    program = f"try:\n    {code}\nexcept SystemExit as end:\n    assert not end.code\n{show}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def command(*arguments: str) -> str:
    return f"import sys; sys.argv[1:] = {list(arguments)}; from emulator.cli import main; main()"


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert modules("import emulator") & HEAVY == set()


def test_names_of_the_package_are_imported_when_used() -> None:
    found = modules("import emulator; emulator.soc; emulator.AtlasError; emulator.Result")
    assert "numpy" in found
    assert found & {"numba", "typer", "torch", "simpy", "rich"} == set()


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["run", "--help"], ["validate", "--help"], ["calibrate", "--help"]],
)
def test_help_imports_neither_numpy_nor_numba(arguments: list[str]) -> None:
    assert modules(command(*arguments)) & {"numba", "llvmlite", "numpy", "scipy", "simpy", "torch"} == set()


@pytest.mark.parametrize("arguments", [["socs"], ["soc", "Ascend910B3", "--json"]])
def test_the_catalogue_imports_no_numba(arguments: list[str]) -> None:
    found = modules(command(*arguments))
    assert "socs" in found
    assert found & {"numba", "llvmlite", "torch", "simpy", "scipy"} == set()


def test_a_prediction_compiles_nothing() -> None:
    found = modules(command("predict", "--shape", "4"))
    assert "kernel" in found
    assert found & {"numba", "llvmlite", "torch"} == set()


def test_a_name_that_the_package_has_not_is_an_attribute_error() -> None:
    import emulator

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = emulator.nothing
    assert {"run", "predict", "soc", "mse_loss_backward", "AtlasError"} <= set(dir(emulator))
    assert all(hasattr(emulator, name) for name in emulator.__all__)
