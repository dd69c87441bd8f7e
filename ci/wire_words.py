"""Puts the words of the stand-in into the reference's code.

    wire_words.py CHECKOUT_CODE STANDIN OUT

What the reference says to a model is its own, and not kept in this repository; what its code does with the words
is what the recorded requests are about. Every text that the importer takes out of `paravt/eval/driver.py` and
`utils.py` is replaced by that of `suite/upstream/tests/standin`, found by the same place in the code; everything
else stays as it is.
"""
import ast
import os
import sys

CONSTANTS = [
    "TOOL_SCHEMA", "DIRECT_SYSTEM", "REASONING_SYSTEM", "GENERAL_AGENTIC_SYSTEM", "MINIMAL_AGENTIC_SYSTEM", "DEFAULT_MAX_TOKENS",
]


def function(tree: ast.Module, name: str) -> ast.FunctionDef:
    (found,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    return found


def assignments(tree: ast.AST, name: str) -> list:
    """Assignments to a name, in the order of the text."""
    found = [node for node in ast.walk(tree) if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in targets(node)]
    return sorted(found, key=lambda node: node.lineno)


def targets(node) -> list:
    nodes = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in nodes if isinstance(target, ast.Name)]


def names(node: ast.AST) -> set:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def texts(tree: ast.AST, wanted: set) -> list:
    """Formatted texts of exactly these variables."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) and names(node) == wanted]


def become(node: ast.AST, other: ast.AST) -> None:
    """Makes a node of a tree another one in its place."""
    if isinstance(node, ast.JoinedStr) and isinstance(other, ast.JoinedStr):
        node.values = other.values
    elif isinstance(node, ast.Constant) and isinstance(other, ast.Constant):
        node.value = other.value
    else:
        raise ValueError(f"{ast.dump(node)[:80]} and {ast.dump(other)[:80]} are of two kinds")


def one(found: list, what: str):
    if len(found) != 1:
        raise ValueError(f"{what}: expected in one place, found in {len(found)}")
    return found[0]


def driver(theirs: ast.Module, ours: ast.Module) -> None:
    for name in CONSTANTS:
        one(assignments(theirs, name), name).value = one(assignments(ours, name), name).value
    a, b = function(theirs, "eval_one"), function(ours, "eval_one")

    def marker(tree):
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn)]
        return one([node.left for node in nodes if isinstance(node.left, ast.Constant)], "words that keep the path out")

    become(marker(a), marker(b))
    for wanted in ({"q_text", "os", "vpath"}, {"len", "cropped", "st", "et"}, {"st", "et"}):
        become(one(texts(a, wanted), str(wanted)), one(texts(b, wanted), str(wanted)))
    for name in ("force", "force_max"):
        for node, other in zip(assignments(a, name), assignments(b, name), strict=True):
            node.value = other.value


def branches(loader: ast.FunctionDef) -> dict:
    """The loader's code of each split, by the name that it compares with."""
    tests = [node for node in loader.body if isinstance(node, ast.If) and isinstance(node.test, ast.Compare)]
    return {node.test.comparators[0].value: node for node in tests}


def utils(theirs: ast.Module, ours: ast.Module) -> None:
    a, b = function(theirs, "load_samples"), function(ours, "load_samples")
    one(assignments(a, "mcq_instr"), "instruction").value = one(assignments(b, "mcq_instr"), "instruction").value
    a, b = branches(a), branches(b)
    for split, words in b.items():
        code = a[split]
        for name in ("opts_str", "sub_prefix"):
            found, other = formatted(code, name), formatted(words, name)
            if len(found) != len(other):
                raise ValueError(f"{split}: {name} is formatted {len(found)} times, and {len(other)} times in the stand-in")
            for node, replacement in zip(found, other):
                become(node, replacement)
        become(question(code, split), question(words, split))


def formatted(tree: ast.AST, name: str) -> list:
    """Formatted texts in the assignments to a name."""
    return [part for node in assignments(tree, name) for part in ast.walk(node) if isinstance(part, ast.JoinedStr)]


def question(tree: ast.AST, split: str) -> ast.AST:
    """What a split's question is made of."""
    pairs = [pair for node in ast.walk(tree) if isinstance(node, ast.Dict) for pair in zip(node.keys, node.values)]
    found = [value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "question"]
    made = [node.value for node in assignments(tree, "question")]
    return one([node for node in found + made if isinstance(node, ast.JoinedStr)], f"question of {split}")


def main() -> None:
    code, standin, out = sys.argv[1:]
    for name, edit in (("driver", driver), ("utils", utils)):
        path = os.path.join("paravt", "eval", f"{name}.py")
        trees = []
        for folder in (code, standin):
            with open(os.path.join(folder, path), encoding="utf-8") as file:
                trees.append(ast.parse(file.read()))
        edit(*trees)
        os.makedirs(os.path.dirname(os.path.join(out, path)), exist_ok=True)
        with open(os.path.join(out, path), "w", encoding="utf-8") as file:
            file.write(ast.unparse(ast.fix_missing_locations(trees[0])) + "\n")
    open(os.path.join(out, "paravt", "__init__.py"), "w").close()
    open(os.path.join(out, "paravt", "eval", "__init__.py"), "w").close()


if __name__ == "__main__":
    main()
