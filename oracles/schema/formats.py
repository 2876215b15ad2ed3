"""To come."""


def valid(name: str, text: str) -> bool | None:
    """Whether the text is valid under the format; None for an unknown format."""
    return None
