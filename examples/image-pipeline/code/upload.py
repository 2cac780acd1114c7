"""Takes a picture by HTTP: PUT or POST /NAME.png."""

import photos
from PIL import Image, UnidentifiedImageError


def main(event, context):
    name = context.path.rsplit("/", 1)[-1]
    if not name.endswith(".png") or name.startswith("."):
        return {"statusCode": 400, "body": {"error": "give the picture a name: /NAME.png"}}
    if not isinstance(event, bytes):
        return {"statusCode": 400, "body": {"error": "this is no picture"}}

    def save(path):
        path.write_bytes(event)
        with Image.open(path) as picture:
            picture.verify()
    try:
        photos.write(photos.IN / name, save)
    except (UnidentifiedImageError, SyntaxError, OSError) as error:
        return {"statusCode": 400, "body": {"error": f"this is no picture: {error}"}}
    return {"statusCode": 201, "body": {"name": name, "bytes": len(event)}}
