"""Samples videos with the real qwen-vl-utils (torchcodec reader).

    reference.py CASES.json OUT

CASES is a list of {"video", "patch", "ele"}. For case N, OUT/N.json holds indices and the shape
(frames, height, width) or {"raises": ...}; OUT/N.rgb holds the pixels, (frames, height, width, 3) bytes.
"""
import json
import os
import sys

os.environ["FORCE_QWENVL_VIDEO_READER"] = "torchcodec"

import numpy as np
from qwen_vl_utils.vision_process import fetch_video


def floats(ele: dict) -> dict:
    """JSON has no NaN or infinity: they come as texts."""
    return {key: float(value) if value in ("nan", "inf", "-inf") else value for key, value in ele.items()}


def main() -> None:
    cases, out = json.load(open(sys.argv[1])), sys.argv[2]
    for number, case in enumerate(cases):
        try:
            ele = {"type": "video", "video": f"file://{case['video']}", **floats(case["ele"])}
            frames, meta = fetch_video(ele, image_patch_size=case["patch"], return_video_metadata=True)
            pixels = frames.permute(0, 2, 3, 1).numpy().astype(np.uint8)
            pixels.tofile(f"{out}/{number}.rgb")
            result = {"indices": [int(i) for i in meta["frames_indices"]], "shape": list(pixels.shape[:3])}
        except Exception as error:  # noqa: BLE001: whatever it raises is the expected outcome
            result = {"raises": f"{type(error).__name__}: {error}"[:300]}
        with open(f"{out}/{number}.json", "w") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
