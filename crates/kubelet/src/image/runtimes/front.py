

# ---- the front ----------------------------------------------------------------------------------------------------

class Worker:
    def __init__(self, front):
        self.pipe, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            signal.set_wakeup_fd(-1)
            front.forget(self.pipe)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                work(theirs, front.handle)
            finally:
                os._exit(1)
        theirs.close()
        self.pipe.setblocking(False)
        self.received, self.unsent, self.client, self.deadline = bytearray(), b"", None, None
        # The key under which the answer of the present call is kept, and whether its answer goes out piece by piece.
        self.key, self.streams = "", False
        # Whether it is not listened to since its caller is slow, and whether it was told that its caller has gone.
        self.paused, self.stopped = False, False
        # It may not go on for long, since its caller has gone.
        self.cancelled = False


class Client:
    def __init__(self, stream):
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream, self.received, self.unsent = stream, bytearray(), bytearray()
        self.worker, self.begun, self.chunked, self.head_only, self.close = None, False, False, False, False
        # Said with the next answer.
        self.extra = []
        # Since the answer 101: all that comes and goes is a WebSocket's.
        self.raw = False


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
        # A worker that ends wakes the front, which takes its process away.
        signal.signal(signal.SIGCHLD, lambda *_: None)
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

    def stop(self, worker):
        """Tells a worker that nobody hears the rest of its answer."""
        if not worker.stopped and not worker.key:
            worker.stopped = True
            self.resume(worker)
            worker.unsent += framed({"stop": True})
            self.push(worker)

    def pause(self, worker):
        if not worker.paused:
            worker.paused = True
            self.selector.unregister(worker.pipe)

    def resume(self, worker):
        if worker.paused:
            worker.paused = False
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.unsent else 0)
            self.selector.register(worker.pipe, wanted, worker)

    def run(self):
        while True:
            now = time.monotonic()
            busy = [worker for worker in self.workers if worker.client]
            if self.draining:
                # They have no end of their own.
                for worker in [worker for worker in busy if worker.client is not GONE and worker.client.raw]:
                    self.stop(worker)
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
                if worker.cancelled:
                    self.fire(worker, 499, "Cancelled", "the caller has gone")
                else:
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
        if client.raw:
            return self.pass_in(client)
        self.next_request(client)

    def pass_in(self, client):
        """What a WebSocket's other side says goes to its worker, which reads it as long as it has not ended."""
        worker, piece = client.worker, bytes(client.received)
        client.received.clear()
        if worker and piece:
            worker.unsent += framed({}, piece)
            if len(worker.unsent) > MOST_BODY:
                return self.drop(client)
            self.resume(worker)
            self.push(worker)

    def drop(self, client):
        if client not in self.clients:
            return
        self.clients.discard(client)
        self.selector.unregister(client.stream)
        client.stream.close()
        worker = client.worker
        if worker:
            worker.client = GONE
            self.resume(worker)
            self.stop(worker)
            # Whoever gave it a key may ask for its answer again.
            if CANCEL and not worker.key:
                worker.cancelled = True
                worker.deadline = min(worker.deadline, time.monotonic() + CANCEL_SECONDS)

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
        free.client, client.worker, free.key = client, free, key
        free.streams, free.stopped, free.cancelled = False, False, False
        free.deadline = time.monotonic() + TIMEOUT
        client.begun = False
        free.unsent += framed(request, body)
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
            # What goes out piece by piece may take as long as it likes, but not between two pieces.
            worker.streams = True
            if not worker.cancelled:
                worker.deadline = time.monotonic() + TIMEOUT
        if client is GONE or client is None:
            return None if text["last"] else self.stop(worker)
        if text["last"]:
            client.worker = None
        if "status" in text:
            client.raw = text["status"] == SWITCHED
            client.begun, client.chunked = True, not text["last"] and not client.raw
            length = None if client.chunked else len(content)
            data = head_of(text["status"], [*text["headers"], *client.extra], length, client.close)
            client.close = client.close or client.raw
        else:
            data = b""
        if client.raw:
            worker.deadline = None if text["last"] else float("inf")
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
        elif len(client.unsent) > MOST_UNSENT:
            self.pause(worker)

    def after_answer(self, client):
        if client in self.clients:
            if client.close and not client.unsent:
                self.drop(client)
            else:
                self.next_request(client)

    def fire(self, worker, status, reason, message):
        """Kills a worker alone; its request is answered, and another takes its place."""
        self.workers.remove(worker)
        if not worker.paused:
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
        if client.worker and len(client.unsent) <= MOST_UNSENT // 2:
            self.resume(client.worker)
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
    if status == SWITCHED:
        lines.append("connection: Upgrade")
    else:
        lines.append("transfer-encoding: chunked" if length is None else f"content-length: {length}")
    if close and status != SWITCHED:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def termination_message(text):
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
        place, text = place_of(error), "".join(lines).strip()[-3800:]
        termination_message(f"{place}: {type(error).__name__}: {getattr(error, 'msg', None) or error}\n{text}" if place else text)
        os._exit(1)
    front = Front(handle)
    signal.signal(signal.SIGTERM, front.drain)
    front.start()
    front.run()


if __name__ == "__main__":
    main()
