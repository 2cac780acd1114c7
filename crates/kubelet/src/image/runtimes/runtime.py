"""Runs a function's handler behind HTTP.

The first process imports the code, then forks as many workers as requests may run at once. It alone listens: it reads
whole requests, gives each to a worker that is free, and passes the answer on. A worker that takes too long is killed
alone, and a new one is forked. A request that no worker has seen is refused in a way that says so, so that whoever sent
it may send it elsewhere.

The program is put together of runtime.py (the user's code), answer.py (how handlers are called and what they return),
websocket.py and front.py (who listens), in this order, since one file is compiled into one file of the image.
"""

import inspect
import io
import json
import os
import select
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
MOST_UNPACKED = 256 << 20
# Of an answer that goes out piece by piece and that its caller is slow to take.
MOST_UNSENT = 1 << 20
# Of answers that wait for their acknowledgement.
MOST_KEPT, MOST_KEPT_BYTES, LARGEST_KEPT, KEPT_SECONDS = 1000, 16 << 20, 1 << 20, 3600
NAME = os.environ.get("FN_NAME", "")
TIMEOUT = float(os.environ.get("FN_TIMEOUT") or 60)
# Whether a call ends when its caller has gone, and how many seconds it then has.
CANCEL, CANCEL_SECONDS = bool(os.environ.get("FN_CANCEL")), 5
WORKERS = max(1, int(os.environ.get("FN_CONCURRENCY") or 1))
MODULES = ("main", "handler", "index", "app", "function", "lambda_function", "__main__")
HANDLERS = ("main", "handler", "run", "app", "application", "lambda_handler", "my_function")
# Of actions that were made by the API of OpenWhisk: parameters that every call has, and where their key is.
PARAMETERS = json.loads(os.environ.get("__OW_PARAMETERS") or "{}")
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
WHOLE = {"params", "param", "event", "args", "payload", "data", "request", "body", "input", "e", "p", "d", "_", "arg"}
CONTEXTS = {"context", "ctx", "_context", "_ctx", "c", "_"}
FRAME = struct.Struct("!II")
REASONS = {101: "Switching Protocols", 200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Content Too Large", 500: "Internal Server Error",
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


def place_of(error):
    """Where broken code is broken, as FILE:LINE:COLUMN; empty where that is not in the user's code."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename)}:{error.lineno or 1}:{error.offset or 1}"
    frames = [frame for frame in traceback.TracebackException.from_exception(error).stack
              if frame.filename.startswith((CODE + "/", UNPACKED + "/"))]
    if not frames:
        return ""
    column = getattr(frames[-1], "colno", None)
    return f"{shown(frames[-1].filename)}:{frames[-1].lineno}:{1 if column is None else column + 1}"


def shown(path):
    """As the user calls the file."""
    return os.path.relpath(path) if path.startswith(os.getcwd() + "/") else path
