"""Frame sampling beside torchcodec and decord (through qwen-vl-utils), in one run.

    ci/bench/media.py [--dir DIR] [--seconds 3600] [--runs 3]

Makes a 640x360 H.264 file of an hour with a key frame every 250 frames (kept in DIR, if given), then
times 64 overview frames and a crop of 10 s as whole processes of `paravt-bench frames` and as
function calls of the Python readers (imports not counted). Printed are the fastest of the runs,
ratios, and our peak memory.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PEER = """
import os, sys, time
os.environ["FORCE_QWENVL_VIDEO_READER"] = sys.argv[1]
from qwen_vl_utils.vision_process import fetch_video
ele = dict(type="video", video="file://" + sys.argv[2])
crop = dict(fps=1, min_frames=1, max_frames=16, min_pixels=784, max_pixels=50176, video_start=1800.0, video_end=1810.0)
for name, extra in [("overview", dict(nframes=64)), ("crop", crop)]:
    times = []
    for _ in range(int(sys.argv[3])):
        start = time.time(); fetch_video({**ele, **extra}); times.append(time.time() - start)
    print(name, min(times))
"""


def make(path: Path, seconds: int) -> None:
    if path.exists():
        return
    part = path.with_suffix(".part.mp4")
    source = f"testsrc2=size=640x360:rate=30:duration={seconds}"
    subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-f", "lavfi", "-i", source, "-c:v", "libx264", "-preset",
                    "veryfast", "-g", "250", "-pix_fmt", "yuv420p", str(part)], check=True)
    part.rename(path)


def peer(reader: str, video: Path, runs: int) -> dict:
    out = subprocess.run([sys.executable, "-c", PEER, reader, str(video), str(runs)], check=True, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return {name: float(value) for name, value in (line.split() for line in out.splitlines())}


def ours(binary: str, video: Path, runs: int, out: str) -> tuple[dict, int]:
    """Whole processes less nothing: start, index, decoding, and writing the PNG files are all in it."""
    found, peak = {}, 0
    for name, flags in [("overview", ["--nframes", "64"]),
                        ("crop", ["--fps", "1", "--min-frames", "1", "--max-frames", "16", "--start", "1800",
                                  "--end", "1810", "--min-pixels", "784", "--max-pixels", "50176"])]:
        times = []
        for _ in range(runs):
            command = ["/usr/bin/env", "time", "-f", "%M", binary, "frames", str(video), *flags, "--out", out]
            result = subprocess.run(command, check=True, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            peak = max(peak, int(result.stderr.split()[-1]))
            text = Path(out, "frames.json").read_text()
            times.append(float(re.search(r'"seconds": ([0-9.e-]+)', text).group(1)))
        found[name] = min(times)
    return found, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--bin", default=os.environ.get("CARGO_TARGET_DIR", "target") + "/release/paravt-bench")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        video = Path(args.dir or scratch) / f"gop250_{args.seconds}s.mp4"
        make(video, args.seconds)
        mine, peak = ours(args.bin, video, args.runs, scratch)
        peers = {reader: peer(reader, video, args.runs) for reader in ("torchcodec", "decord")}
    print(f"{args.seconds} s of 640x360 H.264, GOP 250, {os.cpu_count()} cores; fastest of {args.runs} runs, seconds")
    for name in ("overview", "crop"):
        row = "  ".join(f"{reader} {values[name]:.2f} ({values[name] / mine[name]:.1f}x)" for reader, values in peers.items())
        print(f"{name:9} paravt-bench {mine[name]:.2f}  {row}")
    print(f"peak memory of paravt-bench: {peak / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
