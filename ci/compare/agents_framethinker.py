"""FrameThinker's own loop for ci/compare/agents.py: its `infer.py` as it is, with a model and a processor in the place of
those of transformers. The script of the model depends on the try, too.
"""
import collections
import glob
import os
import shutil

from agents_shared import encode, lettered, message, picture, quietly
from released import load


def lengthened(data: str) -> str:
    """The data with every third video longer than five minutes."""
    longer = f"{data}-lengthened"
    if os.path.exists(longer):
        return longer
    shutil.copytree(data, longer, symlinks=True)
    for path in sorted(glob.glob(os.path.join(longer, "**", "*.mp4"), recursive=True))[::3]:
        if not os.path.islink(path):
            encode(path, ["-stream_loop", "-1"], ["-t", "301", "-vf", "scale=trunc(iw/4)*2:trunc(ih/4)*2"])
    return longer


def framethinker(checkout: str, folder: str, reply):
    from transformers import GenerationConfig

    module = load("infer", os.path.join(checkout, "examples/agent/infer.py"))
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
            self.messages = [message(one, lambda part: picture(part["image"])) for one in messages]
            return ""

        def __call__(self, **_):
            return Inputs()

        def generate(self, max_new_tokens, do_sample, temperature, top_p):
            assert do_sample
            self.shown.append({"messages": self.messages, "parameters": {
                "max_tokens": max_new_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k}})
            self.texts.append(reply(self.messages))
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
    tries = sum(not any(said["role"] == "assistant" for said in one["messages"]) for one in model.shown)
    all_text = "".join(model.texts)
    frames = sum(isinstance(part, tuple) for part in model.shown[0]["messages"][1]["parts"])
    for name, holds in {
        "answered at once": tries == 1 and len(model.shown) == 1,
        "several calls in a try": any(len(one["messages"]) >= 6 for one in model.shown),
        "frame number": "is: " in "".join(str(said["parts"][0]) for one in model.shown for said in one["messages"][2:]),
        "second try": tries > 1,
        "third try": tries > 2,
        "no try counts": result["status"] == "format_error",
        "a rejected answer": "output answer:" in "".join(model.texts[:-1]),
        "five turns": any(len(one["messages"]) >= 10 for one in model.shown),
        "no thoughts": "</think>" not in model.texts[-1] or all_text.startswith("<action>"),
        "over 300 s": frames == 12,
    }.items():
        seen[name] += holds
