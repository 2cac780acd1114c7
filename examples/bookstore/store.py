"""One program, four services of a bookstore: web asks details and reviews; reviews v2 and v3 ask ratings."""
import http.client
import http.server
import json
import os
import signal

ROLE = os.environ["ROLE"]
VERSION = os.environ.get("VERSION", "v1")
POD = os.environ["HOSTNAME"]
STARS = {"v2": "black", "v3": "red"}


def ask(service, path, user):
    connection = http.client.HTTPConnection(service, 9080, timeout=10)
    connection.request("GET", path, headers={"end-user": user} if user else {})
    answer = connection.getresponse()
    body = answer.read()
    return json.loads(body) if answer.status == 200 else {"error": answer.status}


def web(path, user):
    return {"details": ask("details", "/details/1", user), "reviews": ask("reviews", "/reviews/1", user)}


def details(path, user):
    return {"title": "The Comedy of Errors", "pages": 200}


def reviews(path, user):
    answer = {"version": VERSION, "pod": POD, "reviews": ["An extremely entertaining play", "Absolutely fun"]}
    if VERSION in STARS:
        answer["ratings"] = ask("ratings", "/ratings/1", user) | {"color": STARS[VERSION]}
    return answer


def ratings(path, user):
    return {"stars": [5, 4]}


PATHS = {"web": "/productpage", "details": "/details/", "reviews": "/reviews/", "ratings": "/ratings/"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        known = self.path.startswith(PATHS[ROLE])
        answer = globals()[ROLE](self.path, self.headers.get("end-user")) if known else {"error": "no such page"}
        body = json.dumps(answer).encode()
        self.send_response(200 if known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server(("", 9080), Handler).serve_forever()
