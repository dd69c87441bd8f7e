"""Encodes and decodes frames with Pillow.

    jpeg.py FOLDER QUALITY

For each NAME-WIDTHxHEIGHT.rgb in FOLDER, the .jpg of the same name is compared with Pillow's own of that frame.
Prints a JSON list, in the order of the names, of {"mean", "largest"} (differences of the decoded pixels, in
levels), "same" (quantisation tables and sampling agree) and "bytes" (sizes of the two files).
"""
import glob
import io
import json
import os
import sys

import numpy as np
from PIL import Image


def main() -> None:
    folder, quality = sys.argv[1], int(sys.argv[2])
    found = []
    for path in sorted(glob.glob(os.path.join(folder, "*.rgb"))):
        width, height = map(int, path[: -len(".rgb")].rsplit("-", 1)[1].split("x"))
        pixels = np.fromfile(path, dtype=np.uint8).reshape(height, width, 3)
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="JPEG", quality=quality)
        file = path[: -len("rgb")] + "jpg"
        theirs, ours = Image.open(buffer), Image.open(file)
        # Sampling and table of each component; their numbers, which no decoder heeds, start at 0 here.
        layers = [[layer[1:] for layer in picture.layer] for picture in (theirs, ours)]
        same = theirs.quantization == ours.quantization and layers[0] == layers[1]
        levels = [np.asarray(picture.convert("RGB"), dtype=np.int16) for picture in (theirs, ours)]
        difference = np.abs(levels[0] - levels[1])
        sizes = [buffer.tell(), os.path.getsize(file)]
        found.append({"mean": float(difference.mean()), "largest": int(difference.max()), "same": same, "bytes": sizes})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
