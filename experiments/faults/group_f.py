"""Planted faults."""

from experiments.faults.planting import Fault

FAULTS: tuple[Fault, ...] = ()
