"""ICC profiles of a few hundred bytes, made here: their colours are known."""

import io
import struct

from PIL import ImageCms

_D50 = (0.9642, 1.0, 0.8249)


def _numbers(*values):
    return struct.pack(f">{len(values)}i", *(round(65536 * value) for value in values))


def _xyz(*values):
    return b"XYZ \0\0\0\0" + _numbers(*values)


def _gamma(value):
    return b"curv\0\0\0\0" + struct.pack(">IHH", 1, round(256 * value), 0)


def _profile(kind, space, pcs, **tags):
    tags = {"desc": b"desc\0\0\0\0\0\0\0\2x\0" + bytes(78), "wtpt": _xyz(*_D50), **tags}
    table, body, start = struct.pack(">I", len(tags)), b"", 132 + 12 * len(tags)
    for name, content in tags.items():
        table += struct.pack(">4sII", name.encode(), start + len(body), len(content))
        body += content + bytes(-len(content) % 4)
    head = struct.pack(">I4xI4s4s4s12x4s28x", start + len(body), 0x02400000, kind, space, pcs, b"acsp")
    return head + _numbers(*_D50) + bytes(48) + table + body


def _press(white, ink, others):
    """A lookup table of two levels of each of four inks, from values of 8 bits in CIELAB."""
    ramp, corners = bytes(range(256)), white + 7 * others + ink + 7 * others  # cyan varies slowest, black fastest
    head = b"mft1\0\0\0\0" + bytes((4, 3, 2, 0)) + _numbers(1, 0, 0, 0, 1, 0, 0, 0, 1)
    return head + 4 * ramp + corners + 3 * ramp


_CURVES = dict.fromkeys(("rTRC", "gTRC", "bTRC"), _gamma(2.2))
DISPLAY_P3 = _profile(  # primaries of phones; the curve is a plain power
    b"mntr",
    b"RGB ",
    b"XYZ ",
    rXYZ=_xyz(0.51512, 0.24120, -0.00105),
    gXYZ=_xyz(0.29198, 0.69225, 0.04189),
    bXYZ=_xyz(0.15710, 0.06657, 0.78407),
    **_CURVES,
)
DARK_GREY = _profile(b"mntr", b"GRAY", b"XYZ ", kTRC=_gamma(3))  # greys are darker than they seem
PRESS = _profile(b"prtr", b"CMYK", b"Lab ", A2B0=_press(b"\xff\x80\x80", bytes((114, 116, 94)), b"\0\x80\x80"))
CYAN_OF_PRESS = (25, 113, 162)  # CIELAB (44.7, -12, -34)
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def in_display_p3(image):
    """The same colours of an sRGB image in other numbers, for a file with the profile `DISPLAY_P3`."""
    wide = ImageCms.ImageCmsProfile(io.BytesIO(DISPLAY_P3))
    return ImageCms.profileToProfile(image, ImageCms.createProfile("sRGB"), wide)


def encoded(image, kind, **options):
    """The contents of a file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
