import photos
from PIL import Image, ImageStat


def main(event):
    source = photos.uploaded(event)
    with Image.open(source) as picture:
        mean = [round(value) for value in ImageStat.Stat(picture.convert("RGB")).mean]
        return {"name": source.stem, "width": picture.width, "height": picture.height, "mode": picture.mode,
                "mean": mean, "bytes": source.stat().st_size}
