

# ---- WebSockets of ASGI applications --------------------------------------------------------------------------------

SWITCHED = 101
# Of RFC 6455: what the key is hashed with, and what a frame is.
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUED, TEXT_FRAME, BINARY_FRAME, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def is_websocket(request):
    return request["headers"].get("upgrade", "").lower() == "websocket" and "sec-websocket-key" in request["headers"]


class Broken(Exception):
    """Of what the other side sends: the code that the connection is closed with."""


class WebSocket:
    """The frames of one connection, read and written; no frame of ours is split, and none is compressed."""

    def __init__(self, caller):
        self.caller, self.received, self.message, self.kind = caller, bytearray(), bytearray(), None
        # Messages of ASGI that the application has not taken yet, and whether we have said good-bye.
        self.arrived, self.closed = [], False

    def feed(self, data):
        self.received += data
        try:
            while not self.closed and (frame := self.next_frame()):
                self.take(*frame)
        except Broken as error:
            self.close(error.args[0])
            self.arrived.append({"type": "websocket.disconnect", "code": error.args[0]})

    def next_frame(self):
        data = self.received
        if len(data) < 2:
            return None
        length, at = data[1] & 127, 2
        if not data[1] & 128 or data[0] & 112:
            raise Broken(1002)
        if length > 125:
            width = 2 if length == 126 else 8
            if len(data) < 2 + width:
                return None
            length, at = int.from_bytes(data[2:2 + width], "big"), 2 + width
        if length + len(self.message) > MOST_BODY:
            raise Broken(1009)
        if len(data) < at + 4 + length:
            return None
        mask, payload = data[at:at + 4], data[at + 4:at + 4 + length]
        # By whole numbers: a loop over bytes takes a second for a few megabytes.
        key = (bytes(mask) * (length // 4 + 1))[:length]
        payload = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")
        first = data[0]
        del data[:at + 4 + length]
        return bool(first & 128), first & 15, payload

    def take(self, is_last, kind, payload):
        if kind == PING:
            return self.write(PONG, payload)
        if kind == PONG:
            return None
        if kind == CLOSE:
            code = int.from_bytes(payload[:2], "big") if len(payload) > 1 else 1005
            self.close(1000 if code == 1005 else code)
            return self.arrived.append({"type": "websocket.disconnect", "code": code})
        if (kind == CONTINUED) != (self.kind is not None) or kind > BINARY_FRAME:
            raise Broken(1002)
        self.kind = self.kind or kind
        self.message += payload
        if not is_last:
            return None
        text, data = self.kind == TEXT_FRAME, bytes(self.message)
        self.kind = None
        self.message.clear()
        try:
            content = {"text": data.decode()} if text else {"bytes": data}
        except UnicodeDecodeError:
            raise Broken(1007) from None
        return self.arrived.append({"type": "websocket.receive", **content})

    def write(self, kind, payload):
        length = len(payload)
        if length < 126:
            head = bytes([128 | kind, length])
        elif length < 1 << 16:
            head = bytes([128 | kind, 126]) + length.to_bytes(2, "big")
        else:
            head = bytes([128 | kind, 127]) + length.to_bytes(8, "big")
        self.caller.send({"last": False}, head + payload)

    def close(self, code):
        if not self.closed:
            self.closed = True
            self.write(CLOSE, code.to_bytes(2, "big"))


def serve_websocket(application, scope, request):
    """Runs the application until it ends; what it says goes out from here."""
    import asyncio
    import base64
    import hashlib
    loop, caller, headers = loop_of(request), request["caller"], request["headers"]
    wanted = [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",") if one.strip()]
    scope.update({"type": "websocket", "scheme": "ws", "subprotocols": wanted})
    connection, accepted, refused = WebSocket(caller), [], []
    news, told = asyncio.Event(), []

    def hear():
        gone = caller.is_gone()
        for data in caller.received:
            connection.feed(data)
        caller.received.clear()
        if gone and not connection.closed:
            connection.close(1001)
            connection.arrived.append({"type": "websocket.disconnect", "code": 1001})
        news.set()

    async def receive():
        if not told:
            told.append(True)
            return {"type": "websocket.connect"}
        while not connection.arrived:
            if connection.closed:
                return {"type": "websocket.disconnect", "code": 1000}
            news.clear()
            await news.wait()
        return connection.arrived.pop(0)

    async def send(message):
        kind = message["type"]
        if kind == "websocket.accept" and not accepted:
            key = hashlib.sha1(headers["sec-websocket-key"].strip().encode() + GUID).digest()
            answer = [(k.decode(), v.decode()) for k, v in message.get("headers", [])]
            answer += [("upgrade", "websocket"), ("sec-websocket-accept", base64.b64encode(key).decode())]
            if message.get("subprotocol"):
                answer.append(("sec-websocket-protocol", message["subprotocol"]))
            accepted.append(True)
            caller.send({"status": SWITCHED, "headers": answer, "last": False})
        elif kind == "websocket.close":
            connection.close(message.get("code") or 1000) if accepted else refused.append(True)
        elif kind == "websocket.send" and accepted and not connection.closed:
            text = message.get("text")
            connection.write(*((BINARY_FRAME, message["bytes"]) if text is None else (TEXT_FRAME, text.encode())))

    loop.add_reader(caller.pipe, hear)
    code = 1000
    try:
        loop.run_until_complete(application(scope, receive, send))
    except BaseException:  # noqa: as for other handlers
        if not accepted:
            raise
        traceback.print_exc()
        code = 1011
    finally:
        loop.remove_reader(caller.pipe)
    if not accepted:
        return {"statusCode": 403, "body": ""}
    connection.close(code)
    return {"statusCode": SWITCHED}
