"""The in-process engines beside transformers on the same weights and prompt, in one run on the CPU.

    ci/bench_engines.py [--backend candle] [--dtype f32] [--runs 3] [--small] [--dir DIR]

Saves a randomly initialised Qwen3-VL of about 0.5B parameters in bfloat16, as models are published (kept
in DIR, if given), and asks it for 64 tokens after 16 frames of 128 visual tokens and about 200 tokens of
text. Prefill is the time to the
first token, image processing included; decode the mean time of a token after it. Loading is in neither.
Printed are the fastest of the runs, ratios, and the peak memory beside the size of the weights.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
NEW_TOKENS = 64
TEXT = "What is shown in these frames? " * 4


def make_model(folder: Path, small: bool) -> None:
    import torch
    sys.path.insert(0, str(ROOT))
    import tiny_qwen3vl as tiny
    from transformers import (Qwen2VLImageProcessor, Qwen3VLConfig, Qwen3VLForConditionalGeneration,
                              Qwen3VLProcessor, Qwen3VLVideoProcessor)

    torch.manual_seed(0)
    tokenizer = tiny.make_tokenizer()
    token = {name: tokenizer.convert_tokens_to_ids(text) for name, text in tiny.TOKENS.items()}
    width, layers, depth = (256, 4, 4) if small else (1024, 24, 12)
    text = {"vocab_size": 151936, "hidden_size": width, "intermediate_size": 3 * width,
            "num_hidden_layers": layers, "num_attention_heads": width // 64, "num_key_value_heads": width // 128,
            "head_dim": 64, "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": token["end"],
            "pad_token_id": token["pad"],
            "rope_scaling": {"rope_type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": True}}
    vision = {"depth": depth, "hidden_size": 768, "intermediate_size": 3072, "num_heads": 12,
              "out_hidden_size": width, "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2,
              "deepstack_visual_indexes": [1, 2, 3], "num_position_embeddings": 2304}
    model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, image_token_id=token["image"],
        video_token_id=token["video"], vision_start_token_id=token["vision_start"],
        vision_end_token_id=token["vision_end"]))
    # No stop token: every run generates all it may.
    model.generation_config.eos_token_id = None
    model.to(torch.bfloat16).save_pretrained(folder)
    images = Qwen2VLImageProcessor(patch_size=16, merge_size=2, temporal_patch_size=2)
    Qwen3VLProcessor(image_processor=images, tokenizer=tokenizer, video_processor=Qwen3VLVideoProcessor(),
                     chat_template=tiny.TEMPLATE).save_pretrained(folder)


def make_prompt(folder: Path, frames: int) -> Path:
    import numpy
    from PIL import Image

    parts = []
    for number in range(frames):
        pixels = numpy.random.default_rng(number).integers(0, 255, (32, 64, 3), dtype=numpy.uint8)
        path = folder / f"{number}.png"
        Image.fromarray(pixels).resize((512, 256), Image.BICUBIC).save(path)
        parts.append({"type": "image_url", "image_url": {"url": f"file://{path}"}})
    messages = [{"role": "user", "content": [*parts, {"type": "text", "text": TEXT}]}]
    (folder / "messages.json").write_text(json.dumps(messages))
    return folder / "messages.json"


def report(seconds: dict, prompt_tokens: int) -> dict:
    return {"prefill": seconds[1], "decode": (seconds[NEW_TOKENS] - seconds[1]) / (NEW_TOKENS - 1),
            "prompt_tokens": prompt_tokens}


def reference(model: str, messages: str, dtype: str, runs: int) -> dict:
    """Runs in a process of its own: this one's threads and memory are not measured."""
    script = """
import json, sys, time, torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
folder, messages, dtype, runs, new = sys.argv[1], json.load(open(sys.argv[2])), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
model = AutoModelForImageTextToText.from_pretrained(folder, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[dtype]).eval()
processor = AutoProcessor.from_pretrained(folder)
parts = messages[0]["content"]
urls = [part["image_url"]["url"].removeprefix("file://") for part in parts if part["type"] == "image_url"]
chat = [{"role": "user", "content": [{"type": "image"}] * len(urls) + parts[len(urls):]}]
def once(count):
    start = time.time()
    text = processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    inputs = processor(text=[text], images=[Image.open(url).convert("RGB") for url in urls], return_tensors="pt")
    with torch.inference_mode():
        out = model.generate(**inputs, max_new_tokens=count, min_new_tokens=count, do_sample=False)
    assert out.shape[1] - inputs["input_ids"].shape[1] == count
    return time.time() - start, inputs["input_ids"].shape[1], out[0, inputs["input_ids"].shape[1]:].tolist()
once(2)
seconds = {count: min(once(count)[0] for _ in range(runs)) for count in (1, new)}
_, length, ids = once(new)
print(json.dumps({"seconds": seconds, "prompt_tokens": length, "ids": ids}))
"""
    out = subprocess.run([sys.executable, "-c", script, model, messages, dtype, str(runs), str(NEW_TOKENS)], check=True,
                         text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    found = json.loads(out.splitlines()[-1])
    return report({int(k): v for k, v in found["seconds"].items()}, found["prompt_tokens"]) | {"ids": found["ids"]}


def ours(binary: str, backend: str, model: str, messages: str, dtype: str, runs: int) -> dict:
    seconds, peak, answer = {}, 0, {}
    for count in (1, NEW_TOKENS):
        for _ in range(runs):
            command = ["/usr/bin/env", "time", "-f", "%M", binary, "generate", "--backend", backend, "--model", model,
                       "--messages", messages, "--max-tokens", str(count), "--dtype", dtype, "--json"]
            result = subprocess.run(command, check=True, text=True, capture_output=True)
            peak = max(peak, int(result.stderr.split()[-1]))
            answer = json.loads(result.stdout)
            assert answer["completion_tokens"] == count, answer
            seconds[count] = min(seconds.get(count, 1e9), answer["seconds"])
    return report(seconds, answer["prompt_tokens"]) | {"peak": peak, "ids": answer["token_ids"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="candle")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a model of 50M parameters, to try the script")
    parser.add_argument("--dir")
    parser.add_argument("--bin", default=os.environ.get("CARGO_TARGET_DIR", "target") + "/release/paravt-bench")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.dir or scratch) / ("engine-small" if args.small else "engine-05b")
        if not (folder / "config.json").exists():
            make_model(folder, args.small)
        messages = make_prompt(Path(scratch), 2 if args.small else 16)
        start = time.time()
        theirs = reference(str(folder), str(messages), args.dtype, args.runs)
        mine = ours(args.bin, args.backend, str(folder), str(messages), args.dtype, args.runs)
        weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert theirs["prompt_tokens"] == mine["prompt_tokens"], (theirs["prompt_tokens"], mine["prompt_tokens"])
    same = sum(a == b for a, b in zip(theirs["ids"], mine["ids"]))
    print(f"{args.backend} and transformers, {args.dtype}, {os.cpu_count()} cores, {mine['prompt_tokens']} prompt tokens, "
          f"{NEW_TOKENS} new; fastest of {args.runs} runs; {time.time() - start:.0f} s in all")
    for name, unit in [("prefill", 1), ("decode", 1000)]:
        text = "s" if unit == 1 else "ms/token"
        print(f"{name:8} transformers {theirs[name] * unit:8.2f} {text}   {args.backend} {mine[name] * unit:8.2f} {text}   "
              f"{theirs[name] / mine[name]:.2f}x")
    print(f"same greedy tokens {same} of {NEW_TOKENS}; peak memory {mine['peak'] / 1024:.0f} MiB, "
          f"weights {weights / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
