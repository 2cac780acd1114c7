"""Puts what the steps before have made into the album; the last file says that a picture is there."""

import json
import pathlib

import photos


def main(data):
    known = {}
    for part in data:
        known.update(part)
    folder = photos.OUT / known["name"]
    folder.mkdir(exist_ok=True)
    for kind in ("thumbnail", "watermark"):
        file = pathlib.Path(known[kind]["file"])
        # A second run of the same picture finds it moved already.
        if file.exists():
            file.rename(folder / f"{kind}.png")
        known[kind]["file"] = f"{kind}.png"
    photos.write(folder / "metadata.json", lambda path: path.write_text(json.dumps(known)))
    return known
