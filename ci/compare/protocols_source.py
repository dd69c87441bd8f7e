"""The authors' functions: files at their pinned commits, functions out of their syntax trees, and what stands for
videos and images. Used by ci/compare/protocols.py."""

import ast
import json
import math
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np

from released import functions

COMMITS = {
    "Conan": ("OuyangKun10", "b4805ae8ae746dccf6d1aea7a2dc46d416368692"),
    "VideoZoomer": ("zsgvivo", "56381538bbde43d6d3417b54f727784958a4e316"),
    "EfficientVideoAgent": ("wangruohui", "758ad8d3dcb84a8086e5d70c9afb9a6f278e8f5a"),
    "Video-R1": ("tulerfeng", "59d65c347e44efa71be27abf9d89b4a2bb7d1c05"),
    "VideoRFT": ("QiWang98", "bba609969e66c66e152b15399488f0ad94051e3a"),
    "time-r1": ("xiaomi-research", "7f2b5944a0c35993da80634a459d5a48a3a5431e"),
    "VideoChat-R1": ("OpenGVLab", "73b2ea9ac83ad5c0bcd893bffd1cbb2e7c167068"),
    "FrameThinker-RL": ("lcqysl", "3c917f3a7d311e91ae2ac1ebdb30723850e4508e"),
    "LongVT": ("EvolvingLMMs-Lab", "08d755b973e4ad990ac5cdd64fb992c804d840db"),
    "Video-o3-Qwen3VL": ("ZZQ987", "a6e0973c6e5c8a8478c9ea7aa05304dfa247b2ea"),
    "lmms-eval": ("EvolvingLMMs-Lab", "75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3"),
    "thinking-in-space": ("vision-x-nyu", "51e089c3ae69b9435e9489058610f5b3964c56a8"),
}


class Source:
    """One file of a repository: its functions and parts of them, each run in a namespace of its own."""

    def __init__(self, checkouts, repository, path):
        _, commit = COMMITS[repository]
        command = ["git", "-C", checkouts / repository, "show", f"{commit}:{path}"]
        shown = subprocess.run(command, capture_output=True)
        if shown.returncode:
            sys.exit(f"{checkouts / repository} lacks {path} of commit {commit}: {shown.stderr.decode().strip()}")
        text = shown.stdout.decode()
        self.tree = ast.parse(text)

    def node(self, name):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return next(node for node in ast.walk(self.tree) if isinstance(node, kinds) and node.name == name)

    def functions(self, *names, **namespace):
        """The functions, which see each other and the namespace."""
        known = {"re": re, "np": np, "json": json, "math": math, "ast": ast, "print": lambda *_, **__: None}
        return functions(self.tree, names, known | namespace)

    def part(self, function, wanted):
        """The first statement or expression within a function for which `wanted` holds."""
        return next(node for node in ast.walk(self.node(function)) if wanted(node))


def run(node, **space):
    """Runs a statement (or statements) and returns the names it leaves."""
    space = {"re": re, "json": json, "print": lambda *_, **__: None, **space}
    exec(compile(ast.Module(node if isinstance(node, list) else [node], []), "part", "exec"), space)
    return space


def mentions(node, name):
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))


class Frames:
    """A video that notes the frames it is asked for."""

    def __init__(self, total, fps, size=(2, 2)):
        self.total, self.fps, self.size, self.asked = total, fps, size, []

    def __call__(self, *_, **__):
        return self

    def __len__(self):
        return self.total

    def get_avg_fps(self):
        return self.fps

    def get_batch(self, indices):
        self.asked = [int(index) for index in indices]
        shape = (min(len(self.asked), 1) or 1, self.size[1], self.size[0], 3)
        frames = np.zeros(shape, dtype=np.uint8)
        frames = np.broadcast_to(frames[:1], (len(self.asked), *shape[1:])) if self.size == (2, 2) else frames
        return SimpleNamespace(asnumpy=lambda: frames)

    def seek(self, _):
        pass


class Image:
    """Pillow's place: notes the size that an image is reduced to."""

    LANCZOS = None

    def __init__(self):
        self.size = None

    def fromarray(self, array):
        self.size = [array.shape[1], array.shape[0]]
        return self

    def resize(self, size, _):
        self.size = list(size)
        return self

    def open(self, _):
        raise FileNotFoundError


class Shape:
    """Frames of a size, without pixels."""

    def __init__(self, height, width, count=1):
        self.shape, self.size = (count, height, width, 3), count

    def __len__(self):
        return self.size

    def __iter__(self):
        return iter([0] * self.size)
