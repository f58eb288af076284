"""Files that are no photos, or no good ones."""

import io
import struct
import zlib

import numpy as np
from PIL import Image


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photo(size=(24, 20), mode="RGB", seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, size=(size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def jpeg(size=(24, 20), seed=0, **options):
    return encoded(photo(size, seed=seed), "JPEG", **options)


def png_that_declares(width, height, rows=1):
    """A PNG file of a few bytes whose header promises a huge picture."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(rows * (min(width, 1000) * 3 + 1)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def png_with_text_bomb():
    """A PNG file with a compressed text of 64 MB."""
    text = b"k\x00\x00" + zlib.compress(bytes(64_000_000), 9)
    chunk = struct.pack(">I", len(text)) + b"zTXt" + text + struct.pack(">I", zlib.crc32(b"zTXt" + text))
    whole = encoded(photo(), "PNG")
    return whole[:33] + chunk + whole[33:]


def animation(kind="GIF", frames=300):
    images = [Image.new("L", (400, 400), 37 * number % 256) for number in range(frames)]
    if kind != "GIF":
        images = [image.convert("RGB") for image in images[:3]]
    return encoded(images[0], kind, save_all=True, append_images=images[1:], duration=1)


HTML = b"<!DOCTYPE html><script>alert(1)</script>"
NO_PHOTOS = {
    "empty": (b"", 422, "empty"),
    "JPEG of 250,000 comments": (jpeg()[:2] + b"\xff\xfe\0\2" * 250_000 + jpeg()[2:], 422, "more than 1,000 parts"),
    "truncated JPEG": (jpeg((200, 200))[:-3000], 422, "cannot be read"),
    "JPEG start only": (b"\xff\xd8\xff\xe0", 415, "known format"),
    "truncated PNG": (encoded(photo((200, 200)), "PNG")[:-3000], 422, "cannot be read"),
    "PNG that declares 60,000 x 60,000": (png_that_declares(60_000, 60_000), 413, "pixels"),
    "PNG that declares 5,000 x 5,000": (png_that_declares(5_000, 5_000), 413, "megapixels"),
    "PNG with a text bomb": (png_with_text_bomb(), 422, "cannot be read"),
    "PNG of 1 x 100,000": (encoded(Image.new("L", (1, 100_000)), "PNG"), 413, "longer side"),
    "PNG without pixels": (png_that_declares(0, 0), 415, "known format"),
    "GIF animation": (animation(frames=2), 422, "animation"),
    "WebP animation": (animation("WEBP"), 422, "animation"),
    "PNG animation": (animation("PNG"), 422, "animation"),
    "HTML": (HTML, 415, "known format"),
    "PDF": (encoded(photo(), "PDF"), 415, "known format"),
    "TIFF": (encoded(photo(), "TIFF"), 415, "known format"),
    "EPS": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "known format"),
}
