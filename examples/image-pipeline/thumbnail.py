import base64
import os

import png


def main(params):
    width, height, rows = png.read(base64.b64decode(params["image"]))
    size = int(os.environ.get("SIZE", "16"))
    scale = max(width, height, size) / size
    wide, high = max(1, int(width / scale)), max(1, int(height / scale))
    small = [[rows[int(y * scale)][int(x * scale)] for x in range(wide)] for y in range(high)]
    return {"image": base64.b64encode(png.write(small)).decode(), "width": wide, "height": high}
