"""C and C++ programs, compiled by the link lines in use, on the emulated NPU."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from c_clients import STRICT

from emulator.cann import toolchain

Built = Callable[..., Path]
Ran = Callable[..., subprocess.CompletedProcess[str]]

MEAN = "".join(
    f"result[{i}] is: {v}\n" for i, v in enumerate(("-0.000000", "0.000000", "1.000000", "3.000000"))
)

LINES = {
    "by names": ("-lopapi_nn", "-lopapi_math", "-lascendcl", "-lnnopbase"),
    "the runtime's newer name": ("-lopapi_nn", "-lopapi_math", "-lacl_rt", "-lnnopbase"),
    "one library of operators": ("-lascendcl", "-lnnopbase", "-lopapi"),
    "old samples": ("-lascendcl", "-lopapi", "-lcust_opapi", "-lacl_op_compiler", "-lnnopbase", "-lstdc++"),
    "operators for training": ("-lascendcl", "-lnnopbase", "-laclnn_ops_train"),
    "by files": tuple(
        f"{{root}}/lib64/lib{name}.so" for name in ("ascendcl", "nnopbase", "opapi_math", "opapi_nn")
    ),
    "by files, newer": tuple(f"{{root}}/lib64/lib{name}.so" for name in ("acl_rt", "nnopbase", "opapi")),
}


@pytest.mark.parametrize("line", LINES)
def test_every_link_line_in_use_gives_the_gradient_of_the_first_program(
    build: Built, run: Ran, line: str
) -> None:
    done = run(build("mean.cpp", LINES[line]))
    assert (done.returncode, done.stdout, done.stderr) == (0, MEAN, "")


def test_headers_are_c_as_well(build: Built, run: Ran) -> None:
    done = run(build("mean.c", flags=("-pedantic",)))
    assert (done.returncode, done.stdout) == (0, "0: -0 0 4 12\n1: -0 0 1 3\n2: -0 0 4 12\n")


def test_every_header_alone_is_iso_c(root: Path) -> None:
    headers = sorted((root / "include").rglob("*.h"))
    assert headers
    compiler = [toolchain.find()[0], "-std=c11", "-pedantic", *STRICT, f"-I{root}/include", "-fsyntax-only"]
    for header in headers:
        done = subprocess.run([*compiler, "-x", "c", header], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), header


def test_the_old_abi_flag_and_the_other_include_folders_change_nothing(
    build: Built, run: Ran, root: Path
) -> None:
    flags = ("-D_GLIBCXX_USE_CXX11_ABI=0", f"-I{root}/include/aclnnop", f"-I{root}/runtime/include")
    done = run(build("mean.cpp", flags=flags))
    assert (done.returncode, done.stdout) == (0, MEAN)


def test_threads_with_streams_of_their_own_get_their_own_bits(build: Built, run: Ran) -> None:
    done = run(build("threads.c"), "8", "1000")
    assert (done.returncode, done.stdout) == (0, "8 threads x 1000 launches: right\n")


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_stream_does_what_comes_to_it_while_another_thread_runs_its_tasks(
    build: Built, run: Ran, debug: str
) -> None:
    done = run(build("late.c"), "50", ATLAS_EMU_DEBUG=debug)
    assert (done.returncode, done.stdout, done.stderr) == (0, "50 rounds\n", "")


@pytest.mark.parametrize("debug", ["", "1"])
def test_whatever_threads_do_on_shared_streams_and_events_comes_to_an_end(
    build: Built, run: Ran, debug: str
) -> None:
    for threads in ("2", "8"):
        done = run(build("tangle.c"), threads, "1000", ATLAS_EMU_DEBUG=debug)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{threads} threads x 1000 calls\n", "")


@pytest.mark.parametrize("debug", ["", "1"])
def test_allocations_of_any_size_are_aligned_fresh_and_apart(build: Built, run: Ran, debug: str) -> None:
    done = run(build("memory.c"), "1500", ATLAS_EMU_DEBUG=debug)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4 threads x 1500 rounds: right\n", "")


def test_where_addresses_are_limited_device_memory_comes_from_the_hosts_allocator(
    build: Built, root: Path
) -> None:
    line = ["bash", "-c", 'ulimit -v 4000000 && exec "$0" 300', str(build("memory.c"))]
    variables = {"LD_LIBRARY_PATH": f"{root}/lib64", "PATH": os.environ["PATH"]}
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=variables)
    assert (done.returncode, done.stdout) == (0, "4 threads x 300 rounds: right\n")


def test_nothing_is_left_on_the_device_by_many_threads(build: Built, run: Ran) -> None:
    done = run(build("threads.c"), "8", "50", ATLAS_EMU_DEBUG="1")
    assert done.returncode == 0
    assert done.stderr == ""


def test_events_order_streams_and_tell_the_time(build: Built, run: Ran) -> None:
    done = run(build("events.c"))
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == [
        "never recorded: 1",
        "reached: 1, in order: 1",
        "reversed: 107007",
        "never: 107006",
        "complete: 0",
    ]


def test_mistakes_get_their_status_and_a_text(
    build: Built, run: Ran, golden: Callable[[str, str], None]
) -> None:
    done = run(build("errors.c"))
    assert done.returncode == 0
    golden("cann_errors_910b3.txt", done.stdout)


def test_an_error_on_the_device_has_the_number_of_the_chip(build: Built, run: Ran) -> None:
    program = build("errors.c")
    for soc, status in (("Ascend910B3", 507035), ("Ascend310P3", 507015)):
        assert f"host pointer: {status}\n" in run(program, ATLAS_EMU_SOC=soc).stdout


def test_an_unknown_chip_is_refused_by_name(build: Built, run: Ran) -> None:
    done = run(build("mean.c"), ATLAS_EMU_SOC="Ascend999")
    assert done.returncode == 1
    assert "aclInit(NULL): 500001" in done.stdout
    assert "Ascend999" in done.stderr


def test_a_read_before_the_synchronisation_shows_and_is_told(build: Built, run: Ran) -> None:
    done = run(build("early.c"), ATLAS_EMU_DEBUG="1")
    assert done.stdout == "early: nan\nafterwards: 6\n"
    told = r"aclrtMemcpy: reads 0x\w+, which aclnnMseLossBackward, task 1 of stream 0, is still to write: "
    assert re.search(told + "synchronise first", done.stderr)


def test_damage_leaks_and_stale_pointers_are_told_while_debugging(build: Built, run: Ran) -> None:
    done = run(build("damage.c"), ATLAS_EMU_DEBUG="1")
    assert re.search(r"aclrtFree: the bytes behind the 100 bytes at 0x\w+ \(allocation 1\)", done.stderr)
    assert re.search(r"24 bytes of device memory at 0x\w+ \(allocation 2\) were not freed", done.stderr)
    assert "is device memory that was freed" in done.stderr
    assert "not given back: 24 bytes in 1 allocation of device memory\n" in done.stderr
    assert "kind 1, but dst" in done.stderr
    quiet = run(build("damage.c"))
    assert quiet.stderr == ""


def test_a_loaded_and_a_linked_library_share_one_state(build: Built, run: Ran, root: Path) -> None:
    done = run(build("dynamic.c", ("-lascendcl", "-ldl")), str(root / "lib64"))
    assert (done.returncode, done.stdout) == (0, "100002 100002 100002\n")


def test_contexts_keep_their_streams_apart_and_what_is_not_emulated_says_so(build: Built, run: Ran) -> None:
    done = run(build("contexts.c"), ATLAS_EMU_DEVICES="2", ATLAS_EMU_SOC="Ascend910B2")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == [
        "Ascend910B2, 2 devices, on the host: 1, 1.13.0, 8.1",
        "48 vector cores",
        "the second: 1, device 1",
        f"{'aclrtSynchronizeStream(NULL)':44} {0:6} -",
        "stream of another context: 107003",
        "all free: 1",
        "taken: 160, on 64 bytes: 1",
        "too much: 207018",
        "destroyed: 107002",
        "gone with its context: 107017",
        'aclopCompileAndExecute("MseLoss", 0)'.ljust(44) + " 200001 aclopCompileAndExecute is not emulated.",
        'aclmdlLoadFromFile("model.om", &model)'.ljust(44) + " 200001 aclmdlLoadFromFile is not emulated.",
        "last error: 200001, then 0",
    ]
