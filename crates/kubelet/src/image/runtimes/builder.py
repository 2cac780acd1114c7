"""Fetches the packages that a function's code asks for in its requirements.txt, and hands them to the server.

It runs in a pod of the function's namespace that may do nothing and has no credentials, since packages may run code of
their own here. pip fetches them; then whoever knows the pod's UID gets the files, and only files: a line of JSON before
each, and one at the end. Where pip fails its last lines are the pod's last words.
"""

import collections
import compileall
import http.server
import json
import os
import py_compile
import stat
import subprocess
import sys
import zipfile

ARCHIVE, FILES, PACKAGES = "/fn/code/code.zip", "/tmp/files", "/tmp/packages"
# Where instances have them, for tracebacks.
MOUNTED = "/fn/dependencies"
LAST_WORDS = "/dev/termination-log"
MOST_UNPACKED = 256 << 20
BUILD = json.loads(os.environ["FN_BUILD"])
UID = os.environ["FN_BUILD_UID"]


def fail(text):
    print(text, flush=True)
    with open(LAST_WORDS, "w") as out:
        out.write(text[-2000:])
    sys.exit(1)


def unpack():
    """Only what the packages depend on; the server has checked the archive, and it is checked again."""
    total = 0
    with zipfile.ZipFile(ARCHIVE) as opened:
        for entry in opened.infolist():
            if entry.is_dir() or BUILD["files"] is not None and entry.filename not in BUILD["files"]:
                continue
            target = os.path.normpath(os.path.join(FILES, entry.filename.removeprefix(BUILD["folder"])))
            total += entry.file_size
            if not target.startswith(FILES + "/") or total > MOST_UNPACKED:
                raise ValueError(f"the archive has a bad entry: {entry.filename!r}")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with opened.open(entry) as source, open(target, "xb") as out:
                out.write(source.read(MOST_UNPACKED))


def environment():
    """What the operator has set for builds; nothing that this program is told by."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FN_")}
    settings = json.loads(os.environ.get("FN_SETTINGS") or "{}")
    if "pip.conf" in settings:
        with open("/tmp/pip.conf", "w") as out:
            out.write(settings["pip.conf"])
        env["PIP_CONFIG_FILE"] = "/tmp/pip.conf"
    env.update({name: value for name, value in settings.items() if "." not in name and name != "npmrc"})
    return env


def fetch():
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-compile",
               "--no-cache-dir", "--prefer-binary", "--progress-bar", "off", "--target", PACKAGES,
               "-r", "requirements.txt"]
    pip = subprocess.Popen(command, cwd=FILES, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    last = collections.deque(maxlen=15)
    for line in pip.stdout:
        print(line, end="", flush=True)
        last.append(line)
    if pip.wait() != 0:
        fail(f"pip cannot fetch what requirements.txt asks for:\n{''.join(last)}".rstrip())
    os.makedirs(PACKAGES, exist_ok=True)
    # Instances cannot write it, and times of files are lost on the way.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(PACKAGES, quiet=2, ddir=MOUNTED, invalidation_mode=mode)


def files():
    """Every plain file below the packages, in one order."""
    for folder, folders, names in os.walk(PACKAGES):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode):
                yield path, found


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("x-function-build") != UID:
            return self.send_error(403)
        self.send_response(200)
        self.send_header("content-type", "application/octet-stream")
        self.end_headers()
        for path, found in files():
            head = {"path": os.path.relpath(path, PACKAGES), "size": found.st_size, "run": bool(found.st_mode & 0o100)}
            self.wfile.write(json.dumps(head).encode() + b"\n")
            left = found.st_size
            with open(path, "rb") as source:
                while left and (piece := source.read(min(left, 1 << 16))):
                    left -= len(piece)
                    self.wfile.write(piece)
        self.wfile.write(b'{"end": true}\n')

    def log_message(self, *_):
        pass


try:
    unpack()
    fetch()
except Exception as error:
    fail(f"{type(error).__name__}: {error}")
print("the packages are ready", flush=True)
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
