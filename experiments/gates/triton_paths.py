"""Gate: on every path the engine publishes the same tokens with the Triton kernels as with torch.

Equal seeds, equal tables, whole requests: kernels, padding rows, masks and uniforms work together as in a
real run. The torch run is judged against the oracles by the paths gate, so equality is all that is asked.
"""

import importlib.util
import time

from engine.runtime.stats import SpecStats
from experiments.gates.path_checks import Asked, outcome, run_all
from experiments.gates.path_world import world
from experiments.gates.triton_equals_torch import interpretation
from experiments.verdict import Verdict, failed, inconclusive, passed, skipped

NAME, CHECK = "triton paths", "the same tokens as with torch"
LANGUAGES = ("choice", "regex", "grammar", "free")
SETTINGS = ("plain", "greedy", "filters", "penalties")


def gate(*, path: str, vocab: str, seed: int, requests: int = 6, max_tokens: int = 5) -> list[Verdict]:
    """Run `requests` requests of up to `max_tokens` tokens twice on one path and compare the tokens."""
    if importlib.util.find_spec("triton") is None:
        return [skipped(NAME, CHECK, "Triton is not installed (it is published for Linux only)", path=path)]
    started, one_world = time.perf_counter(), world(vocab)
    asked = [
        Asked(LANGUAGES[i % 4], SETTINGS[(i + i // 4) % 4], seed * 4096 + i, max_tokens)
        for i in range(requests)
    ]
    published, stats = [], SpecStats()
    for ops in ("torch", "triton"):
        engine = one_world.engine(path, ops, min(8, requests))
        published.append([outcome(handle) for handle in run_all(engine, asked, one_world)])
        stats = engine.stats
    num_tokens = sum(len(tokens) for tokens, _ in published[0])
    facts = {
        "path": path,
        "n": num_tokens,
        "detail": f"{requests} requests, {num_tokens} tokens, {stats.num_drafted} drafts, "
        f"{stats.num_accepted} accepted; {interpretation()}",
        "clauses": ("SAMP-13",),
        "seconds": time.perf_counter() - started,
    }
    for one, torch_tokens, triton_tokens in zip(asked, *published, strict=True):
        if torch_tokens != triton_tokens:
            case = {"kind": "gate", "request": str(one), "torch": torch_tokens, "triton": triton_tokens}
            return [failed(NAME, CHECK, case=case, **facts)]
    if path != "ordinary" and not stats.num_drafted:
        return [inconclusive(NAME, CHECK, "no draft was verified", **facts)]
    return [passed(NAME, CHECK, **facts)]
