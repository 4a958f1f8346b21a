"""A CANN-like root: what clients compile against, link with and load."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from emulator import __version__
from emulator.cann import faults, tables, toolchain, variables
from emulator.cann import loops as ahead
from kernel.compile import available_threads
from socs import all_socs
from socs.errors import AtlasError
from socs.spec import Soc

RUNTIME = (
    "message",
    "handle",
    "memory",
    "copy",
    "stream",
    "event",
    "device",
    "leaks",
    "arena",
    "types",
    "predict",
    "refused",
    "chips",
)
NN = ("tensor", "executor")
OPERATORS = (
    "operator",
    "views",
    "small",
    "mse_loss_backward",
    "mse_loss",
    "fill",
    "floats",
    "elementwise",
    "arithmetic",
    "move",
    "reduce_sum",
    "steps",
    "compute",
    "pool",
    "nrt",
    "loops",
)

ALIASES = {
    "libacl_rt.so": "libascendcl.so",
    "libopapi.so": "libopapi_nn.so",
    "libaclnn_ops_train.so": "libopapi_nn.so",
}
"""Names that are links, so that there is one state however a client comes to the library."""

EMPTY = {
    "libopapi_math.so": "libopapi_nn.so",
    "libopapi_cv.so": "libopapi_nn.so",
    "libopapi_transformer.so": "libopapi_nn.so",
    "libaclnn_ops_infer.so": "libopapi_nn.so",
    "libaclnn_math.so": "libopapi_nn.so",
    "libaclnn_rand.so": "libopapi_nn.so",
    "libcust_opapi.so": "libopapi_nn.so",
    **dict.fromkeys(
        (
            *("libacl_op_compiler.so", "libruntime.so", "libmsprofiler.so", "libprofapi.so", "libhccl.so"),
            *("libge_runner.so", "libgraph.so", "libacl_tdt_channel.so", "libascend_dump.so"),
            *("liberror_manager.so", "libplatform.so", "libascend_protobuf.so"),
        ),
        "libascendcl.so",
    ),
}
"""Libraries that link lines and loaders name, with nothing of their own: they lead to the one given."""

LINKS = {
    "runtime/include": "../include",
    "runtime/lib64": "../lib64",
    "atc/include": "../include",
    "atc/lib64": "../lib64",
    "compiler/include": "../include",
    "compiler/lib64": "../lib64",
    "x86_64-linux/include": "../include",
    "x86_64-linux/lib64": "../lib64",
    "x86_64-linux/devlib": "../lib64",
    "aarch64-linux/include": "../include",
    "aarch64-linux/lib64": "../lib64",
    "aarch64-linux/devlib": "../lib64",
}
"""Folders under other names."""

FOLDERS = ("opp/vendors/customize/op_api/include", "opp/vendors/customize/op_api/lib", "python/site-packages")

FLAGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    "-ffp-contract=off",
    "-g",
)


@dataclass(frozen=True, slots=True)
class Root:
    """What was laid out."""

    path: Path
    soc: str
    chips: int
    compiler: str
    level: str

    def to_json(self) -> dict[str, object]:
        return {
            "root": str(self.path),
            "soc": self.soc,
            "chips": self.chips,
            "compiler": self.compiler,
            "cpu": self.level,
            "set_env": str(self.path / "set_env.sh"),
        }


def lay_out(
    directory: Path,
    soc: Soc,
    *,
    compiler: str | None = None,
    flags: Sequence[str] = (),
    with_faults: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Root:
    """Build the libraries into ``directory`` and put headers and scripts beside them.

    ``soc``: the chip where ``ATLAS_EMU_SOC`` names none; one of the user's own is added to the catalogue's.
    ``flags``: more of the compiler's, such as ``-fsanitize=address``. ``with_faults``: functions fail on
    demand (``ATLAS_EMU_FAULT``); ``faults.txt`` lists them. An existing root is replaced; a
    folder with anything else in it is refused, and a link. Raises ``AtlasError``.
    """
    command = toolchain.find(compiler)
    try:
        _check_target(directory)
        return _replace(directory, soc, command, flags, with_faults, tell)
    except OSError as error:
        raise AtlasError(f"{directory}: cannot be written ({error.strerror or error})") from None


def _replace(
    directory: Path,
    soc: Soc,
    command: list[str],
    flags: Sequence[str],
    with_faults: bool,
    tell: Callable[[str], None],
) -> Root:
    chips = list(all_socs())
    if soc not in chips:
        chips = [chip for chip in chips if chip.name != soc.name] + [soc]
    tell("choosing the loops")
    loops = ahead.collect(chips)
    level, settings = ahead.environment()
    tell(f"compiling {len(loops.functions)} kernels ahead of time for {level}")
    objects = ahead.objects(loops, level, settings)
    tell("compiling the libraries")
    with tempfile.TemporaryDirectory(prefix=".atlas-cann-", dir=directory.parent) as temporary:
        root = Path(temporary) / "root"
        _copy("include", root / "include")
        (root / "include/acl/acl_enums.h").write_text(tables.enums())
        source = Path(temporary) / "source"
        _copy("source", source)
        (source / "texts.h").write_text(tables.texts_header())
        (source / "dtypes.h").write_text(tables.dtypes_header())
        (source / "chips.c").write_text(tables.chips_source(chips, loops, soc.name, __version__))
        (source / "loops.c").write_text(tables.loops_source(loops))
        needs = ("-DATLAS_NEEDS_AVX2",) if level == "x86-64-v3" else ()
        wrappers = None
        if with_faults:
            known = faults.functions()
            wrappers = faults.write_sources(known, source)
            (root / "faults.txt").write_text(faults.listing(known))
        _build(command, [*FLAGS, *needs, *flags], source, root, objects, wrappers)
        _dress(root, level, directory.resolve())
        os.chmod(root, 0o755)
        if directory.is_dir():
            shutil.rmtree(directory)
        os.rename(root, directory)
    return Root(directory, soc.name, len(chips), " ".join(command), level)


def _check_target(directory: Path) -> None:
    """Also whether the folder around it takes a new one: before compiling, not after."""
    if directory.is_symlink():
        raise AtlasError(f"{directory}: is a link to {os.readlink(directory)}; name the folder itself")
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
    elif not directory.is_dir():
        raise AtlasError(f"{directory}: is a file, no folder")
    elif any(directory.iterdir()) and not (directory / "lib64/libascendcl.so").exists():
        raise AtlasError(
            f"{directory}: holds something else than a root of atlas-emu; name an empty or new one"
        )
    tempfile.TemporaryDirectory(prefix=".atlas-cann-", dir=directory.parent).cleanup()


def _copy(name: str, target: Path) -> None:
    with resources.as_file(resources.files("emulator.cann") / name) as folder:
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("__pycache__"))


def _build(
    command: list[str],
    flags: list[str],
    source: Path,
    root: Path,
    objects: list[Path],
    wrappers: Mapping[str, str] | None,
) -> None:
    """``wrappers``: of each library, where functions fail on demand (:mod:`emulator.cann.faults`)."""
    library = root / "lib64"
    library.mkdir()
    includes = [f"-I{root / 'include'}", f"-I{root / 'include/aclnnop'}", f"-I{source}"]
    (source / "empty.c").write_text("typedef int atlas_empty;\n")

    outer = ["fault", *wrappers.values()] if wrappers is not None else []
    renamed = ["-DATLAS_FAULTS", "-include", "fault_renames.h"] if wrappers is not None else []

    def compile_one(name: str) -> None:
        line = [*command, *flags, *includes, *([] if name in outer else renamed)]
        result = str(source / f"{name}.o")
        toolchain.run([*line, "-c", str(source / f"{name}.c"), "-o", result], f"{name}.c")

    def link(name: str, parts: Sequence[str | Path], needed: Sequence[str]) -> None:
        inputs = [str(part) if isinstance(part, Path) else str(source / f"{part}.o") for part in parts]
        libraries = [f"-l{n.removeprefix('lib').removesuffix('.so')}" for n in needed]
        toolchain.run(
            [
                *(*command, *flags, "-shared", f"-Wl,-soname,{name}", "-Wl,-rpath,$ORIGIN"),
                *("-Wl,--no-as-needed", "-o", str(library / name), *inputs, f"-L{library}", *libraries),
                *("-ldl", "-lpthread"),
            ],
            name,
        )

    runtime, nn, operators = [*RUNTIME], [*NN], [*OPERATORS]
    if wrappers is not None:
        runtime += ["fault", wrappers["libascendcl.so"]]
        nn.append(wrappers["libnnopbase.so"])
        operators.append(wrappers["libopapi_nn.so"])
    with ThreadPoolExecutor(available_threads()) as pool:
        list(pool.map(compile_one, [*runtime, *nn, *operators, "empty"]))
        link("libascendcl.so", runtime, ())
        link("libnnopbase.so", nn, ("libascendcl.so",))
        link("libopapi_nn.so", [*operators, *objects], ("libnnopbase.so", "libascendcl.so"))
        list(pool.map(lambda item: link(item[0], ("empty",), (item[1],)), EMPTY.items()))
    for name, target in ALIASES.items():
        (library / name).symlink_to(target)


def _dress(root: Path, level: str, final: Path) -> None:
    """Scripts, the version, and the names of folders that clients look for. ``final``: where it will be."""
    for name, target in LINKS.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(target)
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    (root / "set_env.sh").write_text(variables.script(final))
    (root / "bin").mkdir()
    (root / "bin/setenv.bash").symlink_to("../set_env.sh")
    (root / "version.cfg").write_text(
        "# A CANN-like root of the Atlas emulator\n"
        f"atlas_emulator_version={__version__}\nrunning_version=[8.1.RC1:8.1.RC1]\ncpu={level}\n"
    )
