"""Encodes and decodes frames with Pillow.

    jpeg.py FOLDER WIDTH HEIGHT QUALITY COUNT

For N below COUNT, FOLDER/N.rgb holds a frame and FOLDER/N.jpg a file to compare with Pillow's own of that
frame. Prints a JSON list of {"mean", "largest"} (differences of the decoded pixels, in levels) and "same"
(quantisation tables and sampling agree).
"""
import io
import json
import sys

import numpy as np
from PIL import Image


def main() -> None:
    folder, width, height, quality, count = sys.argv[1], *map(int, sys.argv[2:])
    found = []
    for number in range(count):
        pixels = np.fromfile(f"{folder}/{number}.rgb", dtype=np.uint8).reshape(height, width, 3)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="JPEG", quality=quality)
        theirs, ours = Image.open(buffer), Image.open(f"{folder}/{number}.jpg")
        # Sampling and table of each component; their numbers, which no decoder heeds, start at 0 here.
        layers = [[layer[1:] for layer in picture.layer] for picture in (theirs, ours)]
        same = theirs.quantization == ours.quantization and layers[0] == layers[1]
        levels = [np.asarray(picture.convert("RGB"), dtype=np.int16) for picture in (theirs, ours)]
        difference = np.abs(levels[0] - levels[1])
        found.append({"mean": float(difference.mean()), "largest": int(difference.max()), "same": same})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
