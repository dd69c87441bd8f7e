"""Random cases with the answers of PyVision-RL's own functions, for `ci/compare/pyvision`.

    python ci/compare/pyvision_cases.py CHECKOUT SEED > cases.json
"""

import base64
import contextlib
import io
import json
import os
import random
import re
import sys
import types

from PIL import Image

from pyvision_release import Any, Processor, Tokenizer, functions, generated, judged, loop, roll_out, root, tool_file

draw = random.Random(int(sys.argv[2]))
RealEnv = loop.ParallelEnv

PIECES = ["<answer>", "</answer>", "<code>", "</code>", "```python", "```", "\n", " ", "\t", "\x1c", "\x85", "\u00a0", "\u200b",
          *["<code>\n```python\n", "\n```\n</code>", "<answer>A</answer>", "x = 1"] * 3, "\r\n", "A", "\\boxed{", "}", *["<answer>\n\\boxed{", "}\n</answer>"] * 3, "<interpreter>", "</interpreter>",
          "<|vision_start|><|image_pad|>", "<|image_pad|><|vision_end|>", "<image>", "<|im_start|>system", "<|im_end|>", "ä", "é\u0301"]


def text(most=14):
    return "".join(draw.choice(PIECES) for _ in range(draw.randrange(most)))


def formats():
    pieces = ["{", "}", "{{", "}}", "{query}", "{video_info}", "{other}", "a", " ", "query", "\n"]
    for _ in range(20000):
        template = "".join(draw.choice(pieces) for _ in range(draw.randrange(8)))
        try:
            yield template, template.format(query="Q{0}", video_info="V")
        except (ValueError, KeyError, IndexError, AttributeError):
            yield template, None


def prompts():
    path = os.path.join(root, "utils/dataset/rl_system_prompt_template.json")
    known = functions("utils/dataset/rl_dataset_wo_mm_hint.py", ["transfer_to_rl_form_video"], json=json,
                      sample_frames_from_video=lambda path, num_frames: video)
    for _ in range(1000):
        fps = draw.choice([25.0, 30000 / 1001, 0.125, 2.675, 23.976, draw.uniform(0, 240)])
        video = {"width": draw.randrange(1, 8000), "height": draw.randrange(1, 8000),
                 "video_length": draw.randrange(1, 10**7), "fps": fps}
        query = text()
        row = {"video_path": "v", "question": query, "answer": "A", "data_source": "s", "ability": "a", "id": 1}
        (made,) = known["transfer_to_rl_form_video"]([row], path)
        yield {**video, "query": query, "prompt": made["prompt"][0]["content"]}


class Worker:
    """Answers as a `PersistentWorker` does."""

    def __init__(self, result):
        self.result = result

    def execute(self, code, messages):
        self.code = code
        return self.result

    def terminate(self):
        pass


def steps():
    file = io.BytesIO()
    Image.new("RGB", (2, 2)).save(file, format="PNG")
    picture = base64.b64encode(file.getvalue()).decode()
    for _ in range(5000):
        tool = tool_file.MultiModalPythonTool_wo_Video_Hint()
        tool.reset(None, None, {"video": ["v"]}, 0.1)
        turns = []
        total = 0
        for _ in range(draw.randrange(1, 4)):
            turn, stdout, figures = text(), text(6).strip(), draw.choice([0, 0, 1, 2, 5])
            total += figures
            kind = draw.choice(["success", "success", "success", "error"])
            if kind == "error":
                result = {"status": "error", "error": stdout}
            else:
                made = {"images": [picture] * figures} if figures else {}
                result = {"status": "success", "result": {"text": stdout, "total_figures": total, **made}}
            tool.persistent_worker = worker = Worker(result)
            tokenizer = Tokenizer()
            seen, _, done, info = loop.execute_tool_call(
                {"action": turn or " ", "tool": tool}, tokenizer=tokenizer, processor=Processor())
            turns.append({
                "turn": turn or " ", "stdout": stdout, "figures": figures, "fails": kind == "error", "total": total,
                "code": getattr(worker, "code", None), "answer": info.get("final_answer"), "done": done,
                "error": "error" in info, "observation": tokenizer.encoded if seen else None})
        yield turns


def verdicts():
    for _ in range(20000):
        response = text(24)
        yield response, judged(response)


def rules():
    known = functions("utils/reward_score/rule_match_verify.py",
                      ["_parse_number", "extract_answer_type", "_compute_mra", "compute_score_rule"],
                      re=re, _NUM_RE=re.compile(r"[-+]?\d*\.?\d+"))
    pieces = ["A", "B", "b", " ", ".", "-", "+", "1", "2.5", "0", "00", "e3", "m", "(", ")", "one", "\u0663", "\n"]
    for _ in range(10000):
        number = draw.random() < 0.6
        truth = str(draw.choice([1, 2, 2.4, 10, 0.3, 130, round(draw.uniform(0.1, 50), 1)])) if number else draw.choice("ABCD")
        answer = "".join(draw.choice(pieces) for _ in range(draw.randrange(5)))
        if number and draw.random() < 0.7:
            factor = draw.choice([1, 0.95, 1.05, 0.9, 1.1, 0.5, 1.5, 1.25, draw.uniform(0.3, 1.7)])
            answer += str(round(float(truth) * factor, draw.choice([1, 2, 6])))
        yield answer, truth, known["compute_score_rule"](answer, truth)


def looks():
    pieces = ["input(", "os.system(", "subprocess(", "input (", "os .system(", "os.popen(", "subprocess.run(", "x", ")", "\n", " ",
              ".", "get_", "'"]
    run = tool_file.SafeImageRuntime.exec_code
    for _ in range(2000):
        code = "".join(draw.choice(pieces) for _ in range(draw.randrange(6)))
        runtime = types.SimpleNamespace(_global_vars={"__builtins__": {}})
        try:
            run(runtime, code)
            found = False
        except Exception as error:
            found = "Forbidden" in str(error)
        yield code, found


class Scripted:
    """A tool whose results are those of a case."""

    name = "scripted"

    def __init__(self, turns):
        self.turns = iter(turns)

    def execute(self, action):
        turn = next(self.turns)
        if turn["kind"] == "answered":
            return "", 0.0, True, {"final_answer": "A"}
        info = {"error": "e"} if turn["kind"] == "failed" else {"status": "success"}
        if not turn["images"]:
            return "x" * turn["observed"], 0.1, False, info
        Scripted.tokens = turn["observed"]
        chat = [{"role": "user", "content": [{"text": "<image>"}]}]
        images = {"image": [Any() for _ in range(turn["images"])]}
        return {"prompt": "", "chat": chat, "multi_modal_data": images}, 0.1, False, info


def episodes():
    class Env(RealEnv):
        def reset(self, *given, **named):
            self.tools = [Scripted(turns)]

        def step(self, indices, actions):
            self.processor = lambda text, images, return_tensors: Processor(Scripted.tokens)(text, images, return_tensors)
            return super().step(indices, actions)

        def close(self):
            pass

    for _ in range(3000):
        prompt, response = draw.choice([(100, 200), (400, 200), (100, 2000)])
        limit = draw.choice([1, 2, 5, 30])
        images = draw.choice([(0,), (0, 1, 3), (0, 10, 31, 32)])
        turns = [{
            "tokens": draw.choice([1, 1, 2, 5, 20, 60, 199, 200]), "observed": draw.choice([1, 2, 9, 30, 199, 200]),
            "kind": draw.choice(["ran"] * 12 + ["failed", "answered"]), "images": draw.choice(images),
        } for _ in range(30)]
        given = draw.randrange(1, prompt + 1)
        script = iter(turns)

        def generate(prompts, sampling_params, use_tqdm):
            return generated("x", next(script)["tokens"])

        result = roll_out(Env, generate, prompt, response, given, limit)
        (reason,) = result["non_tensors"]["end_reason"]
        yield {
            "prompt": prompt, "context": prompt + response, "limit": limit, "turns": turns, "end": int(reason),
            "calls": int(result["tensors"]["tool_cnt"][0, 0]), "given": given,
            "images": sum(len(rows["pixel_values"]) for rows in result["non_tensors"]["multi_modal_inputs"] if rows),
        }


# The functions of the release say much.
with contextlib.redirect_stdout(open(os.devnull, "w")):
    cases = {maker.__name__: list(maker()) for maker in (formats, prompts, steps, verdicts, rules, looks, episodes)}
json.dump(cases, sys.stdout)
