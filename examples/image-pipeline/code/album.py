"""GET: all pictures. GET /NAME/thumbnail.png: one of them."""

import json

import photos


def main(event, context):
    asked = (photos.OUT / context.path.strip("/")).resolve()
    if asked == photos.OUT.resolve():
        return [json.loads(file.read_text()) for file in sorted(photos.OUT.glob("*/metadata.json"))]
    if not asked.is_relative_to(photos.OUT.resolve()) or not asked.is_file():
        return {"statusCode": 404, "body": {"error": "there is no such picture"}}
    return {"statusCode": 200, "headers": {"content-type": "image/png"}, "body": asked.read_bytes()}
