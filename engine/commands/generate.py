"""`counterproof generate`: one prompt, at most one constraint, one of five decoding paths.

The text goes to stdout; how it ended, how fast, what speculation and the constraint did goes to stderr, or
with --json everything to stdout in one object. Exit code 0: done; 1: a constrained output was cut before it
was complete; 2: the command line, a file or a source makes no sense, or an output ended in a request's error.
"""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import torch

from engine.commands import flags
from engine.commands.complaints import USAGE, complain, guarded, request_lines
from engine.commands.measure import Measurement, Watch, run
from engine.commands.model import Model, open_model, program_options
from engine.commands.outputs import Output, output_lines, outputs_of, record, run_lines
from engine.commands.prompt import chat_ids, read_messages
from engine.frontend.text_codec import TextStream
from engine.request import Message, RequestOptions, Role
from engine.runtime.contract import RowResult
from engine.runtime.engine import RequestHandle
from engine.runtime.loading import SPECS

EPILOG = """\
examples:
  counterproof generate --prompt "What is the capital of France?"
  counterproof generate --json-schema-file experiments/examples/person.json --spec dflash2
  counterproof generate --messages chat.json --json-object --spec mtp --stream
  echo "Yes or no?" | counterproof generate --prompt - --choice yes --choice no --json
"""
MOST_CANDIDATES = 64


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        "counterproof generate",
        description="Decode with a neural model under a constraint.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    asked = found.add_argument_group(
        "prompt (one of these; left out with --json-schema-file: an example of the schema is asked for)"
    ).add_mutually_exclusive_group()
    asked.add_argument("--prompt", metavar="TEXT", help="a user's message; - reads standard input")
    asked.add_argument(
        "--messages", metavar="FILE", help="JSON list of chat messages; - reads standard input"
    )
    found.add_argument("--system", metavar="TEXT", help="system message before --prompt")
    found.add_argument(
        "--raw", action="store_true", help="continue --prompt as it is, without a chat around it"
    )
    found.add_argument(
        "--control", action="store_true", help="with --raw: spelled control tokens are meant as such"
    )
    found.add_argument(
        "--thinking", choices=["on", "off"], default="off", help="let it think first (default off)"
    )
    flags.add_constraint_flags(found)
    path = found.add_argument_group("decoding")
    path.add_argument("--spec", choices=SPECS, default="none", help="drafter (default none)")
    path.add_argument(
        "--max-tokens", type=int, default=256, metavar="N", help="most tokens of an answer (256)"
    )
    path.add_argument("--num", type=int, default=1, metavar="N", help="answers, with seeds from --seed on")
    flags.add_sampling_flags(found)
    flags.add_model_flags(found)
    shown = found.add_argument_group("what to show")
    form = shown.add_mutually_exclusive_group()
    form.add_argument("--stream", action="store_true", help="print text as it is committed")
    form.add_argument("--json", action="store_true", help="print one JSON object, for machines")
    shown.add_argument("--show-plan", action="store_true", help="print what the lanes will hold, in bytes")
    shown.add_argument("--quiet", action="store_true", help="print the text only")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run `counterproof generate`; returns its exit code."""
    found = parser()
    arguments = found.parse_args(argv)
    _check(found, arguments)
    source = flags.Source()

    def action() -> int:
        nonlocal source
        source = flags.read_constraint(arguments, found)
        return generate(arguments, source)

    return guarded("generate", action, lambda: source)


def _check(found: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Refuse flags that contradict each other."""
    if arguments.prompt is None and arguments.messages is None and arguments.json_schema_file is None:
        found.error("give --prompt TEXT or --messages FILE; - reads standard input")
    if arguments.prompt is None and (arguments.raw or arguments.system is not None):
        found.error("--raw and --system go with --prompt")
    if arguments.raw and (arguments.system is not None or arguments.thinking == "on"):
        found.error("--raw has no chat around it that --system or --thinking could go into")
    if arguments.control and not arguments.raw:
        found.error("--control goes with --raw")
    if not 1 <= arguments.num <= MOST_CANDIDATES:
        found.error(f"--num is an integer in [1, {MOST_CANDIDATES}]")
    if arguments.stream and arguments.num > 1:
        found.error("--stream shows one answer; leave --num out")
    if arguments.threads < 1:
        found.error("--threads is at least 1")


def generate(arguments: argparse.Namespace, source: flags.Source) -> int:
    """Load, run and print. Raises RequestError, OSError, MissingDependency."""
    torch.set_num_threads(arguments.threads)
    model = open_model(arguments.model)
    prompt_ids = prompt_of(arguments, model, source)
    sampling = flags.read_sampling(arguments, model.preset)
    requests = [
        (
            prompt_ids,
            RequestOptions(
                arguments.max_tokens, source.constraint, attrs.evolve(sampling, seed=sampling.seed + i)
            ),
        )
        for i in range(arguments.num)
    ]
    program, plan = model.program(program_options(arguments, arguments.spec, arguments.num))
    if arguments.show_plan:
        print("\n".join(plan.lines()), file=sys.stderr)
    watch = Watch()
    writer = _writer(model) if arguments.stream else None
    engine = model.engine(program, watch if writer is None else _both(watch, writer))
    measured = run(engine, watch, requests)
    if writer is not None:
        writer.end()
    return show(arguments, model, measured, source)


def prompt_of(arguments: argparse.Namespace, model: Model, source: flags.Source) -> list[int]:
    """Return the prompt's ids. Raises RequestError, OSError."""
    if arguments.messages is not None:
        messages = read_messages(_text_of(arguments.messages), arguments.messages)
        return chat_ids(model.codec, messages, thinking=arguments.thinking == "on")
    text = example_wanted(source.text) if arguments.prompt is None else _typed(arguments.prompt)
    if arguments.raw:
        return model.codec.encode(text, control=arguments.control)
    system = () if arguments.system is None else (Message(Role.SYSTEM, arguments.system),)
    return chat_ids(model.codec, (*system, Message(Role.USER, text)), thinking=arguments.thinking == "on")


def example_wanted(schema: str) -> str:
    """Return the question for an example of a schema, which stands in it on one line."""
    with contextlib.suppress(ValueError):  # the constraint says what is wrong with it
        schema = json.dumps(json.loads(schema), ensure_ascii=False)
    return f"Make up an example by this schema:\n{schema}"


def _typed(prompt: str) -> str:
    return sys.stdin.read() if prompt == "-" else prompt


def _text_of(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")


class _Writer:
    """Prints what a request publishes, in whole characters."""

    def __init__(self, stream: TextStream) -> None:
        self._stream, self._num_shown = stream, 0

    def __call__(self, handle: RequestHandle, result: RowResult) -> None:
        new = handle.token_ids[self._num_shown :]
        self._num_shown = len(handle.token_ids)
        print(self._stream.feed(new), end="", flush=True)

    def end(self) -> None:
        """Print what is left of a cut character, and end the line."""
        print(self._stream.end(), flush=True)


def _writer(model: Model) -> _Writer:
    return _Writer(model.codec.stream())


def _both(
    first: Callable[[RequestHandle, RowResult], None], second: Callable[[RequestHandle, RowResult], None]
) -> Callable[[RequestHandle, RowResult], None]:
    def observe(handle: RequestHandle, result: RowResult) -> None:
        first(handle, result)
        second(handle, result)

    return observe


def show(arguments: argparse.Namespace, model: Model, measured: Measurement, source: flags.Source) -> int:
    """Print every output and what it took; returns the exit code."""
    outputs = outputs_of(measured, model.codec)
    if arguments.json:
        print(json.dumps(record(model.name, arguments.spec, measured, outputs), ensure_ascii=False, indent=1))
        return exit_code(outputs)
    for index, output in enumerate(outputs):
        if not arguments.stream:
            print(output.text)
        if output.error is not None:
            complain("generate", request_lines(output.error, source))
        if not arguments.quiet:
            title = f"answer {index + 1}: " if len(outputs) > 1 else ""
            print("\n".join(output_lines(output, title)), file=sys.stderr)
    if not arguments.quiet:
        print("\n".join(run_lines(model.name, arguments.spec, measured)), file=sys.stderr)
    return exit_code(outputs)


def exit_code(outputs: Sequence[Output]) -> int:
    """Return 2 where an error ended an output, 1 where a constrained one is incomplete, else 0."""
    if any(output.error is not None for output in outputs):
        return USAGE
    return int(any(output.constraint is not None and not output.constraint.complete for output in outputs))
