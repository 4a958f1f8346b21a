"""``atlas-emu cann-root``: what it lays out, and what it refuses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from c_clients import STRICT, compiler_or_skip

from emulator import cli
from emulator.aclnn import codes, texts
from emulator.cann import tables, toolchain
from emulator.cann.root import Root, lay_out
from socs import load
from socs.errors import AtlasError


def test_what_clients_look_for_is_there(root: Path) -> None:
    for name in (
        "runtime/include",
        "runtime/lib64",
        "compiler",
        "atc/include",
        "opp/vendors",
        "x86_64-linux/devlib",
    ):
        assert (root / name).is_dir(), name
    for name in ("include/acl/acl.h", "lib64/libacl_rt.so", "version.cfg", "set_env.sh", "bin/setenv.bash"):
        assert (root / name).is_file(), name
    for name in ("libopapi_nn.so", "libopapi_math.so"):
        assert not (root / "lib64" / name).is_symlink(), "loaders that list regular files have to find it"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("name", ["set_env.sh", "bin/setenv.bash"])
def test_set_env_tells_where_the_root_is_to_any_shell_in_any_folder(
    root: Path, tmp_path: Path, shell: str, name: str
) -> None:
    script = f'. {root}/{name}; echo "$ASCEND_HOME_PATH $ASCEND_OPP_PATH"; echo "$LD_LIBRARY_PATH"'
    done = subprocess.run([shell, "-uc", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    home = os.path.realpath(root)
    assert done.stdout.splitlines()[0] == f"{home} {home}/opp"
    assert done.stdout.splitlines()[1].split(":")[0] == f"{home}/lib64"
    assert done.stderr == ""


def test_libraries_hold_no_python(root: Path) -> None:
    for library in (root / "lib64").glob("*.so"):
        names = subprocess.run(["nm", "-D", "-u", library], capture_output=True, text=True, check=True).stdout
        assert not re.search(r"\bPy[A-Z_]", names), library


def test_the_headers_have_the_numbers_of_the_tables() -> None:
    header = tables.enums()
    assert f"ACL_BF16 = {codes.DTYPES['bfloat16']}," in header
    assert f"ACL_FORMAT_ND = {codes.FORMATS['ND']}," in header
    assert f"#define ACLNN_ERR_PARAM_INVALID {codes.ACLNN_ERR_PARAM_INVALID}\n" in header


def test_the_messages_in_c_are_those_of_python() -> None:
    header = tables.texts_header()
    assert f'#define TEXT_REDUCTION "{texts.REDUCTION.replace("{}", "%s")}"\n' in header


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(AtlasError, match="holds something else"):
        lay_out(tmp_path, load("Ascend910B3"))
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_link_is_refused_and_leads_where_it_led(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    with pytest.raises(AtlasError, match=f"{link}: is a link to {root}; name the folder itself"):
        lay_out(link, load("Ascend910B3"))
    assert (link / "lib64/libascendcl.so").exists()


@pytest.mark.parametrize("place", ["/proc/root-of-cann", "{tmp_path}/file/root"])
def test_a_place_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path, place: str) -> None:
    compiler_or_skip()
    (tmp_path / "file").write_text("no folder")
    named = Path(place.format(tmp_path=tmp_path))
    with pytest.raises(AtlasError, match=rf"^{named}: cannot be written \([A-Z][a-z ]+\)"):
        lay_out(named, load("Ascend910B3"), tell=lambda text: pytest.fail(text))


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(toolchain.shutil, "which", lambda name: None)
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(AtlasError, match="install gcc or clang"):
        toolchain.find()


def test_a_compiler_by_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AtlasError, match="no-such-compiler"):
        toolchain.find("no-such-compiler")


def test_clang_builds_the_same_without_a_warning(root: Path, tmp_path: Path) -> None:
    import shutil

    if shutil.which("clang") is None:
        pytest.skip("no clang")
    built = lay_out(tmp_path / "root", load("Ascend310P3"), compiler="clang", flags=STRICT)
    assert built.soc == "Ascend310P3"
    again = lay_out(tmp_path / "root", load("Ascend910A"), compiler="clang")  # a root is replaced
    assert again.soc == "Ascend910A"


@pytest.mark.parametrize("option", [(), ("--faults",)])
def test_functions_fail_on_demand_only_where_that_was_asked_for(
    option: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def noted(directory: Path, *_: object, with_faults: bool, **__: object) -> Root:
        asked.append(with_faults)
        return Root(directory, "Ascend910B3", 1, "cc", "generic")

    monkeypatch.setattr("emulator.cann.root.lay_out", noted)
    monkeypatch.setattr(sys, "argv", ["atlas-emu", "cann-root", str(tmp_path / "root"), *option])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code or 0, asked) == (0, [bool(option)])
