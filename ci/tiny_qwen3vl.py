"""Saves a tiny, randomly initialised Qwen3-VL with the files of a published one: ci/tiny_qwen3vl.py FOLDER

`transformers serve FOLDER` then answers chat completions with images on the CPU. What it says means
nothing; the messages, frames and tool loops that reach it are real.
"""
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (PreTrainedTokenizerFast, Qwen2VLImageProcessor, Qwen3VLConfig,
                          Qwen3VLForConditionalGeneration, Qwen3VLProcessor, Qwen3VLVideoProcessor)

TOKENS = {name: f"<|{text}|>" for name, text in {
    "pad": "endoftext", "start": "im_start", "end": "im_end", "vision_start": "vision_start",
    "vision_end": "vision_end", "image": "image_pad", "video": "video_pad"}.items()}

TEMPLATE = (
    "{%- macro part(p) -%}"
    "{%- if p.type in ['image', 'image_url'] -%}<|vision_start|><|image_pad|><|vision_end|>"
    "{%- elif p.type in ['video', 'video_url'] -%}<|vision_start|><|video_pad|><|vision_end|>"
    "{%- else -%}{{ p.text }}{%- endif -%}{%- endmacro -%}"
    "{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.content is string -%}{{ message.content }}"
    "{%- else -%}{%- for p in message.content -%}{{ part(p) }}{%- endfor -%}{%- endif -%}"
    "{{ '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    bytes_only = Tokenizer(models.BPE())
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=list(TOKENS.values()),
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    bytes_only.train_from_iterator(["<answer>A</answer> <think> crop_video start_time end_time 0 1 2 3"], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_only, eos_token=TOKENS["end"],
                                        pad_token=TOKENS["pad"])
    tokenizer.image_token, tokenizer.video_token = TOKENS["image"], TOKENS["video"]
    tokenizer.vision_start_token, tokenizer.vision_end_token = TOKENS["vision_start"], TOKENS["vision_end"]
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def make_model(tokenizer, text=None, vision=None, tied=False) -> Qwen3VLForConditionalGeneration:
    token = {name: tokenizer.convert_tokens_to_ids(text) for name, text in TOKENS.items()}
    text = {"vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "bos_token_id": None,
            "eos_token_id": token["end"], "pad_token_id": token["pad"],
            "rope_scaling": {"rope_type": "default", "mrope_section": [8, 4, 4], "mrope_interleaved": True}} | (text or {})
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": text["hidden_size"],
              "patch_size": 16, "temporal_patch_size": 2, "spatial_merge_size": 2,
              "deepstack_visual_indexes": [0], "num_position_embeddings": 2304} | (vision or {})
    return Qwen3VLForConditionalGeneration(Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=tied, image_token_id=token["image"], video_token_id=token["video"],
        vision_start_token_id=token["vision_start"], vision_end_token_id=token["vision_end"]))


def make_processor(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLProcessor:
    images = Qwen2VLImageProcessor(patch_size=16, merge_size=2, temporal_patch_size=2)
    return Qwen3VLProcessor(image_processor=images, tokenizer=tokenizer, video_processor=Qwen3VLVideoProcessor(),
                            chat_template=TEMPLATE)


def save(folder: str, make_model, make_processor) -> None:
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder)
    make_processor(tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    save(sys.argv[1], make_model, make_processor)
