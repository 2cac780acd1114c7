import os

import photos
from PIL import Image, ImageDraw


def main(event):
    source = photos.uploaded(event)
    with Image.open(source) as picture:
        marked = picture.convert("RGB")
    draw = ImageDraw.Draw(marked)
    draw.rectangle([0, 0, marked.width - 1, marked.height - 1], outline="white")
    draw.text((4, 4), os.environ.get("MARK", "minik8s"), fill="white")
    file = photos.write(photos.WORK / f"{source.stem}.watermark.png", marked.save)
    return {"name": source.stem, "watermark": {"file": file}}
