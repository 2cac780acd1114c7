import base64

import png


def main(params):
    width, height, rows = png.read(base64.b64decode(params["image"]))
    pixels = [pixel for row in rows for pixel in row]
    mean = [sum(pixel[i] for pixel in pixels) // len(pixels) for i in range(3)]
    return {"width": width, "height": height, "mean": mean}
