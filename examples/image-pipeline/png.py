"""The few lines of PNG that the functions need: 8 bits, RGB, not interlaced."""

import struct
import zlib


def read(data):
    """Width, height and rows of (r, g, b)."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("not a PNG")
    at, packed, size = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        content = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", content)
            if (bits, colour, interlaced) != (8, 2, 0):
                raise ValueError("only PNGs of 8 bits, RGB, not interlaced")
            if width * height > 4_000_000:
                raise ValueError("more than 4 million pixels")
            size = width, height
        elif kind == b"IDAT":
            packed += content
        at += 12 + length
    width, height = size
    raw = zlib.decompress(packed)
    rows, before, step = [], bytes(width * 3), width * 3 + 1
    for y in range(height):
        kind, line = raw[y * step], bytearray(raw[y * step + 1:(y + 1) * step])
        for x in range(len(line)):
            left = line[x - 3] if x >= 3 else 0
            up, corner = before[x], before[x - 3] if x >= 3 else 0
            if kind == 1:
                line[x] = (line[x] + left) & 255
            elif kind == 2:
                line[x] = (line[x] + up) & 255
            elif kind == 3:
                line[x] = (line[x] + (left + up) // 2) & 255
            elif kind == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))
                line[x] = (line[x] + near[2]) & 255
        before = bytes(line)
        rows.append([tuple(line[x:x + 3]) for x in range(0, len(line), 3)])
    return width, height, rows


def write(rows):
    height, width = len(rows), len(rows[0])
    raw = b"".join(b"\0" + b"".join(bytes(pixel) for pixel in row) for row in rows)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
