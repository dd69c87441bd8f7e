"""Samples and messages in the form in which the scripts of ci/compare/agents.py compare them."""
import contextlib
import dataclasses
import glob
import io
import os
import subprocess

import numpy as np
from PIL import Image


@dataclasses.dataclass
class Video:
    """Frames of one video part: levels (time, height, width, 3), their indices, frames a second of the sample, and where the
    model is given other positions the indices in the video."""
    frames: np.ndarray
    indices: list
    fps: float
    picked: list = None


def video(data: str, sample: dict) -> str:
    """The file of a sample, found by its name below the data."""
    name = os.path.basename(sample["video"])
    found = [path for path in glob.glob(os.path.join(data, "**", name), recursive=True) if os.path.isfile(path)]
    benchmark = sample["video"].split("/")[0]
    near = [path for path in found if benchmark.replace("-", "").lower() in path.replace("-", "").replace("_", "").lower()]
    return sorted(near or found)[0]


def picture(path_or_image) -> tuple:
    opened = Image.open(path_or_image) if isinstance(path_or_image, str) else path_or_image
    return np.asarray(opened.convert("RGB")), opened.format


def lettered(sample: dict, form: str = "{}. {}") -> list:
    question = sample["question"]
    return [form.format(letter, option) for letter, option in zip(question["letters"], question["options"])]


def message(one: dict, media) -> dict:
    """A message in the form that is compared: texts and pictures in order. `media` reads images and videos."""
    content, plain = one["content"], isinstance(one["content"], str)
    parts = [content] if plain else [part["text"] if part["type"] == "text" else media(part) for part in content]
    return {"role": one["role"], "parts": parts, "plain": plain}


def interval(sample: dict) -> list:
    gold = sample["gold"]
    return [gold["start"], gold["end"]] if "start" in gold else gold["interval"]


@contextlib.contextmanager
def quietly(folder: str):
    before = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        os.chdir(before)


def encode(path: str, before: list, after: list) -> None:
    """Replaces a video by what ffmpeg makes of it, with options of the input and of the output."""
    new = f"{path}.new.mp4"
    subprocess.run(["ffmpeg", "-v", "error", *before, "-i", path, *after, "-c:v", "libx264", "-preset", "ultrafast",
                    "-pix_fmt", "yuv420p", "-an", new], check=True)
    os.replace(new, path)
