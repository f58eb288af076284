import pytest

from common.records.energy import GpuEnergy, PackageEnergy


def write_zone(root, name, kind, microjoules, largest=1_000_000):
    (root / name).mkdir(parents=True, exist_ok=True)
    for file, content in (("name", kind), ("energy_uj", microjoules), ("max_energy_range_uj", largest)):
        (root / name / file).write_text(f"{content}\n")


def test_packages_are_summed_and_overflowing_counters_go_on(tmp_path):
    for name, kind, start in (
        ("intel-rapl:0", "package-0", 100),
        ("intel-rapl:1", "package-1", 900_000),
        ("intel-rapl:2", "psys", 0),  # the whole platform: it has both packages in it
        ("intel-rapl:0:0", "core", 0),  # a part of a package
        ("intel-rapl-mmio:0", "package-0", 0),  # the same package by another way
    ):
        write_zone(tmp_path, name, kind, start)
    energy = PackageEnergy(tmp_path)
    assert energy.joules() == 0.0
    write_zone(tmp_path, "intel-rapl:0", "package-0", 250_100)
    write_zone(tmp_path, "intel-rapl:1", "package-1", 50_000)  # over its largest value
    assert energy.joules() == pytest.approx(0.25 + 0.15)
    assert energy.joules() == pytest.approx(0.4)


def test_without_counters_there_is_no_figure(tmp_path):
    assert PackageEnergy(tmp_path).joules() is None
    assert PackageEnergy(tmp_path / "missing").joules() is None
    write_zone(tmp_path, "intel-rapl:0", "package-0", 5)
    energy = PackageEnergy(tmp_path)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()
    assert energy.joules() is None
    write_zone(tmp_path, "intel-rapl:0", "package-0", 9)
    assert energy.joules() is None  # what was used meanwhile is not known


def test_power_of_graphics_processors_times_time():
    watts, seconds = iter([100.0, 300.0, 300.0]), iter([0.0, 2.0, 3.0])
    energy = GpuEnergy(lambda: next(watts), lambda: next(seconds))
    assert energy.joules() == 400.0  # 2 s at 200 W on average
    assert energy.joules() == 700.0


def test_power_that_cannot_be_read_gives_no_figure():
    assert GpuEnergy(lambda: None).joules() is None
    watts = iter([100.0, None, 100.0])
    energy = GpuEnergy(lambda: next(watts))
    assert energy.joules() is None
    assert energy.joules() is None
