"""Faults on demand: a wrapper around every public function of the C libraries, generated from their headers.

The libraries themselves are compiled with the functions renamed by the preprocessor, so that calls among
them never fail on demand, and the wrappers take the public names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

LIBRARIES = {"acl": "libascendcl.so", "aclnn": "libnnopbase.so", "aclnnop": "libopapi_nn.so"}
"""Where the functions of a folder of headers are."""

PLAIN = "atlas_plain_"
"""What the function itself is called with in a build with faults."""

TELL_ERRORS = frozenset({"aclGetRecentErrMsg", "aclrtGetLastError", "aclrtPeekAtLastError"})
"""Functions that tell errors of others, and so have none to return."""

_STATUSES = ("aclError", "aclnnStatus")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CPLUSPLUS = re.compile(
    r"^#ifdef __cplusplus\n(?P<cpp>.*?)(?:^#else\n(?P<c>.*?))?^#endif\n", re.DOTALL | re.M
)
_DECLARATION = re.compile(
    r"^(?:ACLNN_API )?(?P<result>(?:const )?\w+ \*?)(?P<name>[aA]cl\w+)\((?P<parameters>[^()]*)\);", re.M
)
_PARAMETER = re.compile(r"(\w+)\s*$")


@dataclass(frozen=True, slots=True)
class Function:
    """A public function that can fail on demand: ``kind`` is ``status``, or ``pointer`` (fails with NULL)."""

    name: str
    result: str
    parameters: str
    library: str

    @property
    def kind(self) -> str:
        return "status" if self.result in _STATUSES else "pointer"

    @property
    def arguments(self) -> str:
        if self.parameters == "void":
            return ""
        names = [_PARAMETER.search(parameter) for parameter in self.parameters.split(",")]
        return ", ".join(found[1] for found in names if found is not None)

    @property
    def is_phase_2(self) -> bool:
        return self.library == "libopapi_nn.so" and not self.name.endswith("GetWorkspaceSize")


def functions() -> list[Function]:
    """Every function that can fail, by library and name, as the headers of this package declare them."""
    found = {}
    with resources.as_file(resources.files("emulator.cann") / "include") as include:
        for folder, library in LIBRARIES.items():
            for header in sorted((include / folder).glob("*.h")):
                for function in _declared(header.read_text(), library):
                    found[function.name] = function
    order = list(LIBRARIES.values())
    return sorted(found.values(), key=lambda function: (order.index(function.library), function.name))


def _declared(text: str, library: str) -> list[Function]:
    text = _CPLUSPLUS.sub(lambda match: match["c"] or "", _COMMENT.sub("", text))
    found = []
    for match in _DECLARATION.finditer(text):
        result = match["result"].strip()
        if match["name"] not in TELL_ERRORS and (result in _STATUSES or result.endswith("*")):
            parameters = " ".join(match["parameters"].split())
            found.append(Function(match["name"], result, parameters, library))
    return found


def listing(known: list[Function]) -> str:
    """A line for each function: its name, ``status`` or ``pointer``, its library."""
    return "".join(f"{function.name} {function.kind} {function.library}\n" for function in known)


def write_sources(known: list[Function], folder: Path) -> dict[str, str]:
    """Put the generated C beside the other sources; gives the name of each library's wrappers."""
    renames = "".join(f"#define {function.name} {PLAIN}{function.name}\n" for function in known)
    (folder / "fault_renames.h").write_text(renames)
    names = "".join(f'    "{function.name}",\n' for function in known)
    runtime = sum(function.library == LIBRARIES["acl"] for function in known)
    (folder / "fault_names.h").write_text(
        f"static const char *const NAMES[] = {{\n{names}}};\n\n"
        f"enum {{ RUNTIME = {runtime} }}; /* so many are the runtime's; the others come behind */\n"
    )
    headers = sorted(path.name for path in (folder.parent / "root/include/aclnnop").glob("aclnn_*.h"))
    includes = "".join(f'#include "aclnnop/{name}"\n' for name in headers)
    head = (
        '#include "fault.h"\n#include "nn.h"\n\n'
        f"#pragma GCC visibility push(default)\n{includes}#pragma GCC visibility pop\n"
    )
    wrappers = {}
    for library in LIBRARIES.values():
        name = f"fault_{library.removeprefix('lib').removesuffix('.so')}"
        parts = [_wrapper(i, function) for i, function in enumerate(known) if function.library == library]
        (folder / f"{name}.c").write_text(head + "".join(parts))
        wrappers[library] = name
    return wrappers


def _wrapper(number: int, function: Function) -> str:
    space = "" if function.result.endswith("*") else " "
    declaration = f"{function.result}{space}{{}}{function.name}({function.parameters})"
    spent = "        atlas_executor_spent(executor);\n" if function.is_phase_2 else ""
    value = "fault" if function.kind == "status" else "NULL"
    return f"""
{declaration.format(PLAIN)};

{declaration.format("")}
{{
    int fault = atlas_fault({number});
    if (fault != 0) {{
{spent}        return {value};
    }}
    return {PLAIN}{function.name}({function.arguments});
}}
"""
