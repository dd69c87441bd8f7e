"""Compares what the reference driver and paravt-bench send to a model server, request by request.

Started by ci/wire. Both run one sample after the other, so the n-th request of one answers to the n-th of
the other. The server answers by a script that depends on nothing but the conversation. Equal means: the
same path and parameters, the same messages in structure and text, as many pictures of the same sizes and
JPEG tables, and pixels that differ by no more than the two decoders' rounding.
"""
import argparse
import base64
import hashlib
import http.server
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

COMMIT = "cf55249e391004b5aafea3f19cf5580d3517cb43"
SPLITS = ["videomme", "videomme_wsub", "longvideobench", "lvbench", "mlvu", "mmvu", "charades"]
MODES = ["direct", "reasoning", "agentic_general", "agentic_minimal"]
VIDEO_SPLITS = ["charades", "lvbench"]
# Levels of 255, mean over a picture. Neighbouring frames of the generated files differ by tens.
TOLERANCE = 1.0
# Replaces some of the generated videos: sizes, rates and lengths of no whole seconds, and a file that ends
# before its index does.
VIDEOS = [
    ("640x360", "24", 1100, []),
    ("426x240", "30000/1001", 941, ["-video_track_timescale", "90000"]),
    ("320x240", "25", 777, ["-video_track_timescale", "12800", "-colorspace", "bt709"]),
    ("480x270", "60", 1511, ["-video_track_timescale", "15360"]),
    ("320x180", "30", 1000, ["-movflags", "+faststart", "-bf", "0"]),
]


def call(**arguments) -> str:
    body = json.dumps({"name": "crop_video", "arguments": {"video_path": "v.mp4", **arguments}})
    return f"<tool_call>\n{body}\n</tool_call>"


def calls(*windows) -> str:
    return "<think>look</think>\n" + "\n".join(call(start_time=a, end_time=b) for a, b in windows)


# Conversations by turn; the last entry answers every later turn.
SCRIPTS = [
    [calls((10, 20), (3, 9.5)), "<think>seen</think><answer>B</answer>"],
    ["<answer>A</answer> between 3.0 - 7.5 seconds"],
    [calls((0, 5)), calls((30, 25), (12, 40)), calls((20, 21)), "C"],
    [calls(*[(2 * n, 2 * n + 3) for n in range(7)]), "The event happens in the 4.2 - 9.9 seconds. Answer: D"],
    [calls((10.01, 10.05), (7.51, 7.53)), calls((1e9, 2e9), (-5, 2)), "<answer>B</answer>"],
    [calls(("00:05", "00:11.5"), (4, 4)), "nothing to see"],
    [call(start=6, end=8) + "<tool_code>crop_video(start_time=3, end_time=5.5)</tool_code>", "12 - 18"],
    [calls((13, 29)), calls((14, 28)), calls((15, 27)), calls((16, 26))],
]


def answer(messages) -> str:
    """The scripted reply: by the question's text and the number of turns so far."""
    first = next(message for message in messages if message["role"] == "user")
    text = first["content"] if isinstance(first["content"], str) else first["content"][-1]["text"]
    script = SCRIPTS[int(hashlib.sha256(text.encode()).hexdigest(), 16) % len(SCRIPTS)]
    turn = sum(message["role"] == "assistant" for message in messages)
    return script[min(turn, len(script) - 1)]


class Server(http.server.ThreadingHTTPServer):
    """Keeps requests in order, pictures on disk under their hash."""

    def __init__(self, folder: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.requests = folder, []
        os.makedirs(folder, exist_ok=True)

    def keep(self, value):
        """The request with each picture replaced by its hash."""
        if isinstance(value, dict):
            return {key: self.keep(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.keep(item) for item in value]
        if isinstance(value, str) and value.startswith("data:"):
            head, data = value.split(",", 1)
            name = hashlib.sha256(data.encode()).hexdigest()
            path = os.path.join(self.folder, name)
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    file.write(base64.b64decode(data))
            return {"picture": name, "as": head}
        return value


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, **self.server.keep(body)})
        text = answer(body["messages"])
        self.reply(
            {
                "id": "1", "object": "chat.completion", "created": 0, "model": "scripted",
                "choices": [
                    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
                ],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        )


def make_world(binary: str, root: str) -> None:
    """The generated data root, a video of every folder kept and the others replaced by harder ones."""
    subprocess.run([binary, "data", "make", "--out", root, "--videos", "3", "--questions", "3"], check=True)
    folders = {}
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if name.endswith(".mp4"):
                folders.setdefault(folder if "MMVU" not in folder else "MMVU", []).append(os.path.join(folder, name))
    number = 0
    for _, paths in sorted(folders.items()):
        for path in sorted(paths)[1:]:
            size, rate, frames, options = VIDEOS[number % len(VIDEOS)]
            number += 1
            # Turned a little further with every frame: no two are alike.
            source = f"testsrc2=size={size}:rate={rate},rotate=n*0.3"
            subprocess.run(
                ["ffmpeg", "-loglevel", "error", "-y", "-f", "lavfi", "-i", source, "-frames:v", str(frames),
                 "-c:v", "libx264", "-preset", "ultrafast", "-threads", "1", "-pix_fmt", "yuv420p", "-g", "120",
                 *options, path],
                check=True,
            )
            if "+faststart" in options:
                with open(path, "r+b") as file:
                    file.truncate(int(os.path.getsize(path) * 0.7))


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


def upstream_summary(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        summary = json.load(file)["summary"]
    keep = ("accuracy", "mIoU", "R@0.3", "R@0.5", "R@0.7", "acc_short", "acc_medium", "acc_long", "avg_tool_calls", "tool_usage_rate")
    return {key: summary[key] for key in keep if key in summary}


def our_summary(path: str) -> dict:
    with open(path, encoding="utf-8") as file:
        summary = json.load(file)
    found = {
        summary["metric"]: summary["value"],
        "avg_tool_calls": summary["tools"]["calls_per_sample"],
        "tool_usage_rate": summary["tools"]["share_with_calls"],
    }
    found.update({f"R@{threshold}": value for threshold, value in summary["recall_at"]})
    for breakdown in summary["breakdowns"]:
        if breakdown["tag"] == "duration":
            found.update({f"acc_{group['label']}": group["value"] for group in breakdown["groups"]})
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--keep")
    parser.add_argument("--splits", default=",".join(SPLITS))
    parser.add_argument("--modes", default=",".join(MODES))
    args = parser.parse_args()
    base = args.keep or tempfile.mkdtemp(prefix="wire")
    os.makedirs(base, exist_ok=True)
    try:
        return compare(args, os.path.abspath(base))
    finally:
        if not args.keep:
            shutil.rmtree(base, ignore_errors=True)


def compare(args, base: str) -> int:
    here = os.path.dirname(os.path.abspath(__file__))
    binary = os.path.abspath(args.binary)
    code, root, cache = (os.path.join(base, name) for name in ("code", "root", "cache"))
    os.makedirs(code, exist_ok=True)
    archive = subprocess.run(
        ["git", "-C", args.checkout, "archive", COMMIT, "paravt/__init__.py", "paravt/eval"], check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", code], input=archive.stdout, check=True)
    if not os.path.isdir(root):
        make_world(binary, root)
    environment = {**os.environ, "PARAVT_BENCH_CACHE": cache, "OPENAI_API_KEY": "EMPTY"}
    environment.pop("OPENAI_BASE_URL", None)
    subprocess.run([binary, "protocol", "import", "--from", args.checkout], check=True, env=environment, stdout=subprocess.DEVNULL)

    server = Server(os.path.join(base, "pictures"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    splits, modes = args.splits.split(","), args.modes.split(",")
    cells = [(split, mode, "image") for mode in modes for split in splits]
    cells += [(split, mode, "video") for mode in modes for split in splits if split in VIDEO_SPLITS]

    def out(side, split, mode, channel):
        return os.path.join(base, side, f"{mode}-{channel}-{split}")

    jobs = [
        {
            "root": root,
            "argv": ["--model_path", "scripted", "--datasets", split, "--output_dir", out("upstream", split, mode, channel),
                     "--prompt_mode", mode, "--video_channel", f"{channel}_url", "--num_gpus", "1", "--base_port", str(port),
                     "--vllm_host", "127.0.0.1", "--reuse_servers", "--workers_per_shard", "1"],
        }
        for split, mode, channel in cells
    ]
    # The n-th group of requests is the n-th job's: the driver asks for the models before each.
    marks = []
    original = Handler.do_GET

    def counted(handler):
        marks.append(len(server.requests))
        original(handler)

    Handler.do_GET = counted
    theirs = []
    started = time.time()
    for start in range(0, len(jobs), 7):
        side_jobs = jobs[start : start + 7]
        path = os.path.join(base, "jobs.json")
        for job in side_jobs:
            shutil.rmtree(job["argv"][5], ignore_errors=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(side_jobs, file)
        server.requests, marks[:] = [], []
        log = os.path.join(base, "upstream.log")
        with open(log, "w", encoding="utf-8") as file:
            command = [sys.executable, os.path.join(here, "wire_upstream.py"), code, path]
            if subprocess.run(command, stdout=file, stderr=file).returncode:
                print(open(log, encoding="utf-8").read()[-4000:])
                return 2
        # Two GETs for each job: is the server up, and which model.
        starts = marks[::2] + [len(server.requests)]
        theirs += [server.requests[a:b] for a, b in zip(starts, starts[1:])]
    Handler.do_GET = original
    print(f"reference: {sum(map(len, theirs))} requests in {time.time() - started:.0f} s")

    started, failed = time.time(), 0
    print(f"{'split':15} {'mode':16} {'channel':7} {'requests':>8} {'equal':>6} {'differ':>6} {'mean':>7} {'max':>4}  scores")
    for (split, mode, channel), expected in zip(cells, theirs):
        folder = out("ours", split, mode, channel)
        shutil.rmtree(folder, ignore_errors=True)
        server.requests = []
        ran = subprocess.run(
            [binary, "run", split, "--data", root, "--out", folder, "--profile", "release", "--mode", mode, "--protocol",
             "paravt", "--channel", channel, "--concurrency", "1", "--model", "scripted", "--base-url",
             f"http://127.0.0.1:{port}/v1"],
            env=environment, capture_output=True, text=True,
        )
        found_all, levels, equal = [], [], 0
        for number, (a, b) in enumerate(zip(expected, server.requests)):
            found = []
            differences(server.folder, a, b, f"request {number}", found, levels)
            equal += not found
            found_all += found
        differ = max(len(expected), len(server.requests)) - equal
        scores = "equal"
        try:
            a = upstream_summary(os.path.join(out("upstream", split, mode, channel), f"{split}.json"))
            b = our_summary(os.path.join(folder, split, "summary.json"))
            wrong = {key: (a[key], b.get(key)) for key in a if b.get(key) is None or abs(a[key] - b[key]) > 1e-12}
            scores = str(wrong) if wrong else "equal"
        except OSError as error:
            scores = f"{error}; exit {ran.returncode}: {ran.stderr[-300:]}"
        failed += bool(differ) or scores != "equal" or not expected
        mean, most = (max(level[0] for level in levels), max(level[1] for level in levels)) if levels else (0, 0)
        print(f"{split:15} {mode:16} {channel:7} {len(expected):8} {equal:6} {differ:6} {mean:7.3f} {most:4}  {scores}", flush=True)
        for line in found_all[:4]:
            print(f"    {line[:500]}")
        if len(expected) != len(server.requests):
            print(f"    {len(expected)} requests / {len(server.requests)}")
    print(f"paravt-bench: {time.time() - started:.0f} s; {failed} of {len(cells)} cells differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
