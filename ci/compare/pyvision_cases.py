"""Random cases with the answers of PyVision-RL's own functions, for `ci/compare/pyvision`.

    python ci/compare/pyvision_cases.py CHECKOUT SEED > cases.json

The functions run from the checkout as they are. Stand-ins are what they ask of a GPU or a network: vLLM's engine and
groups, tokenizer and processor (a token a character; a processor that gives as many tokens as the case says), the judge.
"""

import ast
import contextlib
import importlib.util
import json
import os
import random
import re
import sys
import types
import typing

import torch

checkout, seed = sys.argv[1], int(sys.argv[2])
root = os.path.join(checkout, "verl_agents/verl")
draw = random.Random(seed)


class Any:
    """Takes every attribute and call."""

    def __getattr__(self, name):
        return Any()

    def __call__(self, *given, **named):
        return Any()


def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__getattr__ = lambda member: Any()
    sys.modules[name] = module
    return module


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(root, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions(path, names, **known):
    """Functions of a file whose imports are not wanted."""
    tree = ast.parse(open(os.path.join(root, path)).read())
    body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    exec(compile(ast.Module(body, []), path, "exec"), known)
    return known


for package in ("verl", "verl.workers", "verl.workers.agent"):
    stand_in(package).__path__ = []
sys.modules["verl"].DataProto = types.SimpleNamespace(from_dict=lambda **parts: parts)
sys.modules["verl.workers.agent.tool_envs"] = load("workers/agent/tool_envs.py", "verl.workers.agent.tool_envs")
tool_file = load("workers/agent/envs/agents_x/safe_persis_python_exe_tool_wo_video_hint.py", "pyvision_tool")


def pad(rows, value, length):
    return torch.tensor([row.tolist() + [value] * (length - len(row)) for row in rows])


stand_in("verl.models"), stand_in("verl.models.transformers")
stand_in("verl.models.transformers.qwen2_vl")
stand_in("verl.utils", hf_tokenizer=lambda path: Tokenizer(), hf_processor=lambda path: Processor())
stand_in("verl.utils.dataset")
stand_in("verl.utils.dataset.vision_utils", process_image=lambda image: image)
stand_in("verl.utils.torch_functional", pad_2d_list_to_length=pad)
group = types.SimpleNamespace(is_first_rank=True, broadcast_object=lambda thing: thing)
stand_in("vllm"), stand_in("vllm.distributed", parallel_state=types.SimpleNamespace(get_tp_group=lambda: group))
stand_in("verl.utils.model", compute_position_id_with_mask=lambda mask: mask)
loop = load("workers/agent/parallel_env.py", "pyvision_loop")

SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"


class Tokenizer:
    """A token a character. The chat format is that of Qwen2.5-VL for one turn of the user."""

    pad_token_id = 0

    def __init__(self):
        self.encoded = None

    def __len__(self):
        return 1

    def get_vocab(self):
        return {"last": 1 << 30}

    def apply_chat_template(self, chat, add_generation_prompt, tokenize):
        (turn,) = chat
        text = "".join(item["text"] for item in turn["content"])
        return f"{SYSTEM}<|im_start|>{turn['role']}\n{text}<|im_end|>\n<|im_start|>assistant\n"

    def encode(self, text, add_special_tokens=False, return_tensors=None):
        self.encoded = text
        # The one that is counted in an observation with images is the processor's.
        tokens = [7] * (1 if "<|vision_start|>" in text else len(text))
        return torch.tensor([tokens]) if return_tensors else tokens


class Processor:
    """As many tokens as it is given."""

    def __init__(self, tokens=1):
        self.tokens = tokens
        self.image_processor = Any()

    def __call__(self, text, images, return_tensors):
        ids = torch.full((1, self.tokens), 7)
        return {"input_ids": ids, "attention_mask": ids, "pixel_values": torch.zeros(len(images), 1)}


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
    picture = io_png()
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


def io_png():
    import base64
    import io

    from PIL import Image
    file = io.BytesIO()
    Image.new("RGB", (2, 2)).save(file, format="PNG")
    return base64.b64encode(file.getvalue()).decode()


def verdicts():
    seen = []
    known = functions(
        "utils/reward_score/multi_task_verifier.py", ["extract_answer", "compute_score"], re=re, OpenAI=Any(),
        random=random, get_prompt=lambda answer, *rest: seen.append(answer))
    known["OpenAI"] = lambda **given: types.SimpleNamespace(chat=types.SimpleNamespace(completions=types.SimpleNamespace(
        create=lambda **given: types.SimpleNamespace(choices=[types.SimpleNamespace(
            message=types.SimpleNamespace(content="1"))]))))
    judge = {"api_key": "", "base_url": "", "model_name": ""}
    for _ in range(20000):
        response = text(24)
        seen.clear()
        known["compute_score"](response, "A", {"question": "q"}, judge, "vsi")
        yield response, (seen or [None])[0]


def rules():
    known = functions("utils/reward_score/rule_match_verify.py",
                      ["_parse_number", "extract_answer_type", "_compute_mra", "compute_score_rule"],
                      re=re, Optional=typing.Optional, Union=typing.Union, Any=typing.Any,
                      _NUM_RE=re.compile(r"[-+]?\d*\.?\d+"))
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


class Image:
    def save(self, file, format):
        pass


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
        images = {"image": [Image() for _ in range(turn["images"])]}
        return {"prompt": "", "chat": chat, "multi_modal_data": images}, 0.1, False, info


def episodes():
    class Env(loop.ParallelEnv):
        def reset(self, *given, **named):
            self.tools = [Scripted(turns)]

        def step(self, indices, actions):
            self.processor = lambda text, images, return_tensors: Processor(Scripted.tokens)(text, images, return_tensors)
            return super().step(indices, actions)

        def close(self):
            pass

    loop.ParallelEnv = Env
    for _ in range(3000):
        prompt, response = draw.choice([(100, 200), (400, 200), (100, 2000)])
        limit = draw.choice([1, 2, 5, 30])
        images = draw.choice([(0,), (0, 1, 3), (0, 10, 31, 32)])
        turns = [{
            "tokens": draw.choice([1, 1, 2, 5, 20, 60, 199, 200]), "observed": draw.choice([1, 2, 9, 30, 199, 200]),
            "kind": draw.choice(["ran"] * 12 + ["failed", "answered"]), "images": draw.choice(images),
        } for _ in range(30)]
        given = draw.randrange(1, prompt + 1)
        item = types.SimpleNamespace(
            batch={"input_ids": torch.zeros(1, prompt, dtype=torch.int64),
                   "attention_mask": torch.ones(1, prompt, dtype=torch.int64)})
        agent = types.SimpleNamespace(
            single_response_max_tokens=10240, tool_using_cumulative_reward_per_turn=0.1, custom_stop=["</code>"],
            vl_model_path="", max_turns=limit, concurrent_workers=1, show_tqdm=False)
        config = types.SimpleNamespace(agent=agent, prompt_length=prompt, response_length=response)
        script = iter(turns)

        def generate(prompts, sampling_params, use_tqdm):
            turn = next(script)
            out = types.SimpleNamespace(token_ids=[7] * turn["tokens"], finish_reason="stop", text="x")
            return [types.SimpleNamespace(outputs=[out])]

        sampling = types.SimpleNamespace(n=1, stop=[])
        sampling.clone = lambda: types.SimpleNamespace(stop=[])
        result = loop.agent_rollout_loop(
            config, types.SimpleNamespace(generate=generate), [{"prompt_token_ids": torch.zeros(given)}], item, None,
            sampling)
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
