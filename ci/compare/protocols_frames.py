"""Cases of the agents that ask for frames by time: inputs, and what the authors' functions make of them. Used by
ci/compare/protocols.py."""

import argparse
import ast
import asyncio
import contextlib
import io
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from protocols_source import Frames, Image, Shape, Source, mentions, run
from protocols_words import LETTERS, RATES, answers, json_text, number, pick, side, stamp
from released import functions


def conan(checkouts, rng, count):
    video_io = Source(checkouts, "Conan", "Conan-Eval/video_io.py").functions("uniform_sample_idx", "idx_to_timestamp")
    video = SimpleNamespace(now=None)
    utils = Source(checkouts, "Conan", "Conan-Eval/utils.py").functions(
        "_to_seconds",
        "extract_timestamps",
        "clips_to_frame_indices",
        "identify_clip",
        "identify_replay",
        "extract_answer",
        "extract_characters",
        load_video=lambda _: video.now,
        List=list,
        Tuple=tuple,
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
        yield "conan_overview", {"total": total, "max": most}, {"indices": video_io["uniform_sample_idx"](total, most)}
        fps = rng.choice(RATES)
        index = rng.randint(0, 400000)
        yield "conan_stamps", {"index": index, "fps": fps}, {"stamp": video_io["idx_to_timestamp"](index, fps)}
        total = rng.choice([rng.randint(1, 60), rng.randint(1, 3000)])
        shown = video_io["uniform_sample_idx"](total, 16) if rng.random() < 0.8 else []
        clips = [[stamp(rng), stamp(rng)] for _ in range(rng.choice([1, 1, 2, 3, 5, 7, 9]))]
        if rng.random() < 0.3:
            clips = [
                [video_io["idx_to_timestamp"](at, 1.0) for at in (start, start + 10)]
                for start in range(0, 10 * len(clips), 10)
            ]
        case = {"total": total, "fps": fps, "clips": clips, "max_frames": 8}
        case["history"] = [video_io["idx_to_timestamp"](index, fps) for index in shown]
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
        yield "conan_sizes", {"w": width, "h": height}, {"size": image.size if all(image.size) else None}


def videozoomer(checkouts, rng, count, mathruler):
    tools = Source(checkouts, "VideoZoomer", "verl/workers/rollout/vllm_rollout/function_tools.py")
    read = tools.functions("prepare_tool_call_inputs_video")["prepare_tool_call_inputs_video"]
    system = SimpleNamespace(path=SimpleNamespace(exists=lambda _: True, join=os.path.join), environ={})
    extract = tools.functions("extract_video_clip", os=system, time=time, cpu=lambda _: None)
    engine = Source(checkouts, "VideoZoomer", "verl/workers/rollout/vllm_rollout/vllm_async_engine.py")
    asked, prompts = [], []
    clip = lambda **call: asked.append(call) or {"frame_time": [], "frames": []}
    process = engine.functions(
        "process_tool_call",
        prepare_tool_call_inputs_video=read,
        extract_video_clip=clip,
        torch=SimpleNamespace(zeros=lambda *_, **__: None),
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
    boxed = functions(Path(mathruler, "mathruler", "grader.py"), {"extract_boxed_content"}, {})
    scorer = Source(checkouts, "VideoZoomer", "verl/utils/reward_score/openr1.py").functions(
        "judge_multi_choice", extract_boxed_content=boxed["extract_boxed_content"]
    )["judge_multi_choice"]
    stubs = {name: sys.modules.get(name) for name in ("cv2", "PIL")}
    for _ in range(count):
        reply = answers(rng) + "".join(
            f"<video_zoom>{rng.choice(['', ' ', 'x'])}{json_text(rng)}{rng.choice(['', ' ', '{}', '}'])}</video_zoom>"
            for _ in range(rng.choice([1, 1, 1, 2, 0]))
        )
        yield "videozoomer_calls", {"text": reply}, call(reply)
        video = Frames(rng.choice([rng.randint(1, 50), rng.randint(1, 20000)]), rng.choice(RATES))
        start = rng.choice(
            [rng.uniform(-5, 300), float(rng.randint(0, 300)), rng.choice([math.nan, math.inf, -math.inf, 1e308])]
        )
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
    budget = agent.part(
        "single", lambda node: isinstance(node, ast.If) and mentions(node.test, "current_estimated_tokens")
    )
    estimate = agent.node("estimated_tokens")
    stamps = agent.part("single", lambda node: isinstance(node, ast.If) and "mmss" in ast.dump(node.test)).body[:3]
    tool = Source(checkouts, "EfficientVideoAgent", "select_frame_fallback.py")
    asked = []
    cv2 = SimpleNamespace(INTER_CUBIC=None, resize=lambda frame, size, interpolation: asked.append(size) or frame)
    tools = tool.functions(
        "_build_timestamps", "_apply_time_bounds", "get_frames_by_timestamps", "_resize_with_opencv", cv2=cv2
    )

    class Process:
        async def communicate(self):
            return f"from d/frame_0000.png to d/frame_{self.last:04d}.png".encode(), b""

    process = Process()

    async def start(*_, **__):
        return process

    shell = SimpleNamespace(create_subprocess_exec=start, subprocess=SimpleNamespace(PIPE=None))
    select = agent.functions(
        "call_frame_select", asyncio=shell, sys=sys, shlex=shlex, FRAME_TOOL_PATH="", FRAME_SAVE_ROOT=""
    )

    def selected(arguments, width, height, tool):
        """Frames and scale with which the tool runs, or why the release gives none."""
        loop = agent.part("single", lambda node: isinstance(node, ast.For) and mentions(node.iter, "arguments"))
        before = ast.parse("img_paths, time_stamps, errors, estimated_visual_tokens = [], [], [], 0").body
        body = [*before, loop, *ast.parse("return errors").body]
        space = {"json": json, "print": lambda *_, **__: None, "call_frame_select": tool, "arguments": [arguments]}
        space |= {
            "video": "v.mp4",
            "fallback": True,
            "max_visual_tokens": 12000,
            "maxp": 720,
            "video_p": min(width, height),
        }
        space |= {"_": 0, "width": width, "height": height}
        exec(compile(ast.Module([estimate], []), "estimate", "exec"), space)
        wrapper = ast.parse("async def single(): pass").body[0]
        wrapper.body = body
        ast.fix_missing_locations(wrapper)
        exec(compile(ast.Module([wrapper], []), "single", "exec"), space)
        try:
            return asyncio.run(space["single"]())
        except (TypeError, ValueError, OverflowError, AttributeError):
            return ["raises"]

    ran = []
    program = tool.functions(
        *("_parse_time_to_seconds", "extract_frames", "_apply_time_bounds", "_build_timestamps"),
        *("_resize_with_opencv", "main"),
        argparse=argparse, BACKENDS={"decord": None}, cv2=cv2, Path=Path,
        _save_frames=lambda frames, **_: ("d", len(frames), [f"d/frame_{at:04d}.png" for at in (0, len(frames) - 1)]),
    )  # fmt: skip
    program["BACKENDS"] = dict.fromkeys(("decord", "torchcodec"), lambda _: SimpleNamespace(
        get_stream_bounds=lambda: (0.0, 60.0),
        get_frames_by_timestamps=lambda times: [round(time) for time in times] and Shape(4, 4, len(times)),
    ))  # fmt: skip

    async def run_tool(_python, _path, *arguments, **__):
        """The program of the tool, in this process."""
        written = []
        program["print"] = written.append
        given, sys.argv = sys.argv, ["tool", *arguments]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                program["main"]()
            parsed = dict(zip(arguments[0::2], arguments[1::2]))
            ran.append((int(parsed["--nframes"]), float(parsed["--resize"])))
        except (Exception, SystemExit):
            written.clear()
        finally:
            sys.argv = given

        async def communicate():
            return "".join(written).encode(), b""

        return SimpleNamespace(communicate=communicate)

    program_shell = SimpleNamespace(create_subprocess_exec=run_tool, subprocess=SimpleNamespace(PIPE=None))
    real = agent.functions(
        "call_frame_select", asyncio=program_shell, sys=sys, shlex=shlex, FRAME_TOOL_PATH="", FRAME_SAVE_ROOT=""
    )["call_frame_select"]

    def select_text():
        odd = ["true", "null", '"1:05"', '"x"', "[]", "{}", "NaN", "Infinity", "-Infinity", "-2"]
        start = rng.choice([rng.randint(0, 50), round(rng.uniform(-5, 80), 2)])
        fields = {
            "start_time": start,
            "end_time": start + rng.choice([rng.randint(-3, 20), 1.5]),
            "nframes": rng.choice([rng.randint(1, 12), rng.randint(1, 300), float(rng.randint(1, 80)), 2.5, 0]),
            "resize": rng.choice([1, 1.0, 0.5, 0.25, rng.uniform(0.05, 2)]),
        }
        if rng.random() < 0.4:
            # One at a time: which of two the release stumbles over first is not repeated.
            fields["nframes"], fields[rng.choice(sorted(fields))] = rng.randint(1, 300), rng.choice(odd)
        for name in rng.sample(sorted(fields), rng.choice([0, 0, 0, 0, 1])) + ["resize"] * (rng.random() < 0.3):
            fields.pop(name, None)
        text = "{" + ", ".join(f'"{name}": {text}' for name, text in fields.items()) + "}"
        return text.replace('"', "'") if rng.random() < 0.03 else text

    def object_text():
        keys = ['"start_time": ' + number(rng), '"end_time": ' + number(rng), '"nframes": 4', '"resize": 0.5']
        arguments = "{" + ", ".join(rng.sample(keys, rng.randint(0, 4))) + rng.choice(["", "", "}", "{}"]) + "}"
        name = rng.choice(
            ['"tool": "frame_select"'] * 4 + ['"tool" : "frame_select"', '"name": "frame_select"', '"tool":"zoom"']
        )
        return (
            "{"
            + name
            + rng.choice([", ", ",", ",\n ", " "])
            + rng.choice(['"arguments":', '"parameters": ', '"args":'])
            + arguments
            + rng.choice(["}", " }", "\n}", ""])
        )

    for _ in range(count):
        reply = answers(rng)
        if rng.random() < 0.3:
            reply += (
                rng.choice(["answer", "Answer"])
                + rng.choice([": ", ".", " ", ":\n"])
                + rng.choice(LETTERS)
                + pick(rng, [" word", ".", "x" * 40])
            )
        yield "eva_answers", {"text": reply}, {"answer": answer(reply)}
        text = pick(rng, [object_text() for _ in range(3)] + ["\n", "then "], 4).strip()
        yield "eva_calls", {"text": text}, {"arguments": run(calls, tool_calls=text)["arguments"]}
        width, height = max(side(rng), 20), max(side(rng), 20)
        case = {
            "nframes_in": rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 256, rng.randint(1, 1000)]),
            "w": width,
            "h": height,
        }
        case["resize_in"] = rng.choice([None, 1.0, 0.5, 0.25, 2.0, rng.uniform(0.05, 2)])
        resize = 1.0 if case["resize_in"] is None else case["resize_in"]
        space = {
            "width": width,
            "height": height,
            "video_p": min(width, height),
            "max_visual_tokens": 12000,
            "maxp": 720,
            "_": 0,
        }
        space = run(estimate, **space)
        space.update(nframes=case["nframes_in"], resize=resize)
        space["current_estimated_tokens"] = space["estimated_tokens"](case["nframes_in"], resize)
        space = run(budget, **space)
        outputs = {
            "nframes": space["nframes"],
            "resize": space["resize"],
            "estimate": space["current_estimated_tokens"],
        }
        yield "eva_budget", case, outputs
        ran.clear()
        case = {"arguments": select_text(), "w": width, "h": height}
        errors = selected(case["arguments"], width, height, real)
        found = {"error": errors[0]} if errors else {"nframes": ran[0][0], "resize": ran[0][1]}
        yield "eva_selects", case, found
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
