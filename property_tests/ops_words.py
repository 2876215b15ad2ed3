"""What the tests that compare two op sets share: seeded rows and rounds, and equality of whole records."""

import attrs
import torch

from engine.ops.accept import Proposal, RoundUniforms
from engine.ops.sample import TargetLaw
from engine.request import SamplingSettings

SETTINGS = [
    SamplingSettings(top_p=0.9, presence_penalty=0.3, frequency_penalty=0.1),
    SamplingSettings(top_k=3, min_p=0.2, frequency_penalty=-0.7),
    SamplingSettings(temperature=0.0, presence_penalty=1.5),
    SamplingSettings(temperature=0.3, top_p=0.5, min_p=0.01),
]


def assert_same(kernel_record, reference_record):
    """Compare all fields of two records bit for bit (logits and probs included)."""
    for field in attrs.fields(type(reference_record)):
        got = getattr(kernel_record, field.name).cpu()
        expected = getattr(reference_record, field.name)
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected), field.name


def random_words(shape, density, generator):
    bits = torch.rand(*shape, 32, generator=generator) < density
    return (bits.long() << torch.arange(32)).sum(-1).to(torch.int32)


def random_case(vocab_size, seed, dtype=torch.float32):
    """Four rows with rounded logits (many ties), a few odd values, and all the tables."""
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(4, vocab_size + 5, generator=generator) * 4).round() / 4
    logits[1] *= -0.0  # a row of signed zeros: all tie
    logits[3, ::7] = -torch.inf
    num_words = -(-vocab_size // 32)
    tables = {
        "allowed_bitmask": random_words((4, num_words), [0.02, 0.5, 0.98][seed % 3], generator),
        "constrained_mask": torch.tensor([True, True, False, True]),
        "banned_bitmask": random_words((4, num_words), 0.2, generator),
        "counts": torch.randint(0, 4, (4, vocab_size), generator=generator, dtype=torch.int32),
        "bias": torch.randn(4, vocab_size, generator=generator),
    }
    if seed % 5 == 0:
        tables = {"allowed_bitmask": tables["allowed_bitmask"]}
    return logits.to(dtype), tables


def random_round(seed):
    """A seeded round: laws with zero masses and bad columns, drafts often likely, sometimes out of range."""
    generator = torch.Generator().manual_seed(seed)

    def below(high, *shape):
        return torch.randint(0, high, shape, generator=generator)

    def unit(*shape):
        return torch.rand(*shape, dtype=torch.float64, generator=generator)

    batch, k, cap = 1 + seed % 4, seed % 5, [1, 2, 5, 20][seed % 4]
    vocab_size, columns = cap + seed % 37, batch * (k + 1)
    ids = torch.stack([torch.randperm(vocab_size, generator=generator)[:cap] for _ in range(columns)])
    weights = unit(columns, cap) if seed % 3 else below(3, columns, cap).double()
    weights[:, 0] += 0.25
    status = torch.where(unit(columns) < 0.08, 1 + below(3, columns), 0)
    probs = torch.where(status[:, None] == 0, weights / weights.sum(1, keepdim=True), 0.0)
    likely = ids.view(batch, k + 1, cap)[:, :k, 0]
    drafts = torch.where(unit(batch, k) < 0.8, likely, below(vocab_size + 4, batch, k) - 2)
    candidate_ids, draft_probs = None, None
    if seed % 4 == 1:  # q is p itself
        candidate_ids = ids.view(batch, k + 1, cap)[:, :k].clone()
        draft_probs = probs.view(batch, k + 1, cap)[:, :k].clone()
    if seed % 4 > 1:  # q of its own, with ids listed twice and out of range
        candidate_ids = below(vocab_size + 2, batch, k, 4) - 1
        candidate_ids[:, :, 0] = drafts
        draft_probs = unit(batch, k, 4)
        draft_probs /= draft_probs.sum(2, keepdim=True)
    proposal = Proposal(drafts, below(k + 1, batch), candidate_ids, draft_probs, unit(batch, k) < 0.2)
    uniforms = RoundUniforms(unit(batch, k), unit(batch, k), unit(batch))
    tables = {"vocab_size": vocab_size}
    if seed % 5:
        tables["allowed_bitmask"] = random_words((columns, -(-vocab_size // 32)), 0.5, generator)
    if seed % 5 > 2:
        tables["constrained_mask"] = below(2, batch).bool()
    return TargetLaw(ids, probs, status), proposal, uniforms, tables
