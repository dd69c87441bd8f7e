"""Samples videos with the real qwen-vl-utils (torchcodec reader, and the torchvision one behind it).

    reference.py CASES.json OUT

CASES is a list of {"video", "patch", "ele"}. For case N, OUT/N.json holds {"raises": ...}, or the shape
(frames, height, width), the frame rate that the reader saw, and "indices" (torchcodec) or "times" (torchvision,
microseconds from the first frame); OUT/N.rgb holds the pixels, (frames, height, width, 3) bytes.
"""
import json
import os
import sys

os.environ["FORCE_QWENVL_VIDEO_READER"] = "torchcodec"

import numpy as np
import torchvision
from qwen_vl_utils.vision_process import fetch_video

# Time stamps of the frames that the second reader chose from, in seconds.
WINDOW: list = []


def note_window() -> None:
    """Keeps what torchvision's reader returns, where the release still has one."""
    module = getattr(torchvision.io, "video", None)
    original = getattr(module, "_read_from_stream", None)
    if original is None:
        return

    def noting(container, start, end, unit, stream, name):
        frames = original(container, start, end, unit, stream, name)
        if stream.type == "video":
            WINDOW[:] = [frame.pts * stream.time_base for frame in frames]
        return frames

    module._read_from_stream = noting


def first_time(path: str):
    """Time stamp of a file's first frame that is shown, in seconds."""
    import av

    first = None
    with av.open(path) as container:
        stream = container.streams.video[0]
        try:
            for packet in container.demux(stream):
                if packet.pts is not None and not packet.is_discard and (first is None or packet.pts < first):
                    first = packet.pts
        except av.FFmpegError:
            pass
        return first * stream.time_base


def floats(ele: dict) -> dict:
    """JSON has no NaN or infinity: they come as texts."""
    return {key: float(value) if value in ("nan", "inf", "-inf") else value for key, value in ele.items()}


def main() -> None:
    note_window()
    cases, out = json.load(open(sys.argv[1])), sys.argv[2]
    for number, case in enumerate(cases):
        try:
            ele = {"type": "video", "video": f"file://{case['video']}", **floats(case["ele"])}
            frames, meta = fetch_video(ele, image_patch_size=case["patch"], return_video_metadata=True)
            pixels = frames.permute(0, 2, 3, 1).numpy().astype(np.uint8)
            pixels.tofile(f"{out}/{number}.rgb")
            indices = [int(i) for i in meta["frames_indices"]]
            result = {"shape": list(pixels.shape[:3]), "fps": float(meta["fps"])}
            if meta["video_backend"] == "torchvision":
                first = first_time(case["video"])
                result["times"] = [round(float(WINDOW[i] - first) * 1e6) for i in indices]
            else:
                result["indices"] = indices
        except Exception as error:  # noqa: BLE001: whatever it raises is the expected outcome
            result = {"raises": f"{type(error).__name__}: {error}"[:300]}
        with open(f"{out}/{number}.json", "w") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
