"""NULL, host pointers, stale handles, freed memory: a status and a text from every function, no crash."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.cann import faults

Built = Callable[..., Path]
Ran = Callable[..., subprocess.CompletedProcess[str]]
Told = dict[str, tuple[int, str]]

KNOWN = {function.name: function for function in faults.functions() if function.kind == "status"}

NULL_IS_FINE = re.compile("aclInit|aclnnInit|aclDestroy(?!AclOp).*|aclrtSynchronizeStream.*")
"""No configuration, nothing to destroy, the default stream."""

HANDLE = re.compile(
    r"\b(?:aclrt(?:Stream|Event|Context) |acl(?:Tensor|Scalar)(?:List)? \*|aclOpExecutor \*)(?!\*)"
)
GIVEN_BACK = re.compile(r"\b(?:aclrt(?:Stream|Event|Context) |aclTensor \*|void \*(?:devPtr|dst)\b)(?!\*)")
CREATES = re.compile("(?i)acl(rt)?Create.*")


def _sweep(root: Path, kind: str, state: str) -> Told:
    script = Path(__file__).with_name("c_sweep.py")
    line = [sys.executable, str(script), str(root), kind, state]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    crashed = {name: told for name, told in found.items() if isinstance(told, str)}
    assert crashed == {}
    return {name: (told[0], told[1]) for name, told in found.items() if name in KNOWN}


@pytest.mark.parametrize("state", ["forgotten", "set"])
def test_null_is_refused_by_every_function_that_needs_a_pointer(root: Path, state: str) -> None:
    for name, (status, text) in _sweep(root, "null", state).items():
        pointers = "*" in KNOWN[name].parameters or HANDLE.search(KNOWN[name].parameters)
        if pointers and not NULL_IS_FINE.fullmatch(name):
            assert status in (100000, 161001, 561103), name
            assert "null" in text or "is no aclScalar" in text, name


def test_without_acl_init_whatever_needs_a_device_says_what_comes_first(root: Path) -> None:
    found = _sweep(root, "null", "forgotten") | {
        name: told
        for name, told in _sweep(root, "host", "forgotten").items()
        if name.startswith("aclrtCreate")
    }
    assert found["aclrtSetDevice"] == (100001, "aclInit comes first.")
    assert found["aclrtCreateContext"] == (100001, "aclInit comes first.")
    for name in (
        "aclrtSynchronizeStream",
        "aclrtSynchronizeDevice",
        "aclrtCreateStream",
        "aclrtSetDeviceSatMode",
    ):
        assert found[name][0] == 107002, name
        assert "aclrtSetDevice or aclrtSetCurrentContext comes first" in found[name][1]


def test_a_host_pointer_is_no_handle(root: Path) -> None:
    found = _sweep(root, "host", "set")
    for name, (status, text) in found.items():
        if HANDLE.search(KNOWN[name].parameters) and not CREATES.match(name):
            assert status in (107002, 107017, 161002, 561000, 207000) or name == "aclrtMemcpyAsync", name
            assert text != "" or name == "aclrtMemcpyAsync", name


def test_what_was_given_back_is_refused_by_every_function(root: Path) -> None:
    found = _sweep(root, "stale", "set")
    told = 0
    for name, (status, text) in found.items():
        if GIVEN_BACK.search(KNOWN[name].parameters) and not CREATES.match(name):
            assert status in (107000, 107002, 107017, 161002, 561000), name
            assert re.search("destroyed|freed|used up", text), name
            told += 1
    assert told > 40


def test_memory_that_was_freed_is_told_from_the_hosts_without_debugging(
    build: Built, run: Ran, golden: Callable[[str, str], None]
) -> None:
    for debug in ("", "1"):
        done = run(build("stale.c"), ATLAS_EMU_DEBUG=debug)
        assert done.returncode == 0, done.stdout
        golden("cann_stale_910b3.txt", re.sub("0x[0-9a-f]+", "0x...", done.stdout))


def test_a_workspace_freed_before_its_launch_ran_is_told_at_the_synchronisation(
    build: Built, run: Ran
) -> None:
    done = run(build("early_free.c"), ATLAS_EMU_DEBUG="1")
    assert done.stdout.startswith("507035 ")
    assert "was freed before the launch ran: synchronise first" in done.stdout
