"""Resizes and codes images with Pillow and OpenCV.

    resample.py FOLDER

For each NAME-WIDTHxHEIGHT.rgb in FOLDER, the files NAME-WIDTHxHEIGHT-FILTER-WIDTHxHEIGHT.out (filters lanczos, bicubic,
cubic, area, jpeg75, cv95) are compared with what Pillow and OpenCV make of the same image. Prints a JSON list of {"file",
"largest", "differing"}: the largest difference in levels, and the number of values that differ.
"""

import io
import json
import sys
from pathlib import Path

import cv2
import numpy as np
from PIL import Image


def size_of(text):
    width, height = text.split("x")
    return int(width), int(height)


def made(name, image, size):
    if name == "lanczos":
        return np.asarray(Image.fromarray(image).resize(size, Image.LANCZOS))
    if name == "bicubic":
        # Without a filter: Pillow's default.
        return np.asarray(Image.fromarray(image).resize(size))
    if name == "cubic":
        return cv2.resize(image, size, interpolation=cv2.INTER_CUBIC)
    if name == "area":
        return cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    if name == "cv95":
        file = cv2.imencode(".jpg", image[:, :, ::-1])[1].tobytes()
    else:
        buffer = io.BytesIO()
        # Without a quality: Pillow's default.
        Image.fromarray(image).save(buffer, format="JPEG")
        file = buffer.getvalue()
    return np.asarray(Image.open(io.BytesIO(file)))


def main():
    found = []
    for path in sorted(Path(sys.argv[1]).glob("*.out")):
        stem, name, to = path.stem.rsplit("-", 2)
        width, height = size_of(stem.rsplit("-", 1)[1])
        image = np.fromfile(path.with_name(f"{stem}.rgb"), dtype=np.uint8).reshape(height, width, 3)
        theirs = made(name, image, size_of(to)).astype(np.int16)
        ours = np.fromfile(path, dtype=np.uint8).reshape(theirs.shape)
        difference = np.abs(ours - theirs)
        found.append({"file": path.name, "largest": int(difference.max()), "differing": int((difference > 0).sum())})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
