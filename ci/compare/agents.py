"""Compares what the authors' loops of other agents and paravt-bench send to a model, request by request.

Started by ci/compare/agents. A scripted server answers paravt-bench; the authors' code, which runs as it is, is given a model
object in the place of its own that answers by the same script. The answer depends on nothing but the text of the
first question and the turn. Equal means: the same messages in structure and text, as many pictures of the same sizes
whose pixels differ by no more than the two decoders' rounding, the same sampling parameters, as many requests, and the
same value of the agent's own score.
"""
import argparse
import base64
import functools
import glob
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
import weakref

import decord
import numpy as np
from PIL import Image

import agents_framethinker
import agents_frames
import agents_longvt
import agents_one_turn
import agents_rows
import agents_video_o3
import chat_server
import paravt_bench
from agents_scripts import VIDEO_O3, model
from agents_shared import Video, encode, message, video

# Levels of 255, mean over a picture.
TOLERANCE = 3.0
LONG = ["videomme", "longvideobench", "mlvu", "lvbench"]
# Checkout and splits of each agent.
AGENTS = {"conan": ("Conan", LONG), "videozoomer": ("VideoZoomer", LONG), "eva": ("EfficientVideoAgent", LONG),
          "framethinker": ("FrameThinker-RL", LONG), "video-r1": ("Video-R1", ["videomme", "mmvu"]),
          "videorft": ("VideoRFT", ["videomme", "mmvu"]), "videochat-r1": ("VideoChat-R1", ["charades"]),
          "time-r1": ("time-r1", ["charades", "videomme"]), "qwen3-vl": ("Qwen3-VL", ["videomme"]),
          "longvt": ("LongVT", ["videomme", "longvideobench", "lvbench", "charades"]),
          **dict.fromkeys(VIDEO_O3, ("Video-o3-Qwen3VL", LONG))}


def hermes(text: str) -> tuple:
    """A reply as vLLM's Hermes parser takes it apart, and why it ended."""
    calls = [json.loads(body) for body in re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL)]
    if not calls:
        return {"role": "assistant", "content": text}, "stop"
    function = lambda call: {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
    calls = [{"id": f"call-{i}", "type": "function", "function": function(call)} for i, call in enumerate(calls)]
    return {"role": "assistant", "content": text.partition("<tool_call>")[0] or None, "tool_calls": calls}, "tool_calls"


def decoded(data: str) -> tuple:
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    return np.asarray(picture.convert("RGB")), picture.format


def stacked(url: str, kept=weakref.WeakValueDictionary()) -> np.ndarray:
    """Frames of a video part. A request repeats those of all requests before it: equal ones are one array."""
    digest = hashlib.sha256(url.encode()).digest()
    frames = kept.get(digest)
    if frames is None:
        kept[digest] = frames = np.stack([decoded(data)[0] for data in url.split(",")[1:]])
    return frames


def canonical(sent: dict, positions) -> dict:
    """A message of the chat API; pictures as arrays, `positions` gives those of the frames of each video."""

    def media(part):
        if part["type"] == "image_url":
            return decoded(part["image_url"]["url"].partition(",")[2])
        frames, place = stacked(part["video_url"]["url"]), next(positions)
        assert place["do_sample_frames"] is False
        indices = place.get("frames_indices", list(range(len(frames))))
        rate = len(indices) / place.get("total_num_frames", len(frames)) * place["fps"]
        return Video(frames, indices, rate)

    found = message({**sent, "content": sent.get("content") or ""}, media)
    # Calls by name and arguments; a server draws their ids, and which of id and name a result has reaches no template.
    found["parts"] += [json.dumps(call["function"], sort_keys=True) for call in sent.get("tool_calls") or []]
    return found


class Server:
    """Answers by the script, itself or through a vLLM that says scripts, and keeps what it was sent."""

    def __init__(self, reply, vllm: str | None = None):
        self.requests = []
        self.reply = reply
        self.vllm = vllm
        self.url = chat_server.serve(self.answer)

    def answer(self, body: dict) -> tuple:
        positions = body.get("media_io_kwargs", {}).get("video", {})
        # One for each video, or one for all.
        positions = iter(positions) if isinstance(positions, list) else itertools.repeat(positions)
        sent = body.pop("messages")
        messages = [canonical(message, positions) for message in sent]
        text = self.reply(messages)
        if self.vllm:
            *said, ids = chat_server.said(self.vllm, {**body, "messages": sent}, text)
        if "chat_template" in body and self.vllm:
            prompt = chat_server.ask(self.vllm, "detokenize", {"model": "served", "tokens": ids})["prompt"]
            body["prompt"] = re.sub(r"(<\|video_pad\|>)+", r"\1", prompt)
        elif "chat_template" in body:
            body["prompt"] = agents_video_o3.prompt(sent, body["chat_template"])
        # As servers do: what ends a generation is cut off.
        ends = [(text.index(stop), stop) for stop in body.get("stop", []) if stop in text]
        end, stopped_by = min(ends, default=(len(text), None))
        message, reason = {"role": "assistant", "content": text[:end]}, "stop"
        if "tools" in body:
            # As text: chat templates print them in the order of their keys.
            body["tools"] = json.dumps(body["tools"])
            message, reason = hermes(text[:end])
        self.requests.append({"messages": messages, "parameters": body})
        return said if self.vllm else (message, reason, stopped_by)


def compare(theirs: list, ours: list, where: str, found: list, levels: list, agent: str) -> None:
    # VideoZoomer writes one string with marks for pictures.
    raw, exact_form = agent == "videozoomer", agent in ("eva", "framethinker", "longvt", *VIDEO_O3)
    afresh = agent in ("framethinker", "longvt")
    if len(theirs) != len(ours):
        found.append(f"{where}: {len(theirs)} requests / {len(ours)}")
    for turn, (a, b) in enumerate(zip(theirs, ours)):
        for name, value in a["parameters"].items():
            if b["parameters"].get(name) != value:
                found.append(f"{where} turn {turn}: {name} {value} / {b['parameters'].get(name)}")
        if len(a["messages"]) != len(b["messages"]):
            found.append(f"{where} turn {turn}: {len(a['messages'])} messages / {len(b['messages'])}")
        for place, (m, n) in enumerate(zip(a["messages"], b["messages"])):
            if raw:
                m, n = joined(m), joined(n)
            here = f"{where} turn {turn} message {place}"
            if m["role"] != n["role"] or (exact_form and m["plain"] != n["plain"]):
                found.append(f"{here}: {m['role']}, {m['plain']} / {n['role']}, {n['plain']}")
            if [type(part) for part in m["parts"]] != [type(part) for part in n["parts"]]:
                found.append(f"{here}: {len(m['parts'])} parts / {len(n['parts'])}: {kinds(m)} / {kinds(n)}")
                continue
            for x, y in zip(m["parts"], n["parts"]):
                if isinstance(x, str):
                    if without_cause(x) != without_cause(y):
                        found.append(f"{here}: {x[-160:]!r} / {y[-160:]!r}")
                elif isinstance(x, Video):
                    if x.indices != y.indices or x.picked != y.picked or abs(x.fps - y.fps) > 1e-3 or x.frames.shape != y.frames.shape:
                        found.append(f"{here}: video of {x.frames.shape}, {x.fps} a second, {x.indices[-9:]} / "
                                     f"{y.frames.shape}, {y.fps}, {y.indices[-9:]}")
                    elif afresh or turn == len(theirs) - 1:
                        pixels(x.frames, y.frames, here, levels, found)
                elif x[0].shape != y[0].shape:
                    found.append(f"{here}: picture of {x[0].shape} / {y[0].shape}")
                # The last request has the pictures of all turns, but where results, tries or conversations are dropped.
                elif afresh or turn == len(theirs) - 1:
                    pixels(x[0], y[0], here, levels, found)


def pixels(theirs, ours, where: str, levels: list, found: list) -> None:
    difference = np.abs(np.subtract(theirs, ours, dtype=np.int16))
    levels.append((float(difference.mean()), int(difference.max())))
    if levels[-1][0] > TOLERANCE:
        found.append(f"{where}: picture differs by {levels[-1][0]:.2f} levels")


def without_cause(text: str) -> str:
    """Why a window has no frames is said in the words of the reader."""
    return re.sub(r"(Failed to process video .*?:) .*", r"\1", text, flags=re.DOTALL)


def kinds(message: dict) -> str:
    return "".join("t" if isinstance(part, str) else "i" for part in message["parts"])


def joined(message: dict) -> dict:
    """Neighbouring texts as one: a chat template puts nothing between them."""
    parts = []
    for part in message["parts"]:
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return {**message, "parts": parts}


def by_sample(requests: list, records: list) -> list:
    left = iter(requests)
    samples = [[next(left) for _ in record["transcript"]["calls"]] for record in records]
    assert next(left, None) is None
    return samples


# Sizes, rates and repetitions of the videos; some of Video-o3 have more frames than its first message shows.
FORMS = [("1280:720", "30000/1001", 0), ("642:362", "24", 1), ("480:854", "25", 0), (None, None, None)]
LONG_FORMS = [("642:362", "30000/1001", 0), ("320:180", "10", 30), ("480:854", "25", 0), ("200:120", "3", 40)]


def enlarge(data: str, forms: list) -> None:
    """Other sizes, rates and lengths than the generated videos have."""
    videos = sorted(glob.glob(os.path.join(data, "**", "*.mp4"), recursive=True))
    for number, path in enumerate(videos):
        size, rate, times = forms[number % len(forms)]
        if size and not os.path.islink(path):
            encode(path, ["-stream_loop", str(times)], ["-vf", f"scale={size}", "-r", rate])


def their_loop(agent: str, checkout: str, folder: str, server):
    """The authors' loop as a function of the split, the sample and its video."""
    if agent == "longvt":
        return agents_longvt.longvt(checkout, folder, server)
    if agent in VIDEO_O3:
        return agents_video_o3.video_o3(checkout, folder, model(agent), agent)
    name = agent.replace("-", "_")
    module = next(module for module in (agents_framethinker, agents_frames, agents_one_turn) if hasattr(module, name))
    return getattr(module, name)(checkout, folder, model(agent))


def compare_agent(agent: str, arguments, folder: str, ours) -> bool:
    """Prints what differs, and says whether anything does."""
    name, forms = ("data-long", LONG_FORMS) if agent in VIDEO_O3 else ("data", FORMS)
    data = os.path.join(folder, name)
    if not os.path.exists(data):
        ours("data", "make", "--out", data, "--videos", "4", "--questions", "3")
        enlarge(data, forms)
    # The code of some sets another for the whole program.
    decord.bridge.set_bridge("native")
    name, splits = AGENTS[agent]
    checkout = os.path.join(arguments.checkouts, name)
    ours("protocol", "import", agent, "--from", checkout)
    server = functools.partial(Server, model(agent))
    run_theirs = their_loop(agent, checkout, folder, server)
    samples, requests, root = 0, 0, agents_framethinker.lengthened(data) if agent == "framethinker" else data
    found, levels = [], []
    for split in splits:
        scripted = server(arguments.server)
        out = os.path.join(folder, agent)
        run = os.path.join(out, split)
        shutil.rmtree(run, ignore_errors=True)
        ours("run", split, "--protocol", agent, "--data", root, "--base-url", scripted.url, "--out", out,
             "--concurrency", "1", "--limit", arguments.limit)
        records = paravt_bench.records(run)
        conversations = by_sample(scripted.requests, records)
        for record, conversation in zip(records, conversations):
            where = f"{agent} {split} {record['sample']['uid']}"
            if record.get("error"):
                found.append(f"{where}: {record['error']}")
                continue
            if agent in VIDEO_O3:
                agents_video_o3.placed(conversation, record)
            theirs, value = run_theirs(split, record["sample"], video(root, record["sample"]))
            compare(theirs, conversation, where, found, levels, agent)
            mine = record["own"]["score"]["value"]
            if value != mine:
                found.append(f"{where}: score {value!r} / {mine!r}")
            # Whether an agent that tries again has taken the last try.
            accepted = (record["transcript"].get("tries") or {}).get("accepted")
            if accepted != getattr(run_theirs, "accepted", None):
                found.append(f"{where}: a try that counts {getattr(run_theirs, 'accepted', None)} / {accepted}")
            samples += 1
            requests += len(conversation)
    mean, most = (max((level[place] for level in levels), default=0) for place in (0, 1))
    print(f"{agent}: {samples} samples, {requests} requests, {len(levels)} pictures (largest mean difference "
          f"{mean:.2f} levels, largest of all {most}), {len(found)} differences")
    if seen := getattr(run_theirs, "seen", None):
        print(f"  {', '.join(f'{name} {count}' for name, count in seen.items())}")
    for line in found[:20]:
        print(f"  {line}")
    return bool(found)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkouts", required=True)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--agents", default=",".join(AGENTS))
    parser.add_argument("--keep")
    parser.add_argument("--limit", default="1000")
    parser.add_argument("--server", help="address of a vLLM that says scripts")
    parser.add_argument("--rows", help="only compare the questions that EVA ships with the published rows of this root")
    parser.add_argument("--splits", help="with --rows: of these splits alone")
    arguments = parser.parse_args()
    folder = arguments.keep or tempfile.mkdtemp(prefix="agents-")
    ours = paravt_bench.command(arguments.binary, folder)
    if arguments.rows:
        checkout = os.path.join(arguments.checkouts, AGENTS["eva"][0])
        splits = arguments.splits.split(",") if arguments.splits else []
        return int(not agents_rows.compare(checkout, os.path.abspath(arguments.rows), folder, splits, ours))
    return int(any([compare_agent(agent, arguments, folder, ours) for agent in arguments.agents.split(",")]))


if __name__ == "__main__":
    sys.exit(main())
