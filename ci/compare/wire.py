"""Compares what the reference driver and paravt-bench send to a model server, request by request.

Started by ci/compare/wire. Both run one sample after the other, so the n-th request of one answers to the n-th of
the other. The server answers by a script that depends on nothing but the conversation. Equal means: the
same path and parameters, the same messages in structure and text, as many pictures of the same sizes and
JPEG tables, and pixels that differ by no more than the two decoders' rounding. The results are compared too,
sample by sample. With --record the reference speaks the stand-in's words over the small root, and its requests
are written down for suite/cli/tests/all/wire.rs.
"""
import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from PIL import Image

import wire_record
import wire_subagents
import wire_world
from paravt_bench import records
from wire_server import Server

COMMIT = "cf55249e391004b5aafea3f19cf5580d3517cb43"
SPLITS = ["videomme", "videomme_wsub", "longvideobench", "lvbench", "mlvu", "mmvu", "charades"]
MODES = ["direct", "reasoning", "agentic_general", "agentic_minimal"]
VIDEO_SPLITS = ["charades", "lvbench"]
# Levels of 255, mean over a picture. Neighbouring frames of the generated files differ by tens.
TOLERANCE = 1.0


def pixels(folder: str, name: str, cache={}):
    if name not in cache:
        if len(cache) > 600:
            cache.clear()
        with open(os.path.join(folder, name), "rb") as file:
            picture = Image.open(io.BytesIO(file.read()))
        tables = {key: list(value) for key, value in picture.quantization.items()}
        layers = [layer[1:3] for layer in picture.layer]
        cache[name] = (np.asarray(picture.convert("RGB"), dtype=np.int16), (tables, layers, picture.format))
    return cache[name]


def differences(folder: str, theirs, ours, where: str, found: list, levels: list) -> None:
    """Appends a line for each difference to `found`, and (mean, largest) of each pair of pictures to `levels`."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and "picture" in theirs and "picture" in ours:
        if theirs["as"] != ours["as"]:
            found.append(f"{where}: {theirs['as']} / {ours['as']}")
        (a, how_a), (b, how_b) = pixels(folder, theirs["picture"]), pixels(folder, ours["picture"])
        if how_a != how_b:
            found.append(f"{where}: JPEG tables, sampling or format differ")
        if a.shape != b.shape:
            found.append(f"{where}: picture of {a.shape} / {b.shape}")
            return
        difference = np.abs(a - b)
        levels.append((float(difference.mean()), int(difference.max())))
        if levels[-1][0] > TOLERANCE:
            found.append(f"{where}: picture differs by {levels[-1][0]:.2f} levels, at most {levels[-1][1]}")
    elif isinstance(theirs, dict) and isinstance(ours, dict):
        if list(theirs) != list(ours) and sorted(theirs) != sorted(ours):
            found.append(f"{where}: fields {sorted(theirs)} / {sorted(ours)}")
        for key in theirs.keys() & ours.keys():
            differences(folder, theirs[key], ours[key], f"{where}.{key}", found, levels)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            found.append(f"{where}: {len(theirs)} entries / {len(ours)}")
        for number, (a, b) in enumerate(zip(theirs, ours)):
            differences(folder, a, b, f"{where}[{number}]", found, levels)
    elif type(theirs) is not type(ours) or theirs != ours:
        found.append(f"{where}: {str(theirs)[-200:]!r} / {str(ours)[-200:]!r}")


def read(path: str):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def upstream_summary(path: str) -> dict:
    summary = read(path)["summary"]
    keep = ("accuracy", "mIoU", "R@0.3", "R@0.5", "R@0.7", "acc_short", "acc_medium", "acc_long", "avg_tool_calls", "tool_usage_rate")
    return {key: summary[key] for key in keep if key in summary}


def our_summary(path: str) -> dict:
    summary = read(path)
    found = {
        "avg_tool_calls": summary["tools"]["calls_per_sample"],
        "tool_usage_rate": summary["tools"]["share_with_calls"],
    }
    found.update({metric["name"]: metric["value"] for metric in summary["metrics"]})
    for breakdown in summary["breakdowns"]:
        if breakdown["tag"] == "duration":
            found.update({f"acc_{group['label']}": group["value"] for group in breakdown["groups"]})
    return found


def their_samples(path: str) -> list:
    """Score, prediction and number of tool calls of each sample; None where the sample is an error."""
    return [None if "error" in row else (row["score"], row["tool_calls"]) for row in read(path)["results"]]


def our_samples(path: str) -> list:
    return [
        None if record.get("error") else (record["score"]["value"], len(record["transcript"]["tool_calls"]))
        for record in records(path)
    ]


def sent(exchanges: list) -> list:
    """Requests without the repetitions of one that was refused as it is: the reference asks three times."""
    found = []
    for request, status, _ in exchanges:
        repeated = found and found[-1][1] == status == 400 and found[-1][0] == request
        if not repeated:
            found.append((request, status))
    return [request for request, _ in found]


def unpack(checkout: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    archive = subprocess.run(
        ["git", "-C", checkout, "archive", COMMIT, "paravt/__init__.py", "paravt/eval", *wire_subagents.FILES], check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", target], input=archive.stdout, check=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--keep", help="folder for the data root and everything sent; reused where it exists")
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--nframes", type=int, help="overview frames (default: 64, with --record 8)")
    parser.add_argument("--profile", default="release", choices=["release", "paper"], help="of paravt-bench (default: release)")
    parser.add_argument("--record", action="store_true", help="write suite/cli/tests/wire")
    args = parser.parse_args()
    args.nframes = args.nframes or (8 if args.record else 64)
    base = args.keep or tempfile.mkdtemp(prefix="wire")
    os.makedirs(base, exist_ok=True)
    try:
        return compare(args, os.path.abspath(base))
    finally:
        if not args.keep:
            shutil.rmtree(base, ignore_errors=True)


class Wire:
    """Both drivers, one server, one data root."""

    def __init__(self, args, base: str):
        self.here = os.path.dirname(os.path.abspath(__file__))
        self.binary, self.base, self.nframes = os.path.abspath(args.binary), base, args.nframes
        self.profile = args.profile
        self.code, self.root = os.path.join(base, "code"), os.path.join(base, "root")
        self.environment = {**os.environ, "PARAVT_BENCH_CACHE": os.path.join(base, "cache"), "OPENAI_API_KEY": "EMPTY"}
        self.environment.pop("OPENAI_BASE_URL", None)
        self.server = Server(os.path.join(base, "pictures"))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port = self.server.server_address[1]

    def prepare(self, checkout: str, record: bool) -> None:
        """Code, texts and data of both sides."""
        source = os.path.join(self.base, "checkout")
        unpack(checkout, source)
        if record:
            shutil.rmtree(self.code, ignore_errors=True)
            self.root = wire_record.root(self.binary)
            wire_record.speak(source, self.code)
            wire_record.store(self.environment["PARAVT_BENCH_CACHE"])
            return
        shutil.copytree(source, self.code, dirs_exist_ok=True)
        if not os.path.isdir(self.root):
            wire_world.make(self.binary, self.root)
        command = [self.binary, "protocol", "import", "--from", checkout]
        subprocess.run(command, check=True, env=self.environment, stdout=subprocess.DEVNULL)

    def out(self, side: str, cell: tuple) -> str:
        split, mode, channel = cell
        return os.path.join(self.base, side, f"{mode}-{channel}-{split}")

    def reference(self, cells: list) -> list:
        """The exchanges of each cell, by the reference's driver."""
        jobs = []
        for cell in cells:
            split, mode, channel = cell
            shutil.rmtree(self.out("upstream", cell), ignore_errors=True)
            argv = ["--model_path", "scripted", "--datasets", split, "--output_dir", self.out("upstream", cell), "--prompt_mode", mode,
                    "--video_channel", f"{channel}_url", "--num_gpus", "1", "--base_port", str(self.port), "--vllm_host", "127.0.0.1",
                    "--reuse_servers", "--workers_per_shard", "1", "--main_nframes", str(self.nframes)]
            jobs.append({"root": self.root, "argv": argv})
        self.server.clear()
        path, log = os.path.join(self.base, "jobs.json"), os.path.join(self.base, "upstream.log")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(jobs, file)
        with open(log, "w", encoding="utf-8") as file:
            command = [sys.executable, os.path.join(self.here, "wire_upstream.py"), self.code, path]
            code = subprocess.run(command, stdout=file, stderr=file, check=False).returncode
        if code:
            with open(log, encoding="utf-8") as file:
                sys.exit(file.read()[-4000:])
        # Two GETs for each job: is the server up, and which model.
        exchanges = self.server.exchanges
        starts = self.server.marks[::2] + [len(exchanges)]
        return [exchanges[a:b] for a, b in zip(starts, starts[1:])]

    def ours(self, cell: tuple, *more: str):
        """The exchanges of a cell by paravt-bench, and how the process ended."""
        split, mode, channel = cell
        folder = self.out("ours", cell)
        shutil.rmtree(folder, ignore_errors=True)
        self.server.clear()
        ran = subprocess.run(
            [self.binary, "run", split, "--data", self.root, "--out", folder, "--profile", self.profile, "--mode", mode, "--protocol",
             "paravt", "--channel", channel, "--concurrency", "1", "--nframes", str(self.nframes), "--model", "scripted",
             "--base-url", f"http://127.0.0.1:{self.port}/v1", "--retry-pause", "0.01", *more],
            env=self.environment, capture_output=True, text=True, check=False,
        )
        return self.server.exchanges, ran

    def outcomes(self, cell: tuple, ran) -> str:
        """`equal`, or which samples and scores are not."""
        theirs = os.path.join(self.out("upstream", cell), f"{cell[0]}.json")
        folder = os.path.join(self.out("ours", cell), cell[0])
        try:
            samples = zip(their_samples(theirs), our_samples(folder), strict=True)
            # A failed request is an error here; the reference takes its message for an answer.
            wrong = [f"sample {n}: {a} / {b}" for n, (a, b) in enumerate(samples) if a != b and not (b is None and a[0] == 0)]
            a, b = upstream_summary(theirs), our_summary(os.path.join(folder, "summary.json"))
        except (OSError, ValueError) as error:
            return f"{error}; exit {ran.returncode}: {ran.stderr[-300:]}"
        wrong += [f"{key}: {a[key]} / {b.get(key)}" for key in a if b.get(key) is None or abs(a[key] - b[key]) > 1e-12]
        return "; ".join(wrong) or "equal"


def compare(args, base: str) -> int:
    wire = Wire(args, base)
    wire.prepare(args.checkout, args.record)
    splits, modes = args.splits.split(","), args.modes.split(",")
    cells = [(split, mode, "image") for mode in modes for split in splits]
    cells += [(split, mode, "video") for mode in modes for split in splits if split in VIDEO_SPLITS]

    started, theirs = time.time(), []
    for start in range(0, len(cells), 7):
        theirs += wire.reference(cells[start : start + 7])
    print(f"reference: {sum(map(len, theirs))} requests in {time.time() - started:.0f} s", flush=True)
    if args.record:
        wire_record.write(wire, cells, theirs, args.nframes)

    started, failed = time.time(), 0
    print(f"{'split':15} {'mode':16} {'channel':7} {'requests':>8} {'equal':>6} {'differ':>6} {'pictures':>8} {'mean':>7} {'max':>4}  results")
    for cell, expected in zip(cells, theirs):
        found, ran = wire.ours(cell)
        expected, found = sent(expected), sent(found)
        lines, levels, equal = [], [], 0
        for number, (a, b) in enumerate(zip(expected, found)):
            here = []
            differences(wire.server.folder, a, b, f"request {number}", here, levels)
            equal += not here
            lines += here
        differ = max(len(expected), len(found)) - equal
        results = wire.outcomes(cell, ran)
        failed += bool(differ) or results != "equal" or not expected
        mean, most = (max(level[0] for level in levels), max(level[1] for level in levels)) if levels else (0, 0)
        split, mode, channel = cell
        print(f"{split:15} {mode:16} {channel:7} {len(expected):8} {equal:6} {differ:6} {len(levels):8} {mean:7.3f} {most:4}  {results}", flush=True)
        for line in lines[:4]:
            print(f"    {line[:500]}")
        if len(expected) != len(found):
            print(f"    {len(expected)} requests / {len(found)}")
    print(f"paravt-bench: {time.time() - started:.0f} s; {failed} of {len(cells)} cells differ")
    if not args.record:
        failed += wire_subagents.differ(wire, (splits[0], "agentic_general", "image"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
