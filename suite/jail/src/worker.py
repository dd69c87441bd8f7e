"""The interpreter of one episode. It runs inside the jail and is not trusted after the first line of a model's code.

Standard input is a stream socket, both ways: frames of a big-endian length of four bytes and as many bytes. A request is
one frame of JSON, `{"call", "code"}`. A reply is one frame of JSON and then each new figure as a frame of PNG.
"""

import base64
import io
import json
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
        began = time.monotonic()
        video = names["VideoReader"](setup["video"], ctx=names["cpu"](0))
        opened = time.monotonic() - began
        height, width = video[0].asnumpy().shape[:2]
    except Exception as error:
        send(failure(f"{type(error).__name__}: {error}", setup))
        os._exit(1)
    names["video_clue_0"] = video
    os.dup2(nothing, 2)
    frames, fps = len(video), float(video.get_avg_fps())
    send({"frames": frames, "fps": fps, "width": width, "height": height, "open_seconds": opened})
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
