"""The in-process engines beside transformers on the same weights and prompt, in one run.

    ci/bench/engines.py [--backend candle] [--dtype f32] [--device cpu] [--shape 0.5b] [--runs 3] [--dir DIR]

Saves a randomly initialised Qwen3-VL or Qwen2.5-VL in bfloat16, as models are published (kept in DIR, if given), and asks
it for 64 tokens after 16 frames of 128 or 162 visual tokens and about 200 tokens of text.
Prefill is the time to the first token, image processing included; decode the mean time of a token after it, of
the same answer. Loading is in neither. Each round has frames of its own and asks both, on a CPU one after the other, with
GOMP_SPINCOUNT=10000 unless it is set; on a GPU a round before them warms both up. Printed are the fastest of the rounds, the
median of their ratios, and the memory at its peak beside the plan; on a GPU also the fractions of its memory bandwidth (decode)
and of its bf16 matrix rate (prefill) that this comes to.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NEW_TOKENS = 64
TEXT = "What is shown in these frames? " * 4


# Width, layers, heads, key heads, MLP width, tied; vision width, depth, MLP width, heads. Names that end in 2.5 are of
# Qwen2.5-VL, the others of Qwen3-VL.
SHAPES = {"50m": (256, 4, 4, 2, 768, True, 768, 4, 3072, 12), "0.5b": (1024, 24, 16, 8, 3072, True, 768, 12, 3072, 12),
          "8b": (4096, 36, 32, 8, 12288, False, 1152, 27, 4304, 16), "50m-2.5": (256, 4, 4, 2, 768, True, 768, 8, 2048, 12),
          "0.5b-2.5": (1024, 24, 16, 8, 3072, True, 768, 12, 2048, 12), "7b-2.5": (3584, 28, 28, 4, 18944, False, 1280, 32, 3420, 16)}
# Bytes and bf16 operations per second that a GPU's data sheet names (dense, SXM).
LIMITS = {"H200": (4.8e12, 989e12), "H100": (3.35e12, 989e12), "A100": (2.04e12, 312e12)}


def make_model(folder: Path, shape: str, device: str = "cpu") -> None:
    import torch
    # The folder that has those scripts; `ci/gpu/pack` lays them out in the same way.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import tiny_qwen3vl
    import tiny_qwen25vl

    torch.manual_seed(0)
    width, layers, heads, keys, inner, tied, v_width, depth, v_inner, v_heads = SHAPES[shape]
    head = width // heads
    text = {"vocab_size": 151936, "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": keys, "tie_word_embeddings": tied}
    vision = {"depth": depth, "hidden_size": v_width, "intermediate_size": v_inner, "num_heads": v_heads, "out_hidden_size": width}
    if shape.endswith("2.5"):
        tiny, time = tiny_qwen25vl, head // 8
        text["rope_scaling"] = {"type": "mrope", "rope_type": "default", "mrope_section": [time, time * 3 // 2, time * 3 // 2]}
        vision["fullatt_block_indexes"] = list(range(7, depth, 8))
    else:
        tiny, space = tiny_qwen3vl, head * 5 // 32
        section = [head // 2 - 2 * space, space, space]
        text |= {"head_dim": head, "rope_scaling": {"rope_type": "default", "mrope_section": section, "mrope_interleaved": True}}
        vision["deepstack_visual_indexes"] = [1, 2, 3]
    tokenizer = tiny_qwen3vl.make_tokenizer()
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device(device)
    model = tiny.make_model(tokenizer, text, vision, tied)
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")
    # No stop token: every run generates all it may.
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    tiny.make_processor(tokenizer).save_pretrained(folder)
    del model
    if device != "cpu":
        torch.cuda.empty_cache()


def make_prompt(folder: Path, frames: int, size: tuple[int, int], round: int) -> Path:
    import numpy
    from PIL import Image

    parts = []
    for number in range(frames):
        pixels = numpy.random.default_rng([round, number]).integers(0, 255, (32, 64, 3), dtype=numpy.uint8)
        path = folder / f"{round}-{number}.png"
        Image.fromarray(pixels).resize(size, Image.BICUBIC).save(path, compress_level=1)
        parts.append({"type": "image_url", "image_url": {"url": f"file://{path}"}})
    messages = [{"role": "user", "content": [*parts, {"type": "text", "text": TEXT}]}]
    path = folder / f"{round}.json"
    path.write_text(json.dumps(messages))
    return path


class Reference:
    """transformers in a process of its own, so that this one's threads and memory are not measured: gets a
    file of messages a line, answers with the seconds to the first and to the last token."""

    SCRIPT = """
import json, sys, time, torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor
folder, dtype, device, count = *sys.argv[1:4], int(sys.argv[4])
model = AutoModelForImageTextToText.from_pretrained(folder, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[dtype]).eval().to(device)
processor = AutoProcessor.from_pretrained(folder)
class Clock:
    # A streamer: is given the prompt, then every token, copied from the device.
    def __init__(self):
        self.times = []
    def put(self, ids):
        self.times.append(time.time())
    def end(self):
        pass
for line in sys.stdin:
    parts = json.load(open(line.strip()))[0]["content"]
    urls = [part["image_url"]["url"].removeprefix("file://") for part in parts if part["type"] == "image_url"]
    chat = [{"role": "user", "content": [{"type": "image"}] * len(urls) + parts[len(urls):]}]
    clock, start = Clock(), time.time()
    text = processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    inputs = processor(text=[text], images=[Image.open(url).convert("RGB") for url in urls], return_tensors="pt").to(device)
    with torch.inference_mode():
        out = model.generate(**inputs, max_new_tokens=count, min_new_tokens=count, do_sample=False, streamer=clock)
    ids = out[0, inputs["input_ids"].shape[1]:].tolist()
    print(json.dumps({"first_token_seconds": clock.times[1] - start, "seconds": clock.times[-1] - start, "prompt_tokens": inputs["input_ids"].shape[1], "ids": ids}), flush=True)
"""

    def __init__(self, *args: str) -> None:
        command = [sys.executable, "-c", self.SCRIPT, *args]
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, messages: Path) -> dict:
        self.process.stdin.write(f"{messages}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert len(answer["ids"]) == NEW_TOKENS, answer
        return answer

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def ours(args: argparse.Namespace, model: Path, messages: list[Path]) -> list[dict]:
    """An answer to each, of one process."""
    command = [args.bin, "generate", "--backend", args.backend, "--model", str(model), "--max-tokens", str(NEW_TOKENS), "--dtype",
               args.dtype, "--device", args.device, "--gpu-kernels", args.kernels, "--json", "--messages", *map(str, messages)]
    text, answers = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip(), []
    while text:
        answer, end = json.JSONDecoder().raw_decode(text)
        assert answer["completion_tokens"] == NEW_TOKENS, answer
        answers.append(answer | {"ids": answer["token_ids"]})
        text = text[end:].lstrip()
    return answers


def times(answer: dict) -> dict:
    first = answer["first_token_seconds"]
    return {"prefill": first, "decode": (answer["seconds"] - first) / (NEW_TOKENS - 1)}


def fastest(rounds: list[dict]) -> dict:
    return {name: min(each[name] for each in rounds) for name in ("prefill", "decode")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="candle")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--kernels", default="ours", choices=["ours", "candle"], help="on a GPU: --gpu-kernels")
    parser.add_argument("--shape", default="0.5b", choices=SHAPES)
    parser.add_argument("--frames", type=int, help="default 16, of the smallest shapes 2")
    parser.add_argument("--size", default="512x256", help="of a frame")
    parser.add_argument("--json", help="also writes the figures here")
    parser.add_argument("--dir")
    parser.add_argument("--bin", default=os.environ.get("CARGO_TARGET_DIR", "target") + "/release/paravt-bench")
    args = parser.parse_args()
    # Of both engines: where other machines share the cores, OpenMP's threads lose their turns by waiting in loops.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.dir or scratch) / f"engine-{args.shape}"
        if not (folder / "config.json").exists():
            make_model(folder, args.shape, args.device)
        frames = args.frames or (2 if args.shape.startswith("50m") else 16)
        size = tuple(map(int, args.size.split("x")))
        messages = [make_prompt(Path(scratch), frames, size, round) for round in range(args.runs + 1)]
        start = time.time()
        reference = Reference(str(folder), args.dtype, args.device, str(NEW_TOKENS))
        reference.ask(messages[0])
        if args.device == "cpu":
            answers = [(reference.ask(each), *ours(args, folder, [each])) for each in messages[1:]]
            reference.stop()
        else:
            # Loaded once, and never beside the other.
            theirs = [reference.ask(each) for each in messages[1:]]
            reference.stop()
            answers = list(zip(theirs, ours(args, folder, messages)[1:]))
        rounds = [tuple(map(times, pair)) for pair in answers]
        weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    width, layers, heads, keys = SHAPES[args.shape][:4]
    tokens = answers[-1][1]["prompt_tokens"]
    assert tokens == answers[-1][0]["prompt_tokens"], answers
    theirs, mine = fastest([each[0] for each in rounds]), fastest([each[1] for each in rounds])
    cache = (tokens + NEW_TOKENS) * 2 * layers * keys * (width // heads) * (4 if args.dtype == "f32" else 2)
    # Until the first that differs: after it the two answer different prompts. The least of the rounds.
    same = min(next((i for i, (a, b) in enumerate(zip(x["ids"], y["ids"])) if a != b), NEW_TOKENS) for x, y in answers)
    print(f"{args.backend} and transformers, {args.shape}, {args.dtype} on {args.device}, {os.cpu_count()} cores, {tokens} "
          f"prompt tokens, {NEW_TOKENS} new; fastest of {args.runs} rounds; {time.time() - start:.0f} s in all")
    for name, unit in [("prefill", 1), ("decode", 1000)]:
        text = "s" if unit == 1 else "ms/token"
        ratios = [each[0][name] / each[1][name] for each in rounds]
        print(f"{name:8} transformers {theirs[name] * unit:8.2f} {text}   {args.backend} {mine[name] * unit:8.2f} {text}   "
              f"{statistics.median(ratios):.2f}x (rounds {min(ratios):.2f} to {max(ratios):.2f})")
    # Of a GPU what its memory pool had in use, on a CPU the whole process; libtorch does not say of a GPU.
    memory = {"peak": None} | answers[-1][1]["memory"]
    mib = {name: "unknown" if size is None else f"{size / 2**20:.0f} MiB" for name, size in memory.items()}
    print(f"same greedy tokens {same} of {NEW_TOKENS}; memory at its peak {mib['peak']}, planned {mib['planned']}: weights "
          f"{weights / 2**20:.0f} MiB, cache {cache / 2**20:.0f} MiB")
    figures = {"backend": args.backend, "kernels": args.kernels, "shape": args.shape, "frames": frames,
               "prompt_tokens": tokens, "same_tokens": same, "new_tokens": NEW_TOKENS, "dtype": args.dtype, "device": args.device,
               "spins": os.environ["GOMP_SPINCOUNT"],
               "transformers": theirs, "ours": mine, "rounds": rounds, "memory": memory, "weights": weights, "cache": cache}
    if args.device != "cpu":
        import torch
        device = torch.cuda.get_device_name()
        limits = next((limits for name, limits in LIMITS.items() if name in device), None)
        for who, found in [("transformers", theirs), (args.backend, mine)]:
            print(f"{who}: prefill {tokens / found['prefill']:.0f} tokens/s, decode {1 / found['decode']:.1f} tokens/s")
            if limits:
                # A token reads every weight once; a prompt token costs two operations per weight.
                print(f"  {weights / found['decode'] / limits[0]:.0%} of {device}'s bandwidth in decode, "
                      f"{weights * tokens / found['prefill'] / limits[1]:.0%} of its matrix rate in prefill")
    if args.json:
        Path(args.json).write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
