"""Random inputs through functions of agents' and benchmarks' own code, and through paravt-bench. Called by ci/protocols.

A source is read from git at its pinned commit, the functions are taken out of its syntax tree, and what they need of
videos and images is replaced by objects that only say which frames and sizes they were asked for.
"""

import argparse
import ast
import asyncio
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np

COMMITS = {
    "Conan": ("OuyangKun10", "b4805ae8ae746dccf6d1aea7a2dc46d416368692"),
    "VideoZoomer": ("zsgvivo", "56381538bbde43d6d3417b54f727784958a4e316"),
    "EfficientVideoAgent": ("wangruohui", "758ad8d3dcb84a8086e5d70c9afb9a6f278e8f5a"),
    "Video-R1": ("tulerfeng", "59d65c347e44efa71be27abf9d89b4a2bb7d1c05"),
    "VideoRFT": ("QiWang98", "bba609969e66c66e152b15399488f0ad94051e3a"),
    "time-r1": ("xiaomi-research", "7f2b5944a0c35993da80634a459d5a48a3a5431e"),
    "VideoChat-R1": ("OpenGVLab", "73b2ea9ac83ad5c0bcd893bffd1cbb2e7c167068"),
    "FrameThinker-RL": ("lcqysl", "3c917f3a7d311e91ae2ac1ebdb30723850e4508e"),
    "LongVT": ("EvolvingLMMs-Lab", "08d755b973e4ad990ac5cdd64fb992c804d840db"),
    "Video-o3-Qwen3VL": ("ZZQ987", "a6e0973c6e5c8a8478c9ea7aa05304dfa247b2ea"),
    "SAGE": ("allenai", "b5d9c932b25fcbdbb80e7ae9ffb0cd741308bee8"),
    "lmms-eval": ("EvolvingLMMs-Lab", "75571cfe0fa36ca5ec2e6aa2bb268f9d38295af3"),
    "thinking-in-space": ("vision-x-nyu", "51e089c3ae69b9435e9489058610f5b3964c56a8"),
}


class Source:
    """One file of a repository: its functions and parts of them, each run in a namespace of its own."""

    def __init__(self, checkouts, repository, path):
        _, commit = COMMITS[repository]
        text = subprocess.run(
            ["git", "-C", checkouts / repository, "show", f"{commit}:{path}"], check=True, capture_output=True
        ).stdout.decode()
        self.tree = ast.parse(text)

    def node(self, name):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return next(node for node in ast.walk(self.tree) if isinstance(node, kinds) and node.name == name)

    def functions(self, *names, **namespace):
        """The functions, which see each other and the namespace."""
        space = {"re": re, "np": np, "json": json, "math": math, "ast": ast, "print": lambda *_, **__: None, **namespace}
        for name in names:
            node = self.node(name)
            node.decorator_list, node.returns = [], None
            for argument in node.args.args + node.args.kwonlyargs:
                argument.annotation = None
            exec(compile(ast.Module([node], []), name, "exec"), space)
        return space

    def part(self, function, wanted):
        """The first statement or expression within a function for which `wanted` holds."""
        return next(node for node in ast.walk(self.node(function)) if wanted(node))


def run(node, **space):
    """Runs a statement (or statements) and returns the names it leaves."""
    space = {"re": re, "json": json, "print": lambda *_, **__: None, **space}
    exec(compile(ast.Module(node if isinstance(node, list) else [node], []), "part", "exec"), space)
    return space


def mentions(node, name):
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))


# --- inputs -------------------------------------------------------------------------------------------------------

ODD = [" ", "  ", "\n", "\n\n", "\t", "\u00a0", "\u3000", "\x1c", "\x1f", "\u0301", "²", "٣", "５", "é", "你", ".", ",", "!"]
LETTERS = list("ABCDEFGHIJKLMZabcdh")


def pick(rng, fragments, most=9):
    """A text of fragments, odd ones among them."""
    pieces = [rng.choice(ODD if rng.random() < 0.15 else fragments) for _ in range(rng.randint(0, most))]
    text = "".join(pieces)
    if text and rng.random() < 0.1:
        at = rng.randrange(len(text))
        text = text[:at] + text[at + 1 :]
    return text


def answers(rng):
    words = ["The answer is ", "The best answer is", "Best answer:", "Final Answer:", "Option:", "answer", "Answer: "]
    words += ["I choose ", "(", ")", ". ", ":", "-", "_", "=", "1. ", "2. ", "<answer>", "</answer>", "\\boxed{", "}", "{"]
    words += ["one two three four five six seven eight nine ten eleven ", "red hat", "İ the answer ", "12", "3.5", " .\n"]
    return pick(rng, words + LETTERS, 10)


def number(rng):
    kind = rng.random()
    if kind < 0.4:
        return str(rng.randint(0, 400))
    if kind < 0.8:
        return f"{rng.uniform(0, 400):.{rng.randint(1, 3)}f}"
    return rng.choice(["1.", ".5", "007", "1_0", "-3", "+4", "1e3", "nan", "inf", "1,000", "٣", "", "x", "9" * 30])


def stamp(rng):
    seconds = rng.choice([rng.randint(0, 700), rng.randint(0, 40), rng.randint(0, 8000)])
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


RATES = [1.0, 23.976023976023978, 24.0, 25.0, 29.97, 29.97002997002997, 30.0, 50.0, 59.94, 60.0, 0.5, 12.345]


def side(rng):
    return rng.choice([rng.randint(1, 2200), rng.choice([28, 224, 360, 448, 480, 640, 720, 1080, 1280, 1920])])


# --- authors' functions -------------------------------------------------------------------------------------------

class Frames:
    """A video that notes the frames it is asked for."""

    def __init__(self, total, fps, size=(2, 2)):
        self.total, self.fps, self.size, self.asked = total, fps, size, []

    def __call__(self, *_, **__):
        return self

    def __len__(self):
        return self.total

    def get_avg_fps(self):
        return self.fps

    def get_batch(self, indices):
        self.asked = [int(index) for index in indices]
        shape = (min(len(self.asked), 1) or 1, self.size[1], self.size[0], 3)
        frames = np.zeros(shape, dtype=np.uint8)
        frames = np.broadcast_to(frames[:1], (len(self.asked), *shape[1:])) if self.size == (2, 2) else frames
        return SimpleNamespace(asnumpy=lambda: frames)

    def seek(self, _):
        pass


class Image:
    """Pillow's place: notes the size that an image is reduced to."""

    LANCZOS = None

    def __init__(self):
        self.size = None

    def fromarray(self, array):
        self.size = [array.shape[1], array.shape[0]]
        return self

    def resize(self, size, _):
        self.size = list(size)
        return self

    def open(self, _):
        raise FileNotFoundError


def conan(checkouts, rng, count):
    io = Source(checkouts, "Conan", "Conan-Eval/video_io.py").functions("uniform_sample_idx", "idx_to_timestamp")
    video = SimpleNamespace(now=None)
    utils = Source(checkouts, "Conan", "Conan-Eval/utils.py").functions(
        "_to_seconds", "extract_timestamps", "clips_to_frame_indices", "identify_clip", "identify_replay", "extract_answer",
        "extract_characters", load_video=lambda _: video.now, List=list, Tuple=tuple,
    )
    gold = Source(checkouts, "Conan", "Conan-Eval/videomme.py").functions(
        "eval_gt", extract_answer=utils["extract_answer"], extract_characters=utils["extract_characters"]
    )

    def letter(reply):
        found = []
        space = gold["eval_gt"].__globals__
        space["extract_characters"] = lambda text: found.append(utils["extract_characters"](text)) or found[0]
        gold["eval_gt"](reply, "A")
        return found[0] if found else None

    clip_words = ["<clip>", "</clip>", " - ", "-", ", ", "0:00:10", "00:00:20", "1:61:99", "٠٠:00:10", "00:05"]
    for _ in range(count):
        total, most = rng.choice([rng.randint(1, 60), rng.randint(1, 20000)]), rng.choice([16, 8, 1, 64])
        yield "conan_overview", {"total": total, "max": most}, {"indices": io["uniform_sample_idx"](total, most)}
        fps = rng.choice(RATES)
        index = rng.randint(0, 400000)
        yield "conan_stamps", {"index": index, "fps": fps}, {"stamp": io["idx_to_timestamp"](index, fps)}
        total = rng.choice([rng.randint(1, 60), rng.randint(1, 3000)])
        shown = io["uniform_sample_idx"](total, 16) if rng.random() < 0.8 else []
        clips = [[stamp(rng), stamp(rng)] for _ in range(rng.choice([1, 1, 2, 3, 5, 7, 9]))]
        if rng.random() < 0.3:
            clips = [[io["idx_to_timestamp"](at, 1.0) for at in (start, start + 10)] for start in range(0, 10 * len(clips), 10)]
        case = {"total": total, "fps": fps, "clips": clips, "max_frames": 8}
        case["history"] = [io["idx_to_timestamp"](index, fps) for index in shown]
        video.now = (range(total), fps)
        indices = utils["clips_to_frame_indices"]("", [tuple(clip) for clip in clips], 8, case["history"])
        yield "conan_clips", case, {"indices": [int(index) for index in indices]}
        reply = pick(rng, clip_words + [stamp(rng) for _ in range(4)], 8)
        reply = reply + answers(rng) if rng.random() < 0.5 else f"<clip>{reply}</clip>{answers(rng)}"
        replay, pairs = utils["identify_replay"](reply)
        found = {"replay": replay, "clips": pairs or [], "letter": letter(reply)}
        yield "conan_replies", {"text": reply}, found


def conan_sizes(checkouts, rng, count):
    source = Source(checkouts, "Conan", "Conan-Eval/video_io.py")
    block = source.part("save_video_frames", lambda node: isinstance(node, ast.If) and "IsNot" in ast.dump(node.test))
    for _ in range(count):
        width, height = side(rng), side(rng)
        image = Image().fromarray(np.broadcast_to(np.uint8(0), (height, width, 3)))
        run(block, image=image, max_len=448, width=width, height=height, Image=Image)
        yield "conan_sizes", {"w": width, "h": height}, {"size": image.size}


def json_text(rng):
    """What a model may write for a call, half of it as it should."""
    if rng.random() < 0.5:
        start, rate = rng.choice([rng.randint(0, 300), round(rng.uniform(0, 300), 2)]), rng.choice(["1", "2.0", '"4"', "fine"])
        return f'{{"segment": [{start}, {start + rng.randint(0, 9)}], "fps": {rate}}}'
    values = [number(rng), f'"{number(rng)}"', "null", "true", "[]", '"', '""', "{}", "NaN", "-Infinity", "1" * 400, '"\\u00e9\'"']
    item = lambda: rng.choice([number(rng)] * 4 + values)
    pair = lambda: f"[{item()}, {item()}]"
    fields = [f'"segment": {rng.choice([pair(), pair(), pair(), item(), f"[{item()}]"])}', f'"fps": {item()}']
    if rng.random() < 0.2:
        fields.append(f'"{rng.choice(["x", "segment", "é"])}": {item()}')
    rng.shuffle(fields)
    text = "{" + rng.choice([", ", ", ", ",\n", ",,", " "]).join(fields[: rng.choice([3, 3, 3, 1])]) + "}"
    if rng.random() < 0.15:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", "'", '"', "\\", "\t", "}"]) + text[at + 1 :]
    return text


def videozoomer(checkouts, rng, count, mathruler):
    tools = Source(checkouts, "VideoZoomer", "verl/workers/rollout/vllm_rollout/function_tools.py")
    read = tools.functions("prepare_tool_call_inputs_video")["prepare_tool_call_inputs_video"]
    system = SimpleNamespace(path=SimpleNamespace(exists=lambda _: True, join=os.path.join), environ={})
    extract = tools.functions("extract_video_clip", os=system, time=__import__("time"), cpu=lambda _: None)
    engine = Source(checkouts, "VideoZoomer", "verl/workers/rollout/vllm_rollout/vllm_async_engine.py")
    asked, prompts = [], []
    clip = lambda **call: asked.append(call) or {"frame_time": [], "frames": []}
    process = engine.functions(
        "process_tool_call", prepare_tool_call_inputs_video=read, extract_video_clip=clip, torch=SimpleNamespace(zeros=lambda *_, **__: None)
    )["process_tool_call"]
    is_pattern = lambda node: isinstance(node, ast.Assign) and mentions(node.targets[0], "pattern")
    pattern = run(engine.part("_async_rollout_a_request", is_pattern))["pattern"]
    agent = SimpleNamespace(
        tokenizer=SimpleNamespace(encode=lambda text: prompts.append(text) or []),
        config=SimpleNamespace(rollout=SimpleNamespace(data_max_pixels=0, data_min_pixels=0, tool_call_max_frames=16)),
    )

    def call(reply):
        contents = pattern.findall(reply)
        if not contents:
            return {"call": None}
        asked.clear()
        prompts.clear()
        state = {"prompt_token_ids": [], "multi_modal_data": {"image": []}}
        process(agent, state, contents, reply, [SimpleNamespace(dtype=None, device=None)], 0, 5, "v.mp4")
        if asked:
            return {"call": [asked[0]["start_time"], asked[0]["end_time"], asked[0]["fps"]]}
        return {"error": prompts[0].split("Error Information: ", 1)[1].rsplit(".\n</tool_response>", 1)[0]}

    overview = Source(checkouts, "VideoZoomer", "verl/utils/dataset/multimodal_dataset.py")
    boxed = ast.parse(Path(mathruler, "mathruler", "grader.py").read_text())
    boxed = [node for node in boxed.body if isinstance(node, ast.FunctionDef) and node.name == "extract_boxed_content"]
    scorer = Source(checkouts, "VideoZoomer", "verl/utils/reward_score/openr1.py").functions(
        "judge_multi_choice", extract_boxed_content=run(boxed)["extract_boxed_content"]
    )["judge_multi_choice"]
    stubs = {name: sys.modules.get(name) for name in ("cv2", "PIL")}
    for _ in range(count):
        reply = answers(rng) + "".join(
            f"<video_zoom>{rng.choice(['', ' ', 'x'])}{json_text(rng)}{rng.choice(['', ' ', '{}', '}'])}</video_zoom>"
            for _ in range(rng.choice([1, 1, 1, 2, 0]))
        )
        yield "videozoomer_calls", {"text": reply}, call(reply)
        video = Frames(rng.choice([rng.randint(1, 50), rng.randint(1, 20000)]), rng.choice(RATES))
        start = rng.choice([rng.uniform(-5, 300), float(rng.randint(0, 300)), rng.choice([math.nan, math.inf, -math.inf, 1e308])])
        end = start + rng.choice([rng.uniform(-3, 9), float(rng.randint(-2, 8))]) if rng.random() < 0.95 else math.inf
        fps = rng.choice([0.0, 0.5, 1.0, 2.0, 4.0, rng.uniform(-1, 5)])
        extract.update(VideoReader=video, Image=Image())
        found = extract["extract_video_clip"]("v.mp4", start, end, fps)
        if isinstance(found, str):
            outputs = {"error": found.removeprefix("<tool_response>\nError: ").removesuffix("<tool_response>")}
        else:
            labels = [f"{at:.2f}" for at in found["frame_time"]]
            outputs = {"indices": video.asked, "labels": labels}
        case = {"segment": [start, end], "fps": fps, "video_fps": video.fps, "total": video.total}
        yield "videozoomer_zoom", case, outputs
        turns = [answers(rng) for _ in range(rng.randint(1, 3))]
        gold = rng.choice(["A", "B", "C.", "D", "None", "A. x", "E."])
        yield "videozoomer_scores", {"turns": turns, "gold": gold}, {"score": scorer(" ".join(turns), gold)}
    for _ in range(count // 10):
        width, height = side(rng), side(rng)
        if rng.random() < 0.1:
            width, height = rng.choice([(120000, 1), (1, 110000), (60000, 2)])
        image = Image()
        extract.update(VideoReader=Frames(10, 1.0, (width, height)), Image=image)
        found = extract["extract_video_clip"]("v.mp4", 0.0, 1.0, 1.0)
        yield "videozoomer_sizes", {"w": width, "h": height}, {"size": None if isinstance(found, str) else image.size}
    try:
        sys.modules["cv2"], sys.modules["PIL"] = SimpleNamespace(), SimpleNamespace(Image=Image())
        for _ in range(count // 4):
            video = Frames(rng.choice([rng.randint(1, 200), rng.randint(1, 200000)]), rng.choice(RATES))
            process_video = overview.functions("process_video", VideoReader=video, cpu=lambda _: None, Image=Image())
            process_video = process_video["process_video"]
            rate, limit = rng.choice([(0.5, 64), (0.5, 64), (1.0, 16), (2.0, 0)])
            if limit == 0 and video.total > 2000:
                continue
            process_video(SimpleNamespace(is_fix_frame=False), "v.mp4", rate, limit, 100352, 25088)
            case = {"total": video.total, "fps": video.fps, "rate": rate, "max": limit}
            yield "videozoomer_overview", case, {"indices": video.asked}
    finally:
        for name, module in stubs.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def eva(checkouts, rng, count):
    agent = Source(checkouts, "EfficientVideoAgent", "eval-eva.py")
    answer = agent.functions("extract_answer", "extract_answer_v2", "extract_answer_anyway")["extract_answer_anyway"]
    calls = agent.part("single", lambda node: isinstance(node, ast.Assign) and "findall" in ast.dump(node))
    budget = agent.part("single", lambda node: isinstance(node, ast.If) and mentions(node.test, "current_estimated_tokens"))
    estimate = agent.node("estimated_tokens")
    stamps = agent.part("single", lambda node: isinstance(node, ast.If) and "mmss" in ast.dump(node.test)).body[:3]
    tool = Source(checkouts, "EfficientVideoAgent", "select_frame_fallback.py")
    asked = []
    cv2 = SimpleNamespace(INTER_CUBIC=None, resize=lambda frame, size, interpolation: asked.append(size) or frame)
    tools = tool.functions("_build_timestamps", "_apply_time_bounds", "get_frames_by_timestamps", "_resize_with_opencv", cv2=cv2)

    class Process:
        async def communicate(self):
            return f"from d/frame_0000.png to d/frame_{self.last:04d}.png".encode(), b""

    process = Process()

    async def start(*_, **__):
        return process

    shell = SimpleNamespace(create_subprocess_exec=start, subprocess=SimpleNamespace(PIPE=None))
    select = agent.functions("call_frame_select", asyncio=shell, sys=sys, shlex=__import__("shlex"), FRAME_TOOL_PATH="", FRAME_SAVE_ROOT="")

    def object_text():
        keys = ['"start_time": ' + number(rng), '"end_time": ' + number(rng), '"nframes": 4', '"resize": 0.5']
        arguments = "{" + ", ".join(rng.sample(keys, rng.randint(0, 4))) + rng.choice(["", "", "}", "{}"]) + "}"
        name = rng.choice(['"tool": "frame_select"'] * 4 + ['"tool" : "frame_select"', '"name": "frame_select"', '"tool":"zoom"'])
        return "{" + name + rng.choice([", ", ",", ",\n ", " "]) + rng.choice(['"arguments":', '"parameters": ', '"args":']) + arguments + rng.choice(["}", " }", "\n}", ""])

    for _ in range(count):
        reply = answers(rng)
        if rng.random() < 0.3:
            reply += rng.choice(["answer", "Answer"]) + rng.choice([": ", ".", " ", ":\n"]) + rng.choice(LETTERS) + pick(rng, [" word", ".", "x" * 40])
        yield "eva_answers", {"text": reply}, {"answer": answer(reply)}
        text = pick(rng, [object_text() for _ in range(3)] + ["\n", "then "], 4).strip()
        yield "eva_calls", {"text": text}, {"arguments": run(calls, tool_calls=text)["arguments"]}
        width, height = max(side(rng), 20), max(side(rng), 20)
        case = {"nframes_in": rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 256, rng.randint(1, 1000)]), "w": width, "h": height}
        case["resize_in"] = rng.choice([None, 1.0, 0.5, 0.25, 2.0, rng.uniform(0.05, 2)])
        resize = 1.0 if case["resize_in"] is None else case["resize_in"]
        space = {"width": width, "height": height, "video_p": min(width, height), "max_visual_tokens": 12000, "maxp": 720, "_": 0}
        space = run(estimate, **space)
        space.update(nframes=case["nframes_in"], resize=resize)
        space["current_estimated_tokens"] = space["estimated_tokens"](case["nframes_in"], resize)
        space = run(budget, **space)
        outputs = {"nframes": space["nframes"], "resize": space["resize"], "estimate": space["current_estimated_tokens"]}
        yield "eva_budget", case, outputs
        start_at = rng.choice([rng.uniform(-10, 500), float(rng.randint(0, 500))])
        end_at = start_at + rng.choice([rng.uniform(1e-4, 90), float(rng.randint(1, 90))])
        n = rng.choice([1, 2, 3, 8, 32, rng.randint(1, 200)])
        times = tools["_build_timestamps"](start_at, end_at, n)
        yield "eva_times", {"start": start_at, "end": end_at, "n": n}, {"times": times}
        stream = [rng.choice([0.0, 0.5]), rng.uniform(1, 400)]
        ends = rng.choice([None, end_at, start_at, -1])
        bounds = tools["_apply_time_bounds"](start_at, ends, *stream, True)
        yield "eva_bounds", {"start": start_at, "end": ends, "stream": stream}, {"bounds": list(bounds)}
        video = Frames(rng.randint(1, 20000), rng.choice(RATES))
        reader = SimpleNamespace(_vr=video, _fps=video.fps, get_stream_bounds=lambda: (stream[0], stream[1]))
        tools["get_frames_by_timestamps"](reader, times)
        case = {"times": times, "first": stream[0], "fps": video.fps, "total": video.total}
        yield "eva_frames", case, {"indices": video.asked}
        process.last = n - 1
        arguments = {"start_time": start_at, "end_time": rng.choice([end_at, int(end_at)]), "nframes": n, "resize": 1.0}
        _, seconds = asyncio.run(select["call_frame_select"]("v.mp4", arguments))
        shown = [run(stamps, sec=sec)["ts"] for sec in seconds]
        yield "eva_stamps", {"start": start_at, "end": arguments["end_time"], "n": n}, {"stamps": shown}
        asked.clear()
        ratio = rng.choice([1.0, 0.5, rng.uniform(0.001, 2)])
        tools["_resize_with_opencv"](Shape(height, width), ratio, 28)
        yield "eva_sizes", {"w": width, "h": height, "resize": ratio}, {"size": list(asked[0])}


class Shape:
    """One frame of a size, without pixels."""

    def __init__(self, height, width):
        self.shape, self.size = (1, height, width, 3), 1

    def __iter__(self):
        return iter([0])


def reasoning(checkouts, rng, count):
    import torch

    for repository in ("Video-R1", "VideoRFT"):
        source = Source(checkouts, repository, "src/eval_bench.py")
        rules = source.functions("extract_answer", "normalize_number", "mean_relative_accuracy", "reward_fn", torch=torch)
        for _ in range(count // 2):
            pred, target = rng.choice([(rng.uniform(0, 20), rng.uniform(0, 20)), (rng.randint(0, 40) / 20, rng.choice([1, 2, 3, 0]))])
            pred = rng.choice([pred, pred, round(pred, 2), 1e300, math.nan]) if rng.random() < 0.2 else pred
            yield "video_r1_mra", {"pred": pred, "target": target}, {"mra": rules["mean_relative_accuracy"](pred, target)}
            kind = rng.choice(["multiple choice", "numerical", "regression"])
            if kind == "multiple choice":
                gold, found = rng.choice("ABC"), rng.choice(["A", "B", "C", " A ", "A.", ""])
            else:
                gold = number(rng)
                found = rng.choice([gold, number(rng), gold + "0", gold + ".00", f"{gold} m"])
            reply = rng.choice([f"<answer>{found}</answer>", found, f"<answer>\n{found} </answer><answer>x</answer>", answers(rng)])
            case = {"kind": kind, "text": reply, "solution": f"<answer>{gold}</answer>"}
            yield "video_r1_scores", case, {"score": rules["reward_fn"]({"solution": case["solution"]}, reply, kind)}

    timed = Source(checkouts, "time-r1", "src/vllm_inference/vllm_infer.py").functions("extract_timestamps")
    choice = Source(checkouts, "time-r1", "src/vllm_inference/eval_all.py").functions("mcq_is_correct")
    spoken = Source(checkouts, "VideoChat-R1", "src_eval/evaluate_grounding.py").functions("parse_timestamp_output")
    lettered = Source(checkouts, "VideoChat-R1", "src_eval/evaluate_qa.py").functions("extract_characters_regex")
    words = [" to ", " and ", "-", " s", "<answer>", "</answer>", "from ", ".", "<timestep>", "\n"]
    for _ in range(count):
        ranges = [f"{number(rng)} {rng.choice(['to', 'and', 'and', 'TO'])} {number(rng)}" for _ in range(4)]
        reply = pick(rng, words + [number(rng) for _ in range(8)] + ranges, 9)
        for name, rule in (("time_r1", timed["extract_timestamps"]), ("videochat_r1", spoken["parse_timestamp_output"])):
            start, end = rule(reply)
            yield f"{name}_intervals", {"text": reply}, {"interval": None if start is None else [start, end]}
        reply, gold = answers(rng) + rng.choice(["", "(B)", "(A) x", "(É)"]) + answers(rng), rng.randrange(5)
        if reply:
            case = {"text": reply, "gold": chr(gold + ord("A"))}
            yield "time_r1_letters", case, {"correct": choice["mcq_is_correct"](reply, gold)}
        yield "videochat_r1_letters", {"text": reply}, {"letter": lettered["extract_characters_regex"](reply)}


def framethinker(checkouts, rng, count):
    source = Source(checkouts, "FrameThinker-RL", "examples/agent/infer.py")
    asked = []
    cv2 = SimpleNamespace(INTER_AREA=None, resize=lambda image, size, interpolation: SimpleNamespace(shape=(size[1], size[0])))
    rules = source.functions(
        "parse_model_response", "handle_get_frame_number", "handle_choose_frames", "validate_reasoning_process",
        "scale_down_preserving_aspect_ratio", cv2=cv2, os=os,
        extract_frames=lambda _, indices, *__: asked.append(indices) or ["x"] * len(indices),
    )

    def action():
        a = rng.choice([rng.randint(0, 60), rng.randint(0, 3000)])
        b = a + rng.choice([rng.randint(-3, 12), rng.randint(0, 900)])
        time = rng.choice([f"{rng.randint(0, 90)}:{rng.randint(0, 59):02d}", "1:2:3", "x:1", "٣:10", "-1:30", "1_0:5", "90", ":"])
        return rng.choice([
            f"choose frames between {a} and {b}", f"choose frames between {a} and {b + 40}", f"choose frames between {a}  and\n{b}", f"get frame number at time {time}",
            f"get frame number at time\t{time} now", "output answer: B", "output answer:C output answer: D", "look",
        ])

    def block():
        think = rng.choice(["<think>t</think>"] * 8 + ["", "<think>", "<think>a</think><think>b</think>"])
        text = action()
        response = rng.choice(["\n[New frames provided.]\n", "", "\n"])
        time = re.match(r"get frame number at time\s+(\S+)", text)
        if time and rng.random() < 0.8:
            response = f"Frame number at time {time[1]} is: {rng.choice([rng.randint(0, 60), rng.randint(0, 3000)])}."
        return f"{think}<action>{rng.choice(['', ' '])}{text}</action>{response}"

    def valid_try():
        a, width = rng.randint(0, 500), rng.randint(5, 60)
        frame = a + rng.randint(-2, width + 2)
        blocks = [
            f"<think>t</think><action>choose frames between {a} and {a + width}</action>\n[New frames provided.]\n",
            f"<think>t</think><action>get frame number at time {rng.randint(0, 3)}:0{rng.randint(0, 3)}</action>Frame number at time x is: {frame}.",
            f"<think>t</think><action>choose frames between {a + rng.randint(-1, 1)} and {a + width}</action>\n[New frames provided.]\n",
        ]
        return "".join(rng.choice([blocks, blocks[:1], blocks[1:], blocks[1:2]])) + "<think>t</think><action>output answer: A</action>" + rng.choice(["", "\n", " x"])

    for _ in range(count):
        reply = pick(rng, ["<think>", "</think>", "<action>", "</action>", "a", action()], 8) if rng.random() < 0.5 else block()
        yield "framethinker_replies", {"text": reply}, {"parsed": list(rules["parse_model_response"](reply))}
        text, fps = action(), rng.choice(RATES)
        text = rng.choice([text, text, "x " + text, text.replace("between", "between ")])
        yield "framethinker_time", {"action": text, "fps": fps}, {"reply": rules["handle_get_frame_number"](text, fps)}
        total, frames = rng.choice([rng.randint(1, 100), rng.randint(1000, 9000)]), rng.choice([8, 12])
        asked.clear()
        found = rules["handle_choose_frames"](text, "v", "v", 1, total, ".", frames, 640, 360)
        case = {"action": text, "total": total, "frames": frames}
        yield "framethinker_frames", case, {"indices": None if found is None else asked[0]}
        transcript = "".join(block() for _ in range(rng.randint(0, 3))) if rng.random() < 0.4 else valid_try()
        found = rules["validate_reasoning_process"](transcript, frames)
        yield "framethinker_valid", {"text": transcript, "frames": frames}, {"valid": list(found)}
        width, height, limit = side(rng), side(rng), rng.choice([[640, 360], [448, 252]])
        image = rules["scale_down_preserving_aspect_ratio"](SimpleNamespace(shape=(height, width)), *limit)
        yield "framethinker_sizes", {"w": width, "h": height, "limit": limit}, {"size": [image.shape[1], image.shape[0]]}


def longvt(checkouts, rng, count):
    rules = Source(checkouts, "LongVT", "custom_rewards/lmms_lab_recipe.py").functions(
        "extract_boxed_answer", "extract_anwser_tag", "parse_mcq", "relax_exact_match"
    )
    video = SimpleNamespace(total=0, fps=0)
    capture = SimpleNamespace(isOpened=lambda: True, release=lambda: None, get=lambda key: getattr(video, key))
    cv2 = SimpleNamespace(VideoCapture=lambda _: capture, CAP_PROP_FPS="fps", CAP_PROP_FRAME_COUNT="total")
    server = Source(checkouts, "LongVT", "examples/video_tools/mcp_server.py").functions(
        "crop_video", cv2=cv2, os=SimpleNamespace(path=SimpleNamespace(exists=lambda _: True)),
        logger=SimpleNamespace(info=lambda _: None, error=lambda _: None), torch=SimpleNamespace(uint8=None),
        fetch_video=lambda _: SimpleNamespace(to=lambda _: []), to_pil_image=None, Field=lambda **_: None,
    )
    for _ in range(count):
        text = answers(rng) + rng.choice(["", "", f" {number(rng)}.", f"\nIt is {number(rng)} . ", f"\n{number(rng)}\n \nx"])
        yield "longvt_answers", {"text": text}, {"answer": rules["extract_anwser_tag"](text)}
        yield "longvt_letters", {"text": text}, {"letter": rules["parse_mcq"](text)}
        gold = rng.choice(["A", "B", "C", "a red hat", "12", "red hat", text, text + "x", text[1:]])
        yield "longvt_scores", {"text": text, "gold": gold}, {"score": rules["relax_exact_match"](text, gold)}
        video.total, video.fps = rng.randint(1, 5000), rng.choice(RATES)
        start = rng.choice([rng.uniform(-5, 300), float(rng.randint(-1, 60))])
        end = rng.choice([start + rng.uniform(-5, 60), video.total / video.fps, start])
        try:
            server["crop_video"]("v.mp4", start, end)
            allowed = True
        except ValueError:
            allowed = False
        yield "longvt_crops", {"start": start, "end": end, "duration": video.total / video.fps}, {"allowed": allowed}


def video_o3(checkouts, rng, count):
    source = Source(checkouts, "Video-o3-Qwen3VL", "Eval/vlmeval/vlm/video_o3/model.py")
    silent = SimpleNamespace(warning=lambda _: None)
    rule = source.functions("extract_grounding_info", logging=silent)["extract_grounding_info"]
    for _ in range(count):
        text = json_text(rng).replace("segment", "temporal_segment").replace("fps", "sampling_strategy")
        text = text.replace('"', "'") if rng.random() < 0.3 else text
        text = rng.choice(["", "x", "```json\n"]) + text + rng.choice(["", ".", "\n```"])
        reply = pick(rng, ["<grounding>", "</grounding>", "x"], 2) + f"<grounding>{text}</grounding>" * rng.choice([1, 1, 2, 0])
        try:
            call = list(rule(None, reply))
        except (ValueError, OverflowError):
            call = None
        yield "video_o3_calls", {"text": reply}, {"call": call}


def sage(checkouts, rng, count):
    source = Source(checkouts, "SAGE", "sage/utils/json_parser.py")
    names = ["_escape_newlines_in_strings", "_remove_json_comments", "_close_unclosed_structures", "_repair_json_string", "clean_json"]
    clean = source.functions(*names, JSONParsingError=type("JSONParsingError", (Exception,), {"__init__": lambda self, **_: None}))
    words = ["name", "arguments", "rationale", "final_answer", "a b", "it's", "x\\n", "é", "", "//", "#", "00:01:00"]
    word = lambda: json.dumps(rng.choice(words), ensure_ascii=False)

    def value(depth):
        kind = rng.random()
        if depth and kind < 0.35:
            pairs = (f"{word()}: {value(depth - 1)}" for _ in range(rng.randint(0, 4)))
            return "{" + rng.choice([", ", ",\n ", ",\n\n"]).join(pairs) + "}"
        if depth and kind < 0.5:
            return "[" + ", ".join(value(depth - 1) for _ in range(rng.randint(0, 3))) + "]"
        return rng.choice([word(), word(), "12", "-1.5", "null", "true", "false"])

    for _ in range(count):
        text = "{" + ", ".join(f"{word()}: {value(2)}" for _ in range(rng.randint(0, 4))) + "}"
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            at = rng.randrange(len(text) + 1)
            wrong = rng.choice(["", "", ",", '"', "\n", "\n", " # note\n", "// note\n", ":", "}", "]", "\\", " x ", ', "a"', ' "b" "c"', "\u00a0"])
            text = text[:at] + wrong + text[at + rng.randint(0, 2) :]
        if rng.random() < 0.15:
            text = text[: rng.randrange(len(text) + 1)]
        try:
            found = clean["clean_json"](text)
        except Exception:
            found = None
        yield "sage_objects", {"text": text}, {"object": found}


def benchmarks(checkouts, rng, count):
    spatial = Source(checkouts, "thinking-in-space", "lmms_eval/tasks/vsibench/utils.py").functions(
        "fuzzy_matching", "abs_dist_norm", "mean_relative_accuracy"
    )
    grouped = Source(checkouts, "lmms-eval", "lmms_eval/tasks/videomme_v2/utils.py").functions(
        "cal_relevance", "cal_logic", "extract_characters_regex"
    )
    long = Source(checkouts, "lmms-eval", "lmms_eval/tasks/lsdbench/utils.py").functions("extract_characters_regex")
    structures = ["[1, 2, 3, 4]", "[1, [2, 3], 4]", "[[1, 2], 3, 4]"]
    for correct in range(5):
        yield "videomme_v2_relevance", {"correct": correct}, {"score": grouped["cal_relevance"]([1] * correct)}
    for structure in structures:
        for bits in range(16):
            scores = [bits >> place & 1 for place in range(4)]
            case = {"structure": structure, "scores": scores}
            yield "videomme_v2_logic", case, {"score": grouped["cal_logic"](scores, structure)}
    for _ in range(count):
        text = answers(rng)
        yield "videomme_v2_letters", {"text": text}, {"letter": grouped["extract_characters_regex"](text)}
        yield "lsdbench_letters", {"text": text}, {"letter": long["extract_characters_regex"](text)}
        yield "vsi_fuzzy", {"text": text}, {"token": spatial["fuzzy_matching"](text)}
        pred, target = rng.choice([(rng.uniform(0, 20), rng.uniform(0.1, 20)), (rng.randint(0, 40) / 20, rng.choice([1, 2, 3]))])
        accuracy = float(spatial["mean_relative_accuracy"](pred, target, 0.5, 0.95, 0.05))
        yield "vsi_mra", {"pred": pred, "target": target}, {"mra": accuracy}


# Repositories of each generator.
GENERATORS = [
    (conan, ["Conan"]),
    (conan_sizes, ["Conan"]),
    (videozoomer, ["VideoZoomer"]),
    (eva, ["EfficientVideoAgent"]),
    (reasoning, ["Video-R1", "VideoRFT", "time-r1", "VideoChat-R1"]),
    (framethinker, ["FrameThinker-RL"]),
    (longvt, ["LongVT"]),
    (video_o3, ["Video-o3-Qwen3VL"]),
    (sage, ["SAGE"]),
    (benchmarks, ["lmms-eval", "thinking-in-space"]),
]


def main():
    parser = argparse.ArgumentParser(prog="ci/protocols")
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("mathruler", type=Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    cases, missing = {}, []
    for generator, repositories in GENERATORS:
        absent = [name for name in repositories if not (arguments.checkouts / name).exists()]
        if absent:
            missing += ["/".join((COMMITS[name][0], name)) + f"@{COMMITS[name][1][:7]}" for name in absent]
            continue
        rng = random.Random(f"{arguments.seed} {generator.__name__}")
        extra = [arguments.mathruler] if generator is videozoomer else []
        for function, inputs, outputs in generator(arguments.checkouts, rng, arguments.cases, *extra):
            cases.setdefault(function, []).append(inputs | outputs)
    for name in sorted(set(missing)):
        print(f"not there, its functions are left out: {name}")
    if not cases:
        sys.exit(2)
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.keep or Path(folder, "cases.json")
        file.write_text(json.dumps(cases))
        print(f"{sum(map(len, cases.values()))} cases of {len(cases)} functions")
        code = subprocess.run([arguments.binary, "conformance", file]).returncode
    sys.exit(code or (3 if missing else 0))


if __name__ == "__main__":
    main()
