"""Measured energy of this machine, if readable; never estimated."""

from __future__ import annotations

import pathlib
import subprocess
import time
from collections.abc import Callable

_POWERCAP = pathlib.Path("/sys/class/powercap")


class PackageEnergy:
    """Joules of the processor packages since this object was made.

    Read from the RAPL counters of Intel and AMD, which include everything else that runs on the machine.

    Args:
        root: the folder of the kernel's power capping.
    """

    def __init__(self, root: pathlib.Path = _POWERCAP) -> None:
        self._zones = [zone for zone in sorted(root.glob("*-rapl:*")) if _is_package(zone)]
        self._last = self._read()
        self._joules = 0.0

    def joules(self) -> float | None:
        """Return the energy so far; `None` if the counters are unreadable."""
        found = self._read()
        if found is None or self._last is None:
            self._last = None  # a gap cannot be filled later
            return None
        for (value, largest), (before, _) in zip(found, self._last):
            self._joules += ((value - before) if value >= before else value - before + largest) / 1e6
        self._last = found
        return self._joules

    def _read(self) -> list[tuple[int, int]] | None:
        try:
            return [
                (int((zone / "energy_uj").read_text()), int((zone / "max_energy_range_uj").read_text()))
                for zone in self._zones
            ] or None
        except (OSError, ValueError):
            return None


def _is_package(zone: pathlib.Path) -> bool:
    """Check for a package; its parts and platform would count twice."""
    try:
        return (zone / "name").read_text().startswith("package")
    except OSError:
        return False


def read_gpu_watts() -> float | None:
    """Return the present power of all GPUs (`nvidia-smi`), or `None`."""
    command = ["nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        return sum(float(line) for line in found.splitlines()) if found.strip() else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


class GpuEnergy:
    """Joules of the GPUs since this object was made: power times time.

    Args:
        read_watts: returns the present power; `None` if unknown.
        clock: returns seconds.
    """

    def __init__(
        self, read_watts: Callable[[], float | None] = read_gpu_watts, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_watts, self._clock = read_watts, clock
        self._watts, self._time, self._joules = read_watts(), clock(), 0.0

    def joules(self) -> float | None:
        """Return the energy so far; `None` if the power is unreadable."""
        if self._watts is None:
            return None
        watts, now = self._read_watts(), self._clock()
        if watts is not None:
            self._joules += (now - self._time) * (watts + self._watts) / 2
        self._watts, self._time = watts, now
        return None if watts is None else self._joules
