"""A model server over a real socket that can misbehave in every way, then comes back."""

import hashlib
import json
import re
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HTML = b"<!DOCTYPE html><html><body><h1>502 Bad Gateway</h1></body></html>"


def completion(prompt, seed, number):
    """Three edits of the numbers in a prompt's program: a function of what was asked alone."""
    program = re.search(r"```python\n(.*?)```", prompt, re.DOTALL)[1]
    lines = [line for line in program.split("\n") if re.search(r"\d", line)]
    answers = []
    for answer in range(3):
        digest = hashlib.sha256(f"{prompt}{seed}{number}{answer}".encode()).digest()
        line = lines[digest[0] % len(lines)]
        new = re.sub(r"\d+(\.\d+)?", str(round(digest[1] / 40 + 0.5, 2)), line, count=1)
        answers.append(
            f"<answer {answer + 1}>\n<<<<<<< SEARCH\n{line}\n=======\n{new}\n>>>>>>> REPLACE\n"
            "</answer>"
        )
    return "\n".join(answers)


class Stub:
    """``faults`` are used up one a request, after the first ``after`` good ones; use it in `with`.

    Attributes:
        faults: Names of :class:`Handler`'s faults, in order.
        after: Completions before the first fault.
        takes_n: Whether ``n`` is heeded, ignored (False) or refused ("refused").
        seen: Bodies of the requests for completions.
    """

    def __init__(self, faults=(), after=2, takes_n=True, key="", port=0):
        self.faults, self.after, self.takes_n, self.key = list(faults), after, takes_n, key
        self.usage, self.logprobs, self.delay, self.models = True, True, 0.0, ["stub"]
        self.seen, self.times, self.answered, self.lock = [], [], 0, threading.Lock()
        self.down = False
        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.stub = self
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.down = True
        self.server.shutdown()
        self.server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        stub = self.server.stub
        if stub.key and self.headers.get("Authorization") != f"Bearer {stub.key}":
            return self.fail(401, "Incorrect API key provided: " + self.headers["Authorization"])
        return self.send(200, {"data": [{"id": name} for name in stub.models]})

    def do_POST(self):
        stub = self.server.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if stub.down:  # connections outlive the listener
            return self.reset(body)
        if stub.key and self.headers.get("Authorization") != f"Bearer {stub.key}":
            return self.fail(401, "Incorrect API key provided: " + self.headers["Authorization"])
        if body["model"] not in stub.models:
            return self.fail(404, f"The model {body['model']} does not exist.")
        with stub.lock:
            stub.seen.append(body)
            stub.times.append(time.monotonic())
            fault = stub.faults.pop(0) if stub.faults and stub.answered >= stub.after else None
            stub.answered += fault is None
        if fault:
            return getattr(self, fault)(body)
        if body.get("n", 1) > 1 and stub.takes_n == "refused":
            return self.fail(400, "n must be 1")
        time.sleep(stub.delay * (hash(str(body)) % 7) / 7)
        return self.send(200, self.good(body))

    def good(self, body):
        stub = self.server.stub
        prompt = body["messages"][0]["content"]
        choices = []
        for number in range(body.get("n", 1) if stub.takes_n is True else 1):
            text = completion(prompt, body.get("seed"), number)
            choice = {
                "index": number,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
            if body.get("logprobs") and stub.logprobs:
                pieces = re.findall(r"\s*\S+|\s+$", text)
                choice["logprobs"] = {
                    "content": [{"token": p, "logprob": -len(p) / 8, "bytes": None} for p in pieces]
                }
            choices.append(choice)
        answer = {"object": "chat.completion", "choices": choices}
        if stub.usage:
            used = sum(len(c["message"]["content"]) for c in choices)
            answer["usage"] = {"prompt_tokens": len(prompt), "completion_tokens": used}
        return answer

    def send(self, status, tree, **headers):
        content = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(content)

    def fail(self, status, message):
        self.send(status, {"error": {"message": message}})

    # -- ways to misbehave ---------------------------------------------------------------------

    def status_500(self, _):
        self.fail(500, "\x1b[31mthe engine died\x1b[0m")

    def status_502(self, _):
        self.send(502, HTML)

    def status_503(self, _):
        self.send(503, b"")

    def status_429(self, _):
        self.send(429, {"error": {"message": "slow down"}}, Retry_After="0.3")

    def status_429_for_a_day(self, _):
        self.send(429, {"error": "slow down"}, Retry_After="86400")

    def html(self, _):
        self.send(200, HTML)

    def garbage(self, _):
        self.send(200, bytes(range(256)) * 4)

    def not_a_number(self, body):
        self.send(200, json.dumps(self.good(body)).replace("-0.", "NaN", 1).encode() + b"NaN")

    def deep(self, _):
        self.send(200, b"[" * 100_000)

    def wrong_shape(self, _):
        self.send(200, {"choices": [{"message": ["no"]}]})

    def no_object(self, _):
        self.send(200, ["choices"])

    def no_choices(self, _):
        self.send(200, {"choices": []})

    def error_with_200(self, _):
        self.send(200, {"error": {"message": "overloaded"}})

    def no_text(self, _):
        self.send(200, {"choices": [{"message": {"content": {"a": 1}}}]})

    def half(self, body):
        content = json.dumps(self.good(body)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def half_unannounced(self, body):
        content = json.dumps(self.good(body)).encode()
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.close_connection = True

    def reset(self, _):
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True

    def stall(self, _):
        time.sleep(2.0)
        self.close_connection = True

    def drip(self, _):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self._drip(b" ")

    def drip_headers(self, _):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip(b"x")

    def _drip(self, byte):
        self.close_connection = True
        try:
            for _ in range(40):
                self.wfile.write(byte)
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return


#: Every way, by name.
FAULTS = (
    "status_500", "status_502", "status_503", "status_429", "html", "garbage", "not_a_number",
    "deep", "wrong_shape", "no_object", "no_choices", "error_with_200", "no_text", "half",
    "half_unannounced", "reset", "stall", "drip", "drip_headers",
)  # fmt: skip
