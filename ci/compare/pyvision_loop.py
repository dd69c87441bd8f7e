"""PyVision-RL's own loop and tools beside `paravt-bench run`, with one scripted model, real videos and images, for
`ci/compare/pyvision`.

    python ci/compare/pyvision_loop.py CHECKOUT BINARY SEED [VLLM]

The release's `agent_rollout_loop`, its environment and its three tools run as they are, the tools' interpreters as processes of
their own; stand-ins are the engine (the script), tokenizer and processor (one token per character). paravt-bench asks a server
of the same script and runs the same code in its jail. Equal means: the first prompt, every turn, every result as text with
its images in place, every figure's pixels, why the episode ends, and what the release's verifier takes for the answer.
"""

import base64
import contextlib
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import decord
import numpy as np
import qwen_vl_utils
from PIL import Image

import chat_server
import paravt_bench
from pyvision_release import (
    Processor, checkout, functions, generated, image_tool_file, judged, loop, roll_out, root, tool_file, unseen_tool_file)

binary, seed = sys.argv[2], int(sys.argv[3])
vllm = sys.argv[4] if len(sys.argv) > 4 else None
RealEnv = loop.ParallelEnv

ENDS = {1: "done", 2: "over_length", 3: "exceed_max_turns", 4: "exceed_max_images", 5: "error_in_action"}
VISION = "<|vision_start|><|image_pad|><|vision_end|>"
EPISODES = int(os.environ.get("EPISODES", 60))

VIDEO_CODES = [
    "print(len(video_clue_0), round(video_clue_0.get_avg_fps(), 3))",
    "frame = video_clue_0[{k}].asnumpy()\nprint(frame.shape, round(float(frame.mean()), 3))",
    "plt.imshow(video_clue_0[{k}].asnumpy())\nplt.show()",
    "import matplotlib.pyplot as plt\nframes = video_clue_0.get_batch([0, {k}]).asnumpy()\nfor f in frames:\n    plt.imshow(f); plt.axis('off')\n    plt.show()\nprint(frames.shape)",
    "fig, axes = plt.subplots(2, 2, figsize=(8, {s}))\nfor i, a in enumerate(axes.flat):\n    a.imshow(video_clue_0[i * {k} % len(video_clue_0)].asnumpy())\n    a.set_title(f'frame {{i}}')\nplt.tight_layout()\nplt.show()",
]
IMAGE_CODES = [
    "print(CLUE.size, CLUE.mode, CLUE.format, sorted(name for name in globals() if 'clue' in name or 'hint' in name))",
    "part = CLUE.crop((0, 0, {k} + 9, {k} + 5))\nprint(part.size, round(float(np.asarray(part).mean()), 3))",
    "plt.imshow(CLUE)\nplt.show()",
    "for turn in (0, 90):\n    plt.imshow(CLUE.rotate(turn, expand=True)); plt.axis('off')\n    plt.show()\nprint('both')",
    "fig, axes = plt.subplots(1, 2, figsize=(8, {s}))\naxes[0].imshow(CLUE.convert('L'), cmap='gray')\naxes[1].hist(np.asarray(CLUE).ravel(), bins={k})\nplt.show()",
    "print(CLUE.getexif().get(274), 'VideoReader' in globals())",
]
CODES = [
    "print(len(_captured_figures))",
    "for i in range({n}):\n    plt.plot([i, {k}], label='é')\n    plt.legend(); plt.show()\nprint('  shown  ')",
    "count = {k}",
    "print(count + 1)",
    "plt.hist(np.arange({k}) % 7)\nplt.show()\nimport sys; print('hidden', file=sys.stderr)",
    "def area(a, b):\n    return a * b\nprint(area({k}, 3)); print('Zeile\\tß <b>')",
    "from PIL import Image\nplt.figure(dpi={d}); plt.imshow(np.zeros((4, 6, 3))); plt.show()",
]
FAILING = ["1 / 0", "print(", "x = undefined_name", "raise ValueError('no {k}')", "input('x')", "plt.figure(figsize=(300, 1)); plt.show()"]
ANSWERS = ["<answer>\n\\boxed{{{letter}}}\n</answer>", "<answer>{letter}</answer>", "<answer>\n\\boxed{{\\text{{{letter}}}}}\n</answer>"]


def reply(question, turn):
    """The scripted model: a function of question and turn. Its code has what the question is about as CLUE."""
    kind = MODES[question.split()[0]]
    return written(question, turn, VIDEO_CODES if kind.of_video else IMAGE_CODES).replace("CLUE", kind.variable)


def written(question, turn, own):
    draw = random.Random(f"{seed} {question} {turn}")
    many = random.Random(f"{seed} {question}").random() < 0.15
    kind = draw.random()
    values = {"k": draw.randrange(1, 40), "n": draw.choice([1, 2, 5]), "s": draw.choice([3, 6]), "d": draw.choice([50, 100, 150])}
    if many:
        # Up to 32 images.
        code = "for i in range(12):\n    plt.plot([i, 2])\n    plt.show()"
    elif kind < 0.6 or turn == 0 and kind < 0.9:
        code = draw.choice(own + CODES).format(**values)
    elif kind < 0.68:
        code = draw.choice(FAILING).format(**values)
    elif kind < 0.71:
        return "I do not know."
    else:
        return "I see. " + draw.choice(ANSWERS).format(letter=draw.choice("ABCD"))
    if draw.random() < 0.1:
        return f"Look:\n```python\n{code}\n```"
    return f"I plan to look.\n<code>\n```python\n{code}\n```\n</code>"


def question_of(content):
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return re.search(r"(Film|Image|Hint) question number \d+", text)[0]


class Mode:
    """A protocol, the release's tool, and how the release makes its first prompt."""

    def __init__(self, protocol, tool, variable, data=None, function=None):
        self.protocol, self.tool, self.variable = protocol, tool, variable
        self.of_video = data is None
        self.data, self.function = data, function


MODES = {
    "Film": Mode("pyvision-video", tool_file.MultiModalPythonTool_wo_Video_Hint, "video_clue_0"),
    "Image": Mode("pyvision-image", image_tool_file.MultiModalPythonTool_w_Image_Hint, "image_clue_0",
                  "utils/dataset/rl_dataset.py", "transfer_to_rl_form_image_w_mm_hint"),
    "Hint": Mode("pyvision-image-unseen", unseen_tool_file.MultiModalPythonTool_wo_Image_Hint, "image_hint_0",
                 "utils/dataset/rl_dataset_wo_mm_hint.py", "transfer_to_rl_form_image"),
}
TEMPLATE = os.path.join(root, "utils/dataset/rl_system_prompt_template.json")
pictures = functions("utils/dataset/vision_utils.py", ["process_raw_image", "process_image"], Image=Image, BytesIO=io.BytesIO,
                     fetch_image=qwen_vl_utils.fetch_image)


def first_prompt(mode, query, file):
    """The release's first prompt as text, and the image in it as the model is shown it."""
    given = {"video_path": file, "image_path": file, "question": query, "answer": "A", "data_source": "s", "ability": "a", "id": 1}
    if mode.of_video:
        known = functions("utils/dataset/rl_dataset_wo_mm_hint.py", ["transfer_to_rl_form_video", "sample_frames_from_video"],
                          json=json, os=os, np=np, Image=Image, VideoReader=decord.VideoReader, cpu=decord.cpu)
        (made,) = known["transfer_to_rl_form_video"]([given], TEMPLATE)
        return made["prompt"][0]["content"], []
    known = functions(mode.data, [mode.function, "encode_image"], json=json, os=os, Image=Image, BytesIO=io.BytesIO, base64=base64,
                      tqdm=lambda rows, desc=None: rows, io=io)
    (made,) = known[mode.function]([given], TEMPLATE)
    text = made["prompt"][0]["content"]
    if mode.protocol != "pyvision-image":
        return text, []
    # `_build_messages_pyvision`, a method of the class of the data set.
    content = text.replace("<image>", f"<image_clue_0>{VISION}</image_clue_0>")
    shown = io.BytesIO()
    pictures["process_image"](file, 3136, 2_000_000).save(shown, format="PNG")
    return content, [shown.getvalue()]


class Server:
    """Answers by the script, without the text that stops a generation, itself or through vLLM, and keeps the last request of
    each question."""

    def __init__(self):
        self.requests = {}
        self.url = chat_server.serve(self.answer)

    def answer(self, request: dict) -> tuple:
        question = question_of(request["messages"][0]["content"])
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        self.requests[question] = request
        text = reply(question, turn)
        if vllm:
            return chat_server.said(vllm, request, text)[:3]
        stopped_by = "</code>" if text.endswith("</code>") else None
        return {"role": "assistant", "content": text.removesuffix("</code>")}, "stop", stopped_by


def released(mode, prompt, first, question, file):
    """An episode of the release: turns, results with their images, end."""
    turns, seen, images = [], [], []
    step = loop.execute_tool_call

    def noted(sample, tokenizer=None, processor=None, pbar=None):
        tokenizer.encoded = None
        found = step(sample, tokenizer, Processor(), pbar)
        if tokenizer.encoded is not None:
            seen.append(tokenizer.encoded)
            images.append([part["bytes"] for part in found[0].get("multi_modal_data", {}).get("image", [])])
        return found

    class Env(RealEnv):
        def reset(self, *given, **named):
            tool = mode.tool()
            medium = {"video": [file]} if mode.of_video else {"image": [pictures["process_raw_image"](file)]}
            tool.reset(None, None, medium, 0.1)
            self.tools = [tool]

        def close(self):
            for tool in self.tools:
                tool.close()

    def generate(prompts, sampling_params, use_tqdm):
        assert sampling_params.stop == ["</code>"] and sampling_params.include_stop_str_in_output
        turns.append(reply(question, len(turns)))
        return generated(turns[-1], 1)

    loop.execute_tool_call = noted
    result = roll_out(Env, generate, 8, 1 << 16, 1, 30, [Image.open(io.BytesIO(image)) for image in first])
    loop.execute_tool_call = step
    (reason,) = result["non_tensors"]["end_reason"]
    # The result after the last turn is not appended where an episode ends with it.
    response = "".join(itertools.chain(*itertools.zip_longest(turns, seen[:len(turns) - 1], fillvalue="")))
    return {"prompt": prompt, "turns": turns, "results": seen, "images": [first, *images], "end": ENDS[int(reason)],
            "answer": judged(response)}


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))


def ours(request, record):
    """The same of a last request and a record. The last turn is in the record alone."""
    prompt, *messages = request["messages"]

    def read(content):
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        shown = [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in parts if part["type"] != "text"]
        return "".join(part["text"] if part["type"] == "text" else VISION for part in parts), shown

    prompt, first = read(prompt["content"])
    found = [read(message["content"]) for message in messages if message["role"] == "user"]
    results = [f"\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n" for text, _ in found]
    images = [first, *(shown for _, shown in found)]
    turns = [message["content"] for message in messages if message["role"] == "assistant"]
    return {"prompt": prompt, "turns": [*turns, record["transcript"]["final_text"]], "results": results,
            "images": images, "end": record["transcript"]["episode"]["end"],
            "answer": record["own"]["score"]["prediction"], "calls": record["transcript"]["tool_calls"]}


def compare(a, b):
    """Names of what differs between an episode of the release and ours."""
    wrong = [name for name in ("prompt", "turns", "end", "answer") if a[name] != b[name]]
    shown = len(b["results"])
    # Without a next turn a result reaches no model.
    wrong += ["results"] * (a["results"][:shown] != b["results"] or shown != len(a["turns"]) - 1)
    figures = 0
    for one, other in zip(a["images"], b["images"]):
        figures += len(one)
        same = len(one) == len(other) and all(np.array_equal(pixels(x), pixels(y)) for x, y in zip(one, other))
        wrong += [] if same else ["figures"]
    return wrong, figures


def films(folder):
    """Videos of several sizes and rates."""
    for index, (size, rate, seconds) in enumerate([("320x240", "10", 6), ("640x360", "25", 4), ("352x288", "30000/1001", 3), ("176x144", "5", 20)]):
        name = f"{index}.mp4"
        ffmpeg = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}:duration={seconds}"]
        subprocess.run([*ffmpeg, "-pix_fmt", "yuv420p", os.path.join(folder, name)], check=True)
        yield name


def photographs(folder):
    """Images of several formats, depths and sizes, one above the most pixels that a model is shown, one turned by its EXIF."""
    noise = np.random.default_rng(seed)
    for index, (width, height, mode, ending) in enumerate([
            (640, 427, "RGB", "jpg"), (2200, 1500, "RGB", "jpg"), (31, 25, "RGB", "png"), (333, 500, "RGBA", "png"),
            (200, 100, "L", "jpg"), (301, 299, "P", "png"), (64, 700, "CMYK", "jpg"), (120, 80, "RGB", "webp")]):
        name = f"{index}.{ending}"
        small = noise.integers(0, 255, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
        image = Image.fromarray(small).resize((width, height)).convert(mode)
        turned = image.getexif()
        if index == 0:
            turned[274] = 6
        image.save(os.path.join(folder, name), **({"exif": turned} if index == 0 else {}))
        yield name


def make(folder, kind):
    """Files, rows, and the file of the task."""
    names = list(films(folder) if MODES[kind].of_video else photographs(folder))
    rows = [{"id": str(number), "file": names[number % len(names)], "question": f"{kind} question number {number}: which?",
             "options": ["one {k}", "two", "three", "four"], "answer": "ABCD"[number % 4]} for number in range(EPISODES)]
    with open(os.path.join(folder, "rows.json"), "w") as file:
        json.dump(rows, file)
    with open(os.path.join(folder, "task.toml"), "w") as file:
        file.write(TASK.replace("MEDIUM", 'video = "{file}"' if MODES[kind].of_video else 'images = ["{file}"]'))
    return rows


TASK = """
name = "episodes"
layout = { annotations = ["rows.json"], videos = ["."] }

[row]
kind = "choice"
id = "id"
MEDIUM
question = "{question}"
options = "options"
answer = "answer"
"""


def episodes(kind, server):
    """All episodes of a mode: counts, and how they ended."""
    mode = MODES[kind]
    counts = dict.fromkeys(("episodes", "turns", "results", "figures", "differences"), 0)
    ends = {}
    with tempfile.TemporaryDirectory(prefix="pyvision-") as folder:
        rows = make(folder, kind)
        bench = paravt_bench.command(binary, folder)
        bench("protocol", "import", mode.protocol, "--from", checkout)
        out = os.path.join(folder, "out")
        bench("run", "--task", os.path.join(folder, "task.toml"), "--protocol", mode.protocol, "--code-python", sys.executable,
              "--base-url", server.url, "--out", out, "--concurrency", "4")
        records = {record["sample"]["id"]: record for record in paravt_bench.records(os.path.join(out, "episodes"))}
        for row in rows:
            file = os.path.join(folder, row["file"])
            query = row["question"] + "\nOptions:\n" + "\n".join(
                f"{letter}. {option}" for letter, option in zip("ABCD", row["options"]))
            question = question_of(query)
            # The release says much.
            with contextlib.redirect_stdout(open(os.devnull, "w")):
                one = released(mode, *first_prompt(mode, query, file), question, file)
            request = server.requests[question]
            other = ours(request, records[row["id"]])
            wrong, figures = compare(one, other)
            sampled = {name: request.get(name) for name in ("stop", "temperature", "max_tokens")}
            wrong += [] if sampled == {"stop": ["</code>"], "temperature": 0.01, "max_tokens": 10240} else ["sampling"]
            if wrong:
                print(question, wrong, json.dumps({"theirs": {**one, "images": None}, "ours": {**other, "images": None}}, indent=1)[:6000],
                      file=sys.stderr)
            counts["episodes"] += 1
            counts["turns"] += len(one["turns"])
            counts["results"] += len(other["results"])
            counts["figures"] += figures
            counts["differences"] += len(wrong)
            ends[one["end"]] = ends.get(one["end"], 0) + 1
    print(f"{mode.protocol}: " + ", ".join(f"{count} {name}" for name, count in counts.items()) + "; ends: " + ", ".join(
        f"{count} {name}" for name, count in sorted(ends.items())), flush=True)
    return counts["differences"] == 0 and counts["figures"] > 0


def main():
    server = Server()
    sys.exit(not all([episodes(kind, server) for kind in MODES]))


main()
