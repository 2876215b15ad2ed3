"""Planted faults."""
