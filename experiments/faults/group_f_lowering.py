"""Group F, second half: faults between the rules and the cores (contract 7)."""

from experiments.faults.planting import Fault, fault, replace

RULES = "engine/text/rules.py"
SHAPE = "engine/text/shape.py"
EXPR = "engine/text/expr.py"
BASE = "engine/text/cores/base.py"
TERMINALS = "engine/text/cores/terminals.py"
XGRAMMAR = "engine/text/cores/xgrammar_core.py"
LLGUIDANCE = "engine/text/cores/llguidance_core.py"
SELECT = "engine/text/cores/select.py"
FUSION = "engine/text/cores/fusion.py"
LANGUAGE = ("property_tests/test_language.py", "gate:legal sets")
RULE_TESTS = ("property_tests/test_rules.py", "property_tests/test_language.py", "gate:legal sets")


def _core(name: str, title: str, file: str, old: str, new: str, *clauses: str, times: int = 1) -> Fault:
    return fault(name, title, replace(file, old, new, times=times), checks=LANGUAGE, clauses=clauses)


def _rule(name: str, title: str, file: str, old: str, new: str, *clauses: str) -> Fault:
    return fault(name, title, replace(file, old, new), checks=RULE_TESTS, clauses=clauses)


FAULTS: tuple[Fault, ...] = (
    _core(
        "F117",
        "alternatives lose their parentheses on the way to xgrammar",
        XGRAMMAR,
        'texts = [text if inner < binding else f"({text})" for text, inner, _ in parts]',
        "texts = [text for text, inner, _ in parts]",
        "GBNF-1",
        "REGEX-3",
    ),
    _core(
        "F260",
        "alternatives lose their group on the way to llguidance's lexer",
        TERMINALS,
        'return "(?:" + "|".join(parts) + ")"',
        'return "|".join(parts)',
        "REGEX-3",
    ),
    _core(
        "F261",
        "a repeated sequence loses its parentheses on the way to xgrammar",
        XGRAMMAR,
        'text = body[0] if body[1] == 0 else f"({body[0]})"',
        "text = body[0]",
        "GBNF-1",
    ),
    _core(
        "F262",
        "literals reach xgrammar without escapes",
        XGRAMMAR,
        'character in " _:;,.{}()<>=+*/|"',
        'character in " _:;,.{}()<>=+*/|\\\\\\""',
        "CHOICE-1",
        "GBNF-1",
    ),
    _rule(
        "F127",
        "a rule's alternative that is the rule itself stays",
        RULES,
        "return alt([item for item in expr.items if item != Ref(name)])",
        "return expr",
        "GBNF-7",
    ),
    fault(
        "F128",
        "rule names repeat after 16 rules",
        replace(
            XGRAMMAR,
            '{name: f"r{i}" for i, name in enumerate(others)}',
            '{name: f"r{i % 16}" for i, name in enumerate(others)}',
        ),
        checks=LANGUAGE,
        clauses=("GBNF-1", "SAFE-2"),
    ),
    fault(
        "F130",
        "the output may end inside a character",
        replace(
            XGRAMMAR,
            "        self.terminated = ended\n",
            "        self.terminated, self.partial = ended, False\n",
        ),
        replace(
            XGRAMMAR,
            "            return self._accept(token_id, False)\n",
            "            _bytes = self._compiled._compiled.tokenizer_info.decoded_vocab[token_id]\n"
            "            self.partial = _bytes[-1:] >= b'\\xc2'\n"
            "            return self._accept(token_id, False)\n",
        ),
        replace(
            XGRAMMAR,
            "        words[-1] = words.item(-1) & self._last_word_bits\n",
            "        words[-1] = words.item(-1) & self._last_word_bits\n"
            "        for i in self._domain.eos_ids if self.partial else ():\n"
            "            words[i // 32] |= np.array(1 << (i % 32)).astype(np.uint32).view(np.int32)\n",
        ),
        checks=LANGUAGE,
        clauses=("SERV-23", "SERV-19"),
    ),
    _rule(
        "F264",
        "a sequence with an impossible part stays",
        RULES,
        "return NOTHING if NOTHING in parts else seq(parts)",
        "return seq([part for part in parts if part != NOTHING])",
        "GBNF-7",
        "EMPTY-5",
    ),
    _rule(
        "F265",
        "a root that rules refer to stays the root",
        RULES,
        "    if any(grammar.root in references(expr) for expr in rules.values()):\n",
        "    if any(grammar.root in references(expr) for expr in ()):\n",
        "GBNF-7",
    ),
    _rule(
        "F266",
        "the empty language is compiled",
        RULES,
        "    if grammar.root not in productive:\n",
        "    if grammar.root not in grammar.rules:\n",
        "GBNF-7",
        "EMPTY-5",
    ),
    _rule(
        "F267",
        "a nullable part makes its sequence nullable",
        RULES,
        "            return all(parts)\n",
        "            return any(parts)\n",
        "GBNF-7",
    ),
    _rule(
        "F268",
        "one-or-more of anything becomes zero-or-more",
        RULES,
        "minimum = 0 if is_nullable(parts[0], nullable) else node.min",
        "minimum = 0 if node.min == 1 else node.min",
        "REGEX-3",
        "SERV-19",
    ),
    _rule(
        "F269",
        "a loop of linear rules is taken at least once",
        SHAPE,
        "loop = repeat(form[name], 0, None)",
        "loop = repeat(form[name], 1, None)",
        "GBNF-1",
    ),
    _rule(
        "F270",
        "a loop of linear rules is taken at most once",
        SHAPE,
        "loop = repeat(form[name], 0, None)",
        "loop = repeat(form[name], 0, 1)",
        "GBNF-1",
    ),
    _rule(
        "F271",
        "left-linear rules are solved as right-linear ones",
        SHAPE,
        "return seq([factor, expr] if self.rightmost else [expr, factor])",
        "return seq([factor, expr])",
        "GBNF-1",
    ),
    _rule(
        "F272",
        "an optional reference is not optional",
        SHAPE,
        "return parts[0] if node.min == 1 else _sum([parts[0], {None: EPSILON}])",
        "return parts[0]",
        "GBNF-1",
    ),
    _rule(
        "F273",
        "a middle reference counts as linear",
        SHAPE,
        "if not parts or any(part.keys() - {None} for part in known):",
        "if not parts:",
        "SERV-7",
        "GBNF-1",
    ),
    _rule(
        "F274",
        "equal neighbours in a sequence are drawn together",
        EXPR,
        "            flat.append(part)\n",
        "            flat += [part] if flat[-1:] != [part] else []\n",
        "GBNF-1",
    ),
    _core(
        "F275",
        "a negated token terminal opens completion and control ids",
        BASE,
        "in vocabulary.ids_of(TokenClass.TEXT) if i not in closed)",
        "in range(vocabulary.size) if i not in closed)",
        "GBNF-5",
        "VOC-5",
    ),
    _core(
        "F276",
        "llguidance knows its first completion id only",
        LLGUIDANCE,
        "eos_token=list(vocabulary.eos_ids)",
        "eos_token=list(vocabulary.eos_ids[:1])",
        "VOC-5",
    ),
    _core(
        "F277",
        "llguidance may force tokens",
        LLGUIDANCE,
        '{"no_forcing": true}',
        '{"no_forcing": false}',
        "SERV-5",
        "CHOICE-1",
    ),
    _core(
        "F278",
        "counts of a repetition lose their upper bound",
        TERMINALS,
        "{'' if node.max is None else node.max}",
        "{''}",
        "REGEX-3",
        "GBNF-1",
    ),
    _core(
        "F279",
        "a class range ends at its first character for llguidance",
        TERMINALS,
        "{_character(chr(low))}-{_character(chr(high))}",
        "{_character(chr(low))}-{_character(chr(low))}",
        "GBNF-1",
    ),
    fault(
        "F280",
        "every counted repetition goes to xgrammar",
        replace(
            SELECT, "return Plan(_core_for_counts(grammar, kind), grammar)", "return Plan(XGRAMMAR, grammar)"
        ),
        checks=("property_tests/test_counted.py",),
        clauses=("GBNF-8", "SAFE-6"),
    ),
    fault(
        "F281",
        "the core that was asked for is ignored",
        replace(SELECT, "        return Plan(forced, grammar)\n", "        return Plan(XGRAMMAR, grammar)\n"),
        checks=("property_tests/test_compiler.py",),
        clauses=("GBNF-8",),
    ),
    fault(
        "F290",
        "terminals are fused without the proof",
        replace(FUSION, "        if lost is None:\n", "        if lost is None or lost:\n"),
        checks=("property_tests/test_counted.py", *LANGUAGE),
        clauses=("GBNF-8", "GBNF-1"),
    ),
    fault(
        "F291",
        "a fused terminal is never empty",
        replace(
            FUSION,
            "_optional(Fused(nonempty(regular)), is_nullable(regular))",
            "_optional(Fused(nonempty(regular)), False)",
        ),
        checks=("property_tests/test_counted.py", *LANGUAGE),
        clauses=("SERV-19", "REGEX-3"),
    ),
    fault(
        "F292",
        "a reference to a regular rule puts another rule in",
        replace(
            FUSION, "return fold(forms[node.name], _rebuilt)", "return fold(forms[max(forms)], _rebuilt)"
        ),
        checks=("property_tests/test_counted.py", *LANGUAGE),
        clauses=("GBNF-1",),
    ),
    fault(
        "F294",
        "a repeated class of long characters reaches xgrammar where it stands",
        replace(
            XGRAMMAR,
            "(self._hoist(text), 0, 0) if _is_misread(node.body) else (text, 1, 1)",
            "(text, 1, 1)",
        ),
        checks=("property_tests/test_cores.py",),
        clauses=("GBNF-8",),
    ),
    fault(
        "F295",
        "a class of long characters counts as one that xgrammar reads right",
        replace(XGRAMMAR, "return high >= 0x80 and (bool(others) or low < high)", "return False"),
        checks=("property_tests/test_cores.py",),
        clauses=("GBNF-8",),
    ),
)
