"""Tensors from files and results to files.

What is read is not trusted: nothing is unpickled, and no memory is taken for what a header claims before
the file has been seen to hold it. What is written is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import secrets
import stat
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from emulator.arrays import Array, as_tensor, bfloat16, dtype_name, one_line
from socs.errors import AtlasError

TENSORS = ("grad_output", "self", "target")
"""The arrays that the operator needs, by the names they have in a file."""

OUTPUT = "grad_input"
"""The name of a saved result inside ``.npz`` and ``.safetensors`` (PyTorch's name for it)."""

SUFFIXES = (".npy", ".npz", ".safetensors")
"""The formats of tensors, by suffix."""

_OPTIONS = {"grad_output": "--grad", "self": "--self", "target": "--target"}
_SHOWN_NAMES = 12
_CHUNK_BYTES = 1 << 20
_MAX_NPY_HEADER_BYTES = 1 << 16
_MAX_DEFLATE_RATIO = 1032
"""No deflate stream expands more: 258 bytes from the two bits of a length and a distance."""

_SAFETENSORS_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


def load_tensors(
    path: str | os.PathLike[str] | None = None,
    *,
    grad: str | os.PathLike[str] | None = None,
    self_: str | os.PathLike[str] | None = None,
    target: str | os.PathLike[str] | None = None,
) -> dict[str, Array]:
    """The arrays ``grad_output``, ``self`` and ``target``.

    ``path`` is an ``.npz`` or ``.safetensors`` file with arrays of these names; ``grad``, ``self_`` and
    ``target`` are files with one array each (``.npy``, or one of the others with a single array), and go
    before the file's. Arrays that are not needed are not read. Shapes and dtypes are as stored; the operator
    checks them.

    Raises:
        AtlasError: on one line: a file that is missing, broken, truncated or pickled, or an array that no
            file has.
    """
    single = {"grad_output": grad, "self": self_, "target": target}
    return load_arrays(TENSORS, path, {name: file for name, file in single.items() if file is not None})


def load_arrays(
    names: Sequence[str],
    path: str | os.PathLike[str] | None,
    single: Mapping[str, str | os.PathLike[str]],
) -> dict[str, Array]:
    """The arrays of these names: from a file of its own where ``single`` has one, else from ``path``.

    Raises:
        AtlasError: as :func:`load_tensors`; also for a file of a name that is not among ``names``.
    """
    for name in single:
        if name not in names:
            raise AtlasError(f"{_option(name)}: there is no such array, needed are {', '.join(names)}")
    tensors: dict[str, Array] = {}
    wanted = [name for name in names if name not in single]
    if path is None and wanted:
        options = ", ".join(_option(name) for name in wanted)
        raise AtlasError(
            f"no array for {', '.join(wanted)}: give a file with arrays of these names, or {options}"
        )
    if path is not None and len(names) == 1 and wanted and Path(path).suffix.lower() == ".npy":
        tensors[wanted[0]] = _read_single(Path(path), wanted[0])
    elif path is not None:
        tensors |= _read_named(Path(path), wanted, names)
    for name, file in single.items():
        tensors[name] = _read_single(Path(file), name)
    return {name: tensors[name] for name in names}


def _option(name: str) -> str:
    return _OPTIONS.get(name, f"--input {name}=FILE")


def save_tensor(path: str | os.PathLike[str], array: Array, name: str = OUTPUT) -> None:
    """Write one array; the suffix decides: ``.npy``, ``.npz`` or ``.safetensors``.

    Inside the latter two it is called ``name``. bfloat16 is two-byte void in NumPy's formats, which
    :func:`load_tensors` reads back as bfloat16 (``np.load(path).view(ml_dtypes.bfloat16)`` elsewhere).

    Raises:
        AtlasError: on one line; an existing file is then as it was.
    """
    path = Path(path)
    check_writable(path, SUFFIXES)
    array = as_tensor(array, name)
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        data = _safetensors_bytes(array, path, name)
        _write_atomic(path, lambda file: file.write(data))
        return
    stored = array.view("V2") if dtype_name(array) == "bfloat16" else array
    if stored.dtype.isbuiltin == 2:  # a dtype of ml_dtypes, for which NumPy writes what it cannot read
        raise AtlasError(f"{path}: {suffix} files cannot hold dtype {dtype_name(array)}")
    if suffix == ".npz":
        members: dict[str, Any] = {name: stored}
        _write_atomic(path, lambda file: np.savez(file, **members))
    else:
        _write_atomic(path, lambda file: np.lib.format.write_array(file, stored, allow_pickle=False))


def write_text_atomic(path: str | os.PathLike[str], text: str) -> None:
    """Write a text as UTF-8, whole or not at all.

    Raises:
        AtlasError: on one line; an existing file is then as it was.
    """
    write_bytes_atomic(path, text.encode())


def write_bytes_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write bytes, whole or not at all.

    Raises:
        AtlasError: on one line; an existing file is then as it was.
    """
    path = Path(path)
    check_writable(path)
    _write_atomic(path, lambda file: file.write(data))


def check_writable(path: str | os.PathLike[str], suffixes: Collection[str] | None = None) -> None:
    """Refuse an output path before the work is done: nothing is created or changed.

    ``suffixes`` are the allowed ones, in lower case (``SUFFIXES`` for a tensor); ``None`` allows all.

    Raises:
        AtlasError: on one line.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffixes is not None and suffix not in suffixes:
        raise AtlasError(f"{path}: unknown suffix {suffix!r}; known are {', '.join(suffixes)}")
    if suffixes is not None and suffix == ".safetensors":
        _import_safetensors(path)
    try:
        if path.is_dir():
            raise AtlasError(f"{path}: is a directory")
        if path.exists():
            if not os.access(path, os.W_OK):
                raise AtlasError(f"{path}: no permission to write to it")
            if not path.is_file():
                return
        parent = Path(os.path.realpath(path)).parent
        if not parent.exists():
            raise AtlasError(f"{path}: there is no directory {parent}")
        if not parent.is_dir():
            raise AtlasError(f"{path}: {parent} is not a directory")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise AtlasError(f"{path}: no permission to write in {parent}")
    except (OSError, ValueError) as error:  # AtlasError is a ValueError
        if isinstance(error, AtlasError):
            raise
        raise AtlasError(f"{path!s}: {one_line(error)}") from error


def example_path() -> Path:
    """The example file, ``diabetes.npz``: as installed, or in a source checkout.

    Raises:
        AtlasError: the installation has no example.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "examples", package.parent / "docs" / "examples"):
        file = folder / "diabetes.npz"
        if file.is_file():
            return file
    raise AtlasError(f"{package / 'examples' / 'diabetes.npz'}: the example is not installed")


class _Reader(Protocol):
    """A file of arrays: their names, and one of them at a time."""

    names: list[str]

    def read(self, name: str) -> Array: ...


def _read_named(path: Path, wanted: list[str], names: Sequence[str]) -> dict[str, Array]:
    with _open(path) as reader:
        if isinstance(reader, _Npy) and wanted:
            options = [_option(name) for name in names]
            raise AtlasError(
                f"{path}: an .npy file holds one array without a name; give it by "
                f"{', '.join(options[:-1])} or {options[-1]}, or all of them as .npz"
            )
        missing = [name for name in wanted if name not in reader.names]
        if missing:
            raise AtlasError(
                f"{path}: no array {_listed(missing)}; the file has {_listed(reader.names)}, "
                f"needed are {', '.join(names)}"
            )
        return {name: as_tensor(reader.read(name), f"{path}: {name}") for name in wanted}


def _read_single(path: Path, name: str) -> Array:
    with _open(path) as reader:
        if len(reader.names) != 1:
            raise AtlasError(
                f"{path}: {_option(name)} needs a file with one array, this one has {_listed(reader.names)}"
            )
        return as_tensor(reader.read(reader.names[0]), f"{path}: {name}")


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    shown = [
        name if name.isidentifier() and len(name) < 60 else repr(name)[:60] for name in names[:_SHOWN_NAMES]
    ]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


@contextlib.contextmanager
def _open(path: Path) -> Iterator[_Reader]:
    """The reader for a file; any failure inside becomes one line that names the file."""
    suffix = path.suffix.lower()
    reader = _READERS.get(suffix)
    if reader is None:
        raise AtlasError(f"{path}: unknown suffix {suffix!r}; known are {', '.join(SUFFIXES)}")
    try:
        if path.is_dir():
            raise AtlasError(f"{path}: is a directory")
        # A pipe would block, and has no size to hold a header against.
        if path.exists() and not path.is_file():
            raise AtlasError(f"{path}: is not a regular file")
        with path.open("rb") as file:
            yield reader(path, file, os.fstat(file.fileno()).st_size)
    except AtlasError:
        raise
    except MemoryError as error:
        raise AtlasError(f"{path}: does not fit into memory") from error
    except OSError as error:
        raise AtlasError(f"{path}: {one_line(error)}") from error
    except Exception as error:  # a broken file can fail anywhere in zipfile, zlib, NumPy or safetensors
        raise AtlasError(f"{path}: broken {suffix} file: {one_line(error)}") from error


class _Npy:
    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self.names = [path.stem]
        self._path, self._file, self._size = path, file, size

    def read(self, name: str) -> Array:
        return _read_npy(self._file, self._size, str(self._path))


class _Npz:
    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self._path, self._size = path, size
        self._zip = zipfile.ZipFile(file)
        self.names = [
            name.removesuffix(".npy") for name in dict.fromkeys(self._zip.namelist()) if name.endswith(".npy")
        ]

    def read(self, name: str) -> Array:
        where = f"{self._path}: {name}"
        info = self._zip.getinfo(name + ".npy")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise AtlasError(f"{where}: compression method {info.compress_type}; NumPy's are 0 and 8")
        ratio = _MAX_DEFLATE_RATIO if info.compress_type == zipfile.ZIP_DEFLATED else 1
        if info.compress_size > self._size or info.file_size > ratio * info.compress_size:
            raise AtlasError(
                f"{where}: claims {info.file_size} bytes out of {info.compress_size}, "
                f"in a file of {self._size}"
            )
        with self._zip.open(info) as member:
            return _read_npy(member, info.file_size, where)


class _Safetensors:
    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self._path = path
        safetensors = _import_safetensors(path)
        _check_memory(2 * size, str(path))  # the bytes, and the arrays cut out of them
        try:
            tensors = safetensors.deserialize(file.read())
        except safetensors.SafetensorError as error:
            raise AtlasError(f"{path}: broken .safetensors file: {one_line(error)}") from error
        self._tensors: dict[str, dict[str, Any]] = dict(tensors)
        self.names = sorted(self._tensors)

    def read(self, name: str) -> Array:
        tensor = self._tensors[name]
        stored = tensor["dtype"]
        if stored not in _SAFETENSORS_DTYPES:
            raise AtlasError(
                f"{self._path}: {name} has dtype {stored}; it must hold numbers of a known format"
            )
        dtype = _dtype(_SAFETENSORS_DTYPES[stored])
        array = np.frombuffer(tensor["data"], dtype=np.uint8).view(dtype)
        if sys.byteorder == "big":
            array = array.byteswap()
        return array.reshape(tensor["shape"])


_READERS: dict[str, Callable[[Path, IO[bytes], int], _Reader]] = {
    ".npy": _Npy,
    ".npz": _Npz,
    ".safetensors": _Safetensors,
}


def _dtype(name: str) -> np.dtype[Any]:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


def _import_safetensors(path: Path) -> Any:
    try:
        import safetensors
    except ImportError:
        raise AtlasError(
            f"{path}: .safetensors files need safetensors: pip install 'atlas-emulator[io]'"
        ) from None
    return safetensors


def _read_npy(file: IO[bytes], size: int, where: str) -> Array:
    """One array in NumPy's format from a stream of ``size`` bytes.

    Not ``np.load``, which takes the memory that the header claims before it reads.
    """
    magic = file.read(8)
    if len(magic) < 8 or magic[:6] != b"\x93NUMPY":
        raise AtlasError(f"{where}: is not in NumPy's .npy format (pickled objects are not read)")
    width, read_header = {
        1: (2, np.lib.format.read_array_header_1_0),
        2: (4, np.lib.format.read_array_header_2_0),
    }.get(magic[6], (0, None))
    if read_header is None:
        raise AtlasError(f"{where}: has version {magic[6]} of the .npy format; 1 and 2 are read")
    prefix = file.read(width)
    if len(prefix) < width:
        raise AtlasError(f"{where}: ends inside its header")
    length = struct.unpack("<H" if width == 2 else "<I", prefix)[0]
    if length > _MAX_NPY_HEADER_BYTES:
        raise AtlasError(f"{where}: has a header of {length} bytes, the limit is {_MAX_NPY_HEADER_BYTES}")
    header = file.read(length)
    if len(header) < length:
        raise AtlasError(f"{where}: ends inside its header")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = read_header(io.BytesIO(prefix + header))
    except Exception as error:  # the header is a Python literal: anything can be in it
        raise AtlasError(f"{where}: has a broken header: {one_line(error)}") from error
    if dtype.hasobject:
        raise AtlasError(f"{where}: has dtype object, which is pickled; it must hold numbers")
    if dtype.names or dtype.subdtype or dtype.itemsize == 0:
        raise AtlasError(f"{where}: has dtype {one_line(ValueError(dtype))}; it must hold numbers")
    if any(extent < 0 for extent in shape):
        raise AtlasError(f"{where}: has a negative extent in its shape")
    needed = math.prod(shape) * dtype.itemsize
    held = size - len(magic) - width - length
    if needed != held:
        raise AtlasError(f"{where}: its header claims {needed} bytes of data, the file holds {held}")
    _check_memory(needed, where)
    data = _read_exactly(file, needed, where)
    # NumPy forgets the byte order of a void type, which is what bfloat16 is in the file.
    if dtype.type is np.void and dtype.itemsize == 2:
        swap = b"'>V2'" in header or (b"'<V2'" not in header and sys.byteorder == "big")
        array = data.view(np.uint16)
        data = (array.byteswap() if swap else array).view(bfloat16())
        dtype = data.dtype
    try:
        return data.view(dtype).reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError, TypeError) as error:
        raise AtlasError(f"{where}: {one_line(error)}") from error


def _read_exactly(file: IO[bytes], count: int, where: str) -> Array:
    data = np.empty(count, dtype=np.uint8)
    done = 0
    while done < count:
        chunk = file.read(min(_CHUNK_BYTES, count - done))
        if not chunk:
            raise AtlasError(f"{where}: ends after {done} of {count} bytes of data")
        data[done : done + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        done += len(chunk)
    return data


def _check_memory(needed: int, where: str) -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        raise AtlasError(f"{where}: needs {needed} bytes of memory, this machine has {memory}")


def _safetensors_bytes(array: Array, path: Path, name: str) -> bytes:
    _import_safetensors(path)
    from safetensors.numpy import save

    try:
        data: bytes = save({name: array})
    except Exception as error:
        raise AtlasError(f"{path}: cannot hold dtype {dtype_name(array)}: {one_line(error)}") from error
    return data


def _write_atomic(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Run ``write`` on a temporary file in the same directory and put that in place of ``path``."""
    temporary: Path | None = None
    try:
        mode = path.stat().st_mode if path.exists() else None
        # /dev/stdout and its like have no whole to be replaced.
        if mode is not None and not stat.S_ISREG(mode):
            with path.open("wb") as file:
                write(file)
            return
        goal = Path(os.path.realpath(path))  # a link stays a link
        name = goal.parent / f".{secrets.token_hex(8)}.tmp"
        # Not tempfile, whose files only their owner may read.
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        temporary = name
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            os.fsync(file.fileno())
        os.replace(temporary, goal)
        temporary = None
    except AtlasError:
        raise
    except (OSError, ValueError, MemoryError) as error:
        raise AtlasError(f"{path}: cannot be written: {one_line(error)}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
