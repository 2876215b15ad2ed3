"""Group G: faults of phases and tool framing on the publishing side: template, contract, reader, decoder."""

from experiments.faults.planting import Fault, fault, replace

FRONTEND = "engine/frontend"
CONTRACT, READER = f"{FRONTEND}/tool_contract.py", f"{FRONTEND}/tool_reader.py"
DECODER, FIELDS = f"{FRONTEND}/decoder.py", f"{FRONTEND}/field_events.py"
TEMPLATE, FRAMING = f"{FRONTEND}/chat_template.py", f"{FRONTEND}/framing.py"
IN_CONTRACT = ("property_tests/test_tool_contract.py",)
IN_READER = ("property_tests/test_tool_reader.py",)
IN_DECODER = ("property_tests/test_decoder.py",)
IN_FIELDS = ("property_tests/test_field_events.py",)
IN_TEMPLATE = ("property_tests/test_chat_template.py",)
IN_EVENTS = ("property_tests/test_events.py",)

FAULTS: tuple[Fault, ...] = (
    fault(
        "G136",
        "a control mark that is spelled with an ordinary token counts as the control token",
        replace(
            DECODER,
            "        token_class = self._form.vocabulary.classes[piece]\n        if token_class is TokenClass.TEXT:\n",
            "        token_class = self._form.vocabulary.classes[piece]\n"
            "        spelled = self._form.vocabulary.token_bytes[piece]\n"
            "        for mark in ('<tool_call>', '</tool_call>', '</think>'):\n"
            "            if spelled == mark.encode():\n"
            "                piece = self._form.vocabulary.control_id(mark)\n"
            "                token_class = TokenClass.CONTROL\n"
            "        if token_class is TokenClass.TEXT:\n",
        ),
        checks=IN_DECODER,
        clauses=("PHASE-4", "TOOL-9"),
    ),
    fault(
        "G137",
        "what a piece of a stream leaves of a framing mark is lost",
        replace(
            READER, "        self._held += text\n        while", "        self._held = text\n        while"
        ),
        checks=IN_READER,
        clauses=("TOOL-29", "TOOL-31", "STREAM-1"),
    ),
    fault(
        "G138",
        "a call that begins and ends in one piece is not published",
        replace(
            DECODER,
            "        events, self._events = self._events, []\n        return merged(events)\n\n    def finish",
            "        events, self._events = self._events, []\n"
            "        if any(isinstance(e, CallStart) for e in events) and any(isinstance(e, CallEnd) for e in events):\n"
            "            events = [e for e in events if not isinstance(e, CALL_EVENTS)]\n"
            "        return merged(events)\n\n    def finish",
        ),
        checks=IN_READER,
        clauses=("TOOL-31", "STREAM-1"),
    ),
    fault(
        "G139",
        "the end mark of an argument ends it inside a line, too",
        replace(FRAMING, 'VALUE_END = "\\n</parameter>"', 'VALUE_END = "</parameter>"'),
        checks=IN_READER,
        clauses=("TOOL-27",),
    ),
    fault(
        "G220",
        "the space at the ends of a string argument is taken for framing",
        replace(READER, "self._emit(_quoted(text)[1:-1])", "self._emit(_quoted(text.strip())[1:-1])"),
        checks=IN_READER,
        clauses=("TOOL-24", "TOOL-29"),
    ),
    fault(
        "G221",
        "a half-seen end mark is published before it turns out to be one",
        replace(
            READER,
            "range(min(len(text), len(mark) - 1), 0, -1)",
            "range(min(len(text), len(mark) - 2), 0, -1)",
        ),
        checks=IN_READER,
        clauses=("TOOL-29", "TOOL-30"),
    ),
    fault(
        "G222",
        "an argument that stands twice is read twice",
        replace(READER, "if reading is None or name in self._names:", "if reading is None:"),
        checks=IN_READER,
        clauses=("TOOL-33",),
    ),
    fault(
        "G223",
        "a strict call's arguments are read in any order",
        replace(READER, "if len(self._names) > 1 and declared", "if len(self._names) > 2 and declared"),
        checks=IN_READER,
        clauses=("TOOL-19", "TOOL-33"),
    ),
    fault(
        "G224",
        "what was read of a cut call is published as a call",
        replace(
            DECODER,
            "        if self._phase is _Phase.CALL:\n            self._drop_call()\n        else:",
            "        if self._phase is _Phase.CALL:\n"
            "            self._events.append(CallEnd(self.num_calls, ToolCall('cut', '{}')))\n"
            "            self._events.insert(0, CallStart(self.num_calls, 'cut'))\n"
            "        else:",
        ),
        replace(
            DECODER,
            "from engine.request import Branch, FinishReason",
            "from engine.request import Branch, FinishReason, ToolCall",
        ),
        checks=IN_READER,
        clauses=("TOOL-32", "STREAM-5"),
    ),
    fault(
        "G225",
        "the name of a callable tool is looked up among all declared ones",
        replace(CONTRACT, "for tool in self.callable}", "for tool in self.tools}"),
        checks=IN_CONTRACT,
        clauses=("TOOL-4", "TOOL-5"),
    ),
    fault(
        "G226",
        "a strict parameter of strings and other types is read as a string",
        replace(
            CONTRACT, "    if has_text and has_others:\n", "    if has_text and has_others and not listed:\n"
        ),
        checks=IN_CONTRACT,
        clauses=("TOOL-26",),
    ),
    fault(
        "G227",
        "a listed value may hold what ends an argument",
        replace(CONTRACT, "        if VALUE_END in text:\n", "        if text.startswith(VALUE_END):\n"),
        checks=IN_CONTRACT,
        clauses=("TOOL-28",),
    ),
    fault(
        "G228",
        "two tools of one name are accepted, the last one counts",
        replace(CONTRACT, "        seen.add(tool.name)\n", ""),
        checks=IN_CONTRACT,
        clauses=("TOOL-21",),
    ),
    fault(
        "G229",
        "an open object counts as a strict argument list",
        replace(CONTRACT, "    if clause.groups:\n", "    if clause.groups and not clause.slots:\n"),
        checks=IN_CONTRACT,
        clauses=("TOOL-20",),
    ),
    fault(
        "G230",
        "automatic enforces plain calls, too",
        replace(CONTRACT, "return not (is_plain and is_lax and", "return not (is_plain and"),
        checks=IN_CONTRACT,
        clauses=("TOOL-2", "TOOL-3"),
    ),
    fault(
        "G231",
        "booleans of any case stay strings",
        replace(READER, 'trimmed.lower() in ("true", "false")', 'trimmed in ("true", "false")'),
        checks=(*IN_READER, *IN_CONTRACT),
        clauses=("TOOL-16",),
    ),
    fault(
        "G232",
        "content after the end of thinking loses its leading space",
        replace(
            DECODER,
            "            data = self._after_separator(data)\n",
            "            data = self._after_separator(data).lstrip()\n",
        ),
        checks=IN_DECODER,
        clauses=("PHASE-5", "PHASE-6"),
    ),
    fault(
        "G233",
        "the line feed before the end of thinking is published",
        replace(
            DECODER,
            '                self._space = ""\n                self._phase = _Phase.SEPARATOR',
            "                self._publish(self._space)\n"
            '                self._space = ""\n                self._phase = _Phase.SEPARATOR',
        ),
        checks=IN_DECODER,
        clauses=("PHASE-7",),
    ),
    fault(
        "G234",
        "beside a content constraint a call is read wherever its id stands",
        replace(
            DECODER,
            "if self._form.has_constraint and branch is Branch.CONTENT:",
            "if self._form.has_constraint and branch is Branch.TOOLS:",
        ),
        checks=IN_DECODER,
        clauses=("TOOL-13", "TOOL-14"),
    ),
    fault(
        "G235",
        "a call that its grammar cannot have let through becomes content",
        replace(DECODER, "        if self._form.is_enforced:\n            raise fault\n", ""),
        checks=IN_DECODER,
        clauses=("TOOL-33",),
    ),
    fault(
        "G236",
        "a continued message is published again",
        replace(
            DECODER,
            "self._events = [event for event in self._events if isinstance(event, CALL_EVENTS)]",
            "self._events = [event for event in self._events if not isinstance(event, Finish)]",
        ),
        checks=IN_DECODER,
        clauses=("CONT-7",),
    ),
    fault(
        "G237",
        "what a caller spells like a control token becomes one",
        replace(
            TEMPLATE,
            "if region.source is Source.CONTROL else region.text",
            'if region.text in ("<think>", "</think>", TURN_OPEN, TURN_CLOSE, TOOL_OPEN, TOOL_CLOSE)'
            " or region.source is Source.CONTROL else region.text",
        ),
        replace(
            TEMPLATE,
            "        self.regions.append(Region(text, source, index))",
            "        for part in text.replace('<think>', '\\0<think>\\0').split('\\0'):\n"
            "            self.regions.append(Region(part, source, index))",
        ),
        checks=IN_TEMPLATE,
        clauses=("TOOL-9", "PHASE-4"),
    ),
    fault(
        "G238",
        "a continued message is trimmed without a word",
        replace(
            TEMPLATE, "    if message.content != message.content.strip():", "    if not message.content:"
        ),
        checks=IN_TEMPLATE,
        clauses=("CONT-2",),
    ),
    fault(
        "G239",
        "a thinking prompt is taken for one past thinking",
        replace(
            TEMPLATE,
            "thinks = knows_thinking and prompt.thinking and not",
            "thinks = knows_thinking and not prompt.thinking and not",
        ),
        checks=IN_TEMPLATE,
        clauses=("PHASE-2",),
    ),
    fault(
        "G240",
        "an escape that is cut is decoded by halves",
        replace(
            FIELDS, "        if not is_all:\n", "        if not is_all and not raw.endswith('\\\\ud83d'):\n"
        ),
        checks=IN_FIELDS,
        clauses=("STREAM-3",),
    ),
    fault(
        "G241",
        "a member counts as complete when its first character is there",
        replace(
            FIELDS,
            "        self._events.append(MemberStarted(self._open[-1].pointer, character))\n",
            "        self._events.append(MemberStarted(self._open[-1].pointer, character))\n"
            "        self._events.append(MemberCompleted(self._open[-1].pointer, character))\n",
        ),
        checks=IN_FIELDS,
        clauses=("STREAM-4", "STREAM-5"),
    ),
    fault(
        "G242",
        "a call that was begun counts as made",
        replace(
            f"{FRONTEND}/events.py",
            "                    self._names[index], self._fragments[index] = name, []\n",
            "                    self._names[index], self._fragments[index] = name, []\n"
            "                    self._calls.append(ToolCall(name, ''))\n",
        ),
        checks=IN_EVENTS,
        clauses=("TOOL-32",),
    ),
)
