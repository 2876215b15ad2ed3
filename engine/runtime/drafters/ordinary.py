"""Ordinary decoding: a window without drafts, one token a round."""

from engine.runtime.drafters.base import StatelessDrafter


class OrdinaryDrafter(StatelessDrafter):
    """Proposes nothing."""
