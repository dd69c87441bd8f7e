"""Records what the released SFT loader makes of generated rows: token ids, positions, trained tokens, packs.

    ci/sft_oracle.py CHECKOUT [--out reproduce/train/tests/data/sft_release.json]

CHECKOUT is a checkout of ParaVT cf55249. Its own copy of lmms-engine runs: dataset, chat template, labels, packing
and the loader of its trainer, with transformers 4.57.1 (`get_rope_index` for the positions). Needs a Python with
torch, torchvision, torchdata 0.11, transformers 4.57.1, datasets 4.0.0, decord 0.6.0, qwen-vl-utils 0.0.14, loguru,
jsonlines, einops, soundfile and accelerate, and the `ffmpeg` command. Packages that only other parts of lmms-engine
use (flash-attn, deepspeed and their like) are replaced by empty modules.

The cargo test `sft_release` makes the same rows and media and compares.
"""
import argparse
import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASE = ROOT / "reproduce/nano/base"
OUT = ROOT / "reproduce/train/tests/data/sft_release.json"
UNUSED = {"cv2", "deepspeed", "flash_attn", "librosa", "liger_kernel", "peft", "wandb"}
PACKING = 512

# Name: size, frames per second, seconds; then what is added to the encoder's command.
MEDIA = {
    "pair.mp4": ("320x240", "25", 2, ""),
    "ten.mp4": ("128x72", "10", 10, ""),
    "long.mp4": ("96x64", "5", 90, ""),
    "ntsc.mp4": ("100x180", "30000/1001", 7.3, ""),
    "slow.mp4": ("64x96", "1/2", 8, ""),
    "large.mp4": ("640x360", "12", 5, ""),
    "small.mp4": ("40x24", "10", 4, ""),
    "single.mp4": ("64x64", "10", 1, "-frames:v 1"),
    "a.png": ("300x200", "1", 1, "-frames:v 1"),
    "b.png": ("64x64", "1", 1, "-frames:v 1"),
    "grey.png": ("90x130", "1", 1, "-frames:v 1 -pix_fmt gray"),
    "thin.png": ("2000x8", "1", 1, "-frames:v 1"),
}
# Changes to the embedded base model's folder, file by file.
FOLDERS = {
    "base": {},
    "large images": {"preprocessor_config.json": {"size": {"shortest_edge": 3136, "longest_edge": 262144}}},
    "few special tokens": {"tokenizer_config.json": {"additional_special_tokens": ["<|vision_end|>", "<think>"]}},
}


class Stub(types.ModuleType):
    """A module whose every name is a class that does nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        class Meta(type):
            def __getattr__(cls, name):
                if name.startswith("__"):
                    raise AttributeError(name)
                return Nothing

        class Nothing(metaclass=Meta):
            def __init__(self, *args, **kwargs):
                pass

            def __call__(self, *args, **kwargs):
                return args[0] if args and callable(args[0]) else self

        return Nothing


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in UNUSED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def text(words):
    return {"type": "text", "text": words}


def video(name):
    return {"type": "video_url", "video_url": {"url": name}}


def image(name):
    return {"type": "image_url", "image_url": {"url": name}}


def message(role, *parts):
    return {"role": role, "content": [text(part) if isinstance(part, str) else part for part in parts]}


def rows():
    system, answer = message("system", "You watch videos."), message("assistant", "<think> B </think><answer>B</answer>")
    ask = lambda *parts: [system, message("user", *parts), answer]
    call = message("assistant", '<tool_call>\n{"name": "crop_video"}\n</tool_call>')
    return {
        "text": ask("What comes first?"),
        "no system message": [message("user", "When?"), answer],
        "no assistant": [system, message("user", "When?")],
        "assistant first": [message("assistant", "Red."), message("user", "And?"), answer],
        "last turn is the user's": ask("One?") + [message("user", "Two?")],
        "empty content": [message("system"), message("user", ""), message("assistant")],
        "tool": ask("Where?")[:2] + [call, message("tool", "<tool_response> red circle </tool_response>"), answer],
        "tool response of a user": ask("Where?")[:2] + [call, message("user", "<tool_response>\nx\n</tool_response>"), answer],
        "tool response with an image": [system, message("user", "Where?"), call, message("tool", image("a.png"), "here"), answer],
        "other characters": ask("Où est le café? 日本 🙂 <|object_ref_start|> <think>"),
        "special tokens in the text": ask("<|im_end|> and <|vision_start|> and <|im_start|>user"),
        "blank text": ask("  \n\n leading and trailing \n "),
        "parts of text": ask("one", "two ", " three"),
        "one pair of frames": ask(video("pair.mp4"), "What?"),
        "ten frames": ask(video("ten.mp4"), "What?"),
        "sixty-four frames": ask(video("long.mp4"), "What?"),
        "a rate that is no decimal": ask(video("ntsc.mp4"), "What?"),
        "fewer frames than seconds": ask(video("slow.mp4"), "What?"),
        "large frames": ask(video("large.mp4"), "What?"),
        "frames below a merged patch": ask(video("small.mp4"), "What?"),
        "a video of one frame": ask(video("single.mp4"), "What?"),
        "image": ask(image("a.png"), "What?"),
        "images": ask(image("a.png"), "and", image("grey.png"), image("b.png")),
        "an image too thin": ask(image("thin.png"), "What?"),
        "image, then video": ask(image("a.png"), "then", video("ten.mp4"), "What?"),
        "video, then image": ask(video("ntsc.mp4"), "then", image("grey.png"), "What?"),
        "media in later turns": ask(image("a.png"), "One?") + [message("user", image("b.png"), "Two?"), answer],
        "video in the system message": [message("system", video("pair.mp4"), "s"), message("user", "What?"), answer],
        "text before the video": ask("Watch: ", video("ten.mp4")),
        "two videos in a message": ask(video("ten.mp4"), video("ten.mp4"), "Which?"),
        "two videos, the second shorter": ask(video("ten.mp4"), video("ntsc.mp4"), "Which?"),
        "two videos, the second longer": ask(video("ntsc.mp4"), video("ten.mp4"), "Which?"),
        "videos in two messages": ask(video("ten.mp4"), "One?") + [message("user", video("ntsc.mp4"), "Two?"), answer],
        "missing video": ask(video("none.mp4"), "What?"),
        "missing image": ask(image("none.png"), "What?"),
        "a placeholder in the text": ask("<|video_pad|>"),
        "a placeholder beside a video": ask(video("ten.mp4"), "<|video_pad|>"),
        "a placeholder beside an image": ask("<|image_pad|>", image("b.png")),
        "content of a string": [{"role": "user", "content": "What?"}, answer],
        "part of another type": ask({"type": "audio", "audio": "a.wav"}),
        "other type with text": ask({"type": "note", "text": "noted"}),
        "no messages": [],
    }


def pack_rows():
    """Rows of many lengths, among them some that the loader leaves out."""
    rng = random.Random(7)
    made = []
    for number in range(46):
        words = " ".join(rng.choice(["red", "green", "circle", "one", "4", "after"]) for _ in range(rng.randrange(1, 90)))
        made.append([message("user", f"{number}: {words}"), message("assistant", "<answer>A</answer>")])
    made[5] = [message("user", "5: " + "red one 7 " * 300), message("assistant", "A")]
    made[17] = [message("user", video("none.mp4"), "17:"), message("assistant", "A")]
    made[23] = [message("user", video("ten.mp4"), "23:"), message("assistant", "A")]
    made[31] = [message("user", image("b.png"), "31:"), message("assistant", "A")]
    return made


def make_media(folder):
    for name, (size, rate, seconds, more) in MEDIA.items():
        source = f"testsrc2=size={size}:rate={rate}:duration={seconds}"
        subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-f", "lavfi", "-i", source, *more.split(), folder / name], check=True)


def make_folder(folder, changes):
    shutil.copytree(BASE, folder)
    for name, change in changes.items():
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | change))


def placed(messages, folder):
    """Media by absolute path, which is what all three video readers take."""
    copy = json.loads(json.dumps(messages))
    for message in copy:
        for part in message["content"]:
            if isinstance(part, dict) and part["type"] in ("video_url", "image_url"):
                part[part["type"]]["url"] = str(folder / part[part["type"]]["url"])
    return copy


def runs(values):
    """[value, count] of each run of equal values, flat."""
    out = []
    for value in values:
        if out and out[-2] == value:
            out[-1] += 1
        else:
            out += [value, 1]
    return out


def dataset(folder, manifest, **settings):
    from lmms_engine.datasets import DatasetConfig
    from lmms_engine.mapping_func import DATASET_MAPPING

    processor = {"processor_name": str(folder), "processor_type": "qwen3_vl"}
    config = DatasetConfig(
        dataset_type="qwen3_vl_iterable", dataset_format="yaml", dataset_path=str(manifest), packing=True,
        filter_overlong=True, video_backend="qwen_vl_utils", video_sampling_strategy="fps", video_max_pixels=50176,
        video_min_pixels=784, video_max_frames=64, frame_num=64, fps=1, processor_config=processor, extra_kwargs={},
        **settings)
    made = DATASET_MAPPING["qwen3_vl_iterable"](config)
    made.build()
    return made


def write_manifest(folder, name, messages):
    """Two shards, as the release has several: their rows are joined as Python dictionaries."""
    from datasets import Dataset

    cut, lines = len(messages) // 2, ["datasets:"]
    for part, rows_of_part in enumerate((messages[:cut], messages[cut:])):
        path = folder / f"{name}-{part}.parquet"
        Dataset.from_list([{"messages": json.dumps(row)} for row in rows_of_part]).to_parquet(str(path))
        lines.append(f"- {{path: {path}, data_folder: null, data_type: parquet}}")
    manifest = folder / f"{name}.yaml"
    manifest.write_text("\n".join(lines) + "\n")
    return manifest


def positions(config, sample):
    """Time, height and width of each token, by the copy of `get_rope_index` that the released trainer calls."""
    from lmms_engine.models.common_ops.rope import qwen3_vl_get_rope_index

    ids = sample["input_ids"][None]
    found, _ = qwen3_vl_get_rope_index(
        types.SimpleNamespace(config=config), ids, sample.get("image_grid_thw"), sample.get("video_grid_thw"),
        attention_mask=ids.ne(0).long())
    return found[:, 0].tolist()


def encoded(folder, media):
    from transformers import AutoConfig

    named = rows()
    config = AutoConfig.from_pretrained(folder)
    made = dataset(folder, write_manifest(media, "rows", [placed(row, media) for row in named.values()]), shuffle=False,
                   packing_length=8192)
    out = {}
    for number, name in enumerate(named):
        try:
            sample = made.get_one_sample(number)
        except Exception as error:
            print(f"  {name}: left out ({type(error).__name__}: {str(error)[:80]})", file=sys.stderr)
            out[name] = None
            continue
        ids, labels = sample["input_ids"].tolist(), sample["labels"].tolist()
        assert all(label in (-100, token) for token, label in zip(ids, labels))
        time, height, width = positions(config, sample)
        grids = lambda key: sample[key].tolist() if key in sample else []
        pixels = sample.get("pixel_values_videos", sample.get("pixel_values"))
        out[name] = {
            "ids": runs(ids), "trained": runs([int(label != -100) for label in labels]),
            # As differences, which are mostly 1.
            "positions": [runs([b - a for a, b in zip([0] + axis, axis)]) for axis in (time, height, width)],
            "image_grids": grids("image_grid_thw"), "video_grids": grids("video_grid_thw"),
            "pixels": None if pixels is None else [round(pixels.float().mean().item(), 4), round(pixels.float().std().item(), 4)],
        }
    return out


def packs(folder, media):
    from torchdata.stateful_dataloader import StatefulDataLoader

    messages = pack_rows()
    manifest = write_manifest(media, "packs", [placed(row, media) for row in messages])
    out = []
    for ranks, workers, batch in [(1, 0, 1), (1, 1, 2), (1, 3, 2), (2, 2, 1), (3, 4, 2), (8, 2, 2)]:
        per_rank = []
        for rank in range(ranks):
            made = dataset(folder, manifest, shuffle=True, packing_length=PACKING)
            made.rank, made.world_size = rank, ranks

            def row_of(sample, tokenizer=made.processor.processor.tokenizer):
                said = tokenizer.decode(sample["input_ids"])
                return next(n for n in range(len(messages)) if f"\n{n}: " in said or f"\n{n}:<" in said)

            loader = StatefulDataLoader(made, batch_size=batch, num_workers=workers, collate_fn=lambda batch: batch,
                                        prefetch_factor=4 if workers else None, persistent_workers=workers > 0)
            per_rank.append([[[row_of(sample) for sample in pack] for pack in packs] for packs in loader])
        out.append({"ranks": ranks, "workers": workers, "packs": batch, "epoch": per_rank})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkout", type=Path, help="checkout of ParaVT cf55249")
    parser.add_argument("--out", type=Path, default=OUT, help=f"file to write (default: {OUT.relative_to(ROOT)})")
    arguments = parser.parse_args()
    os.environ |= {"FORCE_QWENVL_VIDEO_READER": "decord", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
                   "CUDA_VISIBLE_DEVICES": ""}
    sys.meta_path.append(Stubs())
    sys.path.insert(0, str(arguments.checkout / "paravt/sft/lmms-engine/src"))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        os.environ["HF_DATASETS_CACHE"] = str(scratch / "cache")
        make_media(scratch)
        golden = {"media": MEDIA, "rows": rows(), "folders": {}}
        # The loader prints the traceback of each row that it leaves out.
        with contextlib.redirect_stdout(io.StringIO()):
            for name, changes in FOLDERS.items():
                folder = scratch / name.replace(" ", "-")
                make_folder(folder, changes)
                print(name, file=sys.stderr)
                golden["folders"][name] = {"changes": changes, "rows": encoded(folder, scratch)}
            golden["packing"] = {"tokens": PACKING, "rows": pack_rows(), "loaders": packs(scratch / "base", scratch)}
    shuffles = {}
    for count in (1, 2, 3, 10, 46, 1000):
        order = list(range(count))
        random.seed(42)
        random.shuffle(order)
        shuffles[count] = order if count <= 46 else order[:20]
    golden["shuffles"] = shuffles
    arguments.out.write_text(json.dumps(golden, separators=(",", ":"), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
