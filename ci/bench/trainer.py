"""The trainer beside torch: the same model, conversations and AdamW step, in one run on the same cores.

    ci/bench/trainer.py [--steps 8] [--bin target/release/examples/sft_step] [--bench target/release/paravt-bench]

Takes the embedded base checkpoint and conversations (rows like those of the cold start, then of one kind
each: short text, the frames of a window, whole overviews, texts of growing length), and times a step of supervised training: forward, backward, clip,
AdamW. Torch runs transformers' model with its scaled-dot-product attention, once with the conversations of
a pack padded to one batch and once one after the other; the faster of the two counts. Losses of both
are compared first. Printed are the fastest steps and ratios. With --bench, also what a step of PARA-GRPO
costs by the number of rollouts of a prompt.
"""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "reproduce/nano/base"
STEP_TOKENS, PACKS = 4096, 2
NAMES = [f" {colour} {shape}" for colour in ("red", "green", "blue", "white") for shape in ("circle", "square")]


def words(count: int, rng: random.Random) -> str:
    """About so many tokens."""
    return ";".join(f"{rng.choice(NAMES)} {rng.randrange(150)}" for _ in range(max(1, count // 3)))


def conversation(frames: int, text: int, answer: int, folder: Path, rng: random.Random) -> list:
    import numpy
    from PIL import Image
    parts = []
    for number in range(frames):
        path = folder / f"{rng.randrange(64)}.png"
        if not path.exists():
            pixels = numpy.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=numpy.uint8)
            Image.fromarray(pixels).resize((64, 64), Image.NEAREST).save(path)
        parts.append({"type": "image_url", "image_url": {"url": f"file://{path}"}})
        parts.append({"type": "text", "text": f"{number}.0"})
    parts.append({"type": "text", "text": words(text, rng)})
    return [{"role": "user", "content": parts}, {"role": "assistant", "content": words(answer, rng)}]


# What the command sets for itself when it trains (suite/cli/src/threads.rs and memory.rs).
AS_THE_COMMAND = {"CANDLE_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1",
                  "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=2147483647:"
                                    "glibc.malloc.arena_max=1:glibc.malloc.mxfast=0"}

# Frames, tokens of the question and of what the assistant says, as twenty rows of the cold start of
# paravt-nano have them: windows of sub-agents, overviews with one call, several calls, and their answers.
COLD_START = ([(8, 14, 11)] * 8 + [(64, 35, 20)] * 4 + [(frames, 35, 20) for frames in (8, 16)]
              + [(frames, *text) for text in ((60, 50), (110, 66)) for frames in (8, 16, 32)])


def shapes(folder: Path) -> dict:
    """Conversations of one step by the name of what they look like."""
    kinds = {"rows of the cold start": COLD_START, "text, 100 tokens each": [(0, 50, 40)],
             "16 frames each": [(16, 30, 20)], "64 frames each": [(64, 60, 60)]}
    kinds |= {f"text, {length} tokens each": [(0, length // 2, length // 2)] for length in (512, 1024, 2048)}
    made = {}
    for name, sizes in kinds.items():
        rng = random.Random(name)
        order = itertools.cycle(rng.sample(sizes, len(sizes)))
        made[name], tokens = [], 0
        while tokens < STEP_TOKENS or len(made[name]) < PACKS:
            made[name].append(conversation(*next(order), folder, rng))
            tokens += len(example(made[name][-1])[0]["input_ids"])
    return made


def example(messages: list) -> tuple:
    """Processor outputs, and which tokens the assistant says."""
    import torch
    from PIL import Image
    global PROCESSOR
    if "PROCESSOR" not in globals():
        from transformers import AutoProcessor
        PROCESSOR = AutoProcessor.from_pretrained(MODEL)
    urls = [part["image_url"]["url"] for part in messages[0]["content"] if part["type"] == "image_url"]
    images = [Image.open(url.removeprefix("file://")).convert("RGB") for url in urls]
    chat = [{"role": "user", "content": [{"type": "image"} if part["type"] == "image_url" else part
                                         for part in messages[0]["content"]]}, messages[1]]
    text = PROCESSOR.apply_chat_template(chat, tokenize=False)
    inputs = PROCESSOR(text=[text], images=images or None)
    inputs = {key: torch.as_tensor(value) if key.startswith(("pixel", "image")) else value[0] for key, value in inputs.items()}
    encode = lambda words: PROCESSOR.tokenizer.encode(words, add_special_tokens=False)
    ids, head, end = inputs["input_ids"], encode("<|im_start|>assistant\n"), encode("<|im_end|>")[0]
    start = next(place for place in range(len(ids)) if ids[place:place + len(head)] == head) + len(head)
    stop = ids.index(end, start)
    return inputs, [start <= place <= stop for place in range(len(ids))]


def collate(batch: list) -> tuple:
    import torch
    length = max(len(inputs["input_ids"]) for inputs, _ in batch)
    pad = lambda values, fill: torch.tensor([list(row) + [fill] * (length - len(row)) for row in values])
    fields = {key: pad([inputs[key] for inputs, _ in batch], 0)
              for key in ("input_ids", "attention_mask", "mm_token_type_ids") if key in batch[0][0]}
    for key in ("pixel_values", "image_grid_thw"):
        found = [inputs[key] for inputs, _ in batch if key in inputs]
        if found:
            fields[key] = torch.cat(found)
    return fields, pad([trained for _, trained in batch], False)


def torch_worker() -> None:
    """Times torch on one file of conversations; prints as the example does."""
    import torch
    from transformers import AutoModelForImageTextToText
    path, padded, steps = sys.argv[2], sys.argv[3] == "padded", int(sys.argv[4])
    torch.set_num_threads(os.cpu_count())
    model = AutoModelForImageTextToText.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="sdpa").train()
    examples = [example(messages) for messages in json.load(open(path))]
    size = -(-len(examples) // PACKS) if padded else 1
    batches = [collate(examples[start:start + size]) for start in range(0, len(examples), size)]
    learned = sum(trained[:, 1:].sum() for _, trained in batches)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.999), weight_decay=0.0)
    losses, seconds = [], []
    for _ in range(steps):
        start, total = time.perf_counter(), 0.0
        optimizer.zero_grad()
        for inputs, trained in batches:
            model.model.rope_deltas = None
            hidden = model.model(**inputs, use_cache=False).last_hidden_state[:, :-1][trained[:, 1:]]
            targets = inputs["input_ids"][:, 1:][trained[:, 1:]]
            loss = torch.nn.functional.cross_entropy(model.lm_head(hidden), targets, reduction="sum") / learned
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        losses.append(total)
    tokens = sum(len(inputs["input_ids"]) for inputs, _ in examples)
    print(json.dumps({"tokens": tokens, "losses": losses, "seconds": seconds}))


def run(command: list, **variables: str) -> dict:
    out = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=os.environ | variables).stdout
    return json.loads(out.splitlines()[-1])


RECIPE = """
extends = "embedded"
title = "a few steps of reinforcement learning"
[world]
videos = 1
questions = 1
seed = 1
[data]
videos = 24
rows = 60
prompts = 40
[sft]
steps = 30
pack_tokens = 2048
packs_per_step = 2
[sft.optimizer]
learning_rate = 5e-4
[rl]
steps = 4
micro_batch_tokens = 4096
[rl.rollout]
semantics = "paper"
max_new_tokens = 192
group_size = GROUP
[evaluate]
profile = "strict"
nframes = 4
max_turns = 1
max_parallel = 1
max_tokens = 8
splits = ["charades"]
[[stages]]
name = "direct"
does = "evaluate"
matrix = ["seed"]
model = "{rl}/final"
mode = "direct"
"""


def group_growth(binary: str, folder: Path) -> None:
    """Seven prompts a step; the fastest of its steps."""
    print(f"\n{'rollouts of a prompt':28} {'step':>8} {'rollouts':>9} {'update':>8} {'tokens':>8} {'tokens/s':>9}")
    for group in (2, 4, 8, 16):
        (folder / "growth.toml").write_text(RECIPE.replace("GROUP", str(group)))
        subprocess.run([binary, "reproduce", str(folder / "growth.toml"), "--out", str(folder / "growth")],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        newest = max((folder / "growth/stages").glob("rl-*"), key=lambda path: path.stat().st_mtime)
        steps = [json.loads(line) for line in (newest / "training.jsonl").read_text().splitlines()]
        step = min(steps, key=lambda step: step["seconds"])
        update = step["seconds"] - step["rollout_seconds"]
        tokens = step["tokens_per_second"] * update
        print(f"{group:<28} {step['seconds']:7.2f}s {step['rollout_seconds']:8.2f}s {update:7.2f}s {tokens:8.0f} "
              f"{step['tokens_per_second']:9.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--bin", default=str(ROOT / "target/release/examples/sft_step"))
    parser.add_argument("--bench", help="the command, for the steps of reinforcement learning")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'a step of':28} {'tokens':>6} {'ours':>9} {'torch':>9} {'padded':>9} {'single':>9} {'ratio':>6}")
        for name, conversations in shapes(Path(folder)).items():
            path = Path(folder) / "conversations.json"
            path.write_text(json.dumps(conversations))
            ours = run([args.bin, str(MODEL), str(path), str(PACKS), str(args.steps)],
                       **AS_THE_COMMAND)
            theirs = {kind: run([sys.executable, __file__, "torch", str(path), kind, str(args.steps)])
                      for kind in ("padded", "single")}
            for kind, found in theirs.items():
                assert found["tokens"] == ours["tokens"], (name, kind, found["tokens"], ours["tokens"])
                off = abs(found["losses"][0] - ours["losses"][0])
                assert off < 1e-4 * ours["losses"][0], (name, kind, found["losses"][0], ours["losses"][0])
            times = {kind: min(found["seconds"]) for kind, found in theirs.items()}
            mine, best = min(ours["seconds"]), min(times.values())
            print(f"{name:28} {ours['tokens']:6} {mine:8.3f}s {best:8.3f}s {times['padded']:8.3f}s "
                  f"{times['single']:8.3f}s {best / mine:6.2f}", flush=True)
        if args.bench:
            group_growth(args.bench, Path(folder))


if __name__ == "__main__":
    torch_worker() if sys.argv[1:2] == ["torch"] else main()
