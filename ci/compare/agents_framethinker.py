"""FrameThinker's own loop for ci/compare/agents.py: its `infer.py` as it is, with a model and a processor in the place of those of
transformers, and the script of the model, which depends on the try, too.
"""
import collections
import glob
import hashlib
import importlib.util
import os
import random
import re
import shutil
import subprocess

from agents_frames import lettered, picture, quietly


class Script:
    """Answers by the first question, how often it was begun, and what was said since."""

    def __init__(self):
        self.begun = collections.Counter()

    def reply(self, messages: list) -> str:
        first = next(message for message in messages if message["role"] == "user")
        text = "".join(part for part in first["parts"] if isinstance(part, str))
        said = [message["parts"][0] for message in messages if message["role"] == "assistant"]
        self.begun[text] += not said
        seed = hashlib.sha256(f"{self.begun[text]} {len(said)} {text}".encode()).hexdigest()
        labels = [int(number) for number in re.findall(r"frame (\d+):", text)]
        number = re.search(r" is: (\d+)\.$", str(messages[-1]["parts"][0])) if said else None
        return turn(random.Random(seed), labels[-1], said, int(number[1]) if number else None)


def turn(draw: random.Random, last: int, said: list, number) -> str:
    """One reply about frames 0 to `last`; `number` is the frame number that was asked for just before."""
    answer = f"output answer: {draw.choice('AABBCD')}"

    def choose(start: int, width: int) -> str:
        return f"choose frames between {start} and {start + width}"

    wide = choose(draw.randrange(0, max(1, last - 40)), draw.choice([13, 20, 33, 200]))
    asked = f"get frame number at time {draw.choice(['00:01', '0:02', '00:00', '1:30', '00:03'])}"
    if number is not None and draw.random() < 0.7:
        action = choose(max(0, number - draw.choice([0, 3, 20])), draw.choice([20, 30]))
    else:
        before = re.findall(r"<action>(.*?)</action>", said[-1], re.DOTALL) if said else []
        action = draw.choice([
            answer, answer, answer, answer, wide, wide, wide, wide, asked, asked, (before or [wide])[0], answer + " \n",
            draw.choice([choose(5, 8), choose(9, 0), choose(0, 10 ** 6), "look again", "get frame number at time 1:2:3",
                         "get frame numbers", "output answer", wide.upper(), "output answer:A output answer:", f"{wide} too",
                         f"first {wide}", wide.replace(" and ", "  and "), f"choose frames between {last - 30} and {last}"]),
        ])
    return draw.choice([
        *[f"<think>closer</think>\n<action>{action}</action>"] * 12, f"<think>closer</think> <action> {action} </action> so",
        f"<action>{action}</action>", f"<think>a</think><think>b</think><action>{action}</action>", f"<think>x <action>{action}</action>",
        f"<think>a</think><action>{action}</action><think>b</think><action>{answer}</action>",
    ])


def lengthened(data: str) -> str:
    """The data with every third video longer than five minutes."""
    longer = f"{data}-lengthened"
    if os.path.exists(longer):
        return longer
    shutil.copytree(data, longer, symlinks=True)
    for path in sorted(glob.glob(os.path.join(longer, "**", "*.mp4"), recursive=True))[::3]:
        if not os.path.islink(path):
            new = f"{path}.new.mp4"
            subprocess.run(["ffmpeg", "-v", "error", "-stream_loop", "-1", "-i", path, "-t", "301", "-vf", "scale=trunc(iw/4)*2:trunc(ih/4)*2", "-c:v",
                            "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-an", new], check=True)
            os.replace(new, path)
    return longer


def framethinker(checkout: str, folder: str, script: Script):
    from transformers import GenerationConfig

    spec = importlib.util.spec_from_file_location("infer", os.path.join(checkout, "examples/agent/infer.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.CONFIG["BASE_FRAME_DIR_ROOT"] = os.path.join(folder, "framethinker-frames")
    top_k = GenerationConfig._get_default_generation_params()["top_k"]
    seen = collections.Counter()

    class Inputs(dict):
        input_ids = [[0]]

        def to(self, _):
            return self

    class Model:
        """In the place of model and processor: keeps messages and sampling."""

        def __init__(self):
            self.shown, self.messages, self.texts = [], [], []

        def apply_chat_template(self, messages, tokenize, add_generation_prompt):
            self.messages = []
            for message in messages:
                content, plain = message["content"], isinstance(message["content"], str)
                parts = [content] if plain else [
                    part["text"] if part["type"] == "text" else picture(part["image"]) for part in content]
                self.messages.append({"role": message["role"], "parts": parts, "plain": plain})
            return ""

        def __call__(self, **_):
            return Inputs()

        def generate(self, max_new_tokens, do_sample, temperature, top_p):
            assert do_sample
            self.shown.append({"messages": self.messages, "parameters": {
                "max_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k}})
            self.texts.append(script.reply(self.messages))
            return [[0, len(self.texts) - 1]]

        def batch_decode(self, ids, **_):
            return [self.texts[one] for [one] in ids]

    def run(split: str, sample: dict, path: str):
        question = sample["question"]["stem"]
        if split != "lvbench":
            question += "\n" + "\n".join(lettered(sample))
        module.CONFIG["BASE_VIDEO_DIR"], name = os.path.split(path)
        item = {"video": name.removesuffix(".mp4"), "question": question, "answer": sample["gold"]["answer"]}
        model = Model()
        with quietly(folder):
            result = module.process_single_problem(item, model, model, "cpu", 0)
        note(seen, model, result)
        run.accepted = result["status"] != "format_error"
        return model.shown, float(result["status"] == "correct")

    run.seen = seen
    return run


def note(seen: collections.Counter, model, result: dict) -> None:
    """Counts what the samples have covered."""
    tries = sum(not any(message["role"] == "assistant" for message in one["messages"]) for one in model.shown)
    all_text = "".join(model.texts)
    frames = sum(isinstance(part, tuple) for part in model.shown[0]["messages"][1]["parts"])
    for name, holds in {
        "answered at once": tries == 1 and len(model.shown) == 1,
        "several calls in a try": any(len(one["messages"]) >= 6 for one in model.shown),
        "frame number": "is: " in "".join(str(message["parts"][0]) for one in model.shown for message in one["messages"][2:]),
        "second try": tries > 1,
        "third try": tries > 2,
        "no try counts": result["status"] == "format_error",
        "a rejected answer": "output answer:" in "".join(model.texts[:-1]),
        "five turns": any(len(one["messages"]) >= 10 for one in model.shown),
        "no thoughts": "</think>" not in model.texts[-1] or all_text.startswith("<action>"),
        "over 300 s": frames == 12,
    }.items():
        seen[name] += holds
