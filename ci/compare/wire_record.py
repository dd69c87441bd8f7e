"""Writes down what the reference's driver sends over the small root, in the stand-in's words.

suite/cli/tests/wire holds the data root and, for each split, mode and channel, one file of exchanges: requests
with their replies, and what became of each sample. Pictures are described: size, JPEG tables, mean colours of
a grid of cells, and one block of pixels where the chroma varies most.
"""
import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import wire_world

HERE = Path(__file__).resolve().parent
TARGET = str(HERE.parents[1] / "suite/cli/tests/wire")
STANDIN = str(HERE.parents[1] / "suite/upstream/tests/standin/paravt.json")
# Cells of the grid in each direction, and pixels of a side of the block.
GRID, BLOCK = 6, 8


def root(binary: str) -> str:
    """The small root; made again where it is not there."""
    folder = os.path.join(TARGET, "root")
    if not os.path.isdir(folder):
        wire_world.make_small(binary, folder)
    return folder


def speak(source: str, code: str) -> None:
    """The reference's code with the stand-in's words."""
    subprocess.run([sys.executable, str(HERE / "wire_words.py"), source, STANDIN, code], check=True)


def store(cache: str) -> None:
    """The protocol of the stand-in's words, as an import would leave it in the cache."""
    folder = os.path.join(cache, "protocol")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(TARGET, "paravt.json"), folder)


def encoding(data: bytes) -> list:
    """Quantisation tables of a JPEG file in the order of their numbers, and (across, down, table) of its components."""
    tables, components, at = {}, [], 2
    while data[at + 1] != 0xDA:
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        body, at = data[at + 4 : at + 2 + length], at + 2 + length
        if kind == 0xDB:
            while body:
                tables[body[0]], body = list(body[1:65]), body[65:]
        elif 0xC0 <= kind <= 0xC2:
            parts = [body[6 + 3 * n : 9 + 3 * n] for n in range(body[5])]
            components = [[part[1] >> 4, part[1] & 15, part[2]] for part in parts]
    return [[tables[number] for number in sorted(tables)], components]


def described(path: str) -> dict:
    """What the file of a picture holds, in few bytes."""
    with open(path, "rb") as file:
        how = encoding(file.read())
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"), dtype=np.float64)
    height, width, _ = pixels.shape
    rows, columns = (np.linspace(0, side, GRID + 1).astype(int) for side in (height, width))
    cells = [pixels[a:b, c:d].mean(axis=(0, 1)) for a, b in zip(rows, rows[1:]) for c, d in zip(columns, columns[1:])]
    top, left = busiest(pixels)
    block = pixels[top : top + BLOCK, left : left + BLOCK]

    def encoded(values):
        return base64.b64encode(np.asarray(values).round().astype(np.uint8).tobytes()).decode()

    return {"size": [width, height], "how": how, "cells": encoded(cells), "at": [left, top], "block": encoded(block)}


def busiest(pixels: np.ndarray) -> tuple:
    """Corner of the block whose chroma varies most."""
    chroma = pixels[..., 2] - pixels[..., 1]
    height, width = (side // BLOCK for side in chroma.shape)
    blocks = chroma[: height * BLOCK, : width * BLOCK].reshape(height, BLOCK, width, BLOCK)
    row, column = np.unravel_index(blocks.std(axis=(1, 3)).argmax(), (height, width))
    return int(row) * BLOCK, int(column) * BLOCK


def write(wire, cells: list, exchanges: list, nframes: int) -> None:
    """One file for each cell, and one of all pictures."""
    names, tables = {}, []
    pictures = []

    def named(value):
        if isinstance(value, dict) and "picture" in value:
            digest = value["picture"]
            if digest not in names:
                found = described(os.path.join(wire.server.folder, digest))
                how = found["how"]
                if how not in tables:
                    tables.append(how)
                names[digest] = len(pictures)
                pictures.append({**found, "how": tables.index(how)})
            return {"picture": names[digest], "as": value["as"]}
        if isinstance(value, dict):
            return {key: named(item) for key, item in value.items()}
        if isinstance(value, list):
            return [named(item) for item in value]
        return value.replace(wire.root, "ROOT") if isinstance(value, str) else value

    for cell, sent in zip(cells, exchanges):
        with open(os.path.join(wire.out("upstream", cell), f"{cell[0]}.json"), encoding="utf-8") as file:
            done = json.load(file)
        keep = ("score", "tool_calls", "pred", "error")
        samples = [{key: row[key] for key in keep if key in row} for row in done["results"]]
        for sample in samples:
            if "error" in sample:
                sample["error"] = True
        lines, before = [], []
        for request, status, body in sent:
            request = named(request)
            messages = request.pop("messages")
            same = 0
            while same < min(len(before), len(messages)) and before[same] == messages[same]:
                same += 1
            # Messages that the request before had too are counted, not written again.
            content = body["choices"][0]["message"]["content"] if status == 200 else body
            lines.append({**request, "same": same, "messages": messages[same:], "status": status, "reply": content})
            before = messages
        split, mode, channel = cell
        save(f"{split}-{mode}-{channel}.json", {"nframes": nframes, "samples": samples, "exchanges": lines})
    save("pictures.json", {"grid": GRID, "block": BLOCK, "how": tables, "pictures": pictures})


def save(name: str, value: dict) -> None:
    """JSON with a line for each entry of a list."""

    def dump(item):
        return json.dumps(item, ensure_ascii=False, separators=(",", ":"))

    parts = []
    for key, item in value.items():
        shown = "[\n" + ",\n".join(map(dump, item)) + "\n]" if isinstance(item, list) else dump(item)
        parts.append(f"{dump(key)}:{shown}")
    with open(os.path.join(TARGET, name), "w", encoding="utf-8") as file:
        file.write("{" + ",\n".join(parts) + "}\n")
