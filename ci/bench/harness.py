"""Throughput of the harness itself: paravt-bench beside the upstream driver's Python path.

    ci/bench/harness.py --upstream CHECKOUT [--videos 6] [--questions 4] [--minutes 2]

Both evaluate the same questions about the same files (64 overview frames each) against the same
local server that answers at once, one after the other on an otherwise idle machine. Printed are
samples per second and CPU seconds per sample (client only), and their ratios.

CHECKOUT is a work tree of EvolvingLMMs-Lab/ParaVT; its driver is imported, nothing of it is kept.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def make_videos(folder: Path, count: int, minutes: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        path = folder / f"v{index}.mp4"
        source = f"testsrc2=size=1280x720:rate=25:duration={minutes * 60}"
        subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-f", "lavfi", "-i", source, "-c:v", "libx264",
                        "-preset", "ultrafast", "-g", "250", "-pix_fmt", "yuv420p", str(path)], check=True)


def make_rows(root: Path, videos: int, questions: int) -> int:
    """LVBench rows: the split whose question text needs nothing else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{
        "video_path": f"v{video}.mp4", "uid": str(video * questions + question),
        "question": f"What is shown at step {question}?\n(A) bars\n(B) a clock\n(C) noise\n(D) text",
        "question_type": ["entity recognition"], "answer": "B", "time_reference": "00:10-00:20",
        "type": "tv", "key": f"k{video}",
    } for video in range(videos) for question in range(questions)]
    (root / "lvbench" / "data").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), root / "lvbench" / "data" / "train-00000-of-00001.parquet")
    return len(rows)


def children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def timed(command: list, env: dict) -> tuple[float, float]:
    before, start = children_cpu(), time.time()
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return time.time() - start, children_cpu() - before


PYTHON_SIDE = """
import sys, json
sys.path.insert(0, sys.argv[1])
from paravt.eval import driver, utils
root, port, workers = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
import pyarrow.parquet as pq, functools
rows = pq.read_table(root + "/lvbench/data/train-00000-of-00001.parquet").to_pylist()
samples = [dict(id=r["uid"], video_path=root + "/lvbench/" + r["video_path"], question=r["question"],
                answer=r["answer"], is_mcq=True) for r in rows]
one = functools.partial(driver.eval_one, prompt_mode="direct")
utils.run_shard(one, 0, 1, port, "instant", samples, 64, 3, workers, root + "/python.json")
done = json.load(open(root + "/python.json"))
assert len(done) == len(samples) and all(r["pred"] == "B" and "error" not in r for r in done), done[:2]
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--videos", type=int, default=6)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--bin", default=os.environ.get("CARGO_TARGET_DIR", "target") + "/release")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_videos(root / "lvbench", args.videos, args.minutes)
        n = make_rows(root, args.videos, args.questions)
        server = subprocess.Popen([f"{args.bin}/examples/instant_server", "0"], stdout=subprocess.PIPE, text=True)
        try:
            base_url = server.stdout.readline().strip()
            port = base_url.split(":")[2].split("/")[0]
            env = dict(os.environ, FORCE_QWENVL_VIDEO_READER="torchcodec")
            python = timed([sys.executable, "-c", PYTHON_SIDE, args.upstream, folder, port, "4"], env)
            ours = timed([f"{args.bin}/paravt-bench", "run", "lvbench", "--profile", "paper", "--mode", "direct",
                          "--base-url", base_url, "--concurrency", "4", "--data", folder, "--out", f"{folder}/run"], env)
            records = [json.loads(line) for line in open(f"{folder}/run/lvbench/journal.jsonl")]
            assert len(records) == n and all(r["score"]["prediction"] == "B" for r in records)
        finally:
            server.kill()
    print(f"{n} samples, {args.videos} videos of {args.minutes} min 1280x720, 64 frames each")
    for name, (wall, cpu) in [("upstream driver", python), ("paravt-bench", ours)]:
        print(f"{name:16} {n / wall:7.2f} samples/s   {cpu / n:7.3f} CPU s/sample   {wall:6.1f} s")
    print(f"ratio            {python[0] / ours[0]:7.1f} x           {python[1] / ours[1]:7.1f} x")


if __name__ == "__main__":
    main()
