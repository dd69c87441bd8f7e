"""A model server that answers by a script and keeps what it was sent."""
import base64
import hashlib
import http.server
import json
import os

import chat_server


def call(**arguments) -> str:
    body = json.dumps({"name": "crop_video", "arguments": {"video_path": "v.mp4", **arguments}})
    return f"<tool_call>\n{body}\n</tool_call>"


def calls(*windows) -> str:
    return "<think>look</think>\n" + "\n".join(call(start_time=a, end_time=b) for a, b in windows)


NAN, INFINITY = float("nan"), float("inf")
TOO_LONG = (
    "This model's maximum context length is 65536 tokens. However, you requested 70001 tokens "
    "(67953 in the messages, 2048 in the completion). Please reduce the length of the messages or completion."
)


def refused(status: int, message: str) -> dict:
    return {"status": status, "body": {"object": "error", "message": message, "type": "Error", "param": None, "code": status}}


def failing(status: int, times: int, then) -> dict:
    """Fails some tries of one request and answers the next."""
    return {**refused(status, "engine is busy"), "times": times, "then": then}


# Conversations by turn; the last entry answers every later turn. A text is an answer; a dictionary with "content"
# one with that content, which may be null; one with "status" a refusal.
SCRIPTS = [
    [calls((10, 20), (3, 9.5)), "<think>seen</think><answer>B</answer>"],
    ["<answer>A</answer> between 3.0 - 7.5 seconds"],
    [calls((0, 5)), calls((30, 25), (12, 40)), calls((20, 21)), "C"],
    [calls(*[(2 * n, 2 * n + 3) for n in range(7)]), "The event happens in the 4.2 - 9.9 seconds. Answer: D"],
    [calls((10.01, 10.05), (7.51, 7.53)), calls((1e9, 2e9), (-5, 2)), "<answer>B</answer>"],
    [calls(("00:05", "00:11.5"), (4, 4)), "nothing to see"],
    [call(start=6, end=8) + "<tool_code>crop_video(start_time=3, end_time=5.5)</tool_code>", "12 - 18"],
    [calls((13, 29)), calls((14, 28)), calls((15, 27)), calls((16, 26))],
    [failing(500, 5, calls((NAN, 8), (3, INFINITY), (NAN, NAN))), failing(429, 1, "<answer>B</answer>")],
    [calls((8, 9), (18.9, 19.3), (1, 1.01)), refused(400, TOO_LONG)],
    [refused(400, TOO_LONG)],
    [call(end_time=9) + call(start_time="x", end_time=True) + call(start_time="1:02:03", end_time="1e1"),
     '<tool_call>{"name": "crop_video"}</tool_call><tool_call>{"name": "other", "arguments": {"start": 2}}</tool_call>'
     "<tool_call>no JSON</tool_call>", '<tool_call>{"name": "crop_video", "arguments": null}</tool_call>'],
    [calls((5, 7)), {"content": None}],
    [{"content": ""}],
    [{"content": None}],
    ["The event happens in the 1.5 - 95.0 seconds.<answer>A</answer>"],
]


# Which question gets which script. With these generated rows every cell of a single turn over Video-MME and Charades has
# a reply without text and one that is right.
DRAW = "3374 "


def reply(messages, tries: dict):
    """Status and body: by the question's text, the number of turns so far and how often the same was asked."""
    first = next(message for message in messages if message["role"] == "user")
    text = first["content"] if isinstance(first["content"], str) else first["content"][-1]["text"]
    script = SCRIPTS[int(hashlib.sha256((DRAW + text).encode()).hexdigest(), 16) % len(SCRIPTS)]
    turn = sum(message["role"] == "assistant" for message in messages)
    step = script[min(turn, len(script) - 1)]
    key = (text, len(messages))
    tries[key] = tries.get(key, 0) + 1
    if isinstance(step, dict) and "times" in step and tries[key] > step["times"]:
        step = step["then"]
    if isinstance(step, dict) and "status" in step:
        return step["status"], step["body"]
    content = step["content"] if isinstance(step, dict) else step
    return 200, chat_server.completion({"role": "assistant", "content": content})


class Server(http.server.ThreadingHTTPServer):
    """Keeps requests in order, pictures on disk under their hash."""

    def __init__(self, folder: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.clear()

    def clear(self) -> None:
        # Each exchange is (request, status, body of the reply); marks are the exchanges before each GET.
        self.exchanges, self.marks, self.tries = [], [], {}

    def keep(self, value):
        """The request with each picture replaced by its hash."""
        if isinstance(value, dict):
            return {key: self.keep(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.keep(item) for item in value]
        if isinstance(value, str) and value.startswith("data:"):
            head, data = value.split(",", 1)
            name = hashlib.sha256(data.encode()).hexdigest()
            path = os.path.join(self.folder, name)
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    file.write(base64.b64decode(data))
            return {"picture": name, "as": head}
        return value


class Handler(chat_server.Handler):
    def do_GET(self):
        if not self.path.endswith("/models"):
            return self.reply(404, {})
        self.server.marks.append(len(self.server.exchanges))
        self.server.tries.clear()
        super().do_GET()

    def do_POST(self):
        request = self.read()
        status, body = reply(request["messages"], self.server.tries)
        self.server.exchanges.append(({"path": self.path, **self.server.keep(request)}, status, body))
        self.reply(status, body)
