"""The benchmark of GSP: figure 5.9's curve at two numbers of iterations, and its picture."""

from benchmarks.gsp_layer import curve, draw, make_parser


def test_the_curve_is_timed_and_drawn(tmp_path):
    milliseconds = curve((1, 4), repeats=2)
    assert set(milliseconds) == {"closed_form", "unrolled"}
    assert all(len(values) == 2 and min(values) > 0 for values in milliseconds.values())
    draw(str(tmp_path / "curve.png"), (1, 4), milliseconds)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_flags_are_read():
    arguments = make_parser().parse_args(["--repeats=2", "--settings=1", "--curve=x.png"])
    assert (arguments.repeats, arguments.settings, arguments.curve) == (2, 1, "x.png")
