"""The grammar of a whole output: the end of thinking, then content, calls, or one of the two (TOOL-*).

Calls open and close by token id; free text has every character and no control id. With a content constraint
the output is that content or a sequence of calls, never both. Strict arguments come from the schema's own
reduction; all other tools share one rule, whatever their schemas say. Names are told before arguments begin.
"""

import hashlib
from functools import cached_property

import attrs

from engine.errors import ErrorKind, RequestError
from engine.frontend.framing import (
    BETWEEN_CALLS,
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    NAME_END,
    NOT_IN_NAMES,
    PARAMETER_OPEN,
    SEPARATOR,
    TOOL_CLOSE,
    TOOL_OPEN,
    VALUE_END,
    OutputIds,
)
from engine.frontend.tool_contract import Reading, Tool, ToolContract
from engine.text.expr import (
    EPSILON,
    Expr,
    Grammar,
    Lexeme,
    Ref,
    Token,
    alt,
    chars,
    fold,
    literal,
    negated,
    repeat,
    seq,
)
from engine.text.lengths import ANY
from engine.text.rules import Alt, Repeat, Seq
from engine.text.schema.lower.qwen import ArgumentMarks, arguments_grammar
from engine.text.schema.strings import literal_language
from engine.text.sources import SourceGrammar

KIND = ErrorKind.INVALID_TOOL_CONSTRAINT
MARKS = ArgumentMarks(PARAMETER_OPEN, NAME_END, VALUE_END, "\n")
NAME_CHARACTER = negated(chars([(ord(mark), ord(mark)) for mark in NOT_IN_NAMES]))
FREE_TEXT = Lexeme(repeat(ANY, 1, None))
FREE_ARGUMENTS = repeat(
    seq(
        [
            Lexeme(seq([literal(MARKS.open), repeat(NAME_CHARACTER, 1, None), literal(MARKS.name_end)])),
            MARKS.any_text(),
        ]
    ),
    0,
    None,
)
ROOT, ARGUMENTS, CALL, CALLS = "output", "arguments", "call", "calls"


@attrs.frozen(eq=False, slots=False)
class OutputFrame:
    """A Frame: what stands around content in one request's output; `contract` None means no tools.

    `behind_thinking`: the language begins behind the id that ends thinking, with the separator.
    `has_content`: a content constraint is given; else what is no call is free text, or nothing.
    """

    ids: OutputIds
    contract: ToolContract | None = None
    behind_thinking: bool = False
    has_content: bool = False

    @cached_property
    def identity(self) -> str:
        """A digest of all that the frame adds; schemas of tools that are not strict have no part in it."""
        parts = ["thinking" if self.behind_thinking else "", "content" if self.has_content else ""]
        if self.contract is not None:
            choice = self.contract.choice
            parts += [choice.mode.value, str(choice.parallel)]
            for tool in self.contract.callable:
                parts += [tool.name, tool.declaration.parameters if tool.strict else ""]
                parts.append("strict" if tool.strict else "")
        digest = hashlib.sha256()
        for part in parts:
            data = part.encode()
            digest.update(b"%d:" % len(data) + data)
        return digest.hexdigest()

    def around(self, content: SourceGrammar) -> SourceGrammar:
        """The grammar of the output. Raises RequestError, that of a tool with its place and source."""
        rules = {
            f"content {name}": _renamed(expr, "content ") for name, expr in content.grammar.rules.items()
        }
        free = Ref(f"content {content.grammar.root}") if self.has_content else repeat(FREE_TEXT, 0, 1)
        if not self.has_content:
            rules = {}
        body = self._body(free, rules)
        if not self._uses_content:
            rules = {name: expr for name, expr in rules.items() if not name.startswith("content ")}
        rules[ROOT] = seq([literal(SEPARATOR), body]) if self.behind_thinking else body
        return SourceGrammar(Grammar(rules, ROOT), content.has_free_names and self._uses_content)

    def fault(self, error: RequestError, kind: ErrorKind) -> RequestError:
        """A refusal of the core: of the tools where there are calls, else of the content."""
        if self.contract is None or not self.contract.is_active:
            return attrs.evolve(error, kind=kind)
        return attrs.evolve(error, kind=KIND, source="tools")

    @property
    def _uses_content(self) -> bool:
        is_all_calls = self.contract is not None and self.contract.is_required
        return self.has_content and not is_all_calls

    def _body(self, free: Expr, rules: dict[str, Expr]) -> Expr:
        contract = self.contract
        if contract is None or not contract.is_active:
            return free
        calls = self._calls(contract, rules)
        if contract.is_required:
            return calls
        if self.has_content:
            return alt([free, calls])
        return seq([free, repeat(calls, 0, 1)])

    def _calls(self, contract: ToolContract, rules: dict[str, Expr]) -> Expr:
        if self.ids.tool_open is None or self.ids.tool_close is None:
            raise RequestError(
                KIND,
                "the model has no tokens that open and close a call",
                found="its vocabulary",
                allowed=f"control tokens {TOOL_OPEN} and {TOOL_CLOSE}, or no tools",
                source="tools",
            )
        functions = _functions(contract, rules)
        end: list[Expr] = [Lexeme(literal(FUNCTION_CLOSE)), Token((self.ids.tool_close,))]
        rules[CALL] = seq([Token((self.ids.tool_open,)), functions, *end])
        more = (
            repeat(seq([literal(BETWEEN_CALLS), Ref(CALL)]), 0, None) if contract.choice.parallel else EPSILON
        )
        rules[CALLS] = seq([Ref(CALL), more])
        return Ref(CALLS)


def _functions(contract: ToolContract, rules: dict[str, Expr]) -> Expr:
    """The name and arguments of any tool; rules of the arguments are added."""
    options: list[Expr] = []
    for tool in contract.callable:
        if tool.strict:
            own = f"{ARGUMENTS} {tool.index} "
            grammar = _strict_grammar(tool)
            rules |= {own + name: _renamed(expr, own) for name, expr in grammar.rules.items()}
            options.append(seq([_head([tool.name]), Ref(own + grammar.root)]))
    free = [tool.name for tool in contract.callable if not tool.strict]
    if free:
        rules[ARGUMENTS] = FREE_ARGUMENTS
        options.append(seq([_head(free), Ref(ARGUMENTS)]))
    return alt(options)


def _head(names: list[str]) -> Lexeme:
    return Lexeme(seq([literal(FUNCTION_OPEN), literal_language(names), literal(NAME_END)]))


def _strict_grammar(tool: Tool) -> Grammar:
    assert tool.arguments is not None
    texts = frozenset(name for name, reading in tool.readings.items() if reading is Reading.TEXT)
    try:
        return arguments_grammar(tool.arguments.reducer, tool.arguments.clause, texts, MARKS)
    except RequestError as error:
        place = attrs.evolve(error.location, pointer=f"{tool.pointer}{error.pointer}")
        message = f"parameters of tool {tool.name!r}: {error.message}"
        raise attrs.evolve(error, location=place, message=message, source="tools") from None


def _renamed(expr: Expr, prefix: str) -> Expr:
    """The expression with every reference to a rule of a prefixed name."""

    def visit(node: Expr, parts: list[Expr]) -> Expr:
        if isinstance(node, Ref):
            return Ref(prefix + node.name)
        if isinstance(node, Seq | Alt):
            return type(node)(tuple(parts))
        return Repeat(parts[0], node.min, node.max) if isinstance(node, Repeat) else node

    return fold(expr, visit)
