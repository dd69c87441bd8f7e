"""PyVision-RL's own loop and tool beside `paravt-bench run`, with one scripted model and real videos, for
`ci/compare/pyvision`.

    python ci/compare/pyvision_loop.py CHECKOUT BINARY SEED [VLLM]

The release's `agent_rollout_loop`, its environment and its tool run as they are, the tool's interpreters as processes of
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
from PIL import Image

import chat_server
import paravt_bench
from pyvision_release import Processor, checkout, functions, generated, judged, loop, roll_out, root, tool_file

binary, seed = sys.argv[2], int(sys.argv[3])
vllm = sys.argv[4] if len(sys.argv) > 4 else None
RealEnv = loop.ParallelEnv

ENDS = {1: "done", 2: "over_length", 3: "exceed_max_turns", 4: "exceed_max_images", 5: "error_in_action"}
VISION = "<|vision_start|><|image_pad|><|vision_end|>"
EPISODES = int(os.environ.get("EPISODES", 60))

CODES = [
    "print(len(video_clue_0), round(video_clue_0.get_avg_fps(), 3))",
    "frame = video_clue_0[{k}].asnumpy()\nprint(frame.shape, round(float(frame.mean()), 3))",
    "plt.imshow(video_clue_0[{k}].asnumpy())\nplt.show()",
    "import matplotlib.pyplot as plt\nframes = video_clue_0.get_batch([0, {k}]).asnumpy()\nfor f in frames:\n    plt.imshow(f); plt.axis('off')\n    plt.show()\nprint(frames.shape)",
    "fig, axes = plt.subplots(2, 2, figsize=(8, {s}))\nfor i, a in enumerate(axes.flat):\n    a.imshow(video_clue_0[i * {k} % len(video_clue_0)].asnumpy())\n    a.set_title(f'frame {{i}}')\nplt.tight_layout()\nplt.show()",
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
    """The scripted model: a function of question and turn."""
    draw = random.Random(f"{seed} {question} {turn}")
    many = random.Random(f"{seed} {question}").random() < 0.15
    kind = draw.random()
    values = {"k": draw.randrange(1, 40), "n": draw.choice([1, 2, 5]), "s": draw.choice([3, 6]), "d": draw.choice([50, 100, 150])}
    if many:
        # Up to 32 images.
        code = "for i in range(12):\n    plt.plot([i, 2])\n    plt.show()"
    elif kind < 0.6 or turn == 0 and kind < 0.9:
        code = draw.choice(CODES).format(**values)
    elif kind < 0.68:
        code = draw.choice(FAILING).format(**values)
    elif kind < 0.71:
        return "I do not know."
    else:
        return "I see. " + draw.choice(ANSWERS).format(letter=draw.choice("ABCD"))
    if draw.random() < 0.1:
        return f"Look:\n```python\n{code}\n```"
    return f"I plan to look.\n<code>\n```python\n{code}\n```\n</code>"


def question_of(text):
    return re.search(r"Question number \d+", text)[0]


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


def released(prompt, question, video):
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
            tool = tool_file.MultiModalPythonTool_wo_Video_Hint()
            tool.reset(None, None, {"video": [video]}, 0.1)
            self.tools = [tool]

        def close(self):
            for tool in self.tools:
                tool.close()

    def generate(prompts, sampling_params, use_tqdm):
        assert sampling_params.stop == ["</code>"] and sampling_params.include_stop_str_in_output
        turns.append(reply(question, len(turns)))
        return generated(turns[-1], 1)

    loop.execute_tool_call = noted
    result = roll_out(Env, generate, 8, 1 << 16, 1, 30)
    loop.execute_tool_call = step
    (reason,) = result["non_tensors"]["end_reason"]
    # The result after the last turn is not appended where an episode ends with it.
    response = "".join(itertools.chain(*itertools.zip_longest(turns, seen[:len(turns) - 1], fillvalue="")))
    return {"prompt": prompt, "turns": turns, "results": seen, "images": images, "end": ENDS[int(reason)],
            "answer": judged(response)}


def pixels(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))


def ours(request, record):
    """The same of a last request and a record. The last turn is in the record alone."""
    prompt, *messages = request["messages"]
    results, images = [], []
    for message in messages:
        if message["role"] != "user":
            continue
        parts = message["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        text = "".join(part["text"] if part["type"] == "text" else VISION for part in parts)
        results.append(f"\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
        images.append([base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in parts if part["type"] != "text"])
    turns = [message["content"] for message in messages if message["role"] == "assistant"]
    return {"prompt": prompt["content"], "turns": [*turns, record["transcript"]["final_text"]], "results": results,
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


def make(folder):
    """Videos, rows, and the file of the task."""
    rows = []
    for index, (size, rate, seconds) in enumerate([("320x240", "10", 6), ("640x360", "25", 4), ("352x288", "30000/1001", 3), ("176x144", "5", 20)]):
        ffmpeg = ["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}:duration={seconds}"]
        subprocess.run([*ffmpeg, "-pix_fmt", "yuv420p", os.path.join(folder, f"{index}.mp4")], check=True)
    for number in range(EPISODES):
        rows.append({"id": str(number), "video": f"{number % 4}.mp4", "question": f"Question number {number}: which?",
                     "options": ["one {k}", "two", "three", "four"], "answer": "ABCD"[number % 4]})
    with open(os.path.join(folder, "rows.json"), "w") as file:
        json.dump(rows, file)
    with open(os.path.join(folder, "task.toml"), "w") as file:
        file.write(TASK)
    return rows


TASK = """
name = "episodes"
layout = { annotations = ["rows.json"], videos = ["."] }

[row]
kind = "choice"
id = "id"
video = "{video}"
question = "{question}"
options = "options"
answer = "answer"
"""


def main():
    server = Server()
    with tempfile.TemporaryDirectory(prefix="pyvision-") as folder:
        rows = make(folder)
        bench = paravt_bench.command(binary, folder)
        bench("protocol", "import", "pyvision-video", "--from", checkout)
        out = os.path.join(folder, "out")
        bench("run", "--task", os.path.join(folder, "task.toml"), "--protocol", "pyvision-video", "--code-python", sys.executable,
              "--base-url", server.url, "--out", out, "--concurrency", "4")
        records = {record["sample"]["id"]: record for record in paravt_bench.records(os.path.join(out, "episodes"))}
        template = os.path.join(root, "utils/dataset/rl_system_prompt_template.json")
        known = functions("utils/dataset/rl_dataset_wo_mm_hint.py", ["transfer_to_rl_form_video", "sample_frames_from_video"],
                          json=json, os=os, np=np, Image=Image, VideoReader=decord.VideoReader, cpu=decord.cpu)
        counts = {"episodes": 0, "turns": 0, "results": 0, "figures": 0, "differences": 0}
        ends = {}
        for row in rows:
            video = os.path.join(folder, row["video"])
            query = row["question"] + "\nOptions:\n" + "\n".join(
                f"{letter}. {option}" for letter, option in zip("ABCD", row["options"]))
            given = {"video_path": video, "question": query, "answer": "A", "data_source": "s", "ability": "a", "id": 1}
            (made,) = known["transfer_to_rl_form_video"]([given], template)
            question = question_of(query)
            # The release says much.
            with contextlib.redirect_stdout(open(os.devnull, "w")):
                one = released(made["prompt"][0]["content"], question, video)
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
    print(", ".join(f"{count} {name}" for name, count in counts.items()) + "; ends: " + ", ".join(
        f"{count} {name}" for name, count in sorted(ends.items())))
    sys.exit(counts["differences"] > 0 or counts["figures"] == 0)


main()
