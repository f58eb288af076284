"""The benchmark of GSP: its command line, and its curve, which is that of figure 5.9."""

from benchmarks import gsp_layer
from benchmarks.gsp_layer import make_parser
from experiments.studies import transport_time


def test_the_curve_is_that_of_the_figure():
    assert (gsp_layer.curve, gsp_layer.draw) == (transport_time.curve, transport_time.draw)


def test_flags_are_read():
    arguments = make_parser().parse_args(["--repeats=2", "--settings=1", "--curve=x.png"])
    assert (arguments.repeats, arguments.settings, arguments.curve) == (2, 1, "x.png")
