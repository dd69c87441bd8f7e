"""PyVision-RL's own loop, tool and verifier from the checkout in the first argument, for the scripts of `ci/compare/pyvision`.

The code runs as it is. Stand-ins are what it asks of a GPU or a network: vLLM's engine and groups, tokenizer and processor
(one token per character; a processor that returns a set number of tokens), the judge.
"""

import os
import random
import re
import sys
import types

import torch

import released

checkout = sys.argv[1]
root = os.path.join(checkout, "verl_agents/verl")


class Any:
    """Takes every attribute and call."""

    def __getattr__(self, name):
        return Any()

    def __call__(self, *given, **named):
        return Any()


def stand_in(name, **members):
    sys.modules[name] = released.stub(name, __getattr__=lambda member: Any(), **members)


def load(path, name):
    return released.load(name, os.path.join(root, path))


def functions(path, names, **known):
    """Functions of a file whose imports are not wanted."""
    return released.functions(os.path.join(root, path), names, known)


for package in ("verl", "verl.workers", "verl.workers.agent"):
    stand_in(package, __path__=[])
sys.modules["verl"].DataProto = types.SimpleNamespace(from_dict=lambda **parts: parts)
sys.modules["verl.workers.agent.tool_envs"] = load("workers/agent/tool_envs.py", "verl.workers.agent.tool_envs")
TOOLS = "workers/agent/envs/agents_x/safe_persis_python_exe_tool"
tool_file = load(f"{TOOLS}_wo_video_hint.py", "pyvision_tool")
image_tool_file = load(f"{TOOLS}_w_image_hint.py", "pyvision_image_tool")
unseen_tool_file = load(f"{TOOLS}_wo_image_hint.py", "pyvision_unseen_tool")


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


asked = []
verdict = types.SimpleNamespace(choices=[types.SimpleNamespace(message=types.SimpleNamespace(content="1"))])
completions = types.SimpleNamespace(create=lambda **given: verdict)
verifier = functions(
    "utils/reward_score/multi_task_verifier.py", ["extract_answer", "compute_score"], re=re, random=random,
    OpenAI=lambda **given: types.SimpleNamespace(chat=types.SimpleNamespace(completions=completions)),
    get_prompt=lambda answer, *rest: asked.append(answer))


def judged(response):
    """The answer that the verifier finds in a response and hands to its judge."""
    asked.clear()
    judge = {"api_key": "", "base_url": "", "model_name": ""}
    verifier["compute_score"](response, "A", {"question": "q"}, judge, "vsi")
    return (asked or [None])[0]


def roll_out(env, generate, prompt_length, response_length, given, max_turns, images=()):
    """One episode of the release's loop in an environment. `generate` answers as vLLM's does; `images` are those of the first
    prompt."""
    loop.ParallelEnv = env
    agent = types.SimpleNamespace(
        single_response_max_tokens=10240, tool_using_cumulative_reward_per_turn=0.1, custom_stop=["</code>"],
        vl_model_path="", max_turns=max_turns, concurrent_workers=1, show_tqdm=False)
    config = types.SimpleNamespace(agent=agent, prompt_length=prompt_length, response_length=response_length)
    batch = {"input_ids": torch.zeros(1, prompt_length, dtype=torch.int64),
             "attention_mask": torch.ones(1, prompt_length, dtype=torch.int64)}
    sampling = types.SimpleNamespace(n=1, stop=[])
    sampling.clone = lambda: types.SimpleNamespace(stop=[])
    first = {"prompt_token_ids": torch.zeros(given)}
    if images:
        first["multi_modal_data"] = {"image": list(images)}
    return loop.agent_rollout_loop(
        config, types.SimpleNamespace(generate=generate), [first],
        types.SimpleNamespace(batch=batch), None, sampling)


def generated(text, tokens):
    """What vLLM's engine gives back for one prompt."""
    out = types.SimpleNamespace(token_ids=[7] * tokens, finish_reason="stop", text=text)
    return [types.SimpleNamespace(outputs=[out])]
