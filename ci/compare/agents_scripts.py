"""The scripted model of ci/compare/agents.py: replies as each agent's model writes them, and as it should not."""
import collections
import functools
import hashlib
import json
import random
import re

# The two models of one release.
VIDEO_O3 = ["video-o3", "video-o3-qwen3vl"]


def clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def conan(draw: random.Random) -> str:
    def clip():
        start = draw.randrange(0, 40)
        return f"{clock(start)}-{clock(start + draw.choice([0, 1, 1, 3, 8, 30, 600]))}"
    clips = ", ".join(clip() for _ in range(draw.choice([1, 1, 2, 3, 10])))
    letter = draw.choice("ABCDE")
    return draw.choice([
        f"<score>3</score><think>more</think><clip>{clips}</clip><answer></answer>",
        f"<think>more</think><clip>{clips}</clip><answer></answer>",
        f"<clip>{clips}</clip><answer>{letter}</answer>",
        f"<think>seen</think><clip></clip><answer>The answer is {letter}</answer>",
        f"the letter is {letter.lower()}", f"<answer>  ({letter}) because",
    ])


def videozoomer(draw: random.Random) -> str:
    start = round(draw.uniform(-2, 30), draw.choice([0, 1, 2]))
    end = round(start + draw.choice([0, 0.5, 2, 4, 7.5, 60]), 2)
    fps = draw.choice([1, 2, 4, 0.5, 30, -1])
    zoom = json.dumps({"segment": [start, end], "fps": fps})
    letter = draw.choice("ABCD")
    return draw.choice([
        f"<think>closer</think><video_zoom> {zoom} </video_zoom>", f"<video_zoom>{zoom}</video_zoom> and more words",
        f"<video_zoom>{zoom}</video_zoom>", "<video_zoom>no object</video_zoom>", "<video_zoom>{'a': 1}</video_zoom>",
        '<video_zoom>{"segment": [1, "x"], "fps": 2}</video_zoom>', '<video_zoom>{"segment": [1], "fps": 2}</video_zoom>',
        f"<think>seen</think><answer>\\boxed{{{letter}}}</answer>", f"<answer>The answer is {letter}. Yes</answer>", letter,
    ])


def eva(draw: random.Random) -> str:
    def select():
        start = draw.choice([0, 1, 2.5, 10, -3, 500])
        arguments = {"start_time": start, "end_time": start + draw.choice([1, 4, 9.5, 100, 0]),
                     "nframes": draw.choice([1, 2, 4, 9, 64, 3.5])}
        if draw.random() < 0.6:
            arguments["resize"] = draw.choice([0.5, 0.25, 1.0, None])
        if draw.random() < 0.1:
            del arguments["nframes"]
        return json.dumps({"tool": "frame_select", "arguments": arguments})
    calls = "\n".join(select() for _ in range(draw.choice([1, 1, 2, 3])))
    letter = draw.choice("ABCD")
    return draw.choice([
        f"<think>plan</think><tool_call>{calls}</tool_call>", f"<tool_call>\n{calls}\n</tool_call>",
        f"<tool_call>{calls}</tool_call>", f"<answer> {letter} </answer>", f"so Answer: {letter}", "nothing",
        "<tool_call>{\"name\": \"frame_select\"}</tool_call>",
    ])


def one_turn(draw: random.Random) -> str:
    a, b, letter = round(draw.uniform(0, 30), 2), draw.randrange(40), draw.choice("ABCDE")
    return draw.choice([
        f"<think>x</think><answer>{letter}</answer>", f"<answer> {letter} </answer><answer>A</answer>", f"<answer></answer>{letter}",
        f"<think>from 1 to 2</think><answer>{a} to {b}</answer>", f"between {b} and {a}.", f"<answer>{a}-{b}</answer>",
        f"<answer>({letter})</answer> or (B)", f"{letter}", f"{letter}) it is</answer> 3 to 4",
    ])


def longvt(draw: random.Random) -> str:
    def crop():
        start = draw.choice([0, 1, 2.5, 3, -1, 500, 0.25])
        arguments = {"video_path": draw.choice([VIDEO, VIDEO, VIDEO, VIDEO, "other.mp4", " "]), "start_time": start,
                     "end_time": start + draw.choice([1.5, 3, 4, 0, 0.01, 200])}
        if draw.random() < 0.1:
            del arguments[draw.choice(list(arguments))]
        elif draw.random() < 0.1:
            arguments["start_time"] = draw.choice([None, "1.5", " 2"])
        return f'<tool_call>\n{json.dumps({"name": draw.choice(["crop_video"] * 9 + ["zoom"]), "arguments": arguments})}\n</tool_call>'
    calls = "\n".join(crop() for _ in range(draw.choice([1, 1, 1, 2, 3])))
    letter, start = draw.choice("ABCD"), draw.randrange(5)
    return draw.choice([
        f"<think>closer</think>\n{calls}", f"<think>closer</think>{calls}", calls, f"<answer>{letter}</answer>{calls}",
        f"<think>seen</think><answer>{letter}</answer>", f"<answer>The answer is {letter}.</answer>", f"so \\boxed{{{letter}}}",
        f"The event happens in the {start}.5 - {start + 2} seconds", f"<answer>It starts at {start}s to {start + 1.5}s</answer>",
        "it is 4.",
    ])


def video_o3(draw: random.Random) -> str:
    start = draw.choice([0, 1, 2.5, 3, 7, 12, 20, 31.7, -4, "5", 500, 1e9])
    end = draw.choice([start, 5, 4.25, 9, 30, 33, 60, "12", 600, 3.01, 410])
    sampling = draw.choice(["coarse", "medium", "fine", "fine", "medium", "dense", 3])
    call = json.dumps({"temporal_segment": [start, end], "sampling_strategy": sampling})
    letter = draw.choice("ABCD")
    wrong = draw.choice([
        "no object", "} {", "", "{x}", '{"temporal_segment": [1, 2]}', '{"temporal_segment": [1], "sampling_strategy": "fine"}',
        '{"temporal_segment": [1, null], "sampling_strategy": "fine"}', '{"temporal_segment": ["a", 2], "sampling_strategy": "fine"}',
        '{"temporal_segment": "1-2", "sampling_strategy": "fine"}', '{"temporal_segment": [NaN, 6], "sampling_strategy": "coarse"}',
        '{"temporal_segment": [1, Infinity], "sampling_strategy": "coarse"}', '{"temporal_segment": [-Infinity, 4], "sampling_strategy": "fine"}',
        '{"temporal_segment": [1, 2], "sampling_strategy": "fine"', "{'temporal_segment': [2, 9], 'sampling_strategy': \"it's\"}",
    ])
    if draw.random() < 0.85:
        return draw.choice([
            f"<think>closer</think>\n<grounding>{call}</grounding>\n", f"<grounding>{call}</grounding>",
            f"<grounding>```json\n{call}\n```</grounding><answer>{letter}</answer>",
            "<grounding>" + call.replace('"', "'") + "</grounding> and more", f"<grounding>{wrong}</grounding>",
        ])
    return draw.choice([
        f"<think>seen</think>\n<answer>{letter}</answer>\n", f"<answer> ({letter}) because </answer>", f"<answer>Answer: {letter}. A dog</answer>",
        f"<answer>{letter}</answer><grounding>{call}</grounding>", f"it is {letter}", "<answer></answer>", f"{letter}</answer>",
    ])


def qwen3_vl(draw: random.Random) -> str:
    letter, other = draw.choice("ABCDE"), draw.choice("ABCD")
    return draw.choice([
        letter, f"{letter}.", f"**{letter}**", f"<think>{other} or A</think>\n{letter}", f"The best answer is: ({letter})", f"{letter} or {other}",
        f"A red one, {letter}", f"It is A, {letter}", "Z", "none of them", f"{letter.lower()}", "I can't process this file.", f"Option{letter}",
        f"{letter}: Failed to obtain answer via API", "Cannot determine the answer", f"A {letter}", f"It is {OPTION}",
        f"It shows {OPTION.lower()} and {letter} or {other}", f"{OPTION} and {letter}",
    ])


# Stands for the name of the video in scripted replies.
VIDEO = "VIDEO"
# And for the text of one of the options.
OPTION = "Option-Text"
SCRIPTS = {"conan": conan, "videozoomer": videozoomer, "eva": eva, "longvt": longvt, "video-r1": one_turn, "videorft": one_turn,
           "videochat-r1": one_turn, "time-r1": one_turn,
           "qwen3-vl": qwen3_vl, **dict.fromkeys(VIDEO_O3, video_o3)}


def reply(agent: str, messages: list) -> str:
    """The scripted answer to canonical messages."""
    first = next(message for message in messages if message["role"] == "user")
    text = "".join(part for part in first["parts"] if isinstance(part, str))
    turn = sum(message["role"] == "assistant" for message in messages)
    seed = hashlib.sha256(f"{agent} {turn} {text}".encode()).hexdigest()
    shown = re.search(r"has video path: (.+)", text)
    said = SCRIPTS[agent](random.Random(seed)).replace(VIDEO, shown.group(1) if shown else VIDEO)
    options = re.findall(r"^[A-E]\. (.+)$", text, re.MULTILINE) or [OPTION]
    chosen = options[int(seed, 16) % len(options)]
    return said.replace(OPTION, chosen).replace(OPTION.lower(), chosen.lower())


class FrameThinker:
    """Answers by the first question, how often it was begun, and what was said since."""

    def __init__(self):
        self.begun = collections.Counter()

    def reply(self, messages: list) -> str:
        first = next(message for message in messages if message["role"] == "user")
        text = "".join(part for part in first["parts"] if isinstance(part, str))
        said = [message["parts"][0] for message in messages if message["role"] == "assistant"]
        self.begun[text] += not said
        seed = hashlib.sha256(f"{self.begun[text]} {len(said)} {text}".encode()).hexdigest()
        labels = [int(number) for number in re.findall(r"frame (\d+):", text)]
        number = re.search(r" is: (\d+)\.$", str(messages[-1]["parts"][0])) if said else None
        return framethinker(random.Random(seed), labels[-1], said, int(number[1]) if number else None)


def framethinker(draw: random.Random, last: int, said: list, number) -> str:
    """One reply about frames 0 to `last`; `number` is the frame number that was asked for just before."""
    answer = f"output answer: {draw.choice('AABBCD')}"

    def choose(start: int, width: int) -> str:
        return f"choose frames between {start} and {start + width}"

    wide = choose(draw.randrange(0, max(1, last - 40)), draw.choice([13, 20, 33, 200]))
    asked = f"get frame number at time {draw.choice(['00:01', '0:02', '00:00', '1:30', '00:03'])}"
    if number is not None and draw.random() < 0.7:
        action = choose(max(0, number - draw.choice([0, 3, 20])), draw.choice([20, 30]))
    else:
        before = re.findall(r"<action>(.*?)</action>", said[-1], re.DOTALL) if said else []
        action = draw.choice([
            answer, answer, answer, answer, wide, wide, wide, wide, asked, asked, (before or [wide])[0], answer + " \n",
            draw.choice([choose(5, 8), choose(9, 0), choose(0, 10 ** 6), "look again", "get frame number at time 1:2:3",
                         "get frame numbers", "output answer", wide.upper(), "output answer:A output answer:", f"{wide} too",
                         f"first {wide}", wide.replace(" and ", "  and "), f"choose frames between {last - 30} and {last}"]),
        ])
    return draw.choice([
        *[f"<think>closer</think>\n<action>{action}</action>"] * 12, f"<think>closer</think> <action> {action} </action> so",
        f"<action>{action}</action>", f"<think>a</think><think>b</think><action>{action}</action>", f"<think>x <action>{action}</action>",
        f"<think>a</think><action>{action}</action><think>b</think><action>{answer}</action>",
    ])


def model(agent: str):
    """Its scripted model: a function of the messages, and for an agent that tries again of the tries before."""
    return FrameThinker().reply if agent == "framethinker" else functools.partial(reply, agent)
