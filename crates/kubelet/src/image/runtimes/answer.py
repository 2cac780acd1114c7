# ---- how handlers are called, and what they return -------------------------------------------------------------------

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


class Http:
    """An answer of its own: the head, which is known once the first piece is, and the pieces."""

    def __init__(self, head, pieces):
        self.head, self.pieces = head, pieces


def wsgi(application, request, body):
    head, written = [], []
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
        head[:] = [int(line.split(" ", 1)[0]), list(headers)]
        return written.append

    def all_pieces():
        answer = application(environ, start_response)
        try:
            for piece in answer:
                while written:
                    yield written.pop(0)
                yield piece
            yield from written
        finally:
            getattr(answer, "close", lambda: None)()
    return Http(head, all_pieces())


def asgi(application, request, body):
    import asyncio
    loop, caller = loop_of(request), request["caller"]
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "scheme": "http",
        "method": request["method"], "path": urllib.parse.unquote(request["path"]), "raw_path": request["path"].encode(),
        "query_string": request["query"].encode(), "root_path": "", "server": (NAME, 80), "client": ("0.0.0.0", 0),
        "headers": [(key.encode(), value.encode()) for key, value in request["headers"].items()],
    }
    if is_websocket(request):
        return serve_websocket(application, scope, request)
    head, told, left, pieces = [], [], asyncio.Event(), asyncio.Queue(1)

    async def receive():
        if not told:
            told.append(True)
            return {"type": "http.request", "body": body, "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            head[:] = [message["status"], [(k.decode(), v.decode()) for k, v in message.get("headers", [])]]
        elif message["type"] == "http.response.body":
            await pieces.put(message.get("body", b""))

    async def next_piece(task):
        getter = asyncio.ensure_future(pieces.get())
        await asyncio.wait({getter, task}, return_when=asyncio.FIRST_COMPLETED)
        if getter.done():
            return getter.result()
        getter.cancel()
        return None if pieces.empty() else pieces.get_nowait()

    def all_pieces():
        task = loop.create_task(application(scope, receive, send))
        loop.add_reader(caller.pipe, lambda: caller.is_gone() and left.set())
        try:
            while (piece := loop.run_until_complete(next_piece(task))) is not None:
                yield piece
            task.result()
        finally:
            loop.remove_reader(caller.pipe)
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    return Http(head, all_pieces())


def loop_of(request):
    """One for the whole call: what a coroutine returns may be bound to the loop that it ran in."""
    import asyncio
    if "loop" not in request:
        request["loop"] = asyncio.new_event_loop()
        asyncio.set_event_loop(request["loop"])
    return request["loop"]


def end_loop(request):
    import asyncio
    loop = request.pop("loop")
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    asyncio.set_event_loop(None)
    loop.close()


def is_stream(value):
    return hasattr(value, "__next__") or hasattr(value, "__aiter__")


def pieces_of(value, request):
    """What a handler gives one after the other, as bytes: text and bytes as they are, anything else as a line of JSON."""
    if hasattr(value, "__aiter__"):
        value = in_turn(value.__aiter__(), loop_of(request))
    try:
        for piece in value:
            if isinstance(piece, (bytes, bytearray, memoryview)):
                piece = bytes(piece)
            else:
                piece = (piece if isinstance(piece, str) else json.dumps(piece, default=str) + "\n").encode()
            if piece:
                yield piece
    finally:
        getattr(value, "close", lambda: None)()


def in_turn(steps, loop):
    try:
        while True:
            yield loop.run_until_complete(steps.__anext__())
    except StopAsyncIteration:
        return
    finally:
        if hasattr(steps, "aclose"):
            loop.run_until_complete(steps.aclose())


def begun(pieces):
    """All of them, the first made already: who fails before it has given anything has failed, and that can be said."""
    first = next(pieces, None)
    if first is None:
        return b""

    def again():
        try:
            yield first
            yield from pieces
        finally:
            pieces.close()
    return again()


def answer_of(value, request):
    """Status, headers, content (bytes, or a generator of them) of what a handler returned."""
    if isinstance(value, Http):
        content = begun(pieces_of(value.pieces, request))
        if not value.head:
            raise RuntimeError("the application has not started its answer")
        status, headers = value.head
        # Who says how long it is has all of it.
        if content and any(key.lower() == "content-length" for key, _ in headers):
            content = b"".join(content)
        return status, headers, content
    if isinstance(value, dict) and "statusCode" in value:
        headers = [(str(k), str(v)) for k, v in (value.get("headers") or {}).items()]
        content = value.get("body", b"")
        if value.get("isBase64Encoded") and isinstance(content, str):
            import base64
            content = base64.b64decode(content)
        if is_stream(content):
            return int(value["statusCode"]), headers, begun(pieces_of(content, request))
        if not isinstance(content, (str, bytes)):
            content = json.dumps(content, default=str)
            headers = headers if any(k.lower() == "content-type" for k, _ in headers) else headers + [JSON]
        return int(value["statusCode"]), headers, content.encode() if isinstance(content, str) else content
    if isinstance(value, (bytes, bytearray)):
        return 200, [("content-type", "application/octet-stream")], bytes(value)
    if isinstance(value, str) and "json" not in request["headers"].get("accept", ""):
        return 200, [TEXT], value.encode()
    if is_stream(value):
        return 200, [TEXT], begun(pieces_of(value, request))
    return 200, [JSON], json.dumps(value, default=str).encode()


JSON = ("content-type", "application/json")
TEXT = ("content-type", "text/plain; charset=utf-8")


def call(handle, request, body):
    try:
        value = handle(request, body)
        if inspect.iscoroutine(value):
            value = loop_of(request).run_until_complete(value)
        return answer_of(value, request)
    except BadRequest as error:
        return 400, [JSON], json.dumps({"errorType": "BadRequest", "errorMessage": str(error)}).encode()
    except BaseException as error:  # noqa: a handler that calls exit() is a failed request, not the end of a worker
        lines = [line for line in traceback.format_exception(error) if f'File "{__file__}"' not in line]
        print("".join(lines), end="", file=sys.stderr, flush=True)
        text = {"errorType": type(error).__name__, "errorMessage": str(error), "trace": "".join(lines).splitlines()}
        return 500, [JSON, ("minik8s-function-error", "unhandled")], json.dumps(text).encode()


# ---- workers ------------------------------------------------------------------------------------------------------

def framed(head, body=b""):
    text = json.dumps(head).encode()
    return FRAME.pack(len(text), len(body)) + text + body


def read_exactly(pipe, length):
    pieces = []
    while length:
        piece = pipe.recv(min(length, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def read_frame(pipe):
    head, body = FRAME.unpack(read_exactly(pipe, FRAME.size))
    return json.loads(read_exactly(pipe, head)), read_exactly(pipe, body)


class Caller:
    """Who gets the answer of the present call. The front says when nobody does any more, and passes on what the other
    side of a WebSocket sends."""

    def __init__(self, pipe):
        self.pipe, self.left, self.received = pipe, False, []

    def is_gone(self):
        while not self.left and select.select([self.pipe], [], [], 0)[0]:
            try:
                head, body = read_frame(self.pipe)
            except EOFError:
                os._exit(0)
            self.left = "stop" in head
            self.received.append(body)
        return self.left

    def send(self, head, body=b""):
        self.pipe.sendall(framed(head, body))

    def send_pieces(self, status, headers, pieces):
        head = {"status": status, "headers": headers}
        try:
            for piece in pieces:
                if self.is_gone():
                    break
                self.send({**head, "last": False}, piece)
                head = {}
            self.send({"last": True})
        except BaseException:  # noqa: as above; but the answer has begun
            traceback.print_exc()
            self.send({"last": True, "broken": True})
        finally:
            pieces.close()


def work(pipe, handle):
    while True:
        try:
            request, body = read_frame(pipe)
        except EOFError:
            os._exit(0)
        if "method" not in request:
            # Said of the call before, which had ended by then.
            continue
        caller = request["caller"] = Caller(pipe)
        set_key()
        status, headers, content = call(handle, request, body)
        if status == SWITCHED:
            caller.send({"last": True})
        elif isinstance(content, bytes):
            caller.send({"status": status, "headers": headers, "last": True}, content)
        else:
            caller.send_pieces(status, headers, content)
        if "loop" in request:
            end_loop(request)
        sys.stdout.flush()
