"""The evaluations of models of one turn, run as they are with model and processor replaced; for ci/compare/agents.py."""
import contextlib
import importlib
import io
import json
import os
import re
import runpy
import shutil
import sys
import types
from unittest import mock

import numpy as np

from agents_shared import Video, interval, lettered
from released import functions, stub


class Evaluation:
    """What stands in the place of vLLM and transformers: keeps messages, frames and sampling, answers by the script."""

    def __init__(self, reply):
        import decord
        decord.bridge.set_bridge("native")
        self.reply, self.shown, self.conversations, self.picked = reply, [], [], {}
        evaluation = self

        class Reader(decord.VideoReader):
            def __init__(self, path, *arguments, **settings):
                # VideoRFT puts a folder of its authors' machine in front.
                self.path = path.removeprefix("/newdata1")
                super().__init__(self.path, *arguments, **settings)

            def get_batch(self, indices):
                evaluation.picked[os.path.realpath(self.path)] = list(indices)
                return super().get_batch(indices)

        self.reader = mock.patch.object(decord, "VideoReader", Reader)

    def template(self, messages, tokenize, add_generation_prompt):
        """In the place of the chat template: the number of the conversation."""
        self.conversations.append(messages)
        return f"<{len(self.conversations) - 1}>"

    def messages(self, number: int, video, fps: float) -> list:
        canonical = []
        for message in self.conversations[number]:
            parts = []
            for part in message["content"]:
                if "video" in part:
                    path = os.path.realpath(part["video"].removeprefix("/newdata1"))
                    levels = video.numpy().transpose(0, 2, 3, 1)
                    assert (levels == np.rint(levels)).all()
                    parts.append(Video(levels.astype(np.uint8), self.picked[path], fps))
                else:
                    parts.append(part["text"])
            canonical.append({"role": message["role"], "parts": parts, "plain": False})
        return canonical

    def ask(self, messages: list, parameters: dict) -> str:
        self.shown.append({"messages": messages, "parameters": parameters})
        return self.reply(messages)

    def vllm(self) -> types.ModuleType:
        evaluation = self

        class Sampling(types.SimpleNamespace):
            # Default of vLLM 0.8.
            repetition_penalty = 1.0

        class Model:
            def __init__(self, **_):
                pass

            def get_tokenizer(self):
                return evaluation.tokenizer

            def generate(self, prompts, sampling_params):
                each = sampling_params if isinstance(sampling_params, list) else [sampling_params] * len(prompts)
                return [self.one(prompt, sampling) for prompt, sampling in zip(prompts, each)]

            def one(self, prompt, sampling):
                text = prompt.get("prompt") or "".join(prompt["prompt_token_ids"])
                number, begun = re.match(r"(?s)<(\d+)>(.*)", text).groups()
                video, fps = prompt["multi_modal_data"]["video"], prompt["mm_processor_kwargs"]["fps"]
                video, fps = (video[0], fps[0]) if isinstance(video, list) else (video, fps)
                messages = evaluation.messages(int(number), video, fps)
                if begun:
                    messages.append({"role": "assistant", "parts": [begun], "plain": True})
                parameters = {name: getattr(sampling, name)
                              for name in ("temperature", "top_p", "max_tokens", "repetition_penalty")}
                if parameters["top_p"] == 1.0:
                    del parameters["top_p"]
                text = evaluation.ask(messages, parameters)
                return types.SimpleNamespace(outputs=[types.SimpleNamespace(text=text)])

        return stub("vllm", LLM=Model, SamplingParams=Sampling)

    @property
    def tokenizer(self):
        return types.SimpleNamespace(padding_side=None, encode=lambda text, add_special_tokens: [text])

    def transformers(self, **more) -> types.ModuleType:
        processor = types.SimpleNamespace(tokenizer=self.tokenizer, apply_chat_template=self.template)
        loaded = lambda found: types.SimpleNamespace(from_pretrained=lambda *_, **__: found)
        return stub("transformers", AutoProcessor=loaded(processor), AutoTokenizer=loaded(self.tokenizer),
                    Qwen2_5_VLForConditionalGeneration=None, ProcessorMixin=object, **more)


@contextlib.contextmanager
def inside(folder: str, modules: dict, paths: list, arguments: list = ()):
    """In a folder, with modules in the place of others, without output; imports of the authors' files are forgotten, and
    others of the same names are set aside."""
    os.makedirs(folder, exist_ok=True)
    before, found, called = os.getcwd(), list(sys.path), sys.argv
    provided = {entry.partition(".")[0] for path in paths for entry in os.listdir(path)}
    aside = {name for name in sys.modules if name in modules or name.partition(".")[0] in provided}
    aside = {name: sys.modules.pop(name) for name in aside}
    os.chdir(folder)
    sys.modules.update(modules)
    sys.path[:0] = paths
    sys.argv = ["evaluation", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.chdir(before)
        sys.argv, sys.path[:] = called, found
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if name in modules or any(file.startswith(path) for path in paths):
                sys.modules.pop(name)
        sys.modules.update(aside)


def bench(checkout: str, folder: str, reply, base: str, prefix: str, numbers: dict):
    """`src/eval_bench.py`; `numbers` are those that its README sets in the reader for an evaluation."""
    sets = ["mvbench", "tempcompass", "videomme", "videommmu", "vsibench", "mmvu"]
    folder = os.path.join(folder, base.strip("./") or "bench")
    reader = os.path.join(checkout, "src/qwen-vl-utils/src")

    def run(split: str, sample: dict, path: str):
        evaluation = Evaluation(reply)
        root = os.path.join(folder, base)
        shutil.rmtree(root, ignore_errors=True)
        for part in ("eval_results", "Evaluation"):
            os.makedirs(os.path.join(root, part))
        os.symlink(path, os.path.join(root, "Evaluation/clip.mp4"))
        options = lettered(sample)
        row = {"problem": sample["question"]["stem"], "options": options, "problem_type": "multiple choice" if options else "free-form",
               "data_type": "video", "solution": f"<answer>{sample['gold'].get('answer')}</answer>",
               "path": "./clip.mp4" if not prefix else f".{path}"}
        for name in sets:
            with open(os.path.join(root, f"Evaluation/eval_{name}.json"), "w", encoding="utf-8") as file:
                json.dump([row] if name == split else [], file)
        modules = {
            "vllm": evaluation.vllm(), "transformers": evaluation.transformers(),
            "nltk": stub("nltk"), "nltk.translate": stub("nltk.translate"), "rouge_score": stub("rouge_score", rouge_scorer=None),
            "nltk.translate.bleu_score": stub("nltk.translate.bleu_score", sentence_bleu=None, SmoothingFunction=None),
        }
        with inside(folder, modules, [reader], ["--model_path", "scripted", "--file_name", "x"]), evaluation.reader:
            importlib.import_module("qwen_vl_utils.vision_process").__dict__.update(numbers)
            runpy.run_path(os.path.join(checkout, "src/eval_bench.py"), run_name="__main__")
        with open(os.path.join(root, f"eval_results/eval_{split}_x_greedy_output.json"), encoding="utf-8") as file:
            return evaluation.shown, json.load(file)["results"][0]["reward"]

    return run


def video_r1(checkout: str, folder: str, reply):
    numbers = {"VIDEO_MAX_PIXELS": 256 * 28 * 28, "FPS_MAX_FRAMES": 64}
    return bench(checkout, folder, reply, "./src/r1-v", "", numbers)


def videorft(checkout: str, folder: str, reply):
    numbers = {"VIDEO_MIN_PIXELS": 256 * 28 * 28, "VIDEO_MAX_PIXELS": 256 * 28 * 28, "FPS_MIN_FRAMES": 32, "FPS_MAX_FRAMES": 32}
    return bench(checkout, folder, reply, ".", "/newdata1", numbers)


def videochat_r1(checkout: str, folder: str, reply):
    source = os.path.join(checkout, "src_eval")

    def run(split: str, sample: dict, path: str):
        evaluation = Evaluation(reply)

        class Inputs(dict):
            input_ids = [[0]]

            def to(self, device):
                return self

        class Processor:
            apply_chat_template = staticmethod(evaluation.template)

            def __call__(self, text, images, videos, fps, padding, return_tensors):
                return Inputs(messages=evaluation.messages(int(text[0].strip("<>")), videos[0], fps[0]))

            def batch_decode(self, ids, **_):
                return [self.text]

        processor = Processor()

        def generate(messages, max_new_tokens, use_cache):
            processor.text = evaluation.ask(messages, {"max_tokens": max_new_tokens})
            return [[0, 1]]

        client = stub("petrel_client.client", Client=lambda _: None)
        modules = {"transformers": evaluation.transformers(), "petrel_client": stub("petrel_client"), "petrel_client.client": client}
        item = {"sentences": [sample["question"]["stem"]], "duration": 0, "timestamps": [interval(sample)]}
        work = [{"vid": os.path.basename(path).removesuffix(".mp4"), "ann": item, "sentence_idx": 0}]
        with inside(os.path.join(folder, "videochat"), modules, [source]), evaluation.reader:
            module = importlib.import_module("evaluate_grounding")
            module.setup_model = lambda *_: (types.SimpleNamespace(generate=generate), processor)
            values, _ = module.process_work_items(work, os.path.dirname(path), "scripted", "cpu", "results")
        return evaluation.shown, float(values[0])

    return run


def time_r1(checkout: str, folder: str, reply):
    folder = os.path.join(folder, "time-r1")

    def run(split: str, sample: dict, path: str):
        import torch
        evaluation = Evaluation(reply)
        shutil.rmtree(folder, ignore_errors=True)
        for part in ("charades/Charades_anno", "charades/Charades_v1", "videomme/data"):
            os.makedirs(os.path.join(folder, "dataset", part))
        for part in ("charades/Charades_v1", "videomme/data"):
            os.symlink(path, os.path.join(folder, "dataset", part, "clip.mp4"))
        question = sample["question"]
        rows = [{"duration": "long", "videoID": "clip", "question": question["stem"], "options": lettered(sample),
                 "answer": sample["gold"].get("answer"), "question_id": "1"}]
        if split == "charades":
            item = {"duration": 1.0, "timestamps": [interval(sample)], "sentences": [question["stem"]]}
            with open(os.path.join(folder, "dataset/charades/Charades_anno/Charades_sta_test.json"), "w", encoding="utf-8") as file:
                json.dump({"clip": item}, file)
        devices = {f"is_torch_{kind}_available": lambda kind=kind: kind == "cuda" for kind in ("cuda", "npu", "xpu")}
        modules = {
            "vllm": evaluation.vllm(), "transformers": evaluation.transformers(), "transformers.utils": stub("transformers.utils", **devices),
            "datasets": stub("datasets", load_dataset=lambda *_, **__: rows),
        }
        results = os.path.join(folder, "results")
        # scripts/test.sh without its last switch, which its comment keeps for runs without thoughts.
        arguments = ["--model_base", "scripted", "--batch_size", "4", "--max_new_tokens", "1024", "--split", "test", "--datasets", split,
                     "--output_dir", results, "--use_r1_thinking_prompt", "--use_vllm_inference"]

        class Loader(list):
            """One batch in this process: what forked ones read would not be known here."""

            def __init__(self, data, batch_size, collate_fn, **_):
                super().__init__([collate_fn([data[index] for index in range(len(data))])])
                self.dataset = data

        with inside(folder, modules, [checkout], arguments), evaluation.reader, \
                mock.patch.object(torch.cuda, "device_count", lambda: 1):
            importlib.import_module("src.vllm_inference.data").DataLoader = Loader
            runpy.run_path(os.path.join(checkout, "evaluate.py"), run_name="__main__")
        names = {"compute_IoU", "mcq_is_correct", "load_scored_data"}
        score = functions(os.path.join(checkout, "src/vllm_inference/eval_all.py"), names, {"json": json, "os": os, "re": re, "np": np})
        with np.errstate(invalid="ignore"):
            value = list(score["load_scored_data"](results, split).values())[0]
        # Nothing of nothing: an interval that ends before it starts, on the other side of the right one.
        return evaluation.shown, 0.0 if np.isnan(value) else float(value)

    return run


class JudgeAsked(Exception):
    """Rules have found no answer."""


def qwen3_vl(checkout: str, folder: str, reply):
    """`infer_instruct.sh` and `eval_instruct.sh`, without the judge; the second resizing is the processor's."""
    source = os.path.join(checkout, "evaluation/VideoMME")
    folder = os.path.join(folder, "qwen3-vl-evaluation")
    names = ("temperature", "top_p", "top_k", "max_tokens", "repetition_penalty", "presence_penalty")

    def run(split: str, sample: dict, path: str):
        evaluation = Evaluation(reply)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "videos"))
        os.symlink(path, os.path.join(folder, "videos/clip.mp4"))
        row = {"duration": "short", "videoID": "clip", "domain": "", "sub_category": "", "question": sample["question"]["stem"],
               "options": lettered(sample), "answer": sample["gold"]["answer"], "question_id": "1"}
        processor = types.SimpleNamespace(image_processor=types.SimpleNamespace(patch_size=16),
                                          apply_chat_template=evaluation.template)

        class Model:
            def __init__(self, **_):
                pass

            def generate(self, prompts, sampling_params):
                (prompt,) = prompts
                (video, place), = prompt["multi_modal_data"]["video"]
                fps = len(video) / place["total_num_frames"] * place["fps"]
                messages = evaluation.messages(int(prompt["prompt"].strip("<>")), video, fps)
                text = evaluation.ask(messages, {name: getattr(sampling_params, name) for name in names})
                return [types.SimpleNamespace(outputs=[types.SimpleNamespace(text=text)])]

        def judge(_):
            raise JudgeAsked

        with open(os.path.join(source, "infer_instruct.sh"), encoding="utf-8") as file:
            settings = re.findall(r"(--(?!model-path|data-dir|output-file)[a-z-]+) (\S+)", file.read())
        files = [os.path.join(folder, name) for name in ("said.jsonl", "scores.csv")]
        infer = ["infer", "--model-path", "scripted", "--data-dir", folder, "--output-file", files[0],
                 "--tensor-parallel-size", "1", *(word for pair in settings if pair[0] != "--max-samples" for word in pair)]
        modules = {
            "vllm": stub("vllm", LLM=Model, SamplingParams=types.SimpleNamespace),
            "transformers": stub("transformers", AutoProcessor=types.SimpleNamespace(from_pretrained=lambda *_: processor)),
            "datasets": stub("datasets", load_dataset=lambda _: {"test": [row]}),
        }
        script = os.path.join(source, "run_videomme.py")
        with inside(folder, modules, [source], infer), evaluation.reader:
            runpy.run_path(script, run_name="__main__")
            sys.argv[1:] = ["eval", "--data-dir", folder, "--input-file", files[0], "--output-file", files[1], "--nproc", "1"]
            importlib.import_module("eval_utils").build_judge = lambda **_: types.SimpleNamespace(model="", generate=judge)
            try:
                runpy.run_path(script, run_name="__main__")
            except JudgeAsked:
                return evaluation.shown, 0.0
        with open(files[1].replace(".csv", "_acc.json"), encoding="utf-8") as file:
            return evaluation.shown, json.load(file)["overall_accuracy"]

    return run
