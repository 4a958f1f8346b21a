"""Files of tensors: every format reads back bit by bit, nothing hostile gets further than one line."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import emulator.files as files
from emulator.files import (
    SUFFIXES,
    check_writable,
    load_tensors,
    save_tensor,
    write_bytes_atomic,
    write_text_atomic,
)
from socs.errors import AtlasError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def npy(descr: str, shape: tuple[int, ...], data: bytes, *, fortran: bool = False, version: int = 1) -> bytes:
    """An .npy file from its specification."""
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY" + struct.pack("<BBH", version, 0, len(header)) + header + data


def npz(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """A .safetensors file from its specification: length, JSON, data."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


THREE = {"grad_output": floats(1), "self": floats(2), "target": floats(3)}
VALID = {
    ".npy": npy("<f4", (2,), floats(1, 2)),
    ".npz": npz({name + ".npy": npy("<f4", (1,), data) for name, data in THREE.items()}),
    ".npz deflated": npz(
        {name + ".npy": npy("<f4", (1,), data) for name, data in THREE.items()}, zipfile.ZIP_DEFLATED
    ),
    ".safetensors": safetensors({name: ("F32", [1], data) for name, data in THREE.items()}),
}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def load_one(path: Path) -> np.ndarray:
    return load_tensors(grad=path, self_=path, target=path)["self"]


def refusal(path: Path) -> str:
    with pytest.raises(AtlasError) as caught:
        load_one(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


@pytest.mark.parametrize("kind", [".npz", ".npz deflated", ".safetensors"])
def test_a_file_of_three_named_arrays_gives_them_by_name(tmp_path, kind):
    path = write(tmp_path / f"x{kind.split()[0]}", VALID[kind])
    tensors = load_tensors(path)
    assert list(tensors) == ["grad_output", "self", "target"]
    assert {name: array.tobytes() for name, array in tensors.items()} == THREE
    assert {array.dtype for array in tensors.values()} == {np.dtype(np.float32)}


def test_options_go_before_the_arrays_of_the_file_and_spare_it_from_having_them(tmp_path):
    path = write(
        tmp_path / "x.npz",
        npz({"self.npy": b"broken", "target.npy": npy("<f4", (1,), floats(3))}),
    )
    option = write(tmp_path / "y.npy", npy("<f4", (), floats(7)))
    tensors = load_tensors(path, grad=option, self_=option)
    assert [array.tolist() for array in tensors.values()] == [7, 7, [3]]


def test_an_option_takes_any_format_with_a_single_array(tmp_path):
    one = write(tmp_path / "one.safetensors", safetensors({"any": ("F16", [1], b"\x00\x3c")}))
    assert load_one(one).tolist() == [1.0]
    assert "grad_output, self, target" in refusal(write(tmp_path / "three.npz", VALID[".npz"]))


def test_without_a_file_the_missing_options_are_named():
    with pytest.raises(AtlasError, match=r"no array for grad_output, target: .*--grad, --target$"):
        load_tensors(self_="x.npy")


def test_a_missing_array_is_named_with_those_that_are_there_and_those_needed(tmp_path):
    path = write(tmp_path / "x.npz", npz({"self.npy": npy("<f4", (), floats(1)), "a\nb.npy": b"", "c": b""}))
    with pytest.raises(AtlasError) as caught:
        load_tensors(path)
    assert str(caught.value) == (
        f"{path}: no array grad_output, target; the file has self, 'a\\nb', "
        "needed are grad_output, self, target"
    )


def test_a_single_npy_as_the_file_is_refused_with_the_way_to_give_it(tmp_path):
    path = write(tmp_path / "x.npy", VALID[".npy"])
    with pytest.raises(AtlasError, match=r"--grad, --self or --target"):
        load_tensors(path)


@pytest.mark.parametrize(
    ("descr", "raw"),
    [("<V2", "<2H"), ("|V2", "<2H"), (">V2", ">2H")],
)
def test_bfloat16_in_an_npy_keeps_its_value_in_either_byte_order(tmp_path, descr, raw):
    path = write(tmp_path / "x.npy", npy(descr, (2,), struct.pack(raw, 0x3FC0, 0xC020)))
    array = load_one(path)
    assert array.dtype == BFLOAT16
    assert array.astype(float).tolist() == [1.5, -2.5]


def test_bfloat16_in_a_safetensors_file_keeps_every_bit(tmp_path):
    bits = np.arange(1 << 16, dtype="<u2")
    path = write(tmp_path / "x.safetensors", safetensors({"t": ("BF16", [256, 256], bits.tobytes())}))
    array = load_one(path)
    assert array.dtype == BFLOAT16
    assert array.shape == (256, 256)
    assert array.tobytes() == bits.astype("=u2").tobytes()


def test_fortran_order_and_big_endian_numbers_are_put_right(tmp_path):
    data = struct.pack(">6f", 0, 3, 1, 4, 2, 5)
    array = load_one(write(tmp_path / "x.npy", npy(">f4", (2, 3), data, fortran=True)))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert array.flags.c_contiguous
    assert array.dtype.isnative


@pytest.mark.parametrize("dtype", ["F64", "I32", "BOOL", "F8_E5M2"])
def test_dtypes_that_an_operator_refuses_are_read_so_that_it_can(tmp_path, dtype):
    size = {"F64": 8, "I32": 4, "BOOL": 1, "F8_E5M2": 1}[dtype]
    path = write(tmp_path / "x.safetensors", safetensors({"t": (dtype, [3], bytes(3 * size))}))
    name = {"F64": "float64", "I32": "int32", "BOOL": "bool", "F8_E5M2": "float8_e5m2"}[dtype]
    assert load_one(path).dtype.name == name


def test_a_header_of_python_2_is_read_without_a_warning(tmp_path):
    data = npy("<f4", (21,), floats(1) * 2).replace(b"(21,)", b"(2L,)")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        array = load_one(write(tmp_path / "x.npy", data))
    assert array.tolist() == [1, 1]
    assert seen == []


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_pickle_is_refused_and_never_run(tmp_path, monkeypatch, suffix):
    monkeypatch.chdir(tmp_path)
    payload = pickle.dumps(Bomb())
    objects = npy("|O", (1,), payload)
    of_its_size = npy("|O", (2,), payload.ljust(16, b".")[:16])
    members = [payload, objects, of_its_size]
    for data in members if suffix == ".npy" else [npz({"self.npy": data}) for data in members]:
        assert "pickled" in refusal(write(tmp_path / f"x{suffix}", data))
    assert not (tmp_path / "exploded").exists()


BROKEN_NPY = {
    "empty": (b"", "format"),
    "magic": (b"\x93NUMPY", "format"),
    "text": (b"1.0 2.0 3.0", "format"),
    "version": (npy("<f4", (1,), floats(1), version=9), "version 9"),
    "header length": (VALID[".npy"][:9], "ends inside its header"),
    "header": (VALID[".npy"][:40], "ends inside its header"),
    "truncated": (VALID[".npy"][:-1], "claims 8 bytes of data, the file holds 7"),
    "too long": (VALID[".npy"] + b"\0", "claims 8 bytes of data, the file holds 9"),
    "huge": (npy("<f4", (1 << 50,), floats(1)), "claims 4503599627370496 bytes"),
    "overflow": (npy("<f4", (1 << 62, 1 << 62), b""), "claims"),
    "negative": (npy("<f4", (-1, -2), floats(1, 2)), "negative"),
    "huge and empty": (npy("<f4", (1 << 70, 0), b""), "x.npy"),
    "too many dimensions": (npy("<f4", (1,) * 100, floats(1)), "x.npy"),
    "record": (npy("<f4", (1,), b"").replace(b"'<f4'", b"[('a', '<f4')]"), "header"),
    "text dtype": (npy("<U1", (1,), bytes(4)), "dtype <U1"),
    "void dtype": (npy("|V3", (1,), bytes(3)), "dtype |V3"),
    "no size": (npy("|V0", (9,), b""), "dtype"),
    "code": (npy("<f4", (1,), b"").replace(b"(1,)", b"f()."), "broken header"),
    "deep": (
        b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 9000,
        "broken header",
    ),
    "long header": (b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF), "limit is 65536"),
}


@pytest.mark.parametrize("case", BROKEN_NPY)
def test_a_broken_npy_is_refused_in_one_line(tmp_path, case):
    data, part = BROKEN_NPY[case]
    assert part in refusal(write(tmp_path / "x.npy", data))


def test_a_header_may_claim_memory_but_does_not_get_it(tmp_path):
    claims = npy("<f4", (1 << 28,), b"\0" * 64)
    packed = npz({"self.npy": claims}, zipfile.ZIP_DEFLATED)
    for name, data in (("x.npy", claims), ("x.npz", packed)):
        path = write(tmp_path / name, data)
        refusal(path)
        tracemalloc.start()
        refusal(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


def lie(data: bytes, *, size: int) -> bytes:
    """Put another uncompressed size into the central directory of a zip with one member."""
    at = data.rindex(b"PK\x01\x02") + 24
    return data[:at] + struct.pack("<I", size) + data[at + 4 :]


def test_a_zip_that_claims_more_than_deflate_can_hold_is_refused(tmp_path):
    shape = ((1 << 30) // 4,)
    data = lie(npz({"self.npy": npy("<f4", shape, b"")}, zipfile.ZIP_DEFLATED), size=(1 << 30) + 70)
    assert "claims 1073741894 bytes" in refusal(write(tmp_path / "x.npz", data))


def test_more_than_the_memory_of_the_machine_is_refused(tmp_path, monkeypatch):
    pages = {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 7}
    monkeypatch.setattr(files.os, "sysconf", pages.__getitem__)
    assert "needs 8 bytes of memory, this machine has 7" in refusal(write(tmp_path / "x.npy", VALID[".npy"]))


def test_a_compressed_file_of_equal_numbers_is_no_bomb(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, self=np.zeros(1 << 20, np.float32))
    assert path.stat().st_size < 1 << 13
    assert load_one(path).shape == (1 << 20,)


def test_a_zip_member_with_a_wrong_checksum_is_refused(tmp_path):
    for count in (1, 0, 1 << 19):  # 0: the header is all there is; 2 MiB: read in pieces
        member = npy("<f4", (count,), floats(1.0) * count)
        data = bytearray(npz({"self.npy": member}))
        at = data.index(member) + len(member) - 1
        data[at] ^= 1 if count else ord("\n") ^ ord(" ")
        assert "CRC" in refusal(write(tmp_path / "x.npz", bytes(data)))


def test_a_zip_with_another_compression_or_a_password_is_refused(tmp_path):
    data = npz({"self.npy": VALID[".npy"]}, zipfile.ZIP_LZMA)
    assert "compression method 14" in refusal(write(tmp_path / "x.npz", data))
    data = bytearray(npz({"self.npy": VALID[".npy"]}))
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in refusal(write(tmp_path / "x.npz", bytes(data)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        struct.pack("<Q", 1 << 60) + b"{}",
        VALID[".safetensors"][:-1],
        VALID[".safetensors"] + b"\0",
        safetensors({"t": ("F32", [1 << 40], floats(1))}),
        safetensors({"t": ("F32", [1 << 40, 1 << 40], floats(1))}),
        safetensors({"t": ("F99", [1], floats(1))}),
        struct.pack("<Q", 4) + b"\xff\xff\xff\xff",
    ],
)
def test_a_broken_safetensors_file_is_refused_in_one_line(tmp_path, data):
    refusal(write(tmp_path / "x.safetensors", data))


def test_without_safetensors_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    path = write(tmp_path / "x.safetensors", VALID[".safetensors"])
    assert "pip install 'atlas-emulator[io]'" in refusal(path)
    with pytest.raises(AtlasError, match=r"atlas-emulator\[io\]"):
        save_tensor(tmp_path / "y.safetensors", np.zeros(1, np.float32))
    assert not (tmp_path / "y.safetensors").exists()


def test_what_is_no_readable_file_is_refused_by_what_it_is(tmp_path):
    (tmp_path / "folder.npy").mkdir()
    os.mkfifo(tmp_path / "pipe.npy")
    assert "No such file" in refusal(tmp_path / "none.npy")
    assert "is a directory" in refusal(tmp_path / "folder.npy")
    assert "not a regular file" in refusal(tmp_path / "pipe.npy")
    assert "unknown suffix '.txt'; known are .npy, .npz, .safetensors" in refusal(
        write(tmp_path / "x.txt", b"")
    )
    refusal(tmp_path / ("long" * 100 + ".npy"))
    refusal(tmp_path / "nul\0.npy")


@pytest.mark.parametrize("kind", VALID)
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_damage_to_a_valid_file_is_refused_or_read_but_nothing_else(tmp_path, kind, data):
    raw = bytearray(VALID[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        change = data.draw(st.sampled_from(["flip", "cut", "drop", "insert"]))
        if change == "flip" and raw:
            raw[at] = data.draw(st.integers(0, 255))
        elif change == "cut":
            del raw[at:]
        elif change == "drop":
            del raw[at : at + 1]
        else:
            raw[at:at] = data.draw(st.binary(min_size=1, max_size=9))
    path = write(tmp_path / f"x{kind.split()[0]}", bytes(raw))
    message, tensors = "", {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            tensors = load_tensors(path) if kind != ".npy" else {"self": load_one(path)}
        except AtlasError as error:
            message = str(error)
    assert bool(message) != bool(tensors)
    assert "\n" not in message
    assert len(message) < 1000


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16),
        np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(16, -1),
        np.array(-0.0, np.float32),
        np.zeros((0, 3), np.float32),
        np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3)),
    ],
    ids=["bfloat16", "float16", "0-d", "empty", "fortran-big-endian"],
)
def test_what_is_saved_reads_back_with_every_bit(tmp_path, suffix, array):
    path = tmp_path / f"x{suffix}"
    save_tensor(path, array)
    back = load_one(path)
    native = array.astype(array.dtype.newbyteorder("="))
    assert back.shape == array.shape
    assert back.dtype == native.dtype
    assert back.tobytes() == native.tobytes("C")


def test_a_saved_npy_is_the_bytes_that_the_format_asks_for(tmp_path):
    save_tensor(tmp_path / "x.npy", np.array([1.5, -2.5], np.float32))
    data = (tmp_path / "x.npy").read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    assert data.endswith(b"\n" + floats(1.5, -2.5))
    assert np.load(tmp_path / "x.npy", allow_pickle=False).tolist() == [1.5, -2.5]


def test_a_saved_safetensors_file_names_its_tensor_grad_input(tmp_path):
    save_tensor(tmp_path / "x.safetensors", np.array([1.5], BFLOAT16))
    data = (tmp_path / "x.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    assert header == {"grad_input": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}
    assert data[8 + length :] == b"\xc0\x3f"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_saving_twice_writes_the_same_bytes(tmp_path, suffix):
    for name in "ab":
        save_tensor(tmp_path / f"{name}{suffix}", np.ones(3, np.float32))
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_a_dtype_that_a_format_cannot_hold_is_refused(tmp_path):
    for suffix in (".npy", ".npz"):
        with pytest.raises(AtlasError, match="cannot hold dtype float8_e5m2"):
            save_tensor(tmp_path / f"x{suffix}", np.zeros(1, ml_dtypes.float8_e5m2))
    with pytest.raises(AtlasError, match="cannot hold dtype complex"):
        save_tensor(tmp_path / "x.safetensors", np.zeros(1, np.complex256))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failing", ["fsync", "replace", "fchmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, failing):
    path = write(tmp_path / "x.json", b"old")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, failing, fail)
    with pytest.raises(AtlasError, match=r"x\.json: cannot be written: No space left on device$"):
        write_text_atomic(path, "new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = write(tmp_path / "x.npz", b"old")

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_tensor(path, np.ones(3, np.float32))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_size_limit_met_half_way_leaves_the_old_file(tmp_path):
    path = write(tmp_path / "x.npy", b"old")
    code = (
        "import resource, sys, numpy as np, emulator.files as files\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: files.save_tensor(sys.argv[1], np.zeros(10000, np.float32))\n"
        "except files.AtlasError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{path}: cannot be written: ")
    assert done.stdout.count("\n") == 1
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_as_readable_as_the_umask_says_and_an_old_one_as_it_was(tmp_path):
    old = os.umask(0o027)
    try:
        write_text_atomic(tmp_path / "new", "ä")
    finally:
        os.umask(old)
    assert (tmp_path / "new").read_bytes() == b"\xc3\xa4"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    kept = write(tmp_path / "kept", b"")
    kept.chmod(0o604)
    write_bytes_atomic(kept, b"x")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o604


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    goal = write(tmp_path / "goal", b"old")
    link = tmp_path / "link"
    link.symlink_to(goal)
    write_text_atomic(link, "new")
    assert link.is_symlink()
    assert goal.read_bytes() == b"new"
    # A pipe of its own: were it replaced, as root, /dev/null would be too.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text_atomic(pipe, "new")
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_an_impossible_output_is_refused_before_and_at_the_write(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for path, part in {
        tmp_path / "folder": "is a directory",
        tmp_path / "none" / "x": "there is no directory",
        tmp_path / "file" / "x": "directory",
        tmp_path / ("long" * 100): "File name too long",
        tmp_path / "nul\0": "null",
    }.items():
        for attempt in (check_writable, lambda path: write_text_atomic(path, "")):
            with pytest.raises(AtlasError, match=part) as caught:
                attempt(path)
            assert "\n" not in str(caught.value)
    with pytest.raises(AtlasError, match=r"unknown suffix '\.txt'; known are \.npy"):
        check_writable(tmp_path / "x.txt", SUFFIXES)
    with pytest.raises(AtlasError, match="unknown suffix ''"):
        save_tensor(tmp_path / "x", np.zeros(1, np.float32))
    check_writable(tmp_path / "x.npy", SUFFIXES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_missing_permission_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "x", b"")
    # Not chmod: it does not bind root, as whom a container may run this.
    monkeypatch.setattr(files.os, "access", lambda place, mode: place != path)
    with pytest.raises(AtlasError, match="no permission to write to it"):
        check_writable(path)
    monkeypatch.setattr(files.os, "access", lambda place, mode: place != tmp_path)
    with pytest.raises(AtlasError, match="no permission to write in"):
        check_writable(tmp_path / "y")
