# Tells the messages of a subject of a NATS server as signed CloudEvents. Runs in the pod of a trigger; knows nothing else.
import base64, collections, hashlib, hmac, json, os, socket, sys, threading, time, urllib.error, urllib.request, uuid

ADDRESS = os.environ["NATS_HOST"], int(os.environ["NATS_PORT"])
SUBJECT, GROUP = os.environ["NATS_SUBJECT"], os.environ["NATS_GROUP"]
POST, KEY = os.environ["NATS_POST"], os.environ["NATS_KEY"].encode()
SOURCE = f"nats://{ADDRESS[0]}:{ADDRESS[1]}"
# An event is part of an object.
LARGEST, MOST_WAITING = 150 << 10, 10_000
# A server says something every two minutes.
CONNECT_SECONDS, SILENT_SECONDS = 20, 180

waiting, room = collections.deque(), threading.Condition()


def say(text):
    print(text, file=sys.stderr, flush=True)


def end(message):
    say(message)
    with open("/dev/termination-log", "w") as log:
        log.write(message)
    os._exit(1)


def options():
    wanted = {"verbose": False, "pedantic": False, "tls_required": False, "headers": True, "lang": "python",
              "version": "1", "protocol": 1, "name": os.environ["NATS_NAME"]}
    for variable, field in (("NATS_USER", "user"), ("NATS_PASSWORD", "pass"), ("NATS_TOKEN", "auth_token")):
        if os.environ.get(variable):
            wanted[field] = os.environ[variable]
    return wanted


def event_of(subject, headers, payload):
    event = {"specversion": "1.0", "id": headers.get("nats-msg-id") or str(uuid.uuid4()), "source": f"{SOURCE}/{subject}",
             "type": "io.minik8s.nats", "subject": subject, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return {**event, "data_base64": base64.b64encode(payload).decode()}
    try:
        return {**event, "data": json.loads(text)}
    except ValueError:
        return {**event, "data": text}


def headers_of(block):
    pairs = (line.split(":", 1) for line in block.decode(errors="replace").split("\r\n")[1:] if ":" in line)
    return {key.strip().lower(): value.strip() for key, value in pairs}


def post(event):
    """Until it is accepted: the same id fires once however often it is sent."""
    body = json.dumps(event).encode()
    signature = "sha256=" + hmac.new(KEY, body, hashlib.sha256).hexdigest()
    headers = {"content-type": "application/cloudevents+json", "x-hub-signature-256": signature}
    pause = 0.2
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(POST, body, headers), timeout=30).close()
            return
        except urllib.error.HTTPError as error:
            say(f"{event['subject']}: {error.code} {error.read(500).decode(errors='replace')}")
            if error.code in (400, 413, 422):
                return
        except OSError as error:
            say(f"{event['subject']}: {error}")
        time.sleep(pause)
        pause = min(pause * 2, 30)


def post_all():
    while True:
        with room:
            while not waiting:
                room.wait()
            event = waiting[0]
        post(event)
        with room:
            waiting.popleft()
            room.notify_all()


def take(subject, headers, payload):
    if len(payload) > LARGEST:
        return say(f"{subject}: a message of {len(payload)} bytes is left out; at most {LARGEST} are told")
    with room:
        # The server waits, and says so, rather than that messages are lost here.
        while len(waiting) >= MOST_WAITING:
            room.wait()
        waiting.append(event_of(subject, headers, payload))
        room.notify_all()


def listen(connection, subscribed):
    """Reads what the server says until the connection ends."""
    stream = connection.makefile("rb")
    send = lambda text: connection.sendall(text.encode())
    if not stream.readline(1 << 16).startswith(b"INFO "):
        end(f"{ADDRESS[0]}:{ADDRESS[1]} is no NATS server")
    send(f"CONNECT {json.dumps(options())}\r\nSUB {SUBJECT} {GROUP} 1\r\nPING\r\n")
    connection.settimeout(SILENT_SECONDS)
    while True:
        line = stream.readline(1 << 16)
        if not line:
            return say("the server has ended the connection")
        words = line.decode(errors="replace").split()
        kind = words[0].upper() if words else ""
        if kind == "PING":
            send("PONG\r\n")
        elif kind == "PONG":
            subscribed()
        elif kind == "-ERR":
            told = " ".join(words[1:])
            if "uthor" in told or "ermission" in told:
                end(f"the server refuses the subscription: {told}")
            say(told)
        elif kind == "MSG":
            payload = stream.read(int(words[-1]) + 2)[:-2]
            take(words[1], {}, payload)
        elif kind == "HMSG":
            head, whole = int(words[-2]), int(words[-1])
            block = stream.read(whole + 2)[:-2]
            take(words[1], headers_of(block[:head]), block[head:])


def main():
    threading.Thread(target=post_all, daemon=True).start()
    doors = []

    def subscribed():
        if not doors:
            doors.append(socket.create_server(("", 8080)))  # Whoever asks whether it listens can connect.
            say(f"listening to {SUBJECT}")

    pause = 0.2
    while True:
        begun = time.monotonic()
        try:
            with socket.create_connection(ADDRESS, timeout=CONNECT_SECONDS) as connection:
                listen(connection, subscribed)
        except (OSError, ValueError, IndexError) as error:
            say(f"{ADDRESS[0]}:{ADDRESS[1]}: {error}")
        while doors:
            doors.pop().close()
        pause = 0.2 if time.monotonic() - begun > 30 else min(pause * 2, 20)
        time.sleep(pause)


if __name__ == "__main__":
    main()
