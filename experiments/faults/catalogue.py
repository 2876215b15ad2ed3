"""All planted faults, and the numbers of the catalogue that this code cannot have, each with its reason."""

import importlib
from collections.abc import Sequence

from experiments.faults.planting import Fault

GROUPS = {
    "A": "sampling",
    "B": "speculative acceptance",
    "C": "mask look-ahead",
    "D": "matcher transaction and commit",
    "E": "JSON Schema",
    "F": "regex, choice and grammar lowering",
    "G": "frontend phases, tools and continuation",
    "G2": "metamorphic lowering",
    "H": "cache keys, batching, concurrency",
    "M": "neural models, drafters, capture",
}
MODULES = (
    "group_a",
    "group_a_law",
    "group_b",
    "group_b_paths",
    "group_c",
    "group_d",
    "group_e",
    "group_e_parts",
    "group_e_terminals",
    "group_f",
    "group_f_gbnf",
    "group_f_lowering",
    "group_g",
    "group_g2",
    "group_g_grammar",
    "group_h",
    "group_models",
    "group_models_drafters",
    "group_names",
    "group_numpy",
    "group_triton",
)

# The catalogue's numbers by group; 200 and up are the project's own inventions.
CATALOGUE: dict[str, tuple[int, ...]] = {
    "A": (1, 3, 4, 5, 7, 9, 10, 11, 12, 14, 16, 18),
    "B": (*range(20, 25), 26, 27, 29, 32, *range(34, 37), *range(38, 47), 50, 51, 52, 54, 55, 56, 58, 59),
    "C": (*range(61, 68), 69),
    "E": (92, 93, 94, 96, 97, 99, 100, 103, 105, 106, 108, 110, 111, 114, 115, 116),
    "D": (71, 72, 73, 75, 76, 77, 80, 81, *range(83, 91)),
    "F": (117, 118, 120, 122, 123, 125, *range(127, 131)),
    "G": (*range(131, 140), 141, 142),
    "H": (*range(143, 146), *range(147, 155), 156),
}

NOT_PLANTED: dict[int, str] = {
    83: "stop strings belong to the frontend, which is not built yet",
    89: "a request's own stop ids belong to the frontend, which is not built yet",
    142: "endpoints belong to the server, which is not built yet",
    153: "several candidates of one request belong to the concurrent engine, which is not built yet",
    154: "prefill in chunks is planted on the model programs, as M216",
    156: "graph capture and replay are planted on their rehearsal, as M240 to M248",
}


def all_faults() -> list[Fault]:
    """Every planted fault, by group and number."""
    found: list[Fault] = []
    for module in MODULES:
        found += importlib.import_module(f"experiments.faults.{module}").FAULTS
    return sorted(found, key=lambda fault: (fault.group, fault.number))


def select(groups: Sequence[str] = (), numbers: Sequence[int] = ()) -> list[Fault]:
    """The faults of the named groups and numbers; everything where neither is given."""
    chosen = all_faults()
    if groups:
        chosen = [fault for fault in chosen if fault.group in groups]
    if numbers:
        chosen = [fault for fault in chosen if fault.number in numbers]
    return chosen
