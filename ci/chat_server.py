"""A server of the chat API in a thread of the comparison's own program: a function answers each request."""

import http.server
import json
import threading


def serve(answer) -> str:
    """Its address. `answer` takes a request's body and gives the message and why it ended."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def send(self, value):
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.send({"object": "list", "data": [{"id": "scripted", "object": "model"}]})

        def do_POST(self):
            message, reason = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            choice = {"index": 0, "message": message, "finish_reason": reason}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            self.send({"id": "c", "object": "chat.completion", "model": "scripted", "choices": [choice], "usage": usage})

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
