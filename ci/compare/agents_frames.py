"""The loops of agents that ask for frames, run as they are with a model object in the place of theirs; for
ci/compare/agents.py."""
import asyncio
import importlib
import json
import os
import re
import sys
import types
from pathlib import Path

import numpy as np
from PIL import Image

from agents_shared import lettered, message, picture, quietly
from released import functions, load

IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def conan(checkout: str, folder: str, reply):
    sys.path.insert(0, os.path.join(checkout, "Conan-Eval"))
    text = Path(checkout, "Conan-Eval/run.sh").read_text(encoding="utf-8")
    settings = dict(re.findall(r"--(max_frames|max_steps|max_new_tokens|temperature) (\S+)", text))
    parameters = {"temperature": float(settings["temperature"]), "max_tokens": int(settings["max_new_tokens"])}
    options = {"videomme": lambda sample: ", ".join(lettered(sample)), "lvbench": lambda sample: None}

    def run(split: str, sample: dict, path: str):
        module = importlib.import_module(split)
        shown = []

        class Model:
            def chat(self, asked, history=None):
                history = history if history is not None else []
                messages = [message(one, lambda part: picture(part["image"])) for one in history + asked]
                shown.append({"messages": messages, "parameters": parameters})
                text = reply(messages)
                history.append(asked[0])
                history.append({"role": "assistant", "content": text})
                return text, history

        of_split = options.get(split, lambda sample: "".join(line + "\n" for line in lettered(sample)))
        example = {"video_path": path, "question": sample["question"]["stem"], "options": of_split(sample),
                   "answer": sample["gold"]["answer"]}
        with quietly(folder):
            result = module.evaluate_example(
                Model(), example, "step", int(settings["max_frames"]), max_steps=int(settings["max_steps"]))
        return shown, float(result[3])

    return run


def eva(checkout: str, folder: str, reply):
    module = load("eval_eva", os.path.join(checkout, "eval-eva.py"))
    module.FRAME_SAVE_ROOT = os.path.join(folder, "eva-frames")
    tool = os.path.join(checkout, "select_frame_fallback.py")
    module.call_frame_select.__defaults__ = (*module.call_frame_select.__defaults__[:-1], tool)

    def first(name: str) -> str:
        with open(os.path.join(checkout, "data", name), encoding="utf-8") as file:
            return json.loads(file.readline())["prompt"][0]["content"]

    suffix = "\n" + first("LongVideoBench_nosub_raw_full.jsonl").rsplit("\n", 1)[1]
    mlvu = first("MLVU_MCQ_raw_full.jsonl")
    before, after = mlvu.split("Question: ")[0] + "Question: ", "\n" + mlvu.rsplit("\n", 1)[1]

    def question(split: str, sample: dict) -> str:
        stem = sample["question"]["stem"]
        if split == "lvbench":
            return stem.replace("\n", "\\n")
        if split == "mlvu":
            return before + stem + "\nOptions:\n" + "\n".join(lettered(sample, "({}) {}")) + after
        return stem + "\n" + "\n".join(lettered(sample)) + (suffix if split == "longvideobench" else "")

    def run(split: str, sample: dict, path: str):
        shown = []

        async def create(model, messages, temperature, max_tokens, timeout):
            canonical = [message(one, lambda part: picture(part["image_url"]["url"][len("file://"):])) for one in messages]
            shown.append({"messages": canonical, "parameters": {"temperature": temperature, "max_tokens": max_tokens}})
            choice = types.SimpleNamespace(message=types.SimpleNamespace(content=reply(canonical)))
            return types.SimpleNamespace(choices=[choice], usage=types.SimpleNamespace(total_tokens=1))

        completions = types.SimpleNamespace(create=create)
        module.aclient = types.SimpleNamespace(chat=types.SimpleNamespace(completions=completions))
        tokenizer = types.SimpleNamespace(apply_chat_template=lambda *_, **__: "")
        item = {"prompt": [{"role": "user", "content": question(split, sample)}], "videos": [path]}
        with quietly(folder):
            found = asyncio.run(module.single(0, item, "scripted", {"video_root": "/"}, tokenizer, 6, "mmss", 12000, 720, True))
        right = found["answer"].strip().upper() not in ("", None) and \
            found["answer"].strip().upper() == sample["gold"]["answer"].strip().upper()
        return shown, float(right)

    return run


def videozoomer(checkout: str, folder: str, reply):
    import math
    import time
    from copy import deepcopy
    import torch
    from decord import VideoReader, bridge, cpu
    from mathruler.grader import extract_boxed_content

    base = {"re": re, "json": json, "os": os, "np": np, "math": math, "time": time, "asyncio": asyncio, "torch": torch,
            "deepcopy": deepcopy, "VideoReader": VideoReader, "cpu": cpu, "Image": Image}
    rollout = os.path.join(checkout, "verl/workers/rollout/vllm_rollout")
    tool = functions(os.path.join(rollout, "function_tools.py"),
                     {"prepare_tool_call_inputs_video", "extract_video_clip"}, dict(base))
    base.update({name: tool[name] for name in ("prepare_tool_call_inputs_video", "extract_video_clip")})
    base["FinishReasonTypeEnum"] = types.SimpleNamespace(from_str=lambda _: None)
    loop = functions(os.path.join(rollout, "vllm_async_engine.py"),
                     {"process_tool_call", "_async_rollout_a_request"}, dict(base))
    dataset = functions(os.path.join(checkout, "verl/utils/dataset/multimodal_dataset.py"), {"process_video"}, dict(base))
    score = functions(os.path.join(checkout, "verl/utils/reward_score/openr1.py"), {"judge_multi_choice"}, {**base, "extract_boxed_content": extract_boxed_content})
    settings = Path(checkout, "scripts/eval_video.sh").read_text(encoding="utf-8")
    number = lambda name: float(re.search(rf"{re.escape(name)}=([\d.]+)", settings).group(1))
    system = re.search(r"'data\.system_prompt=\"(.*?)\"'", settings, re.DOTALL).group(1).replace('\\"', '"')
    pixels = {"max_pixels": int(number("data.max_pixels")), "min_pixels": int(number("data.min_pixels"))}

    # Conan's code asks for torch tensors.
    bridge.set_bridge("native")

    def parsed(prompt: str, images: list) -> list:
        messages, images = [], iter(images)
        for role, text in re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", prompt, re.DOTALL):
            parts = []
            for place, piece in enumerate(text.split(IMAGE)):
                if place:
                    parts.append(picture(next(images)))
                if piece:
                    parts.append(piece)
            messages.append({"role": role, "parts": parts, "plain": role != "user"})
        return messages

    def run(split: str, sample: dict, path: str):
        shown, texts = [], {}
        config = types.SimpleNamespace(rollout=types.SimpleNamespace(
            val_n=1, n=1, data_max_pixels=pixels["max_pixels"], data_min_pixels=pixels["min_pixels"],
            tool_call_max_frames=int(number("actor_rollout_ref.rollout.tool_call_max_frames")),
            get=lambda _, __: {"image": 128}))

        class Engine:
            sampling_params = types.SimpleNamespace(
                n=1, stop=None, include_stop_str_in_output=False, temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0)

            async def generate(self, prompt, sampling_params, request_id):
                messages = parsed("".join(prompt["prompt_token_ids"]), prompt["multi_modal_data"]["image"])
                text = reply(messages)
                for stop in sampling_params.stop:
                    if stop in text:
                        text = text.partition(stop)[0] + stop
                shown.append({"messages": messages, "parameters": {
                    "temperature": sampling_params.temperature, "stop": sampling_params.stop,
                    # Default of vLLM.
                    "repetition_penalty": getattr(sampling_params, "repetition_penalty", 1.0),
                    "max_tokens": int(number("data.max_response_length"))}})
                token = 1000 + len(texts)
                texts[token] = text
                output = types.SimpleNamespace(text=text, token_ids=[token], finish_reason="stop")
                yield types.SimpleNamespace(outputs=[output])

        class Tokens(list):
            """Ids of a reply become its text, so that the prompt stays a list of texts."""
            def __iadd__(self, added):
                for one in added:
                    self.append(one if isinstance(one, str) else texts.get(one, "<|im_end|>"))
                return self

        class Tokenizer:
            def encode(self, text):
                return [text]

            def decode(self, ids, skip_special_tokens):
                return "".join(texts.get(one, "") for one in ids)

        self = types.SimpleNamespace(
            config=config, max_generation_round=int(number("actor_rollout_ref.rollout.max_generation_round")),
            engine=Engine(), sampling_params=Engine.sampling_params, tokenizer=Tokenizer(),
            post_process_single=lambda *_: (None, None), is_fix_frame=False)
        self.process_tool_call = types.MethodType(loop["process_tool_call"], self)
        with quietly(folder):
            times, frames = dataset["process_video"](
                self, path, number("data.video_fps"), int(number("data.frames_upbound")), **pixels)
            question = "\n" + sample["question"]["stem"]
            question += "".join("\n" + line for line in lettered(sample)) if sample["question"]["options"] else ""
            labels = "".join(f"<frame{i}_time{times[i]:.2f}s>{IMAGE}" for i in range(len(frames)))
            prompt = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{labels}{question}<|im_end|>\n<|im_start|>assistant\n"

            class Request(types.SimpleNamespace):
                def __deepcopy__(self, memo):
                    return Request(**self.__dict__)

            request = Request(raw_prompt_id=Tokens([prompt]), multi_modal_data={"image": list(frames)}, input_ids=[0],
                              attention_mask=[0], position_ids=[0], request_id="r", video_path=path)
            asyncio.run(loop["_async_rollout_a_request"](self, request, asyncio.Semaphore(1), False, True))
        gold = sample["gold"]["answer"]
        return shown, float(score["judge_multi_choice"](" ".join(texts.values()), gold))

    return run
