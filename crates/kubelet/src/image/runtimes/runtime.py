"""Runs a function's handler behind HTTP.

The first process imports the code, then forks as many workers as requests may run at once. It alone listens: it reads
whole requests, gives each to a worker that is free, and passes the answer on. A worker that takes too long is killed
alone, and a new one is forked. A request that no worker has seen is refused in a way that says so, so that whoever sent
it may send it elsewhere.
"""

import inspect
import io
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
import urllib.parse


def wait_in_slot(door):
    """Waits, with what most code imports, until somebody says what to run; then the environment is that code's."""
    for name in ("asyncio", "datetime", "hashlib", "http.client", "importlib", "logging", "random", "re", "threading",
                 "urllib.request", "zipfile"):
        __import__(name)
    text = b""
    while not text:
        # Whoever only looks whether somebody waits says nothing.
        with open(door, "rb") as pipe:
            text = pipe.read()
    os.environ.pop("FN_SLOT")
    os.environ.update(json.loads(text)["env"])
    time.tzset()


if os.environ.get("FN_SLOT"):
    wait_in_slot(os.environ["FN_SLOT"])

CODE = "/fn/code"
DEPENDENCIES = "/fn/dependencies"
UNPACKED = "/tmp/fn"
MOST_HEAD = 64 << 10
MOST_BODY = 8 << 20
MOST_UNPACKED = 64 << 20
# Of answers that wait for their acknowledgement.
MOST_KEPT, MOST_KEPT_BYTES, LARGEST_KEPT, KEPT_SECONDS = 1000, 16 << 20, 1 << 20, 3600
NAME = os.environ.get("FN_NAME", "")
TIMEOUT = float(os.environ.get("FN_TIMEOUT") or 60)
WORKERS = max(1, int(os.environ.get("FN_CONCURRENCY") or 1))
MODULES = ("main", "handler", "index", "app", "function", "lambda_function", "__main__")
HANDLERS = ("main", "handler", "run", "app", "application", "lambda_handler", "my_function")
# Of actions that were made by the API of OpenWhisk: parameters that every call has, and where their key is.
PARAMETERS = json.loads(os.environ.get("__OW_PARAMETERS") or "{}")
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
WHOLE = {"params", "param", "event", "args", "payload", "data", "request", "body", "input", "e", "p", "d", "_", "arg"}
CONTEXTS = {"context", "ctx", "_context", "_ctx", "c", "_"}
FRAME = struct.Struct("!II")
REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Content Too Large", 500: "Internal Server Error",
           502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout"}


# ---- the user's code ----------------------------------------------------------------------------------------------

def unpack(archive):
    """Only plain files below the folder; the server has checked it, and it is checked again."""
    import zipfile
    total = 0
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            target = os.path.normpath(os.path.join(UNPACKED, entry.filename))
            mode = entry.external_attr >> 16
            if not (target + "/").startswith(UNPACKED + "/") or (mode & 0o170000) == 0o120000:
                raise ValueError(f"the archive has a bad entry: {entry.filename!r}")
            if entry.is_dir():
                os.makedirs(target, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with opened.open(entry) as source, open(target, "xb") as out:
                while piece := source.read(1 << 16):
                    total += len(piece)
                    if total > MOST_UNPACKED:
                        raise ValueError(f"the archive has more than {MOST_UNPACKED} bytes unpacked")
                    out.write(piece)
    return UNPACKED


def load():
    folder = CODE
    archive = os.path.join(CODE, "code.zip")
    if os.path.exists(archive):
        folder = unpack(archive)
        inside = [name for name in os.listdir(folder) if not name.startswith(("_", "."))]
        # A zip of one folder is that folder.
        if len(inside) == 1 and os.path.isdir(os.path.join(folder, inside[0])) and not os.path.exists(
                os.path.join(folder, inside[0], "__init__.py")):
            folder = os.path.join(folder, inside[0])
    sys.path.insert(0, folder)
    for vendored in ("vendor", "site-packages", "python"):
        if os.path.isdir(os.path.join(folder, vendored)):
            sys.path.insert(1, os.path.join(folder, vendored))
    if os.path.isdir(DEPENDENCIES):
        sys.path.append(DEPENDENCIES)
    os.chdir(folder)
    import importlib
    wanted = os.environ.get("FN_HANDLER", "")
    if wanted:
        module_name, _, attribute = wanted.replace("/", ".").rpartition(".")
        module = importlib.import_module(module_name)
        if not callable(getattr(module, attribute, None)):
            raise AttributeError(f"{module_name} has no function {attribute!r}; it has {', '.join(own(module)) or 'none'}")
        return getattr(module, attribute)
    there = [name[:-3] for name in sorted(os.listdir(folder)) if name.endswith(".py")]
    names = [name for name in MODULES if name in there] or (there if len(there) == 1 else [])
    if not names:
        raise ImportError(f"no module {', '.join(MODULES[:4])} in the code (there is {', '.join(there) or 'no .py file'}); "
                          "name one with handler: MODULE.FUNCTION")
    module = importlib.import_module(names[0])
    for name in HANDLERS:
        if callable(getattr(module, name, None)):
            return getattr(module, name)
    functions = own(module)
    if len(functions) == 1:
        return getattr(module, functions[0])
    raise AttributeError(f"{names[0]}.py has no function {', '.join(HANDLERS[:4])} (it has {', '.join(functions) or 'none'}); "
                         "name one with handler: MODULE.FUNCTION")


def own(module):
    return [name for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")]


class Context:
    def __init__(self, request):
        self.function_name = NAME
        self.function_version = os.environ.get("FN_REVISION", "")
        self.namespace = os.environ.get("FN_NAMESPACE", "")
        self.aws_request_id = self.request_id = request["headers"].get("x-request-id", request["id"])
        self.headers, self.method, self.path, self.query = (request[key] for key in ("headers", "method", "path", "query"))
        self.deadline = time.time() + TIMEOUT

    def get_remaining_time_in_millis(self):
        return max(0, int((self.deadline - time.time()) * 1000))


def payload(request, body):
    value = sent(request, body)
    return {**PARAMETERS, **value} if PARAMETERS and isinstance(value, dict) else value


def set_key():
    """By which an action calls others; tokens are renewed, so it is read anew for each call."""
    if "__OW_API_HOST" in os.environ and os.path.exists(TOKEN):
        with open(TOKEN) as token:
            os.environ["__OW_API_KEY"] = f"{os.environ.get('FN_NAMESPACE', '')}:{token.read().strip()}"


def sent(request, body):
    if not body:
        pairs = urllib.parse.parse_qsl(request["query"], keep_blank_values=True)
        return dict(pairs)
    kind = request["headers"].get("content-type", "").split(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded" and body[:1] not in b"{[":
        return dict(urllib.parse.parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    try:
        return json.loads(body)
    except ValueError:
        if kind.endswith("json"):
            raise BadRequest("the body is not JSON")
    try:
        return body.decode("utf-8") if kind.startswith("text/") or not kind else body
    except UnicodeDecodeError:
        return body


class BadRequest(Exception):
    pass


def form(handler):
    """How the handler wants to be called: a function of (request, body)."""
    plain = handler
    if not inspect.isroutine(handler) and not inspect.isclass(handler):
        if inspect.iscoroutinefunction(getattr(handler, "__call__", None)):
            return lambda request, body: asgi(handler, request, body)
        if hasattr(handler, "wsgi_app") or callable(handler):
            return lambda request, body: wsgi(handler, request, body)
    try:
        parameters = [p for p in inspect.signature(plain).parameters.values()]
    except (TypeError, ValueError):
        return lambda request, body: handler(payload(request, body))
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in positional]
    if names[:3] == ["scope", "receive", "send"]:
        return lambda request, body: asgi(handler, request, body)
    if names[:2] in (["environ", "start_response"], ["env", "start_response"]):
        return lambda request, body: wsgi(handler, request, body)
    if not parameters:
        return lambda request, body: handler()
    if len(names) == 2 and names[1] in CONTEXTS:
        return lambda request, body: handler(payload(request, body), Context(request))
    if len(names) == 1 and names[0] in WHOLE:
        return lambda request, body: handler(payload(request, body))

    def by_fields(request, body):
        value = payload(request, body)
        if isinstance(value, dict) and (len(names) != 1 or names[0] in value):
            if any(p.kind == p.VAR_KEYWORD for p in parameters):
                return handler(**value)
            known = {p.name for p in parameters}
            return handler(**{key: item for key, item in value.items() if key in known})
        if isinstance(value, list) and len(names) > 1:
            return handler(*value)
        return handler(value)
    return by_fields


def wsgi(application, request, body):
    status = []
    environ = {
        "REQUEST_METHOD": request["method"], "PATH_INFO": urllib.parse.unquote(request["path"]),
        "QUERY_STRING": request["query"], "SCRIPT_NAME": "", "SERVER_NAME": NAME, "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.version": (1, 0), "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr, "wsgi.multithread": False,
        "wsgi.multiprocess": True, "wsgi.run_once": False, "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": request["headers"].get("content-type", ""),
    }
    for key, value in request["headers"].items():
        environ["HTTP_" + key.upper().replace("-", "_")] = value

    def start_response(line, headers, _error=None):
        status[:] = [int(line.split(" ", 1)[0]), headers]
        return lambda data: None
    answer = application(environ, start_response)
    content = b"".join(answer)
    getattr(answer, "close", lambda: None)()
    return Http(status[0], status[1], content)


def asgi(application, request, body):
    import asyncio
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "scheme": "http",
        "method": request["method"], "path": urllib.parse.unquote(request["path"]), "raw_path": request["path"].encode(),
        "query_string": request["query"].encode(), "root_path": "", "server": (NAME, 80), "client": ("0.0.0.0", 0),
        "headers": [(key.encode(), value.encode()) for key, value in request["headers"].items()],
    }
    head, pieces = [], []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            head[:] = [message["status"], [(k.decode(), v.decode()) for k, v in message.get("headers", [])]]
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))
    asyncio.run(application(scope, receive, send))
    return Http(head[0], head[1], b"".join(pieces))


class Http:
    def __init__(self, status, headers, content):
        self.status, self.headers, self.content = status, headers, content


def answer_of(value, request):
    """Status, headers, content (bytes, or an iterator of them) of what a handler returned."""
    if isinstance(value, Http):
        return value.status, list(value.headers), value.content
    if isinstance(value, dict) and "statusCode" in value:
        headers = [(str(k), str(v)) for k, v in (value.get("headers") or {}).items()]
        content = value.get("body", b"")
        if value.get("isBase64Encoded") and isinstance(content, str):
            import base64
            content = base64.b64decode(content)
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content, default=str)
            headers = headers if any(k.lower() == "content-type" for k, _ in headers) else headers + [JSON]
        return int(value["statusCode"]), headers, content.encode() if isinstance(content, str) else content
    if isinstance(value, (bytes, bytearray)):
        return 200, [("content-type", "application/octet-stream")], bytes(value)
    if isinstance(value, str) and "json" not in request["headers"].get("accept", ""):
        return 200, [("content-type", "text/plain; charset=utf-8")], value.encode()
    if inspect.isgenerator(value):
        return 200, [("content-type", "text/plain; charset=utf-8")], value
    return 200, [JSON], json.dumps(value, default=str).encode()


JSON = ("content-type", "application/json")


def call(handle, request, body):
    try:
        value = handle(request, body)
        if inspect.iscoroutine(value):
            import asyncio
            value = asyncio.run(value)
        return answer_of(value, request)
    except BadRequest as error:
        return 400, [JSON], json.dumps({"errorType": "BadRequest", "errorMessage": str(error)}).encode()
    except BaseException as error:  # noqa: a handler that calls exit() is a failed request, not the end of a worker
        lines = [line for line in traceback.format_exception(error) if f'File "{__file__}"' not in line]
        print("".join(lines), end="", file=sys.stderr, flush=True)
        text = {"errorType": type(error).__name__, "errorMessage": str(error), "trace": "".join(lines).splitlines()}
        return 500, [JSON, ("minik8s-function-error", "unhandled")], json.dumps(text).encode()


# ---- workers ------------------------------------------------------------------------------------------------------

def send_frame(pipe, head, body=b""):
    text = json.dumps(head).encode()
    pipe.sendall(FRAME.pack(len(text), len(body)) + text + body)


def read_exactly(pipe, length):
    pieces = []
    while length:
        piece = pipe.recv(min(length, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def work(pipe, handle):
    while True:
        try:
            head, body = FRAME.unpack(read_exactly(pipe, FRAME.size))
        except EOFError:
            os._exit(0)
        request, body = json.loads(read_exactly(pipe, head)), read_exactly(pipe, body)
        set_key()
        status, headers, content = call(handle, request, body)
        if isinstance(content, bytes):
            send_frame(pipe, {"status": status, "headers": headers, "last": True}, content)
        else:
            send_frame(pipe, {"status": status, "headers": headers, "last": False})
            try:
                for piece in content:
                    send_frame(pipe, {"last": False}, piece.encode() if isinstance(piece, str) else bytes(piece))
                send_frame(pipe, {"last": True})
            except Exception:
                traceback.print_exc()
                send_frame(pipe, {"last": True, "broken": True})
        sys.stdout.flush()


class Worker:
    def __init__(self, front):
        self.pipe, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            signal.set_wakeup_fd(-1)
            front.forget(self.pipe)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                work(theirs, front.handle)
            finally:
                os._exit(1)
        theirs.close()
        self.pipe.setblocking(False)
        self.received, self.unsent, self.client, self.deadline = bytearray(), b"", None, None
        # The key under which the answer of the present call is kept, and whether its answer goes out piece by piece.
        self.key, self.streams = "", False


# ---- the front ----------------------------------------------------------------------------------------------------

class Client:
    def __init__(self, stream):
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream, self.received, self.unsent = stream, bytearray(), bytearray()
        self.worker, self.begun, self.chunked, self.head_only, self.close = None, False, False, False, False
        # Said with the next answer.
        self.extra = []


class Kept:
    """Answers by the key of their call, until whoever called has written them down and says so: a caller that dies
    while a handler works asks again and gets the answer of that call, which is not made twice. The oldest go first."""

    def __init__(self):
        self.answers, self.bytes = {}, 0

    def keep(self, key, status, headers, content):
        now = time.monotonic()
        if len(content) > LARGEST_KEPT:
            return
        self.forget(key)
        self.answers[key] = now, status, headers, content
        self.bytes += len(content)
        while self.answers:
            oldest = next(iter(self.answers))
            if (len(self.answers) <= MOST_KEPT and self.bytes <= MOST_KEPT_BYTES
                    and now - self.answers[oldest][0] < KEPT_SECONDS):
                return
            self.forget(oldest)

    def find(self, key):
        found = self.answers.get(key)
        return found[1:] if found and time.monotonic() - found[0] < KEPT_SECONDS else None

    def forget(self, key):
        found = self.answers.pop(key, None)
        self.bytes -= len(found[3]) if found else 0


class Front:
    def __init__(self, handle):
        self.handle, self.draining, self.stop_at, self.number, self.kept = handle, False, None, 0, Kept()
        self.selector = selectors.DefaultSelector()
        self.clients, self.workers = set(), []
        # The rest waits here until the code has been imported: who connects knows that it has been.
        self.listener = socket.create_server(("0.0.0.0", int(os.environ.get("PORT") or 8080)), backlog=512)
        self.listener.setblocking(False)

    def start(self):
        # A signal that only set a flag would be seen with the next request.
        heard, woken = socket.socketpair()
        heard.setblocking(False), woken.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        self.wakers = heard, woken
        self.selector.register(heard, selectors.EVENT_READ, self)
        for _ in range(WORKERS):
            self.hire()
        self.selector.register(self.listener, selectors.EVENT_READ, None)

    def hire(self):
        worker = Worker(self)
        self.workers.append(worker)
        self.selector.register(worker.pipe, selectors.EVENT_READ, worker)

    def forget(self, own):
        """In a new worker: all that is the front's."""
        self.selector.close()
        self.listener.close()
        for waker in self.wakers:
            waker.close()
        own.close()
        for client in self.clients:
            client.stream.close()
        for worker in self.workers:
            worker.pipe.close()

    def drain(self, *_):
        self.draining, self.stop_at = True, time.monotonic() + 1

    def run(self):
        while True:
            now = time.monotonic()
            busy = [worker for worker in self.workers if worker.client]
            if self.draining and not busy and now >= self.stop_at and not any(c.unsent for c in self.clients):
                return
            soonest = min([worker.deadline for worker in busy] + [now + (0.05 if self.draining else 3600)])
            for key, events in self.selector.select(max(0, soonest - now)):
                target = key.data
                if target is None:
                    self.accept()
                elif target is self:
                    self.wakers[0].recv(64)
                elif isinstance(target, Client):
                    self.serve(target, events)
                else:
                    self.hear(target, events)
            for worker in [w for w in self.workers if w.client and time.monotonic() >= w.deadline]:
                self.fire(worker, 504, "Timeout", f"the handler took longer than {TIMEOUT:g} s")
            self.reap()

    def reap(self):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def accept(self):
        try:
            stream, _ = self.listener.accept()
        except OSError:
            return
        client = Client(stream)
        self.clients.add(client)
        self.selector.register(stream, selectors.EVENT_READ, client)

    def serve(self, client, events):
        try:
            if events & selectors.EVENT_WRITE:
                self.flush(client)
            if events & selectors.EVENT_READ:
                piece = client.stream.recv(1 << 18)
                if not piece:
                    return self.drop(client)
                client.received += piece
        except BlockingIOError:
            return
        except OSError:
            return self.drop(client)
        self.next_request(client)

    def drop(self, client):
        if client not in self.clients:
            return
        self.clients.discard(client)
        self.selector.unregister(client.stream)
        client.stream.close()
        if client.worker:
            client.worker.client = GONE

    def next_request(self, client):
        while client in self.clients and client.worker is None and not client.close:
            end = client.received.find(b"\r\n\r\n")
            if end < 0:
                if len(client.received) > MOST_HEAD:
                    self.refuse(client, 400, "BadRequest", "the head is too long")
                return
            try:
                request, length, chunked = parse(bytes(client.received[:end]))
            except (ValueError, IndexError):
                client.close = True
                return self.refuse(client, 400, "BadRequest", "the request cannot be read")
            if request["headers"].get("expect", "").lower() == "100-continue" and not request.pop("told", False):
                if len(client.received) == end + 4:
                    self.send(client, b"HTTP/1.1 100 Continue\r\n\r\n")
            start = end + 4
            if chunked:
                found = dechunk(client.received, start)
                if found is None:
                    if len(client.received) > MOST_BODY + MOST_HEAD:
                        client.close = True
                        self.refuse(client, 413, "BodyTooLarge", "the body is too large")
                    return
                body, after = found
            else:
                if length > MOST_BODY:
                    client.close = True
                    return self.refuse(client, 413, "BodyTooLarge", "the body is too large")
                if len(client.received) < start + length:
                    return
                body, after = bytes(client.received[start:start + length]), start + length
            del client.received[:after]
            client.close = request["headers"].get("connection", "").lower() == "close"
            client.head_only = request["method"] == "HEAD"
            self.give(client, request, body)

    def give(self, client, request, body):
        key = request["headers"].pop("minik8s-result-key", "")
        asked = request["headers"].pop("minik8s-kept-result", "")
        client.extra = []
        if key and self.answer_again(client, request["method"], asked, key):
            return
        free = next((worker for worker in self.workers if worker.client is None), None)
        if self.draining or free is None:
            why = "draining" if self.draining else "busy"
            client.close = client.close or self.draining
            return self.refuse(client, 503, "NotExecuted", f"the instance is {why}", [("minik8s-not-executed", why)])
        self.number += 1
        request["id"] = f"{os.environ.get('HOSTNAME', NAME)}-{self.number}"
        text = json.dumps(request).encode()
        free.client, client.worker, free.key, free.streams = client, free, key, False
        free.deadline = time.monotonic() + TIMEOUT
        client.begun = False
        free.unsent = FRAME.pack(len(text), len(body)) + text + body
        self.push(free)

    def answer_again(self, client, method, asked, key):
        """What is known of a call that has a key: true if this request is answered by it, now or when it ends."""
        keys, known, unknown = key.split(","), [("minik8s-kept", "yes")], [("minik8s-not-executed", "unknown")]
        if method == "OPTIONS" and asked == "acknowledge":
            for one in keys:
                self.kept.forget(one)
            for worker in self.workers:
                if worker.key in keys:
                    worker.key = ""
            self.send(client, head_of(200, known, 0, client.close))
            self.after_answer(client)
            return True
        found = self.kept.find(key)
        if found:
            status, headers, content = found
            self.send(client, head_of(status, [*headers, *known], len(content), client.close) + content)
            self.after_answer(client)
            return True
        worker = next((worker for worker in self.workers if worker.client and worker.key == key), None)
        if worker and not worker.streams:
            # Whoever asked before does not listen any more: the same caller asks once at a time.
            before, worker.client = worker.client, GONE
            if before is not GONE:
                before.worker = None
                self.drop(before)
            worker.client, client.worker, client.begun, client.extra = client, worker, False, known
            return True
        if method == "OPTIONS" and asked == "find":
            self.refuse(client, 404, "NotKept", "nothing is known of this call", unknown)
            return True
        return False

    def push(self, worker):
        try:
            while worker.unsent:
                worker.unsent = worker.unsent[worker.pipe.send(worker.unsent):]
        except BlockingIOError:
            pass
        except OSError:
            return self.fire(worker, 502, "WorkerDied", "the handler's process has ended")
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.unsent else 0)
        self.selector.modify(worker.pipe, wanted, worker)

    def hear(self, worker, events):
        if worker not in self.workers:
            return
        if events & selectors.EVENT_WRITE:
            self.push(worker)
        if not events & selectors.EVENT_READ or worker not in self.workers:
            return
        try:
            piece = worker.pipe.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            return self.fire(worker, 502, "WorkerDied", "the handler's process ended before it had answered")
        worker.received += piece
        while len(worker.received) >= FRAME.size:
            head, body = FRAME.unpack(worker.received[:FRAME.size])
            if len(worker.received) < FRAME.size + head + body:
                return
            text = json.loads(worker.received[FRAME.size:FRAME.size + head])
            content = bytes(worker.received[FRAME.size + head:FRAME.size + head + body])
            del worker.received[:FRAME.size + head + body]
            self.pass_on(worker, text, content)

    def pass_on(self, worker, text, content):
        client = worker.client
        if text["last"]:
            worker.client = worker.deadline = None
            if worker.key and "status" in text:
                self.kept.keep(worker.key, text["status"], text["headers"], content)
            worker.key = ""
        else:
            worker.streams = True
        if client is GONE or client is None:
            return
        if text["last"]:
            client.worker = None
        if "status" in text:
            client.begun, client.chunked = True, not text["last"]
            length = None if client.chunked else len(content)
            data = head_of(text["status"], [*text["headers"], *client.extra], length, client.close)
        else:
            data = b""
        if text.get("broken"):
            return self.drop(client)
        if content and not client.head_only:
            data += b"%x\r\n%b\r\n" % (len(content), content) if client.chunked else content
        if text["last"] and client.chunked and not client.head_only:
            data += b"0\r\n\r\n"
        # At once: a connection that closes after its answer is closed when all of it was sent.
        self.send(client, data)
        if text["last"]:
            self.after_answer(client)

    def after_answer(self, client):
        if client in self.clients:
            if client.close and not client.unsent:
                self.drop(client)
            else:
                self.next_request(client)

    def fire(self, worker, status, reason, message):
        """Kills a worker alone; its request is answered, and another takes its place."""
        self.workers.remove(worker)
        self.selector.unregister(worker.pipe)
        worker.pipe.close()
        try:
            os.kill(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        print(f"{reason}: {message}", file=sys.stderr, flush=True)
        client = worker.client
        if client and worker.key and not worker.streams:
            failure = json.dumps({"errorType": reason, "errorMessage": message}).encode()
            self.kept.keep(worker.key, status, [JSON, ("minik8s-function-error", "unhandled")], failure)
        if client not in (None, GONE):
            client.worker = None
            if client.begun:
                self.drop(client)
            else:
                self.refuse(client, status, reason, message, [("minik8s-function-error", "unhandled")])
        self.hire()

    def refuse(self, client, status, reason, message, headers=()):
        content = json.dumps({"errorType": reason, "errorMessage": message}).encode()
        self.send(client, head_of(status, [JSON, *headers, *client.extra], len(content), client.close) + content)
        self.after_answer(client)

    def send(self, client, data):
        if client in self.clients:
            client.unsent += data
            self.flush(client)

    def flush(self, client):
        try:
            while client.unsent:
                del client.unsent[:client.stream.send(client.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            return self.drop(client)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        self.selector.modify(client.stream, wanted, client)
        if client.close and not client.unsent and client.worker is None and client.begun:
            self.drop(client)


GONE = object()


def parse(head):
    lines = head.decode("latin-1").split("\r\n")
    method, target, version = lines[0].split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    headers = {}
    for line in lines[1:]:
        key, colon, value = line.partition(":")
        if not colon or key != key.strip():
            raise ValueError(line)
        key = key.lower()
        if key in ("content-length", "transfer-encoding") and key in headers:
            raise ValueError(line)
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    path, _, query = target.partition("?")
    chunked = headers.get("transfer-encoding", "").lower() == "chunked"
    if "transfer-encoding" in headers and (not chunked or "content-length" in headers):
        raise ValueError("transfer-encoding")
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise ValueError(length)
    return {"method": method, "path": path, "query": query, "headers": headers}, int(length), chunked


def dechunk(data, at):
    pieces = []
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(bytes(data[at:end]).split(b";")[0], 16)
        if len(data) < end + 2 + size + 2:
            return None
        if size == 0:
            return b"".join(pieces), end + 4
        pieces.append(bytes(data[end + 2:end + 2 + size]))
        at = end + 2 + size + 2


def head_of(status, headers, length, close):
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}"]
    for key, value in headers:
        if key.lower() not in ("content-length", "transfer-encoding", "connection"):
            lines.append(f"{key}: {value}".replace("\r", " ").replace("\n", " "))
    lines.append("transfer-encoding: chunked" if length is None else f"content-length: {length}")
    if close:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def last_words(text):
    print(text, file=sys.stderr, flush=True)
    try:
        with open("/dev/termination-log", "w") as log:
            log.write(text[-4000:])
    except OSError:
        pass


def main():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # What the code prints is in the log at once, also if it is killed.
    sys.stdout.reconfigure(line_buffering=True)
    try:
        set_key()
        handler = load()
        handle = form(handler)
    except BaseException as error:
        lines = [line for line in traceback.format_exception(error)
                 if f'File "{__file__}"' not in line and "importlib" not in line]
        last_words("".join(lines).strip())
        os._exit(1)
    front = Front(handle)
    signal.signal(signal.SIGTERM, front.drain)
    front.start()
    front.run()


if __name__ == "__main__":
    main()
