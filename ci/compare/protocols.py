"""Random inputs through agents' and benchmarks' own functions, and through ours. Called by ci/compare/protocols.

A source is read from git at its pinned commit, the functions are taken out of its syntax tree, and what they need of
videos and images is replaced by objects that only say which frames and sizes they were asked for.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from protocols_frames import conan, conan_sizes, eva, videozoomer
from protocols_replies import benchmarks, framethinker, longvt, reasoning, video_o3
from protocols_source import COMMITS

# Repositories of each generator.
GENERATORS = [
    (conan, ["Conan"]),
    (conan_sizes, ["Conan"]),
    (videozoomer, ["VideoZoomer"]),
    (eva, ["EfficientVideoAgent"]),
    (reasoning, ["Video-R1", "VideoRFT", "time-r1", "VideoChat-R1"]),
    (framethinker, ["FrameThinker-RL"]),
    (longvt, ["LongVT"]),
    (video_o3, ["Video-o3-Qwen3VL"]),
    (benchmarks, ["lmms-eval", "thinking-in-space"]),
]


def main():
    parser = argparse.ArgumentParser(prog="ci/compare/protocols")
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("mathruler", type=Path)
    parser.add_argument("conformance", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    cases, missing = {}, []
    for generator, repositories in GENERATORS:
        absent = [name for name in repositories if not (arguments.checkouts / name).exists()]
        if absent:
            missing += ["/".join((COMMITS[name][0], name)) + f"@{COMMITS[name][1][:7]}" for name in absent]
            continue
        rng = random.Random(f"{arguments.seed} {generator.__name__}")
        extra = [arguments.mathruler] if generator is videozoomer else []
        for function, inputs, outputs in generator(arguments.checkouts, rng, arguments.cases, *extra):
            cases.setdefault(function, []).append(inputs | outputs)
    for name in sorted(set(missing)):
        print(f"not there, its functions are left out: {name}")
    if not cases:
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.keep or Path(folder, "cases.json")
        file.write_text(json.dumps(cases))
        print(f"{sum(map(len, cases.values()))} cases of {len(cases)} functions")
        code = subprocess.run([arguments.conformance, file]).returncode
    sys.exit(code or (3 if missing else 0))


if __name__ == "__main__":
    main()
