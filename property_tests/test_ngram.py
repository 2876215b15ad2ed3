"""Prompt lookup against a definition that tries everything."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import ErrorKind, RequestError
from engine.models.ngram import PromptLookup


def by_definition(tokens, min_len, max_len, prefer, num_drafts):
    copies = [
        (length, end)
        for length in range(min_len, max_len + 1)
        for end in range(length, len(tokens))
        if tokens[end - length : end] == tokens[len(tokens) - length :]
    ]
    if not copies or num_drafts < 1:
        return ()
    longest = max(length for length, _ in copies)
    ends = [end for length, end in copies if length == longest]
    end = min(ends) if prefer == "earliest" else max(ends)
    return tuple(tokens[end : end + num_drafts])


@given(
    tokens=st.lists(st.integers(0, 2), max_size=14),
    lengths=st.tuples(st.integers(1, 3), st.integers(0, 3)),
    prefer=st.sampled_from(["earliest", "most_recent"]),
    num_drafts=st.integers(0, 5),
)
@example(tokens=[], lengths=(1, 0), prefer="earliest", num_drafts=3)
@example(tokens=[1, 1, 1], lengths=(2, 0), prefer="earliest", num_drafts=3)
def test_lookup_equals_its_definition(tokens, lengths, prefer, num_drafts):
    lookup = PromptLookup(lengths[0], sum(lengths), prefer)
    found = lookup.propose(tokens, num_drafts)
    assert found == by_definition(tokens, lengths[0], sum(lengths), prefer, num_drafts)
    assert len(found) <= num_drafts


def test_hand_worked():
    text = [1, 2, 3, 9, 1, 2, 4, 9, 8, 1, 2]
    assert PromptLookup(2, 3, "earliest").propose(text, 3) == (3, 9, 1)
    assert PromptLookup(2, 3, "most_recent").propose(text, 3) == (4, 9, 8)
    assert PromptLookup(3, 3).propose(text, 3) == ()  # the end itself is no copy
    assert PromptLookup(1, 4).propose([5, 6, 5], 4) == (6, 5)  # never past the end


@pytest.mark.parametrize("lengths", [(3, 2), (0, 2), (-1, 2), (0, 0)])
def test_lengths_are_checked(lengths):
    with pytest.raises(RequestError, match=f"min_len={lengths[0]}, max_len={lengths[1]}") as refused:
        PromptLookup(*lengths)
    assert refused.value.kind is ErrorKind.INVALID_REQUEST
    assert "lengths" in refused.value.message
