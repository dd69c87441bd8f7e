"""SAGE's own loop for ci/agents.py: `SAGE.run_inference` with its tools and its model class, as they are.

In the place of vLLM and of the processor stand objects that keep what they are given and answer by the script. The
tools of the web and of speech are left out, the others come in the order of their names. `process_video` around it, which
reads the benchmarks of the release, is repeated here: five tries, the first greedy.
"""
import importlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import types
from unittest import mock

import numpy as np

from agents_one_turn import Video, stub
from agents_theirs import quietly

PATH = re.compile(r"Video Path: (.+) of duration (\d\d:\d\d:\d\d)\.")
DROPPED = ["search.py", "audio.py"]
MODEL = "sage:allenai/SAGE-MM-Qwen2.5-VL-7B-SFT_RL"
# What a processor without a rate takes.
RATE = 2.0


def of_key_frames(command: list, **settings):
    """Runs the release's ffmpeg over the same frames as key frames: a clip that copies the stream begins with the frame of
    its start, whatever the video has."""
    at = command.index("-i") + 1
    video = os.path.realpath(command[at])
    copy = f"{video}.key.mp4"
    if not os.path.exists(copy):
        lossless = ["-c:v", "libx264", "-qp", "0", "-g", "1", "-bf", "0", "-preset", "ultrafast", "-fps_mode", "passthrough"]
        subprocess.run(["ffmpeg", "-v", "error", "-i", video, *lossless, "-an", copy], check=True)
    return subprocess.run([*command[:at], copy, *command[at + 1:]], **settings)


def script(draw: random.Random, system: str, text: str) -> str:
    """The scripted answer to one conversation."""
    if '"query_intent"' not in system and '"answerable"' not in system:
        return moment(draw) if '"timestamps"' in text else draw.choice(["It's a \"dog\".", "two\nlines", "", "B"])
    path, duration = PATH.search(text).groups()
    hours, minutes, seconds = map(int, duration.split(":"))
    length = hours * 3600 + minutes * 60 + seconds
    media = [re.findall("'(data/[^']*)'", found) for found in re.findall(r"'media_paths': \[([^\]\"]*)\]", text)]
    calls = [call(draw, path, length, media) for _ in range(draw.choice([1, 1, 1, 2]))]
    calls = draw.choice([calls] * 40 + [[], None, "call", {"name": 1}, [3], [{"name": ["x"]}]])
    tools = draw.choice([{"needed": draw.choice([True, True, True, "yes", 1]), "tool_calls": calls}] * 30 +
                        [{"needed": False}, None, {"needed": True}, "none", {}])
    letter = draw.choice("ABCD")
    answer = draw.choice([letter, f"({letter}) it is", None, 3, {"a": 1.0}, ["x"]])
    seen = draw.choice(["A 'dog' runs.", {"scene": "a \"cat\"", "at": 1.5, "who": None, "ok": True, "n": [1, -2e-07]}, None, "é\u200b\n"])
    if '"query_intent"' in system:
        body = {"video_context": seen, "query_intent": "x", "final_answer": draw.choice([answer, None]), "recommended_tools": tools}
        if draw.random() < 0.12:
            body["recommended_tools"] = {"needed": False, "tool_calls": []}
            body["final_answer"] = answer
    else:
        verdict = draw.choice([True] * 2 + [False] * 8 + ["", 0.0])
        body = {"answerable": draw.choice([{"verdict": verdict}] * 18 + [None, {}]), "final_answer": answer, "recommended_tools": tools}
    written = json.dumps(body, ensure_ascii=False, indent=draw.choice([None, 2]))
    return draw.choice([f"<json>\n{written}\n</json>"] * 40 + [f"so\n```json\n{written}\n```", f"<json>{written}", f"<json>{written[:-1]}</json>",
                       f"<json>{written[:-1]},}}</json> x", "no object", "<json>[1]</json>", "<json>{{</json>", written,
                       f"<json>{written} # done\n</json> <json>{{}}</json>"])


def moment(draw: random.Random) -> str:
    start, end = draw.choice([("00:00:01", "00:00:04"), ("2", "5.5"), ("00:00:20", "00:00:25"), (None, None), ("x", "y"), (3, 4),
                              ("00:03", "00:03"), ([1], "2")])
    body = json.dumps({"name": "it", "timestamps": draw.choice([{"start": start, "end": end}] * 6 + [None, "x", {}])})
    return draw.choice([f"<json>{body}</json>"] * 5 + [body, f"<json>{body[:-2]}</json>", "<json>nothing</json>", "<json>[]</json>"])


def call(draw: random.Random, path: str, length: int, media: list) -> dict:
    name = os.path.basename(path)
    video = draw.choice([path] * 30 + [name, f"/elsewhere/{name}", f"./{path}", "missing.mp4", 7, "data/videos"])
    clips = [one for found in media for one in found if one.endswith(".mp4")]
    if clips and draw.random() < 0.3:
        video = draw.choice(clips)

    def clock(seconds: int) -> str:
        return draw.choice([f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"] * 30 +
                           [f"{seconds // 60:02d}:{seconds % 60:02d}", f"{seconds % 60:02d}", f"00:{seconds % 60:02d}:00"])

    start = draw.randrange(0, max(1, length))
    window = {"timestamp_start": clock(start), "timestamp_end": clock(start + draw.choice([1, 2, 5, 9, 30, 60] * 5 + [0, -1, 3600]))}
    for key in draw.choice([[]] * 40 + [["timestamp_start"], list(window)]):
        del window[key]
    if draw.random() < 0.06:
        window["timestamp_start"] = draw.choice(["soon", "", 5, "1:2:3:4", "00:75", None])
    tool = draw.choice(["extract_parts_from_timestamp"] * 12 + ["perform_reasoning"] * 4 + ["identify_timestamps_visually"] * 8 +
                       ["unified_web_search", "verbal_transcript", None])
    if any(media) and draw.random() < 0.6:
        tool = "perform_reasoning"
    if tool == "perform_reasoning":
        frames = draw.choice([one for one in media if one] or [[]])
        # A path that is there is dropped, one under another folder is found.
        elsewhere = [one.replace("data/videos", "/tmp/x") for one in frames]
        arguments = {"query": draw.choice(["What is it?", "Who?", "Count"] * 10 + ["", "  ", 3]),
                     "media_paths": draw.choice([elsewhere] * 20 + [elsewhere[:3], elsewhere[::-1], frames, frames[:2] + elsewhere, [path], [f"/x/{name}"], [],
                                                 None, ["a/b.jpg"], ["alone.jpg"], ["x", 3], "all", [1]])}
        if draw.random() < 0.06:
            del arguments["media_paths"]
    elif tool == "identify_timestamps_visually":
        arguments = {"video_path": video, "event": draw.choice(["a dog's bark", "it"] * 8 + ["", ["x"]]), **window}
    else:
        arguments = {"video_path": video, **window}
        if draw.random() < 0.6:
            arguments["extract_type"] = draw.choice(["frames", "subclips"] * 15 + ["clip", None])
    if draw.random() < 0.1:
        arguments["fps"] = 2
    made = {"rationale": "x", "name": tool, "arguments": draw.choice([arguments] * 19 + [None])}
    if draw.random() < 0.03:
        del made["arguments"]
    return made


def modules() -> dict:
    """In the place of packages that only other models and tools need."""
    nothing = type("Nothing", (), {})
    outside = {"vllm": stub("vllm", LLM=nothing, SamplingParams=lambda **settings: settings),
               "termcolor": stub("termcolor", colored=lambda text, *_, **__: text),
               "google": stub("google"), "google.genai": stub("google.genai", types=types.SimpleNamespace(Tool=object)),
               "google.cloud": stub("google.cloud", storage=None), "google.cloud.storage": stub("google.cloud.storage"),
               "sage.src.models.molmo2": stub("molmo2", Molmo2ForConditionalGeneration=nothing)}
    for name, kind in (("gemini", "Gemini"), ("gpt", "GPT"), ("molmo2", "Molmo2"), ("qwen3_vl", "Qwen3_VL")):
        outside[f"sage.src.api.{name}"] = stub(name, **{kind: nothing})
    return outside


def sage(checkout: str, folder: str, reply):
    room = tempfile.mkdtemp(dir=folder, prefix="sage-")
    os.symlink(os.path.join(os.path.abspath(checkout), "sage"), os.path.join(room, "sage"))
    videos = os.path.join(room, "data/videos")
    os.makedirs(videos)
    os.environ.update(VIDEO_DIR="data/videos", TOOL_CALL_MODEL="None", FORCE_QWENVL_VIDEO_READER="decord")
    sys.path.insert(0, os.path.abspath(checkout))
    shown, conversations = [], []

    class Processor:
        def apply_chat_template(self, messages, tokenize, add_generation_prompt):
            conversations.append(messages)
            return str(len(conversations) - 1)

        def __call__(self, **_):
            return types.SimpleNamespace(to=lambda _: None)

    class Engine:
        def generate(self, prompts, sampling_params, use_tqdm):
            given = prompts[0] if isinstance(prompts[0], dict) else {"prompt": prompts[0], "multi_modal_data": {}}
            images = iter(given["multi_modal_data"].get("image") or [])
            clips = iter(given["multi_modal_data"].get("video") or [])
            messages = []
            for message in conversations[int(given["prompt"])]:
                plain = isinstance(message["content"], str)
                parts = [message["content"]] if plain else []
                for part in [] if plain else message["content"]:
                    if part["type"] == "text":
                        parts.append(part["text"])
                    elif part["type"] == "image":
                        parts.append((np.asarray(next(images)), "JPEG"))
                    else:
                        levels = next(clips).numpy().transpose(0, 2, 3, 1)
                        assert (levels == np.rint(levels)).all()
                        parts.append(Video(levels.astype(np.uint8), list(range(len(levels))), RATE))
                messages.append({"role": message["role"], "parts": parts, "plain": plain})
            # What a client leaves out is the same by default.
            parameters = {key: sampling_params[key] for key in ("temperature", "top_p", "max_tokens", "repetition_penalty")}
            shown.append({"messages": messages, "parameters": parameters})
            text = reply(messages, parameters)
            return [types.SimpleNamespace(outputs=[types.SimpleNamespace(text=text, token_ids=[])])]

    walk = os.walk
    in_order = lambda top: [(root, folders, sorted(files)) for root, folders, files in walk(top)]
    with quietly(room), mock.patch.dict(sys.modules, modules()), mock.patch("os.walk", in_order):
        main = importlib.import_module("sage.main")
        cache = importlib.import_module("sage.src.api.timestamp_reasoning_cache")
        vision = importlib.import_module("sage.src.models.qwen_vl.vision_process")
        cutter = importlib.import_module("sage.src.functions.utils.extract")
        cutter.subprocess = types.SimpleNamespace(**{**vars(subprocess), "run": of_key_frames})
        model = main.SAGE(MODEL, vllm_engine=Engine(), processor=Processor(), drop_tool_call_files=DROPPED)

    def run(split: str, sample: dict, path: str):
        shown.clear()
        conversations.clear()
        shutil.rmtree(videos)
        os.makedirs(videos)
        os.symlink(os.path.abspath(path), os.path.join(videos, os.path.basename(path)))
        question = sample["question"]
        options = "\n".join(f"({letter}) {option}" for letter, option in zip(question["letters"], question["options"]))
        # Their cache outlives a sample.
        with quietly(room):
            cache.clear_cache("all")
            for attempt in range(5):
                try:
                    answer, _ = model.run_inference(
                        f"data/videos/{os.path.basename(path)}", f"{question['stem']}\nOptions:\n{options}", model_name=MODEL.lower(),
                        num_sampled_frames=128, temperature=0.7 if attempt else 0.0)
                    break
                except Exception:
                    # A sentence about the exception is the answer there.
                    answer = None
        return list(shown), "" if answer is None else str(answer)

    from PIL import Image

    def processed(part):
        """A picture in the size that the release gives it; a server's processor does the same."""
        image = Image.fromarray(part[0])
        return np.asarray(vision.fetch_image({"image": image})), part[1]

    run.processed = processed
    return run
