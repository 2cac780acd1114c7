import os

import photos
from PIL import Image


def main(event):
    source = photos.uploaded(event)
    with Image.open(source) as picture:
        picture.thumbnail([int(os.environ.get("SIZE", "64"))] * 2)
        file = photos.write(photos.WORK / f"{source.stem}.thumbnail.png", picture.save)
        return {"name": source.stem, "thumbnail": {"file": file, "width": picture.width, "height": picture.height}}
