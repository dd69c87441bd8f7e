"""The interpreter of one episode. It runs inside the jail and is not trusted after the first line of a model's code.

Standard input is a stream socket, both ways: frames of a big-endian length of four bytes and as many bytes. A request is
one frame of JSON, `{"call", "code"}`. A reply is one frame of JSON and then each new figure as a frame of PNG.
"""

import base64
import io
import json
import math
import os
import struct
import sys
import time
from contextlib import redirect_stdout


HEADER = """
import matplotlib
matplotlib.use('Agg')
import matplotlib.pyplot as plt
from PIL import Image
import io
import base64
import numpy as np
from decord import VideoReader, cpu
_captured_figures = []
_video_support = True

def _internal_capture_plt_figure():
    figure = plt.gcf()
    sides = figure.get_figwidth() * figure.dpi, figure.get_figheight() * figure.dpi
    if max(sides) / min(sides) >= 200:
        raise RuntimeError(f"a figure of {sides[0]:.0f} by {sides[1]:.0f} pixels is too long: ratio 200 or more")
    picture = io.BytesIO()
    plt.savefig(picture, format='png')
    _captured_figures.append(base64.b64encode(picture.getvalue()).decode())
    plt.close()
"""


class Output(io.StringIO):
    """Standard output up to a limit of bytes; the rest is counted and dropped."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.bytes = limit, 0

    def write(self, text):
        room = self.limit - self.bytes
        if room > 0:
            # A character has a byte or more: `clip` makes the exact cut.
            super().write(text[:room])
        self.bytes += len(text.encode("utf-8", "replace"))
        return len(text)


def clip(text, limit):
    """Text of so many bytes of UTF-8 at the most, without lone surrogates."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def run(code, names, setup):
    """Runs code: the reply without its call, and the new figures."""
    output = Output(setup["stdout"])
    before = len(names.get("_captured_figures", []))
    try:
        with redirect_stdout(output):
            exec(code.replace("plt.show()", "_internal_capture_plt_figure()"), names)
    except BaseException as error:  # `exit()` ends a call, not the interpreter.
        sys.modules["matplotlib.pyplot"].close("all")
        return failure(str(error) if isinstance(error, Exception) else type(error).__name__, setup), []
    every = names.get("_captured_figures", [])
    pictures = [base64.b64decode(figure) for figure in every[before:]]
    sent, room = [], setup["figure_bytes"]
    for picture in pictures[: setup["figures"]]:
        room -= len(picture)
        if room < 0:
            break
        sent.append(picture)
    reply = {
        "stdout": clip(output.getvalue(), setup["stdout"]).strip(),
        "stdout_bytes": output.bytes,
        "figures": len(sent),
        "figures_made": len(pictures),
        "figures_total": len(every),
    }
    return reply, sent


def failure(error, setup):
    return {"error": clip(error, setup["error"])}


def open_video(path, names):
    """`video_clue_0`: what is said of it, and no pictures."""
    began = time.monotonic()
    video = names["VideoReader"](path, ctx=names["cpu"](0))
    opened = time.monotonic() - began
    height, width = video[0].asnumpy().shape[:2]
    names["video_clue_0"] = video
    frames, fps = len(video), float(video.get_avg_fps())
    return {"frames": frames, "fps": fps, "width": width, "height": height, "open_seconds": opened}, []


def open_images(medium, names):
    """One variable an image, RGB and through a PNG as in the release; what is said of the first, and the pictures shown."""
    began = time.monotonic()
    # What the release imports for videos alone.
    for name in ("VideoReader", "cpu", "_video_support"):
        names.pop(name, None)
    image = names["Image"]
    images = [image.open(io.BytesIO(as_png(image.open(path).convert("RGB")))) for path in medium["images"]]
    for number, picture in enumerate(images):
        names[f"{medium['variable']}_{number}"] = picture
    opened = time.monotonic() - began
    pictures = []
    if medium["shown"]:
        pictures = [as_png(picture.resize(shown_size(*picture.size, *medium["shown"]))) for picture in images]
        # The release counts the images that the model is shown among its figures.
        names["_captured_figures"] = list(images)
    width, height = images[0].size
    about = {"frames": len(images), "fps": 0.0, "width": width, "height": height, "open_seconds": opened}
    return {**about, "pictures": len(pictures)}, pictures


def as_png(picture):
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()


def shown_size(width, height, least, most, side=28):
    """`smart_resize` of qwen_vl_utils: sides in steps of 28 pixels, the number of pixels within bounds."""
    if max(width, height) / min(width, height) > 200:
        raise ValueError(f"an image of {width} by {height} pixels is too long: ratio above 200")
    wide, high = (max(side, round(edge / side) * side) for edge in (width, height))
    if wide * high > most:
        shrink = math.sqrt(width * height / most)
        wide, high = (math.floor(edge / shrink / side) * side for edge in (width, height))
    elif wide * high < least:
        grow = math.sqrt(least / (width * height))
        wide, high = (math.ceil(edge * grow / side) * side for edge in (width, height))
    return wide, high


def main():
    setup = json.loads(sys.argv[1])
    # bubblewrap's, and nothing that code prints past `sys.stdout` reaches the socket.
    os.closerange(3, 256)
    socket = os.dup(0)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)

    def read(size):
        data = bytearray()
        while len(data) < size:
            part = os.read(socket, min(size - len(data), 1 << 20))
            if not part:
                os._exit(0)
            data += part
        return bytes(data)

    def write(data):
        data = memoryview(struct.pack(">I", len(data)) + data)
        while data:
            data = data[os.write(socket, data):]

    def send(reply):
        write(json.dumps(reply).encode())

    try:
        names = {}
        exec(HEADER, names)
        medium = setup["medium"]
        if "video" in medium:
            about, pictures = open_video(medium["video"], names)
        else:
            about, pictures = open_images(medium, names)
    except Exception as error:
        send(failure(f"{type(error).__name__}: {error}", setup))
        os._exit(1)
    os.dup2(nothing, 2)
    send(about)
    for picture in pictures:
        write(picture)
    while True:
        (size,) = struct.unpack(">I", read(4))
        request = json.loads(read(size))
        try:
            reply, figures = run(request["code"], names, setup)
        except Exception as error:  # No memory for the reply, or names that the code has broken.
            reply, figures = failure(f"{type(error).__name__}: {error}", setup), []
        send({"call": request["call"], **reply})
        for figure in figures:
            write(figure)


main()
