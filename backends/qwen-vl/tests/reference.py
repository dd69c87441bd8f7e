"""What transformers computes, for the parity tests of the engines: reference.py FOLDER [--small]

Saves small random models of both families, and a trained one, into FOLDER/<model> and, for each conversation, the
processor's tensors, positions, vision features, logits at every position (in bfloat16 too) and 64 greedy
tokens. Media are named from the model's folder.
"""
import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoModelForImageTextToText, AutoProcessor

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "ci"))
import tiny_qwen3vl
import tiny_qwen25vl

NEW_TOKENS = 64
# Without the video, which a machine without FFmpeg cannot read, and the longest prompt, which takes most of the space.
SMALL = "--small" in sys.argv[2:]
# The base checkpoint of the embedded reproduction.
TRAINED = Path(__file__).resolve().parents[3] / "reproduce/nano/base"
MODELS = {
    "qwen3-tied-gqa2-deep1": (tiny_qwen3vl, True, {"num_attention_heads": 4, "num_key_value_heads": 2}, {}),
    "qwen3-untied-gqa1-deep2": (tiny_qwen3vl, False, {"num_attention_heads": 2, "num_key_value_heads": 2,
                                "num_hidden_layers": 3}, {"depth": 3, "deepstack_visual_indexes": [0, 2]}),
    "qwen3-untied-gqa4-deep3": (tiny_qwen3vl, False, {"num_attention_heads": 4, "num_key_value_heads": 1,
                                "num_hidden_layers": 4}, {"depth": 4, "deepstack_visual_indexes": [0, 1, 3]}),
    "qwen25-tied-gqa1": (tiny_qwen25vl, True, {"num_attention_heads": 2, "num_key_value_heads": 2}, {}),
    "qwen25-untied-gqa2": (tiny_qwen25vl, False, {"num_attention_heads": 2, "num_key_value_heads": 1}, {}),
    "qwen25-untied-gqa4": (tiny_qwen25vl, False, {"hidden_size": 128, "num_attention_heads": 4,
                           "num_key_value_heads": 1}, {"depth": 4, "fullatt_block_indexes": [0, 3]}),
}


def randomise(model, tied: bool) -> None:
    """Biases of zero and norms of one would hide mistakes; larger matrices set the logits apart."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.add_(0.2 * torch.randn_like(weight))
            elif "embed_tokens" not in name and "lm_head" not in name:
                weight.mul_(5)
            else:
                weight.mul_(4 if tied else 20)


def picture(path: Path, width: int, height: int, seed: int) -> str:
    noise = np.random.default_rng(seed).integers(0, 255, (height // 6 + 2, width // 6 + 2, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((width, height), Image.BICUBIC).save(path)
    return f"file://{path}"


def conversations(factor: int) -> dict:
    """Conversations as `generate` reads them, of media in this folder. Exact sizes need no resizing, so that pixels are equal."""
    def image(width, height, seed):
        path = Path(f"{width}x{height}-{seed}.png")
        return {"type": "image_url", "image_url": {"url": picture(path, width, height, seed)}}

    def text(words):
        return {"type": "text", "text": words}

    exact = [image(factor * w, factor * h, seed) for seed, (w, h) in enumerate([(4, 3), (3, 7), (6, 5)])]
    # More tokens than the engine reads in one pass, cut within a picture; the trained model sees smaller ones.
    large = [image(factor * 16, factor * 16, seed) for seed in (10, 11, 12)]
    video = Path("video.mp4")
    subprocess.run(["ffmpeg", "-y", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc2=size=128x96:rate=10:duration=9",
                    "-pix_fmt", "yuv420p", str(video)], check=True)
    cases = {
        "text": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which answer: A, B or C?"}],
        "exact": [{"role": "user", "content": [exact[0], text("What is this?")]}],
        "several": [{"role": "system", "content": "start_time 1 2 3"},
                    {"role": "user", "content": [text("First "), exact[0], text(" then "), exact[1], exact[2], text("?")]},
                    {"role": "assistant", "content": "<think> A </think>"},
                    {"role": "user", "content": [exact[1], text("And now?")]}],
        "long": [{"role": "user", "content": [text("Before "), *large, exact[1], text("What changed?")]}],
        "odd": [{"role": "user", "content": [image(133, 71, 7), text("What is this?"), image(50, 201, 8)]}],
        "forced": [{"role": "user", "content": [exact[0], text("Why?")]}, {"role": "assistant", "content": "<think>\n"}],
        "video": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": f"file://{video}"}},
                                               text("What happens?")]}],
    }
    if SMALL:
        del cases["video"], cases["long"]
    return cases


def media(messages):
    images, videos, chat = [], [], []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            parts = []
            for part in content:
                if part["type"] == "image_url":
                    images.append(Image.open(part["image_url"]["url"].removeprefix("file://")).convert("RGB"))
                    parts.append({"type": "image"})
                elif part["type"] == "video_url":
                    videos.append(part["video_url"]["url"].removeprefix("file://"))
                    parts.append({"type": "video"})
                else:
                    parts.append(part)
            content = parts
        chat.append({"role": message["role"], "content": content})
    return images, videos, chat


def inputs_of(processor, messages):
    from qwen_vl_utils.vision_process import smart_nframes
    from torchcodec.decoders import VideoDecoder
    from transformers.video_utils import VideoMetadata

    images, videos, chat = media(messages)
    open_end = chat[-1]["role"] == "assistant"
    text = processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=not open_end,
                                         continue_final_message=open_end)
    extra = {"images": images} if images else {}
    if videos:
        decoder = VideoDecoder(videos[0])
        total, fps = decoder.metadata.num_frames, decoder.metadata.average_fps
        if "Qwen3" in type(processor).__name__:
            about = VideoMetadata(total_num_frames=total, fps=fps)
            indices = processor.video_processor.sample_frames(about).tolist()
        else:
            count = smart_nframes({}, total_frames=total, video_fps=fps)
            indices = torch.linspace(0, total - 1, count).round().long().tolist()
        frames = decoder.get_frames_at(indices).data
        extra = {"videos": [frames], "do_sample_frames": False, "video_metadata": [
            VideoMetadata(total_num_frames=total, fps=fps, frames_indices=indices)]}
    return text, processor(text=[text], return_tensors="pt", **extra)


def record(name: str, model, processor, messages) -> dict:
    text, inputs = inputs_of(processor, messages)
    length = inputs["input_ids"].shape[1]
    with torch.no_grad():
        model.model.rope_deltas = None
        logits = model(**inputs).logits[0]
        tensors = {"logits": logits.contiguous()}
        positions = torch.arange(length).expand(3, 1, -1)
        if "image_grid_thw" in inputs or "video_grid_thw" in inputs:
            keys = ["image_grid_thw", "video_grid_thw", "second_per_grid_ts", "mm_token_type_ids"]
            given = {key: inputs[key] for key in keys if key in inputs}
            positions, _ = model.model.get_rope_index(inputs["input_ids"], **given)
        tensors["positions"] = positions[:, 0].to(torch.float32).contiguous()
        for kind, pixels, grid in [("image", "pixel_values", "image_grid_thw"),
                                   ("video", "pixel_values_videos", "video_grid_thw")]:
            if pixels in inputs:
                tensors["pixels"] = inputs[pixels].contiguous()
                tensors["grids"] = inputs[grid].to(torch.float32).contiguous()
                found = getattr(model.model, f"get_{kind}_features")(inputs[pixels], inputs[grid], return_dict=True)
                tensors["merged"] = torch.cat(list(found.pooler_output)).contiguous()
                for number, deep in enumerate(getattr(found, "deepstack_features", None) or []):
                    tensors[f"deepstack.{number}"] = torch.cat(list(deep)).contiguous()
        model.model.rope_deltas = None
        out = model.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False, output_logits=True,
                             return_dict_in_generate=True)
    generated = out.sequences[0, length:]
    logprobs = [torch.log_softmax(step[0].double(), -1)[token].item() for step, token in zip(out.logits, generated)]
    save_file(tensors, f"{name}.safetensors")
    return {"name": name, "messages": messages, "text": text, "ids": inputs["input_ids"][0].tolist(),
            "generated": generated.tolist(), "logprobs": logprobs,
            "answer": processor.tokenizer.decode(generated, skip_special_tokens=True)}


def record_all(model, processor, factor: int) -> None:
    cases = [record(case, model, processor, messages) for case, messages in conversations(factor).items()]
    Path("cases.json").write_text(json.dumps(cases))
    model.to(torch.bfloat16)
    for case in cases:
        _, inputs = inputs_of(processor, case["messages"])
        model.model.rope_deltas = None
        with torch.no_grad():
            logits = model(**inputs).logits[0].float()
        save_file({"logits": logits.contiguous()}, f"{case['name']}.bf16.safetensors")


def main() -> None:
    root = Path(sys.argv[1])
    # Tiny products are slower on two threads than on one.
    torch.set_num_threads(1)
    for number, (name, (module, tied, text, vision)) in enumerate(MODELS.items()):
        folder = root / name
        folder.mkdir(parents=True)
        torch.manual_seed(number)
        tokenizer = module.make_tokenizer()
        model = module.make_model(tokenizer, text, vision, tied).eval()
        randomise(model, tied)
        # Two models are sharded, as large ones are published.
        model.save_pretrained(folder, max_shard_size="200KB" if number % 3 == 1 else "5GB")
        processor = module.make_processor(tokenizer)
        processor.save_pretrained(folder)
        with contextlib.chdir(folder):
            record_all(model, processor, 32 if module is tiny_qwen3vl else 28)
    folder = root / "trained"
    shutil.copytree(TRAINED, folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    with contextlib.chdir(folder):
        record_all(model, processor, 32)


if __name__ == "__main__":
    main()
