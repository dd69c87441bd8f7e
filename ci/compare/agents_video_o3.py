"""Video-o3's own evaluation of both models for ci/compare/agents.py: its model class, its prompts, its reading of videos
and its data sets' frames, as they are. Replaced are the weights: `generate` writes the scripted reply letter by letter,
and ends where the release's stopping criteria end it; tokens are letters.

The prompt is that of the release's template over its own messages; paravt-bench's is that of the template that it sends
over the messages as vLLM hands them to a template, in which every content is a list.
"""
import ast
import contextlib
import importlib
import json
import logging
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

from agents_shared import Video, lettered, message, quietly
from released import functions, stub

FOLDER = "Eval/vlmeval"
# Frames per second that transformers before 5 assumes for a video without a rate.
RATE = 2.0


def render(messages: list, template: str) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template
    return render_jinja_template([messages], chat_template=template, add_generation_prompt=True)[0][0]


def prompt(messages: list, template: str) -> str:
    """What vLLM 0.32 makes of a request's messages."""
    wrapped = []
    for one in messages:
        content = one["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else [
            part if part["type"] == "text" else {"type": part["type"].removesuffix("_url")} for part in content]
        wrapped.append({"role": one["role"], "content": parts})
    return render(wrapped, template)


def placed(conversation: list, record: dict) -> None:
    """Notes which frames of the video paravt-bench sent, which a request does not say."""
    for request in conversation:
        for sent, recorded in zip(request["messages"], record["transcript"]["messages"]):
            shown = [[frame["index"] for frame in part["frames"]] for part in recorded["parts"] if "frames" in part]
            for part in sent["parts"]:
                if isinstance(part, Video):
                    part.picked = shown.pop(0)


def settings(checkout: str, agent: str) -> dict:
    """The arguments of a model in the release's list."""
    tree = ast.parse(Path(checkout, FOLDER, "config.py").read_text(encoding="utf-8"))
    series = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "video_o3_series")
    call = dict(zip((key.value for key in series.keys), series.values))[agent]
    return {keyword.arg: eval(compile(ast.Expression(keyword.value), "config.py", "eval")) for keyword in call.keywords}


class Datasets:
    """The release's data sets: their frames and the fields of their questions."""

    NAMES = {"videomme": "Video-MME", "lvbench": "LVBench", "longvideobench": "LongVideoBench", "mlvu": "MLVU"}

    def __init__(self, checkout: str, folder: str):
        self.folder = folder
        self.path = lambda name: os.path.join(checkout, FOLDER, "dataset", name)
        names = {"os": os, "osp": os.path, "np": np, "Image": Image, "json": json, "subprocess": subprocess, "re": re,
                 "tqdm": lambda frames, **_: frames}
        base = functions(self.path("video_base.py"), {"frame_paths_fps"}, dict(names))["frame_paths_fps"]
        config = Path(self.path("video_dataset_config.py")).read_text(encoding="utf-8")
        limit, = set(re.findall(r"_2fps_limit_768': partial\(\w+, dataset='[^']*', fps=(2.0), frames_limit=(768)\)", config))
        os.makedirs(folder, exist_ok=True)
        self.sets = {}
        for split, name in self.NAMES.items():
            # MLVU's file has two data sets; the first is that with options.
            found = functions(self.path(f"{split}.py"), {"save_video_frames", "dump_prompt_info", "qa_template", "_polish_answer"}, dict(names))
            methods = {method: found[method] for method in ("save_video_frames", "dump_prompt_info", "qa_template") if method in found}
            kind = type(name, (), {**methods, "frame_paths_fps": base})
            of = kind()
            of.__dict__.update(dataset_name=name, data_root=folder, frame_root=os.path.join(folder, "images", split), nframe=0,
                               fps=float(limit[0]), frames_limit=int(limit[1]), use_subtitle=False, frame_tmpl="frame-{}-of-{}.jpg",
                               frame_tmpl_fps="frame-{}-of-{}-{}fps.jpg")
            self.sets[split] = of
        polish = functions(self.path("lvbench.py"), {"_polish_answer"}, dict(names))["_polish_answer"]
        letters = {split: functions(self.path(f"utils/{split}.py"), {"extract_characters_regex"}, dict(names))["extract_characters_regex"]
                   for split in ("videomme", "longvideobench")}
        # What is guessed from the texts of the options where no letter is found is left out.
        guess = {**names, "extract_answer_from_item": lambda *_: {"opt": None}}
        mlvu = functions(self.path("utils/mlvu.py"), {"check_ans_with_model"}, guess)["check_ans_with_model"]
        self.is_right = {**{split: lambda text, gold, read=read: read(text) == gold for split, read in letters.items()},
                         "lvbench": lambda text, gold: polish(text) == gold,
                         "mlvu": lambda text, gold: mlvu(text, f"({gold}) x", None, {"question": "", "answer": gold})}

    def line(self, split: str, sample: dict, path: str) -> dict:
        question, gold = sample["question"], sample["gold"]
        stem = os.path.basename(path).rsplit(".", 1)[0]
        os.makedirs(os.path.join(self.folder, "video"), exist_ok=True)
        link = os.path.join(self.folder, "video", f"{stem}.mp4")
        if not os.path.islink(link):
            os.symlink(path, link)
        line = {"video": stem, "video_path": f"video/{stem}.mp4", "question": question["stem"], "prefix": "video"}
        if split == "videomme":
            line["candidates"] = repr(lettered(sample))
        elif split == "longvideobench":
            line["candidates"] = repr(question["options"])
        elif split == "mlvu":
            line.update(video=f"{stem}.mp4", candidates=repr(question["options"]),
                        answer=question["options"][question["letters"].index(gold["answer"])])
        return line


def modules(checkout: str) -> dict:
    """The packages around the model's modules, without what they import."""
    package = lambda name, *path, **more: stub(name, __path__=[os.path.join(checkout, FOLDER, *path)], **more)
    listinstr = functions(os.path.join(checkout, FOLDER, "smp/misc.py"), {"listinstr"}, {})["listinstr"]
    return {
        "vlmeval": package("vlmeval"), "vlmeval.vlm": package("vlmeval.vlm", "vlm"),
        "vlmeval.vlm.base": stub("vlmeval.vlm.base", BaseModel=object),
        "vlmeval.vlm.video_o3": package("vlmeval.vlm.video_o3", "vlm", "video_o3"),
        "vlmeval.smp": stub("vlmeval.smp", get_gpu_memory=lambda: [80], listinstr=listinstr),
        "vlmeval.dataset": stub("vlmeval.dataset", DATASET_MODALITY=None),
    }


class Inputs(dict):
    """What a processor gives a model."""

    def to(self, _):
        return self

    @property
    def input_ids(self):
        return self["input_ids"]


class Scripted:
    """In the place of processor and weights."""

    def __init__(self, reply):
        import torch
        self.torch, self.reply, self.shown, self.picked = torch, reply, [], []
        ids = lambda text: types.SimpleNamespace(input_ids=[ord(letter) for letter in text])

        class Tokenizer:
            bos_token_id, video_token_id = None, -1
            __call__ = staticmethod(ids)
            decode = staticmethod(lambda row, **_: "".join(chr(letter) for letter in row))
            batch_decode = staticmethod(lambda rows, **_: ["".join(chr(letter) for letter in row) for row in rows])

        self.tokenizer = Tokenizer()

    def apply_chat_template(self, conversations, tokenize, add_generation_prompt, chat_template):
        self.messages, = conversations
        return render(self.messages, chat_template)

    def __call__(self, text, images, videos, return_tensors, padding=None, video_metadata=None, do_resize=None,
                 do_sample_frames=False, fps=None, n_frames=None):
        # Qwen2.5-VL's release gives no metadata: transformers then takes the frames from 0 on at its rate.
        assert not do_sample_frames and len(videos) == len(video_metadata or videos)
        metadata = iter(video_metadata or [{"fps": RATE, "frames_indices": list(range(len(video)))} for video in videos])
        self.processed = None if do_resize is None else {"do_resize": do_resize}
        videos, picked = list(videos), list(self.picked)

        def frames(_):
            levels = videos.pop(0).numpy().transpose(0, 2, 3, 1)
            assert (levels == np.rint(levels)).all()
            place = next(metadata)
            indices = place["frames_indices"]
            rate = len(indices) / (indices[-1] + 1) * place["fps"]
            return Video(levels.astype(np.uint8), indices, rate, picked.pop(0))

        messages = [message(one, frames) for one in self.messages]
        assert not videos and images is None
        self.conversation, self.text = messages, text
        # Longer than any text that ends a generation.
        return Inputs(input_ids=self.torch.tensor([[ord("p")] * 64]))

    def eval(self):
        pass

    def generate(self, input_ids, stopping_criteria, max_new_tokens, do_sample, repetition_penalty, **_):
        keywords, = [criterion.keywords for criterion in stopping_criteria]
        parameters = {"temperature": 0 if not do_sample else None, "max_tokens": max_new_tokens, "stop": keywords,
                      "repetition_penalty": repetition_penalty, "prompt": self.text, "mm_processor_kwargs": self.processed}
        self.shown.append({"messages": self.conversation, "parameters": parameters})
        row = input_ids
        for letter in self.reply(self.conversation):
            row = self.torch.cat([row, self.torch.tensor([[ord(letter)]])], dim=1)
            if stopping_criteria(row, None):
                break
        return types.SimpleNamespace(sequences=row)


def video_o3(checkout: str, folder: str, reply, agent: str):
    import decord
    import transformers
    folder = os.path.join(folder, f"{agent}-theirs")
    datasets = Datasets(checkout, folder)
    os.environ["FORCE_QWENVL_VIDEO_READER"] = "decord"
    # Each call that it refuses is logged.
    logging.disable(logging.ERROR)
    sys.modules.update(modules(checkout))
    model = importlib.import_module("vlmeval.vlm.video_o3.model")
    arguments = settings(checkout, agent)

    def run(split: str, sample: dict, path: str):
        scripted = Scripted(reply)
        loaded = [mock.patch.object(kind, "from_pretrained", lambda *_, **__: scripted)
                  for kind in (transformers.AutoProcessor, transformers.Qwen2_5_VLForConditionalGeneration,
                               transformers.AutoModelForImageTextToText)]

        class Reader(decord.VideoReader):
            def get_batch(self, indices):
                scripted.picked.append(list(indices))
                return super().get_batch(indices)

        dataset = datasets.sets[split]
        with contextlib.ExitStack() as stack:
            for entered in [quietly(folder), *loaded]:
                stack.enter_context(entered)
            chat = model.VideoO3Chat(**arguments)
            line = datasets.line(split, sample, path)
            asked = chat.build_prompt(line, dataset)
            saved = dataset.save_video_frames(**{"mlvu": {"line": line}, "videomme": {"video": line["video"]}}.get(
                split, {"video_path": line["video_path"]}))
            indices = saved[1] if len(saved) == 3 else indices_of(dataset, path)
            scripted.picked.append(indices + indices[-1:] * (len(indices) % 2))
            with mock.patch.object(decord, "VideoReader", Reader):
                text = chat.generate_inner(asked, dataset=dataset.dataset_name)
        text = re.sub(r"\n\[TURN_COUNT: \d+\]\n\[INFERENCE_TIME: .*", "", text, flags=re.DOTALL)
        return scripted.shown, float(datasets.is_right[split](text, sample["gold"]["answer"]))

    return run


def indices_of(dataset, path: str) -> list:
    """MLVU's frames without their files: it does not give their indices."""
    asked = []

    class Frames:
        def __init__(self, path):
            self.video = known_reader(path)

        def __len__(self):
            return len(self.video)

        def get_avg_fps(self):
            return self.video.get_avg_fps()

        def __getitem__(self, index):
            asked.append(index)
            return self.video[index]

    import decord
    known_reader = decord.VideoReader
    root, dataset.frame_root = dataset.frame_root, dataset.frame_root + "-asked"
    stem = os.path.basename(path).rsplit(".", 1)[0]
    subprocess.run(["rm", "-rf", dataset.frame_root], check=True)
    with mock.patch.object(decord, "VideoReader", Frames):
        dataset.save_video_frames({"video": f"{stem}.mp4", "prefix": "video"})
    dataset.frame_root = root
    return asked
