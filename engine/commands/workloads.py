"""The questions that `bench` and the studies ask: one constraint kind each, several prompts in turn.

They are of the sort that the bundled model has learnt: values of the prompt are copied into JSON, tool calls,
forms and short answers. `tools` is a grammar in the text form of a call.
"""

from collections.abc import Mapping

import attrs

from engine.commands.prompt import chat_ids
from engine.frontend.text_codec import TextCodec
from engine.request import Message, OutputConstraint, Role, ToolDeclaration

PEOPLE = (
    "Anna Keller, 34 years old, lives in Lisbon. Email: anna@mail.org.",
    "Tom Moreau is 51 and lives in Oslo. His email is tom.m@example.com.",
    "Name: Mina Sato, age: 28, city: Kyoto, email: mina@post.net",
    "Paul Diaz (age 45, email paul@web.org) lives in Quito.",
)
SCHEMA = """{"type": "object", "properties": {"name": {"type": "string", "maxLength": 40}, "age":
 {"type": "integer", "minimum": 0, "maximum": 120}, "city": {"type": "string", "maxLength": 40},
 "email": {"type": "string", "maxLength": 40}}, "required": ["name", "age", "city", "email"],
 "additionalProperties": false}"""
TOOL_SCHEMA = """{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
 "city": {"type": "string"}, "email": {"type": "string"}}, "required": ["name", "age", "city", "email"]}"""
FORM = r"""root ::= "Name: " line "Age: " [0-9]{1,3} "\n" "City: " line "Email: " [^\n]{1,40}
line ::= [^\n]{1,40} "\n"
"""
CALL = r"""root ::= "<function=add_person>\n" name age city email "</function>"
name ::= "<parameter=name>\n" line "</parameter>\n"
age ::= "<parameter=age>\n" [0-9]{1,3} "\n</parameter>\n"
city ::= "<parameter=city>\n" line "</parameter>\n"
email ::= "<parameter=email>\n" line "</parameter>\n"
line ::= [^\n<>]{1,40} "\n"
"""
PAIRS = r'\{"name": "[^"\\\n]{1,40}", "age": [0-9]{1,3}\}'
CHOICES = ("Lisbon", "Oslo", "Kyoto", "Quito", "Rome", "Lima", "Cairo")


@attrs.frozen
class Workload:
    """A kind of constraint with what is asked; `{}` in `question` is where a text of PEOPLE goes."""

    constraint: OutputConstraint | None
    question: str
    opening: str = ""
    tools: tuple[ToolDeclaration, ...] = ()

    def prompt(self, codec: TextCodec, index: int) -> list[int]:
        """Return the ids of the question about one of the texts."""
        asked = Message(Role.USER, self.question.format(PEOPLE[index % len(PEOPLE)]))
        found = chat_ids(codec, (asked,), thinking=False, tools=self.tools)
        return found + codec.encode(self.opening, control=True)


ADD_PERSON = ToolDeclaration("add_person", TOOL_SCHEMA)
EXTRACT = "Extract the person as JSON with name, age, city and email:\n{}"
WORKLOADS: Mapping[str, Workload] = {
    "free": Workload(None, EXTRACT),
    "json": Workload(OutputConstraint.json_object(), EXTRACT),
    "schema": Workload(OutputConstraint.json_schema(SCHEMA), EXTRACT),
    "grammar": Workload(OutputConstraint.grammar(FORM), "Fill the form with name, age, city and email.\n{}"),
    "regex": Workload(OutputConstraint.regex(PAIRS), "Extract the person as JSON with name and age:\n{}"),
    "choice": Workload(OutputConstraint.choice(CHOICES), "{}\nWhat is the city? Only the value."),
    "tools": Workload(
        OutputConstraint.grammar(CALL),
        "Add this person.\n{}",
        opening="<tool_call>\n",
        tools=(ADD_PERSON,),
    ),
}
