"""One program, six services of a bookstore: web asks details and reviews; reviews v2 and v3 ask ratings; orders take from
stock, which breaks every third connection without an answer, after it has done what it was asked for."""
import http.client
import http.server
import json
import os
import signal
import threading

ROLE = os.environ["ROLE"]
VERSION = os.environ.get("VERSION", "v1")
POD = os.environ["HOSTNAME"]
STARS = {"v2": "black", "v3": "red"}


def ask(service, path, user, method="GET"):
    connection = http.client.HTTPConnection(service, 9080, timeout=10)
    connection.request(method, path, headers={"end-user": user} if user else {})
    answer = connection.getresponse()
    body = answer.read()
    return json.loads(body) if answer.status == 200 else {"error": answer.status}


def web(path, user):
    return {"details": ask("details", "/details/1", user), "reviews": ask("reviews", "/reviews/1", user)}


def details(path, user):
    return {"title": "The Comedy of Errors", "pages": 200, "version": VERSION}


def reviews(path, user):
    answer = {"version": VERSION, "pod": POD, "reviews": ["An extremely entertaining play", "Absolutely fun"]}
    if VERSION in STARS:
        answer["ratings"] = ask("ratings", "/ratings/1", user) | {"color": STARS[VERSION]}
    return answer


def ratings(path, user):
    return {"stars": [5, 4]}


def orders(path, user):
    return ask("stock", "/stock/1", user, "POST")


def stock(path, user):
    return {"taken": taken}


PATHS = {"web": "/productpage", "details": "/details/", "reviews": "/reviews/", "ratings": "/ratings/",
         "orders": "/orders", "stock": "/stock/"}
asked, taken, lock = 0, 0, threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if ROLE == "stock" and self.breaks():
            self.close_connection = True
            return
        known = self.path.startswith(PATHS[ROLE])
        answer = globals()[ROLE](self.path, self.headers.get("end-user")) if known else {"error": "no such page"}
        body = json.dumps(answer).encode()
        failed = 502 if "error" in answer else 200
        self.send_response(failed if known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def breaks(self):
        global asked, taken
        with lock:
            asked += 1
            taken += self.command == "POST"
            return asked % 3 == 0

    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server(("", 9080), Handler).serve_forever()
