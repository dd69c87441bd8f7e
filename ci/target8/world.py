"""A tiny Qwen3-VL of random weights, videos, pictures and training rows as published: world.py FOLDER

FOLDER/model is the base model, FOLDER/rows the parquet files with the published kind of paths, FOLDER/media what the
published archives hold.
"""

import json
import pathlib
import sys

import av
import numpy
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tiny_qwen3vl as tiny
from transformers import Qwen2TokenizerFast, Qwen2VLImageProcessorFast, Qwen3VLProcessor, Qwen3VLVideoProcessor


def video(path, seconds):
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=8)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        for number in range(seconds * 8):
            picture = numpy.full((96, 128, 3), number * 5 % 256, numpy.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                file.mux(packet)
        for packet in stream.encode(None):
            file.mux(packet)


def conversation(medium, answer):
    asked = [medium, {"type": "text", "text": "Which option is right?"}]
    return json.dumps([
        {"role": "system", "content": [{"type": "text", "text": "Answer in tags."}]},
        {"role": "user", "content": asked},
        {"role": "assistant", "content": [{"type": "text", "text": f"<think>look</think><answer>{answer}</answer>"}]},
    ])


def save_model(folder):
    torch.manual_seed(0)
    trained = tiny.make_tokenizer()
    special = list(tiny.TOKENS.values())
    tokenizer = Qwen2TokenizerFast(tokenizer_object=trained.backend_tokenizer, eos_token=tiny.TOKENS["end"],
                                   pad_token=tiny.TOKENS["pad"], unk_token=None, additional_special_tokens=special)
    tiny.make_model(tokenizer).to(torch.bfloat16).save_pretrained(folder)
    images = Qwen2VLImageProcessorFast(patch_size=16, merge_size=2, temporal_patch_size=2)
    Qwen3VLProcessor(image_processor=images, tokenizer=tokenizer, video_processor=Qwen3VLVideoProcessor(),
                     chat_template=tiny.TEMPLATE).save_pretrained(folder)


def main():
    root = pathlib.Path(sys.argv[1])
    rows, media = root / "rows", root / "media"
    rows.mkdir(parents=True, exist_ok=True)
    for number in range(6):
        video(media / f"longvt_source/videor1/v{number}.mp4", 4 + number)
        (media / "selfqa").mkdir(exist_ok=True)
        Image.new("RGB", (96, 64), (number * 40, 0, 0)).save(media / f"selfqa/i{number}.png")
    videos = [{"type": "video_url", "video_url": {"url": f"longvt_source/videor1/v{number}.mp4"}} for number in range(6)]
    images = [{"type": "image_url", "image_url": {"url": f"selfqa/i{number}.png"}} for number in range(6)]
    for name, shown in [("tvg_6k3", videos), ("selftrace_15k3", images)]:
        texts = [conversation(medium, "ABCD"[number % 4]) for number, medium in enumerate(shown * 8)]
        pyarrow.parquet.write_table(pyarrow.table({"messages": texts}), rows / f"paravt_sft_{name}.parquet")
    prompt = [{"role": "user", "content": "<video>Which option is right?"}]
    asked = [{"prompt": prompt, "videos": [{"video": f"longvt_source/videor1/v{number}.mp4"}],
              "extra_info": json.dumps({"answer": "A", "question_type": "mcq"})} for number in range(6)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(asked), rows / "paravt_rl_diverse_4k4.parquet")
    save_model(root / "model")


main()
