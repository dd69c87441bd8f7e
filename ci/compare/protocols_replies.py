"""Cases of the other agents and of benchmarks: inputs, and what the authors' functions make of them. Used by
ci/compare/protocols.py."""

import math
import os
import re
from types import SimpleNamespace

from protocols_source import Source
from protocols_words import RATES, answers, json_text, number, pick, side


def reasoning(checkouts, rng, count):
    import torch

    for repository in ("Video-R1", "VideoRFT"):
        source = Source(checkouts, repository, "src/eval_bench.py")
        rules = source.functions(
            "extract_answer", "normalize_number", "mean_relative_accuracy", "reward_fn", torch=torch
        )
        for _ in range(count // 2):
            pred, target = rng.choice(
                [(rng.uniform(0, 20), rng.uniform(0, 20)), (rng.randint(0, 40) / 20, rng.choice([1, 2, 3, 0]))]
            )
            pred = rng.choice([pred, pred, round(pred, 2), 1e300, math.nan]) if rng.random() < 0.2 else pred
            yield (
                "video_r1_mra",
                {"pred": pred, "target": target},
                {"mra": rules["mean_relative_accuracy"](pred, target)},
            )
            kind = rng.choice(["multiple choice", "numerical", "regression"])
            if kind == "multiple choice":
                gold, found = rng.choice("ABC"), rng.choice(["A", "B", "C", " A ", "A.", ""])
            else:
                gold = number(rng)
                found = rng.choice([gold, number(rng), gold + "0", gold + ".00", f"{gold} m"])
            reply = rng.choice(
                [f"<answer>{found}</answer>", found, f"<answer>\n{found} </answer><answer>x</answer>", answers(rng)]
            )
            case = {"kind": kind, "text": reply, "solution": f"<answer>{gold}</answer>"}
            yield "video_r1_scores", case, {"score": rules["reward_fn"]({"solution": case["solution"]}, reply, kind)}

    timed = Source(checkouts, "time-r1", "evaluate.py").functions("extract_answer")
    choice = Source(checkouts, "time-r1", "src/vllm_inference/eval_all.py").functions("mcq_is_correct")
    spoken = Source(checkouts, "VideoChat-R1", "src_eval/evaluate_grounding.py").functions("parse_timestamp_output")
    lettered = Source(checkouts, "VideoChat-R1", "src_eval/evaluate_qa.py").functions("extract_characters_regex")
    words = [" to ", " and ", "-", " s", "<answer>", "</answer>", "from ", ".", "<timestep>", "\n"]
    for _ in range(count):
        ranges = [f"{number(rng)} {rng.choice(['to', 'and', 'and', 'TO'])} {number(rng)}" for _ in range(4)]
        reply = pick(rng, words + [number(rng) for _ in range(8)] + ranges, 9)
        for name, rule in (
            ("time_r1", lambda reply: timed["extract_answer"](reply, "tg")),
            ("videochat_r1", spoken["parse_timestamp_output"]),
        ):
            start, end = rule(reply)
            yield f"{name}_intervals", {"text": reply}, {"interval": None if start is None else [start, end]}
        reply, gold = answers(rng) + rng.choice(["", "(B)", "(A) x", "(É)"]) + answers(rng), rng.randrange(5)
        if reply:
            case = {"text": reply, "gold": chr(gold + ord("A"))}
            yield "time_r1_letters", case, {"correct": choice["mcq_is_correct"](reply, gold)}
        yield "videochat_r1_letters", {"text": reply}, {"letter": lettered["extract_characters_regex"](reply)}


def framethinker(checkouts, rng, count):
    source = Source(checkouts, "FrameThinker-RL", "examples/agent/infer.py")
    asked = []
    cv2 = SimpleNamespace(
        INTER_AREA=None, resize=lambda image, size, interpolation: SimpleNamespace(shape=(size[1], size[0]))
    )
    rules = source.functions(
        "parse_model_response",
        "handle_get_frame_number",
        "handle_choose_frames",
        "validate_reasoning_process",
        "scale_down_preserving_aspect_ratio",
        cv2=cv2,
        os=os,
        extract_frames=lambda _, indices, *__: asked.append(indices) or ["x"] * len(indices),
    )

    def action():
        a = rng.choice([rng.randint(0, 60), rng.randint(0, 3000)])
        b = a + rng.choice([rng.randint(-3, 12), rng.randint(0, 900)])
        time = rng.choice(
            [f"{rng.randint(0, 90)}:{rng.randint(0, 59):02d}", "1:2:3", "x:1", "٣:10", "-1:30", "1_0:5", "90", ":"]
        )
        return rng.choice(
            [
                f"choose frames between {a} and {b}",
                f"choose frames between {a} and {b + 40}",
                f"choose frames between {a}  and\n{b}",
                f"get frame number at time {time}",
                f"get frame number at time\t{time} now",
                "output answer: B",
                "output answer:C output answer: D",
                "look",
            ]
        )

    def block():
        think = rng.choice(["<think>t</think>"] * 8 + ["", "<think>", "<think>a</think><think>b</think>"])
        text = action()
        response = rng.choice(["\n[New frames provided.]\n", "", "\n"])
        time = re.match(r"get frame number at time\s+(\S+)", text)
        if time and rng.random() < 0.8:
            response = f"Frame number at time {time[1]} is: {rng.choice([rng.randint(0, 60), rng.randint(0, 3000)])}."
        return f"{think}<action>{rng.choice(['', ' '])}{text}</action>{response}"

    def valid_try():
        a, width = rng.randint(0, 500), rng.randint(5, 60)
        frame = a + rng.randint(-2, width + 2)
        time, start = f"{rng.randint(0, 3)}:0{rng.randint(0, 3)}", a + rng.randint(-1, 1)
        shown = "\n[New frames provided.]\n"
        turns = [
            (f"choose frames between {a} and {a + width}", shown),
            (f"get frame number at time {time}", f"Frame number at time x is: {frame}."),
            (f"choose frames between {start} and {a + width}", shown),
        ]
        blocks = [f"<think>t</think><action>{action}</action>{response}" for action, response in turns]
        return (
            "".join(rng.choice([blocks, blocks[:1], blocks[1:], blocks[1:2]]))
            + "<think>t</think><action>output answer: A</action>"
            + rng.choice(["", "\n", " x"])
        )

    for _ in range(count):
        reply = (
            pick(rng, ["<think>", "</think>", "<action>", "</action>", "a", action()], 8)
            if rng.random() < 0.5
            else block()
        )
        yield "framethinker_replies", {"text": reply}, {"parsed": list(rules["parse_model_response"](reply))}
        text, fps = action(), rng.choice(RATES)
        text = rng.choice([text, text, "x " + text, text.replace("between", "between ")])
        yield "framethinker_time", {"action": text, "fps": fps}, {"reply": rules["handle_get_frame_number"](text, fps)}
        total, frames = rng.choice([rng.randint(1, 100), rng.randint(1000, 9000)]), rng.choice([8, 12])
        asked.clear()
        found = rules["handle_choose_frames"](text, "v", "v", 1, total, ".", frames, 640, 360)
        case = {"action": text, "total": total, "frames": frames}
        yield "framethinker_frames", case, {"indices": None if found is None else asked[0]}
        transcript = "".join(block() for _ in range(rng.randint(0, 3))) if rng.random() < 0.4 else valid_try()
        found = rules["validate_reasoning_process"](transcript, frames)
        yield "framethinker_valid", {"text": transcript, "frames": frames}, {"valid": list(found)}
        width, height, limit = side(rng), side(rng), rng.choice([[640, 360], [448, 252]])
        image = rules["scale_down_preserving_aspect_ratio"](SimpleNamespace(shape=(height, width)), *limit)
        size = [image.shape[1], image.shape[0]]
        # OpenCV refuses a side of nothing, which the function before it does not see.
        case = {"w": width, "h": height, "limit": limit}
        yield "framethinker_sizes", case, {"size": size if all(size) else None}


def longvt(checkouts, rng, count):
    rules = Source(checkouts, "LongVT", "custom_rewards/lmms_lab_recipe.py").functions(
        "extract_boxed_answer", "extract_anwser_tag", "parse_mcq", "relax_exact_match"
    )
    video = SimpleNamespace(total=0, fps=0)
    capture = SimpleNamespace(isOpened=lambda: True, release=lambda: None, get=lambda key: getattr(video, key))
    cv2 = SimpleNamespace(VideoCapture=lambda _: capture, CAP_PROP_FPS="fps", CAP_PROP_FRAME_COUNT="total")
    server = Source(checkouts, "LongVT", "examples/video_tools/mcp_server.py").functions(
        "crop_video",
        cv2=cv2,
        os=SimpleNamespace(path=SimpleNamespace(exists=lambda _: True)),
        logger=SimpleNamespace(info=lambda _: None, error=lambda _: None),
        torch=SimpleNamespace(uint8=None),
        fetch_video=lambda _: SimpleNamespace(to=lambda _: []),
        to_pil_image=None,
        Field=lambda **_: None,
    )
    for _ in range(count):
        text = answers(rng) + rng.choice(
            ["", "", f" {number(rng)}.", f"\nIt is {number(rng)} . ", f"\n{number(rng)}\n \nx"]
        )
        yield "longvt_answers", {"text": text}, {"answer": rules["extract_anwser_tag"](text)}
        yield "longvt_letters", {"text": text}, {"letter": rules["parse_mcq"](text)}
        gold = rng.choice(["A", "B", "C", "a red hat", "12", "red hat", text, text + "x", text[1:]])
        yield "longvt_scores", {"text": text, "gold": gold}, {"score": rules["relax_exact_match"](text, gold)}
        video.total, video.fps = rng.randint(1, 5000), rng.choice(RATES)
        start = rng.choice([rng.uniform(-5, 300), float(rng.randint(-1, 60))])
        end = rng.choice([start + rng.uniform(-5, 60), video.total / video.fps, start])
        try:
            server["crop_video"]("v.mp4", start, end)
            allowed = True
        except ValueError:
            allowed = False
        yield "longvt_crops", {"start": start, "end": end, "duration": video.total / video.fps}, {"allowed": allowed}


def video_o3(checkouts, rng, count):
    source = Source(checkouts, "Video-o3-Qwen3VL", "Eval/vlmeval/vlm/video_o3/model.py")
    silent = SimpleNamespace(warning=lambda _: None)
    rule = source.functions("extract_grounding_info", logging=silent)["extract_grounding_info"]
    for _ in range(count):
        text = json_text(rng).replace("segment", "temporal_segment").replace("fps", "sampling_strategy")
        text = text.replace('"', "'") if rng.random() < 0.3 else text
        text = rng.choice(["", "x", "```json\n"]) + text + rng.choice(["", ".", "\n```"])
        reply = pick(rng, ["<grounding>", "</grounding>", "x"], 2) + f"<grounding>{text}</grounding>" * rng.choice(
            [1, 1, 2, 0]
        )
        try:
            call = list(rule(None, reply))
        except (ValueError, OverflowError):
            call = None
        yield "video_o3_calls", {"text": reply}, {"call": call}


def benchmarks(checkouts, rng, count):
    spatial = Source(checkouts, "thinking-in-space", "lmms_eval/tasks/vsibench/utils.py").functions(
        "fuzzy_matching", "abs_dist_norm", "mean_relative_accuracy"
    )
    grouped = Source(checkouts, "lmms-eval", "lmms_eval/tasks/videomme_v2/utils.py").functions(
        "cal_relevance", "cal_logic", "extract_characters_regex"
    )
    long = Source(checkouts, "lmms-eval", "lmms_eval/tasks/lsdbench/utils.py").functions("extract_characters_regex")
    structures = ["[1, 2, 3, 4]", "[1, [2, 3], 4]", "[[1, 2], 3, 4]"]
    for correct in range(5):
        yield "videomme_v2_relevance", {"correct": correct}, {"score": grouped["cal_relevance"]([1] * correct)}
    for structure in structures:
        for bits in range(16):
            scores = [bits >> place & 1 for place in range(4)]
            case = {"structure": structure, "scores": scores}
            yield "videomme_v2_logic", case, {"score": grouped["cal_logic"](scores, structure)}
    for _ in range(count):
        text = answers(rng)
        yield "videomme_v2_letters", {"text": text}, {"letter": grouped["extract_characters_regex"](text)}
        yield "lsdbench_letters", {"text": text}, {"letter": long["extract_characters_regex"](text)}
        yield "vsi_fuzzy", {"text": text}, {"token": spatial["fuzzy_matching"](text)}
        pred, target = rng.choice(
            [(rng.uniform(0, 20), rng.uniform(0.1, 20)), (rng.randint(0, 40) / 20, rng.choice([1, 2, 3]))]
        )
        accuracy = float(spatial["mean_relative_accuracy"](pred, target, 0.5, 0.95, 0.05))
        yield "vsi_mra", {"pred": pred, "target": target}, {"mra": accuracy}
