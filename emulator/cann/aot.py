"""Python source to an object file, with Numba and LLVM; run as a process of its own.

A process, because Numba takes the CPU that it compiles for from the environment, once
(:func:`emulator.cann.loops.environment`). Standard input: JSON with ``output`` (the object file) and
``functions``: a list of ``symbol`` and ``source``, a module with ``run`` and its ``SIGNATURE``. In the object
``symbol`` is ``run`` by Numba's native calling convention (:func:`emulator.cann.loops.prototype`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def compile_function(symbol: str, source: str) -> Any:
    """The optimised LLVM module of ``run``, in which all but ``symbol`` is internal."""
    from llvmlite import binding as llvm
    from numba.core import compiler
    from numba.core.compiler import Flags
    from numba.core.registry import cpu_target

    names: dict[str, Any] = {"__name__": symbol}
    exec(compile(source, symbol, "exec"), names)
    flags: Any = Flags()  # type: ignore[no-untyped-call]
    flags.nrt = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.error_model = "numpy"
    signature = names["SIGNATURE"]
    compile_extra: Any = compiler.compile_extra
    result = compile_extra(
        cpu_target.typing_context,
        cpu_target.target_context,
        names["run"],
        signature.args,
        signature.return_type,
        flags,
        {},
    )
    module = llvm.parse_assembly(str(result.library._final_module))
    entry = result.fndesc.llvm_func_name
    for function in module.functions:
        if function.name == entry:
            function.name = symbol
            function.linkage = "external"
        elif not function.is_declaration:
            function.linkage = "internal"
    for variable in module.global_variables:
        # Numba's handle on the Python function, which native code never follows.
        if variable.name.startswith("_ZN08NumbaEnv"):
            variable.linkage = "internal"
    return module


def main() -> None:
    """See the module."""
    from llvmlite import binding as llvm
    from numba.core.registry import cpu_target

    request = json.load(sys.stdin)
    context = cpu_target.typing_context, cpu_target.target_context
    for part in context:
        part.refresh()
    modules = [compile_function(f["symbol"], f["source"]) for f in request["functions"]]
    whole = modules[0]
    for module in modules[1:]:
        whole.link_in(module)
    triple, cpu, features = cpu_target.target_context.codegen().magic_tuple()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default"
    )
    Path(request["output"]).write_bytes(machine.emit_object(whole))


if __name__ == "__main__":
    main()
