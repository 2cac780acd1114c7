# Tells changes of files below a folder as signed CloudEvents. Runs in the pod of a trigger; knows nothing else.
import ctypes, fnmatch, hashlib, hmac, json, os, select, socket, stat, struct, sys, time, urllib.error, urllib.request, uuid

ROOT = os.path.join("/data", os.environ["FILES_PATH"]).rstrip("/")
WANTED = os.environ["FILES_EVENTS"].split(",")
PATTERN = os.environ["FILES_PATTERN"]
SOURCE = os.environ["FILES_SOURCE"]
URL = os.environ["FILES_URL"]
KEY = os.environ["FILES_KEY"].encode()
MOST_FILES = 100_000
# FUSE (also virtiofs and the class shared), NFS, CIFS, SMB2, Ceph, 9p, AFS, Lustre, GPFS: what others change there, the
# kernel does not tell.
NETWORK = {0x65735546, 0x6969, 0xFF534D42, 0xFE534D42, 0x00C36400, 0x01021997, 0x5346414F, 0x0BD00BD0, 0x47504653}
LOOK_AGAIN_SECONDS = 10

CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
OVERFLOW, ISDIR, ONLYDIR, DONT_FOLLOW = 0x4000, 0x40000000, 0x1000000, 0x2000000
libc = ctypes.CDLL(None, use_errno=True)
queue = libc.inotify_init1(0o2000000)
folders = {}  # watch descriptor -> folder
known = {}  # path -> what it was like


def end(message):
    print(message, file=sys.stderr, flush=True)
    with open("/dev/termination-log", "w") as log:
        log.write(message)
    sys.exit(1)


def look(path):
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return (info.st_mtime_ns, info.st_size, info.st_ino) if stat.S_ISREG(info.st_mode) else None


def add_folder(folder):
    mask = CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | ONLYDIR | DONT_FOLLOW
    watch = libc.inotify_add_watch(queue, os.fsencode(folder), mask)
    if watch < 0:
        error = ctypes.get_errno()
        if folder == ROOT or error == 28:
            end(f"cannot look at folder {folder[5:] or '/'} of the volume: {os.strerror(error)}")
        return
    folders[watch] = folder


def walk(folder):
    """Every file below a folder; folders are looked at from now on."""
    add_folder(folder)
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from walk(entry.path)
        elif look(entry.path):
            yield entry.path


def learn(path, now):
    if path not in known and len(known) >= MOST_FILES:
        end(f"there are more than {MOST_FILES} files: name a folder with fewer by spec.source.file.path")
    known[path] = now


def changed(path):
    before, now = known.get(path), look(path)
    if now == before:
        return
    if now is None:
        del known[path]
        tell("Removed", path, before)
    else:
        learn(path, now)
        tell("Modified" if before else "Created", path, now)


def rescan(folder):
    there = set(walk(folder))
    gone = {path for path in known if path.startswith(folder + "/")} - there
    for path in sorted(there | gone):
        changed(path)


def is_of_network(folder):
    told = ctypes.create_string_buffer(512)
    return libc.statfs(os.fsencode(folder), told) == 0 and ctypes.c_ulong.from_buffer(told).value & 0xFFFFFFFF in NETWORK


def look_again(before):
    """Tells of changes that are the same as when it last looked: others may still be writing. Those that are not yet."""
    after = {}
    for path in sorted(set(walk(ROOT)) | known.keys()):
        now = look(path)
        if now == known.get(path):
            continue
        if path in before and before[path] == now:
            changed(path)
        else:
            after[path] = now
    return after


def tell(event, path, info):
    name = os.path.relpath(path, "/data")
    if event not in WANTED or not fnmatch.fnmatchcase(os.path.basename(path), PATTERN):
        return
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    post({
        "specversion": "1.0", "id": str(uuid.uuid4()), "source": SOURCE, "type": "io.minik8s.file." + event.lower(),
        "subject": name, "time": moment, "data": {"event": event, "path": name, "size": info[1]},
    })


def post(event):
    """Until it is accepted: the same id fires once however often it is sent."""
    body = json.dumps(event).encode()
    signature = "sha256=" + hmac.new(KEY, body, hashlib.sha256).hexdigest()
    headers = {"content-type": "application/cloudevents+json", "x-hub-signature-256": signature}
    pause = 0.2
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(URL, body, headers), timeout=30).close()
            return
        except urllib.error.HTTPError as error:
            told = error.read(500).decode(errors="replace")
            print(f"{event['subject']}: {error.code} {told}", file=sys.stderr, flush=True)
            if error.code in (400, 413, 422):
                return
        except OSError as error:
            print(f"{event['subject']}: {error}", file=sys.stderr, flush=True)
        time.sleep(pause)
        pause = min(pause * 2, 30)


for path in walk(ROOT):
    learn(path, look(path))
listener = socket.create_server(("", 8080))  # Whoever asks whether it has begun can connect.
print(f"looking at {len(known)} files below {ROOT[5:] or '/'}", flush=True)
looks, unsettled = is_of_network(ROOT), {}
next_look = time.monotonic() + LOOK_AGAIN_SECONDS
while True:
    if looks:
        told = select.select([queue], [], [], max(0, next_look - time.monotonic()))[0]
        if time.monotonic() >= next_look:
            begun = time.monotonic()
            unsettled = look_again(unsettled)
            # However many files there are, most of the time it does nothing.
            next_look = time.monotonic() + max(LOOK_AGAIN_SECONDS, 10 * (time.monotonic() - begun))
        if not told:
            continue
    events = os.read(queue, 65536)
    while events:
        watch, mask, _, length = struct.unpack_from("iIII", events)
        name = os.fsdecode(events[16:16 + length].rstrip(b"\0"))
        events = events[16 + length:]
        if mask & OVERFLOW:
            rescan(ROOT)
            continue
        folder = folders.get(watch)
        if folder is None or not name:
            continue
        path = os.path.join(folder, name)
        if mask & ISDIR:
            rescan(path) if mask & (CREATE | MOVED_TO) else [changed(one) for one in sorted(known) if one.startswith(path + "/")]
        elif not mask & CREATE:
            changed(path)
