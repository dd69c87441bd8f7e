"""Released code without the program around it: a module by its file, functions out of a syntax tree, modules that stand in
for others."""

import ast
import importlib.util
import types
from pathlib import Path


def load(name: str, path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions(source, names, space: dict) -> dict:
    """Functions and methods of a file or tree by their names, the first of each, without what decorates and annotates them.
    They see `space`, which is given back with them."""
    tree = source if isinstance(source, ast.AST) else ast.parse(Path(source).read_text(encoding="utf-8"))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in names:
            found.setdefault(node.name, node)
    for node in found.values():
        node.decorator_list, node.returns = [], None
        for argument in node.args.args + node.args.kwonlyargs:
            argument.annotation = None
    exec(compile(ast.Module(list(found.values()), []), "released", "exec"), space)
    return space


def stub(name: str, **attributes) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    return module
