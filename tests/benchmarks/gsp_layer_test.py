"""The benchmark of GSP: figure 5.9's curve at two numbers of iterations, and its picture."""

from benchmarks.gsp_layer import curve, draw, make_parser


def test_the_curve_is_timed_and_drawn(tmp_path):
    milliseconds = curve((1, 4), repeats=3)
    assert {kind: len(of_kind) for kind, of_kind in milliseconds.items()} == {
        "closed_form": 2,
        "unrolled": 2,
        "exact": 1,
    }
    for low, median, high in (quartiles for of_kind in milliseconds.values() for quartiles in of_kind):
        assert 0 < low <= median <= high
    draw(str(tmp_path / "curve.png"), (1, 4), milliseconds, 3)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_flags_are_read():
    arguments = make_parser().parse_args(["--repeats=2", "--settings=1", "--curve=x.png"])
    assert (arguments.repeats, arguments.settings, arguments.curve) == (2, 1, "x.png")
