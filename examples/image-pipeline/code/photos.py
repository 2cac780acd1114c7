"""Where pictures are on the claim that all functions share."""

import os
import pathlib
import uuid

ROOT = pathlib.Path(os.environ.get("PHOTOS", "/photos"))
IN, WORK, OUT = ROOT / "in", ROOT / "work", ROOT / "out"
for folder in (IN, WORK, OUT):
    folder.mkdir(exist_ok=True)


def uploaded(event):
    """The picture that an event of the file trigger is about."""
    return ROOT / event["data"]["path"]


def write(path, save):
    """Whole or not at all: who looks sees no half of a picture."""
    part = WORK / f"{uuid.uuid4().hex}{path.suffix}"
    try:
        save(part)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return str(path)
