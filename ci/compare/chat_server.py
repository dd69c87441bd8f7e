"""A server of the chat API in a thread of the comparison's own program: a function answers each request, by itself or
through a vLLM that says scripts (`serve_scripts` of ci/servers/serve.sh)."""

import http.server
import json
import threading
import urllib.error
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    """JSON in and out; GET lists one model."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def read(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status: int, value) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})


def start(handler) -> str:
    """The address of a server with this handler."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def completion(message: dict, reason: str = "stop", stopped_by: str | None = None) -> dict:
    choice = {"index": 0, "message": message, "finish_reason": reason, "stop_reason": stopped_by}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [choice], "usage": usage}


def serve(answer) -> str:
    """Its address. `answer` takes a request's body and gives the message, why it ended, and which stop text ended it."""

    class Answering(Handler):
        def do_POST(self):
            self.reply(200, completion(*answer(self.read())))

    return start(Answering)


def ask(vllm: str, path: str, body: dict) -> dict:
    """What vLLM answers."""
    address = f"{vllm.removesuffix('/v1')}/{path}"
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise RuntimeError(f"vLLM: {error.read().decode()[:2000]}") from error


def said(vllm: str, request: dict, text: str) -> tuple:
    """A text as vLLM says it on a request: message, why it ended, which stop text ended it, token ids of the prompt."""
    asked = {**request, "model": "served", "vllm_xargs": {"script": text}, "return_token_ids": True}
    answer = ask(vllm, "v1/chat/completions", asked)
    choice = answer["choices"][0]
    return choice["message"], choice["finish_reason"], choice["stop_reason"], answer["prompt_token_ids"]
