"""What a legal-set gate works on: a vocabulary in both forms, its compiler, and random sources over it."""

import random
from collections.abc import Callable, Iterator, Mapping

from attrs import frozen

from engine.request import OutputConstraint
from engine.text.compiler import ConstraintCompiler
from engine.text.vocabulary import Vocabulary
from experiments.gates import languages
from experiments.gates.languages import ROOT, PlainVocabulary, Source
from oracles.expressions import to_byte_grammar
from oracles.grammar_prefix import Earley
from oracles.masks import TokenTrie

SOURCES_PER_VOCABULARY = 12
Draw = Callable[[random.Random, str, PlainVocabulary], Source]

DRAWS: Mapping[str, Draw] = {
    "grammars": languages.random_grammar,
    "regexes": lambda rng, alphabet, vocabulary: languages.random_regex(rng, alphabet),
    "choices": lambda rng, alphabet, vocabulary: languages.random_choices(rng, alphabet),
}


@frozen(eq=False)
class Subject:
    """One vocabulary in both forms with its compiler, shared by the sources drawn over it."""

    plain: PlainVocabulary
    vocabulary: Vocabulary
    compiler: ConstraintCompiler
    trie: TokenTrie

    @classmethod
    def of(cls, plain: PlainVocabulary) -> "Subject":
        """Build the engine's vocabulary and compiler for a plain vocabulary."""
        vocabulary = Vocabulary.build(
            "random",
            plain.token_bytes,
            control=plain.control,
            eos_ids=plain.eos_ids,
            ungenerable=plain.ungenerable,
            logits_width=plain.logits_width,
        )
        return cls(plain, vocabulary, ConstraintCompiler(vocabulary), TokenTrie(plain.oracle_bytes))

    def parser(self, source: Source) -> Earley:
        """Return the oracle's parser for a source."""
        return Earley(to_byte_grammar(source.rules, self.plain.text_ids), ROOT)


def constraint_of(source: Source) -> OutputConstraint:
    """Return what the engine is asked for."""
    if source.kind == "choice":
        return OutputConstraint.choice(source.choices)
    return (
        OutputConstraint.regex(source.text)
        if source.kind == "regex"
        else OutputConstraint.grammar(source.text)
    )


def random_subjects(kind: str, n: int, seed: int) -> Iterator[tuple[Subject, Source]]:
    """Yield `n` random sources of one kind, a new vocabulary every few of them."""
    rng = random.Random(f"{kind} {seed}")
    for index in range(n):
        if index % SOURCES_PER_VOCABULARY == 0:
            alphabet = languages.ALPHABETS[
                (index // SOURCES_PER_VOCABULARY + seed) % len(languages.ALPHABETS)
            ]
            subject = Subject.of(languages.random_vocabulary(rng, alphabet))
        yield subject, DRAWS[kind](rng, alphabet, subject.plain)
