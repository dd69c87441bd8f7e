"""The data root of the wire comparison: rows and videos that the published files do not contain.

Layout, file names and columns come from `paravt-bench data make`; rows, subtitles and videos are replaced.
Two sizes: `make` fills every split with hard videos; `make_small` is what the recorded requests in
suite/cli/tests/wire were taken from, small enough to be kept beside them.
"""
import glob
import json
import os
import shutil
import struct
import subprocess

import pyarrow
import pyarrow.parquet

# Size, rate, number of frames, encoder options. Lengths of no whole seconds; the last one's file ends before
# its index does.
VIDEOS = [
    ("640x360", "24", 1100, []),
    ("426x240", "30000/1001", 941, ["-video_track_timescale", "90000"]),
    ("320x240", "25", 777, ["-video_track_timescale", "12800", "-colorspace", "bt709"]),
    ("480x270", "60", 1511, ["-video_track_timescale", "15360"]),
    ("320x180", "30", 1000, ["-movflags", "+faststart", "-bf", "0"]),
]
# What the small root has instead: the same traits at a size that a repository can hold.
SMALL = [
    ("72x40", "24", 460, []),
    ("64x48", "30000/1001", 301, ["-video_track_timescale", "90000", "-bf", "2"]),
    ("80x48", "25", 207, ["-video_track_timescale", "12800", "-colorspace", "bt709"]),
]
# Folder, first part of the file name and annotations of each benchmark, from `data make`.
PARQUET = {
    "videomme": "hub/datasets--lmms-eval--Video-MME/**/test-00000-of-00001.parquet",
    "longvideobench": "hub/datasets--longvideobench--LongVideoBench/**/validation-00000-of-00001.parquet",
    "lvbench": "hub/datasets--lmms-eval--LVBench/**/train-00000-of-00001.parquet",
    "mlvu": "hub/datasets--sy1998--MLVU_dev/**/test-00000-of-00001.parquet",
    "charades": "hub/datasets--lmms-eval--charades_sta/**/test-00000-of-00001.parquet",
}
MMVU = "hub/datasets--yale-nlp--MMVU/**/validation.json"


def encode(path: str, size: str, rate: str, frames: int, options: list, small: bool = False) -> None:
    """Writes a video of which no two frames are alike; every part of the picture changes."""
    if small:
        # Tiles of saturated colours whose hue turns with time: cheap to encode, and hard on chroma.
        x, y = "floor(X/9)", "floor(Y/7)"
        tile = f"mod({x}*3+{y}*5,4)"
        source = (
            f"nullsrc=size={size}:rate={rate},format=yuv420p,"
            f"geq=lum='40+48*{tile}+mod(N*3,40)':cb='128+100*sin(1.7*mod({x}*3+{y}*5,4)+N/9)'"
            f":cr='128+100*cos(2.3*mod({x}*3+{y}*5,4)-N/13)'"
        )
        quality = ["-preset", "veryslow", "-crf", "30", "-x264-params", "scenecut=0"]
    else:
        source = f"testsrc2=size={size}:rate={rate},rotate=n*0.3"
        quality = ["-preset", "ultrafast"]
    subprocess.run(
        ["ffmpeg", "-loglevel", "error", "-y", "-f", "lavfi", "-i", source, "-frames:v", str(frames), "-c:v", "libx264",
         *quality, "-threads", "1", "-pix_fmt", "yuv420p", "-g", "120", "-fflags", "+bitexact", *options, path],
        check=True,
    )


def turn(path: str) -> None:
    """Writes a display matrix of 90 degrees into the track header of an mp4 file."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    one, minus, zero, last = (struct.pack(">i", value) for value in (1 << 16, -(1 << 16), 0, 1 << 30))
    track = data.index(b"tkhd")
    at = data.index(b"".join([one, zero, zero, zero, one, zero, zero, zero, last]), track)
    data[at : at + 36] = b"".join([zero, one, zero, minus, zero, zero, zero, zero, last])
    with open(path, "wb") as file:
        file.write(data)


def cut(path: str, share: float) -> None:
    with open(path, "r+b") as file:
        file.truncate(int(os.path.getsize(path) * share))


def sources(folder: str) -> dict:
    """Videos by folder, a benchmark's together."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(".mp4"):
                found.setdefault(place if "MMVU" not in place else "MMVU", []).append(os.path.join(place, name))
    return {key: sorted(paths) for key, paths in sorted(found.items())}


def generate(binary: str, root: str, videos: int, questions: int) -> None:
    command = [binary, "data", "make", "--out", root, "--videos", str(videos), "--questions", str(questions)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def make(binary: str, root: str) -> None:
    """The large root: a generated video of every folder is kept, the others are replaced by harder ones."""
    generate(binary, root, 3, 3)
    for number, (_, hard, last) in enumerate(sources(root).values()):
        size, rate, frames, options = VIDEOS[number % len(VIDEOS)]
        encode(hard, size, rate, frames, options)
        if "+faststart" in options:
            cut(hard, 0.7)
        odd(last, number)
    harden(root)


def odd(path: str, number: int) -> None:
    """What no reader likes: a turned picture, times that jump, too few frames, one frame, no video."""
    kind = number % 6  # one for each benchmark
    if kind == 0:
        encode(path, "320x180", "24", 500, [])
        turn(path)
    elif kind == 1:
        encode(path, "256x144", "30", 700, ["-vf", "select='not(mod(n\\,7))+mod(floor(n/50)\\,2)'", "-vsync", "vfr"])
    elif kind == 2:
        encode(path, "256x144", "10", 40, [])
    elif kind == 3:
        encode(path, "256x144", "25", 1, [])
    elif kind == 4:
        with open(path, "wb") as file:
            file.write(b"no video\n" * 200)
    else:
        encode(path, "320x180", "24", 300, ["-bf", "3", "-x264-params", "open-gop=1:keyint=40:scenecut=0"])


def make_small(binary: str, root: str) -> None:
    """The small root: one video of each kind for all benchmarks, one to a benchmark's question."""
    generate(binary, root, 3, 2)
    made = []
    for number, (size, rate, frames, options) in enumerate(SMALL):
        made.append(os.path.join(root, f"{number}.mp4"))
        encode(made[-1], size, rate, frames, options, small=True)
    for paths in sources(root).values():
        for path in paths:
            if path in made:
                continue
            os.remove(path)
    for folder, prefix in [("videomme/data", "nanoMME_"), ("datasets/longvideobench/videos", "nanoLVB_"), ("lvbench", "nanoLV_"),
                           ("MLVU/video", "nanoML_"), ("charades_sta/Charades_v1_480", "NANO")]:
        for number, path in enumerate(made):
            place(path, os.path.join(root, folder, f"{prefix}{number}.mp4"))
    rows = json.load(open(annotations(root, MMVU), encoding="utf-8"))
    for row in rows:
        inside = row["video"].split("/main/", 1)[1]
        number = int(os.path.splitext(os.path.basename(inside))[0])
        place(made[number], os.path.join(os.path.dirname(annotations(root, MMVU)), inside))
    for path in made:
        os.remove(path)
    harden(root)


def place(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)


def annotations(root: str, pattern: str) -> str:
    (path,) = glob.glob(os.path.join(root, pattern), recursive=True)
    return path


LONG = "a very long option, " * 120 + "and its end"
HARD = "What of {question} and {{braces}}, \"quotes\", 'others', \\ a backslash,\ttabs,\nline ends, é, 漢字, 🙂 and a final  blank? "


def harden(root: str) -> None:
    """Changes rows: gaps in options, blanks around answers, long and empty options, marks of other languages."""

    def change(split, edit):
        path = annotations(root, PARQUET[split])
        table = pyarrow.parquet.read_table(path)
        rows = table.to_pylist()
        edit(rows)
        schema = pyarrow.schema([field.with_nullable(True) for field in table.schema])
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)

    def videomme(rows):
        rows[0]["question"] = HARD
        rows[0]["options"] = [*rows[0]["options"][:2], LONG, "", "E. fifth", "F. sixth"]
        rows[1]["answer"] = f"{rows[1]['answer']} "
        rows[2]["question"] = "Whose is the Path? And the Video Path?"
        rows[3]["options"] = []
        rows[4]["answer"] = ""

    def longvideobench(rows):
        rows[0].update(option0="one", option1="N/A", option2="three", option3="", option4="five", correct_choice=2)
        rows[1].update(question=HARD, option2=None, correct_choice=7)
        rows[2].update(option1=" N/A", option2="n/a", option4=LONG, correct_choice=-1)

    def lvbench(rows):
        rows[0]["question"] = HARD + "\n(A) one\n(B) two"
        rows[1]["answer"] = " A"
        rows[2]["answer"] = "Z"

    def mlvu(rows):
        rows[0]["answer"] = f" {rows[0]['candidates'][1]}\n"
        rows[1]["candidates"] = ["same", "same ", "other", LONG, "E", "F", "G", "H", "I", "J", "K"]
        rows[1]["answer"] = "same"
        rows[2]["question"] = HARD

    def charades(rows):
        rows[0]["caption"] = HARD
        rows[1]["caption"] = "the PATH and the VIDEO path of a person"
        rows[2]["timestamp"] = rows[2]["timestamp"][::-1]

    for split, edit in [("videomme", videomme), ("longvideobench", longvideobench), ("lvbench", lvbench), ("mlvu", mlvu),
                        ("charades", charades)]:
        change(split, edit)

    path = annotations(root, MMVU)
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)
    rows[0]["choices"] = {"E": "fifth", "A": "first", "C": "", "B": None, "D": "fourth"}
    rows[0]["answer"] = "E "
    rows[1]["choices"] = {"b": "small", "B": "large", "A": LONG}
    rows[3]["question"] = HARD
    rows[3]["answer"] = "\tB\n"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file, ensure_ascii=False)

    subtitles = os.path.join(root, "videomme", "subtitle")
    texts = [
        b"\xef\xbb\xbf1\r\n00:00:01,000 --> 00:00:02,000\r\n<font color=\"white\">with a mark</font>\r\n\r\n"
        b"2\r\n00:00:03,000 --> 00:00:04,000\r\nof two \r\n lines, \xff\xfebad bytes \xe2\x82\r\n\r\n"
        b"3\r\n00:00:05,000 --> 00:00:06,000\r\n<i>\r\n\r\n4\r\n00:00:07,000 --> 00:00:08,000\r\n\r\n"
        b"no index\r\n00:00:09,000 --> 00:00:10,000\r\n \t \r\n5\r\n00:00:09,000 --> 00:00:10,000\r\nlast <b>one</b>\x0bof all",
        b"1\r00:00:01,000 --> 00:00:02,000\rold line ends\r\r2\r00:00:01,000 --> 00:00:02,000\rthe path, the video path\x1c\x85\xc2\x85\r",
    ]
    for number, text in enumerate(texts):
        with open(os.path.join(subtitles, f"nanoMME_{number}.srt"), "wb") as file:
            file.write(text)
