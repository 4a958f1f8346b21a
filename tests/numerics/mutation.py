"""Break ``kernel/numerics`` in one place at a time and see whether the tests notice.

Run by hand: ``python tests/numerics/mutation.py`` (``--help`` for a part of it); pytest does not collect it.
Every mutant is made in a copy of the tree in a temporary folder. The same options give the same mutants:
in each function some, spread over the kinds of change, at least one wherever there is anything to change.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("kernel/numerics")
COPIED = ("emulator", "kernel", "socs", "tests", "docs", "pyproject.toml", "README.md")

# What can notice a change of a module, quickest first; without what takes long and sees no more.
NUMERICS = "tests/numerics/test_{}.py"
WITHOUT = "not slow and not softfloats_with_one_nan and not whole_operator and not importing"
TESTS = {
    "formats": (["formats", "conversions", "arithmetic"], WITHOUT),
    "convert": (["conversions", "arithmetic", "without_jit"], WITHOUT + " and not streamed and not digest"),
    "vector": (["arithmetic", "conversions", "without_jit"], WITHOUT),
    "stream": (["without_jit", "machine_code"], "machine_code and not float16 or streamed or digest"),
}
ROUNDING = " and not gfloat and not softfloat and not named_casts"
"""Left out where the other rounding modes cannot be concerned."""
TIMEOUT = 300

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
RARE = ("call", "statement", "result")
"""Kinds that mostly break the types; taken only where a function has no other."""


@dataclass(frozen=True)
class Mutant:
    module: str
    function: str
    line: int
    kind: str
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line} {self.function}: {self.before}  ->  {self.after}"


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What this node may become, with the kind of change."""
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            new.ops = [COMPARISONS[type(op)]()]
            yield "comparison", new
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            new.op = OPERATORS[type(op)]()
            yield "operator", new
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "operator", new
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield "operator", operand
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant", ast.Constant(value + 1)
            yield "constant", ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield "constant", ast.Constant(value * 2 + 1)
        case ast.IfExp(body=body, orelse=orelse):
            new.body, new.orelse = orelse, body
            yield "branches", new
        case ast.If(test=test):
            new.test = ast.UnaryOp(ast.Not(), test)
            yield "branches", new
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            new.func = ast.Name("max" if name == "min" else "min")
            yield "comparison", new
        case ast.Call(func=ast.Attribute(value=ast.Name("np")), args=[value]):
            yield "cast", value
        case ast.Call(args=[first, *_]) if not isinstance(first, ast.GeneratorExp):
            yield "call", first
        case ast.Expr(value=ast.Call()):
            yield "statement", ast.Pass()
        case ast.Return(value=ast.expr()):
            yield "result", ast.Return(ast.Constant(None))


def sites(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str, int | None]]:
    """Every expression and statement that is computed: its function, its parent, and its place there."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST, str, int | None]]:
        for name, value in ast.iter_fields(node):
            # Not annotations and decorators; defaults are part of the signature.
            if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.ImportFrom):
                    continue
                if isinstance(child, ast.FunctionDef | ast.ClassDef):
                    inner = child.name if function == "<module>" else f"{function}.{child.name}"
                    yield from visit(child, inner)
                else:
                    yield function, node, name, index
                    yield from visit(child, function)

    yield from visit(tree, "<module>")


def mutants(module: str) -> list[Mutant]:
    """All mutants of a module."""
    tree = ast.parse((ROOT / PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    found = []
    for function, parent, name, index in sites(tree):
        value = getattr(parent, name)
        node = value if index is None else value[index]
        for kind, changed in changes(node):
            if index is None:
                setattr(parent, name, changed)
            else:
                value[index] = changed
            before, after = (
                ast.unparse(ast.fix_missing_locations(n)).partition("\n")[0] for n in (node, changed)
            )
            source = ast.unparse(ast.fix_missing_locations(tree))
            found.append(Mutant(module, function, getattr(node, "lineno", 0), kind, before, after, source))
            if index is None:
                setattr(parent, name, node)
            else:
                value[index] = node
    return found


def functions(module: str) -> list[str]:
    tree = ast.parse((ROOT / PACKAGE / f"{module}.py").read_text(encoding="utf-8"))

    def visit(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}" if prefix else child.name
                if isinstance(child, ast.FunctionDef):
                    yield name
            yield from visit(child, name)

    return list(visit(tree, ""))


def sample(every: list[Mutant], least: int, one_in: int, seed: int) -> list[Mutant]:
    """``least`` of each function and one more for every ``one_in`` sites, over all kinds in turn."""
    choose = random.Random(seed)
    by_function: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in every:
        by_function[mutant.function].append(mutant)
    chosen = []
    for of_function in by_function.values():
        by_kind: dict[str, list[Mutant]] = defaultdict(list)
        for mutant in of_function:
            by_kind[mutant.kind].append(mutant)
        if set(by_kind) - set(RARE):
            by_kind = {kind: of_kind for kind, of_kind in by_kind.items() if kind not in RARE}
        for of_kind in by_kind.values():
            choose.shuffle(of_kind)
        kinds = sorted(by_kind, key=lambda _: choose.random())
        turns = [
            by_kind[k][turn] for turn in range(len(of_function)) for k in kinds if turn < len(by_kind[k])
        ]
        chosen += turns[: least + len(of_function) // one_in]
    return chosen


def copy_tree(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def verdict(folder: Path, module: str, function: str, source: str) -> str:
    """``survived``, or what noticed."""
    files, expression = TESTS[module]
    if module == "convert" and function not in ("narrow", "unchanged"):
        expression += ROUNDING
    target = folder / PACKAGE / f"{module}.py"
    original = target.read_text(encoding="utf-8")
    target.write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider"]
    command += ["-k", expression, *(NUMERICS.format(name) for name in files)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, timeout=TIMEOUT, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    finally:
        target.write_text(original, encoding="utf-8")
    if done.returncode == 0:
        return "survived"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (
        failed[0].partition("::")[2].partition(" - ")[0] or failed[0] if failed else f"exit {done.returncode}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", nargs="*", default=list(TESTS), choices=list(TESTS))
    parser.add_argument("--functions", nargs="*", help="only these")
    parser.add_argument("--least", type=int, default=1, help="mutants of a function at least")
    parser.add_argument("--one-in", type=int, default=12, help="one more for so many possible mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--unchecked", action="store_true", help="trust that the tests pass without mutation")
    parser.add_argument("--list", action="store_true", help="run nothing")
    options = parser.parse_args()

    every = {module: mutants(module) for module in options.modules}
    chosen = [
        mutant
        for module in options.modules
        for mutant in sample(every[module], options.least, options.one_in, options.seed)
        if options.functions is None or mutant.function in options.functions
    ]
    print(f"{len(chosen)} of {sum(map(len, every.values()))} possible mutants")
    for module in options.modules:
        bare = set(functions(module)) - {mutant.function for mutant in every[module]}
        print(f"nothing to change in {module}.py: {', '.join(sorted(bare)) or 'none'}")
    if options.list:
        print(*chosen, sep="\n")
        return

    with tempfile.TemporaryDirectory(prefix="mutation-") as temporary:
        free: Queue[Path] = Queue()
        for number in range(options.workers):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            copy_tree(folder)
            free.put(folder)

        def judge(mutant: Mutant) -> str:
            folder = free.get()
            start = time.monotonic()
            try:
                result = verdict(folder, mutant.module, mutant.function, mutant.source)
            finally:
                free.put(folder)
            print(f"{time.monotonic() - start:5.0f} s  {mutant}  [{result}]", flush=True)
            return result

        with ThreadPoolExecutor(options.workers) as pool:
            sound = [
                Mutant(module, "unchanged", 0, "", "", "", ast.unparse(ast.parse(source)))
                for module in ([] if options.unchecked else options.modules)
                for source in [(ROOT / PACKAGE / f"{module}.py").read_text(encoding="utf-8")]
            ]
            if any(result != "survived" for result in pool.map(judge, sound)):
                sys.exit("the tests fail without any mutation")
            results = list(pool.map(judge, chosen))

    survived = [mutant for mutant, result in zip(chosen, results, strict=True) if result == "survived"]
    totals = Counter((mutant.module, mutant.function) for mutant in chosen)
    alive = Counter((mutant.module, mutant.function) for mutant in survived)
    print("\nkilled  survived  function")
    for place, total in totals.items():
        print(f"{total - alive[place]:6d}  {alive[place]:8d}  {'.'.join(place)}")
    print(f"{len(chosen) - len(survived):6d}  {len(survived):8d}  all")
    print("\nsurvivors", *survived, sep="\n")


if __name__ == "__main__":
    main()
