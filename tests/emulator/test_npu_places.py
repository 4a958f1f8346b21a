"""Where the backend ``npu`` looks for libraries, and what it says where it finds none."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

import emulator
from emulator.backends.npu import libraries, places

FILES = ("libascendcl.so", "libnnopbase.so", "libopapi_nn.so")


def installed(root: Path, folder: str = "lib64", files: tuple[str, ...] = FILES) -> Path:
    (root / folder).mkdir(parents=True)
    for name in files:
        (root / folder / name).write_bytes(b"not a library")
    return root


@pytest.mark.parametrize("variable", places.VARIABLES)
def test_a_variable_names_the_root(tmp_path: Path, variable: str) -> None:
    found = places.look({variable: str(installed(tmp_path / "root"))})
    assert (found.root, found.origin) == (tmp_path / "root", variable)
    assert [path.name for path in (found.runtime, found.base, *found.operators)] == list(FILES)


def test_the_first_variable_is_believed_even_if_nothing_is_there(tmp_path: Path) -> None:
    installed(tmp_path / "second")
    environ = {"ASCEND_HOME_PATH": "/nowhere", "ASCEND_TOOLKIT_HOME": str(tmp_path / "second")}
    with pytest.raises(emulator.AtlasError, match=r"no libascendcl\.so or libacl_rt\.so, .* under /nowhere"):
        places.look(environ)


def test_without_a_variable_every_usual_place_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "USUAL", ("/nowhere/a", "~nobody-here/b", "/nowhere/c"))
    with pytest.raises(emulator.AtlasError) as refused:
        places.look({})
    for place in ("/nowhere/a (usual place)", "~nobody-here/b (usual place)", "/nowhere/c (usual place)"):
        assert place in str(refused.value)
    assert str(refused.value).count("libnnopbase.so") == 1
    assert "set ASCEND_HOME_PATH" in str(refused.value)


def test_a_usual_place_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "home/Ascend/cann")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = places.look({"ASCEND_HOME_PATH": ""})
    assert (found.root, found.origin) == (tmp_path / "home/Ascend/cann", "usual place")


@pytest.mark.parametrize("missing", FILES)
def test_what_is_missing_is_named_and_nothing_else(tmp_path: Path, missing: str) -> None:
    root = installed(tmp_path / "root", files=tuple(name for name in FILES if name != missing))
    with pytest.raises(emulator.AtlasError) as refused:
        places.look({"ASCEND_HOME_PATH": str(root)})
    assert [name in str(refused.value) for name in FILES] == [name == missing for name in FILES]


@pytest.mark.parametrize("folder", ["lib64", "runtime/lib64", f"{platform.machine()}-linux/lib64"])
def test_older_names_and_other_folders_are_taken(tmp_path: Path, folder: str) -> None:
    files = ("libacl_rt.so", "libnnopbase.so", "libaclnn_ops_train.so", "libopapi.so", "libplatform.so")
    files += ("libascend_protobuf.so.3.13",)
    found = places.look({"ASCEND_HOME_PATH": str(installed(tmp_path, folder, files))})
    assert found.runtime == tmp_path / folder / "libacl_rt.so"
    assert [path.name for path in found.operators] == ["libopapi.so", "libaclnn_ops_train.so"]
    assert [path.name for path in found.preloaded] == ["libascend_protobuf.so.3.13", "libplatform.so"]


def test_a_file_that_is_no_library_is_named_with_the_linkers_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "_loaded", [])
    found = places.look({"ASCEND_HOME_PATH": str(installed(tmp_path))})
    with pytest.raises(emulator.AtlasError, match=r"libascendcl\.so cannot be loaded: .*set_env\.sh"):
        libraries.load(found)


def test_a_process_takes_the_libraries_of_one_installation_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (installed(tmp_path / name) for name in ("first", "second"))
    monkeypatch.setattr(libraries, "_loaded", [places.look({"ASCEND_HOME_PATH": str(first)})])
    with pytest.raises(
        emulator.AtlasError, match=r"has the libraries of .*first; those of .*second need another"
    ):
        libraries.load(places.look({"ASCEND_HOME_PATH": str(second)}))
