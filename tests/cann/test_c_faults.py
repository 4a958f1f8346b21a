"""Functions that fail on demand: each does, with the code and a text, and nothing is left behind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from c_clients import CLIENTS, STRICT, compiler_or_skip

from emulator.cann import faults

SEQUENCE = tuple(
    dict.fromkeys(re.findall(r"(?:DO|MAKE|BACK)\(.*?\b(acl\w+)[,)]", (CLIENTS / "faults.c").read_text()))
)
"""What the client calls, in order."""

CLOSING = {name for name in SEQUENCE if re.search("Destroy|Free|aclrtReset|aclFinalize", name)}

Ran = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def client(faulty: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    program = tmp_path_factory.mktemp("client") / "faults"
    line = [compiler_or_skip(), "-std=c11", *STRICT, f"-I{faulty}/include", str(CLIENTS / "faults.c")]
    line += ["-o", str(program), f"-L{faulty}/lib64", "-lopapi_nn", "-lascendcl", "-lnnopbase", "-pthread"]
    subprocess.run(line, check=True)

    def ran(fault: str) -> subprocess.CompletedProcess[str]:
        variables = {"LD_LIBRARY_PATH": f"{faulty}/lib64", "ATLAS_EMU_FAULT": fault}
        return subprocess.run(
            [program], capture_output=True, text=True, check=False, timeout=60, env=variables
        )

    return ran


def test_without_a_fault_the_build_computes_as_any_other(client: Ran) -> None:
    done = client("")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 4 8 12\n", "")


@pytest.mark.parametrize("function", SEQUENCE)
def test_a_function_that_fails_once_gives_code_and_text_and_a_careful_client_leaks_nothing(
    client: Ran, function: str
) -> None:
    kinds = {known.name: known.kind for known in faults.functions()}
    done = client(f"{function}:507899:1")
    lines = [line for line in done.stdout.splitlines() if line.startswith("acl")]
    code = 507899 if kinds[function] == "status" else -1
    assert lines == [f"{function} {code} {function} failed with 507899: call 1, by ATLAS_EMU_FAULT."]
    assert done.returncode == 1
    assert done.stderr == "", "nothing is left at aclFinalize"
    assert ("0 4 8 12" in done.stdout) == (function in CLOSING)


@pytest.mark.parametrize("call", [2, 5])
def test_the_call_that_fails_is_the_one_named(client: Ran, call: int) -> None:
    done = client(f"aclrtMalloc:207001:{call}")
    text = f"aclrtMalloc failed with 207001: call {call}, by ATLAS_EMU_FAULT."
    assert done.stdout == f"aclrtMalloc 207001 {text}\n"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("function", "left"),
    [
        ("aclrtFree", r"\d+ bytes in 5 allocations of device memory"),
        ("aclrtFreeHost", "16 bytes in 1 allocation of aclrtMallocHost"),
        ("aclrtDestroyStream", "2 streams"),
        ("aclrtDestroyEvent", "2 events"),
        ("aclDestroyTensor", "4 tensors"),
        ("aclDestroyScalar", "1 scalar"),
        ("aclDestroyAclOpExecutor", "1 executor"),
    ],
)
def test_what_is_not_given_back_is_told_at_the_end(client: Ran, function: str, left: str) -> None:
    done = client(f"{function}:100000")
    assert re.fullmatch(f"atlas-emu: aclFinalize: not given back: {left}\n", done.stderr)


@pytest.mark.parametrize("code", [100000, 361001, -7])
def test_every_public_function_fails_with_any_code(faulty: Path, code: int) -> None:
    script = Path(__file__).with_name("c_faults.py")
    line = [sys.executable, str(script), str(faulty), str(code)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [name for name, *_ in found] == [function.name for function in faults.functions()]
    for name, kind, value, message, leaks in found:
        assert value == (code if kind == "status" else 0), name
        assert f"{name} failed with {code}: call 1, by ATLAS_EMU_FAULT." in message
        assert leaks == ""


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("aclrtMaloc:1", "aclrtMaloc is no function that can fail"),
        ("aclGetRecentErrMsg:1", "aclGetRecentErrMsg is no function that can fail"),
        ("aclrtMalloc", "the code must be a number other than 0"),
        ("aclrtMalloc:0", "the code must be a number other than 0"),
        ("aclrtMalloc:x", "the code must be a number other than 0"),
        ("aclrtMalloc:1:0", "the call must be a number from 1 on"),
    ],
)
def test_a_fault_that_is_misspelt_fails_everything(client: Ran, fault: str, reason: str) -> None:
    done = client(fault)
    assert done.stdout.startswith("aclInit 500001 ATLAS_EMU_FAULT: ")
    assert reason in done.stdout
    assert reason in done.stderr


def test_several_faults_at_once(client: Ran) -> None:
    done = client("aclrtSynchronizeStream:507035,aclrtFreeHost:107000:1")
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["aclrtSynchronizeStream", "507035"],
        ["aclrtFreeHost", "107000"],
    ]


def test_every_declared_function_that_returns_a_status_can_fail() -> None:
    include = Path(faults.__file__).with_name("include")
    text = "".join(header.read_text() for header in sorted(include.rglob("*.h")))
    declared = set(re.findall(r"^(?:ACLNN_API )?acl(?:Error|nnStatus) (\w+)\(", text, re.M))
    known = {function.name for function in faults.functions() if function.kind == "status"}
    assert known == declared - faults.TELL_ERRORS


def test_every_function_that_the_libraries_have_can_fail_or_always_does(root: Path) -> None:
    refused = (Path(faults.__file__).parent / "source/refused.c").read_text()
    libraries = [root / "lib64" / library for library in faults.LIBRARIES.values()]
    done = subprocess.run(
        ["nm", "-D", "--defined-only", *libraries], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in done.stdout.splitlines() if " T " in line}
    public = {name for name in names if re.match("[aA]cl", name)}
    known = {function.name for function in faults.functions()}
    assert known <= public
    sizes = {"aclDataTypeSize", "aclFloat16ToFloat", "aclFloatToFloat16"}
    assert public - known - faults.TELL_ERRORS - sizes <= set(re.findall(r"\bacl\w+", refused))


@pytest.mark.parametrize(
    ("fault", "head"),
    [
        ("aclInit:100000", "Acl_Parameter_Error(EH9999)"),
        ("aclrtMalloc:207001", "Runtime_Error(EE9999)"),
        ("aclnnMseLossBackward:161002", "AclNN_Parameter_Error(EZ1001)"),
        ("aclnnMseLossBackward:361001", "AclNN_Runtime_Error(EZ9903)"),
        ("aclnnMseLossBackward:561000", "AclNN_Inner_Error(EZ9999)"),
    ],
)
def test_the_text_has_the_head_of_its_layer(faulty: Path, fault: str, head: str) -> None:
    script = Path(__file__).with_name("c_faults.py")
    line = [sys.executable, str(script), str(faulty), fault.split(":")[1]]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    messages = {name: message for name, _, _, message, _ in json.loads(done.stdout)}
    assert f" {head}: {fault.split(':')[0]} failed" in messages[fault.split(":")[0]]


def test_a_plain_build_knows_nothing_of_faults(root: Path) -> None:
    assert not (root / "faults.txt").exists()
    for library in (root / "lib64").glob("*.so"):
        assert b"ATLAS_EMU_FAULT" not in library.read_bytes(), library
