"""Puts the words of the stand-in into the reference's code.

    wire_words.py CHECKOUT_CODE WORDS.json OUT

What the reference says to a model is its own, and not kept in this repository; what its code does with the words
is what the recorded requests are about. Every text that the importer takes out of `paravt/eval/driver.py` and
`utils.py` is replaced by that of `suite/upstream/tests/standin/paravt.json`; everything else stays as it is.
"""
import ast
import json
import os
import string
import sys

CONSTANTS = {
    "TOOL_SCHEMA": "tool_schema",
    "DIRECT_SYSTEM": "direct",
    "REASONING_SYSTEM": "reasoning",
    "GENERAL_AGENTIC_SYSTEM": "agentic_general",
    "MINIMAL_AGENTIC_SYSTEM": "agentic_minimal",
}


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


def become(node: ast.AST, text: str) -> None:
    """Makes a text of a tree another one in its place. The slots of the new one are the values of the old, in their order."""
    if isinstance(node, ast.Constant):
        node.value = text
        return
    values, pieces = iter([part for part in node.values if isinstance(part, ast.FormattedValue)]), []
    for literal, slot, _, _ in string.Formatter().parse(text):
        pieces.append(ast.Constant(literal))
        if slot is not None:
            pieces.append(next(values))
    if next(values, None):
        raise ValueError(f"{text!r} has fewer slots than {ast.unparse(node)}")
    node.values = pieces


def one(found: list, what: str):
    if len(found) != 1:
        raise ValueError(f"{what}: expected in one place, found in {len(found)}")
    return found[0]


def driver(theirs: ast.Module, words: dict) -> None:
    for name, key in CONSTANTS.items():
        one(assignments(theirs, name), name).value = ast.Constant(words[key])
    code = function(theirs, "eval_one")
    nodes = [node for node in ast.walk(code) if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn)]
    marks = [node.left for node in nodes if isinstance(node.left, ast.Constant)]
    become(one(marks, "words that keep the path out"), words["video_path.unless"])
    for wanted, key in (
        ({"q_text", "os", "vpath"}, "video_path"),
        ({"len", "cropped", "st", "et"}, "seen"),
        ({"st", "et"}, "lost"),
    ):
        become(one(texts(code, wanted), key), words[key])
    for node, key in zip(assignments(code, "force"), ("force.choice", "force.grounding"), strict=True):
        node.value = ast.Constant(words[key])


def branches(loader: ast.FunctionDef) -> dict:
    """The loader's code of each split, by the name that it compares with."""
    tests = [node for node in loader.body if isinstance(node, ast.If) and isinstance(node.test, ast.Compare)]
    return {node.test.comparators[0].value: node for node in tests}


def utils(theirs: ast.Module, words: dict) -> None:
    loader = function(theirs, "load_samples")
    instruction = one(assignments(loader, "mcq_instr"), "instruction").value
    become(instruction.body, words["instruction.direct"])
    become(instruction.orelse, words["instruction.other"])
    for split, code in branches(loader).items():
        for name, key in (("opts_str", "option_line"), ("sub_prefix", "subtitles")):
            for node in formatted(code, name):
                become(node, words[key])
        become(question(code, split), words[split])


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
    code, words, out = sys.argv[1:]
    with open(words, encoding="utf-8") as file:
        words = json.load(file)
    for name, edit in (("driver", driver), ("utils", utils)):
        path = os.path.join("paravt", "eval", f"{name}.py")
        with open(os.path.join(code, path), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        edit(tree, words)
        os.makedirs(os.path.dirname(os.path.join(out, path)), exist_ok=True)
        with open(os.path.join(out, path), "w", encoding="utf-8") as file:
            file.write(ast.unparse(ast.fix_missing_locations(tree)) + "\n")
    open(os.path.join(out, "paravt", "__init__.py"), "w").close()
    open(os.path.join(out, "paravt", "eval", "__init__.py"), "w").close()


if __name__ == "__main__":
    main()
