"""Group M: faults of neural targets over lanes: recurrent state, keys and values, MTP, features, capture."""

from experiments.faults.planting import Fault, fault, replace

GDN = "engine/models/qwen3_5/gdn.py"
ATTENTION = "engine/models/qwen3_5/attention.py"
TARGET = "engine/models/qwen3_5/target.py"
MTP = "engine/models/qwen3_5/mtp.py"
PROGRAM = "engine/runtime/program.py"
MTP_DRAFTER = "engine/runtime/drafters/mtp.py"
GRAPHS = "engine/runtime/graphs.py"
ROLLBACK = (
    "property_tests/test_qwen3_5.py::test_a_verified_window_rolls_back_to_every_accepted_length",
    "property_tests/test_neural_paths.py::test_a_lane_moved_by_rounds_equals_one_built_from_its_history",
)
CHUNKS = ("property_tests/test_qwen3_5.py::test_passes_longer_than_a_chunk_carry_the_state",)
LOGITS = ("property_tests/test_qwen3_5.py::test_prefill_and_decode_are_the_oracles",)
FEATURES = ("property_tests/test_qwen3_5.py::test_hidden_and_features_are_what_drafters_read",)
MOVED = ROLLBACK[1:]
PAUSES = ("property_tests/test_neural_paths.py::test_a_restored_lane_is_the_lane",)
LEFTOVERS = ("property_tests/test_neural_paths.py::test_what_a_lane_held_before_is_never_seen",)
HISTORIES = ("property_tests/test_neural_paths.py::test_long_histories_are_built_in_chunks",)
CHAINS = ("property_tests/test_drafters.py::test_mtp_proposes_the_oracles_chain",)
PARTIAL = ("property_tests/test_drafters.py::test_drafts_die_with_a_round_that_is_not_committed_whole",)
MTP_MODULE = ("property_tests/test_qwen3_5_mtp.py",)
REPLAY = ("property_tests/test_graphs.py::test_every_path_gives_its_eager_tokens_under_replay",)
ROUTES = ("property_tests/test_graphs.py::test_drafts_are_ready_before_the_target_runs",)
POISON = ("property_tests/test_graphs.py::test_what_is_read_too_late_is_poison",)
HOSTLESS = ("property_tests/test_graphs.py::test_no_recorded_phase_reads_a_host_lane",)
ORDER = ("property_tests/test_graphs.py::test_order_and_addresses_are_watched",)
BUFFERS = ("property_tests/test_round_order.py::test_mask_buffers_stay_where_they_are_and_remember_nothing",)
ROUND_ORDER = (
    "property_tests/test_round_order.py::test_a_round_is_forward_masks_finish_and_commits_nothing",
)
FREE_ROWS = ("property_tests/test_program.py::test_a_constrained_row_needs_its_masks",)
TOGETHER = ("property_tests/test_paths.py::test_exact_checks",)
UPLOADS = ("property_tests/test_graphs.py::test_uploads_reach_the_recorded_buffers",)


def _gdn(name: str, title: str, old: str, new: str) -> Fault:
    return fault(name, title, replace(GDN, old, new), checks=ROLLBACK, clauses=("SPEC-6", "TXN-11"))


def _mtp(name: str, title: str, old: str, new: str) -> Fault:
    return fault(name, title, replace(MTP_DRAFTER, old, new), checks=CHAINS, clauses=("SPEC-15",))


def _one(
    name: str, title: str, file: str, old: str, new: str, checks: tuple[str, ...], *clauses: str
) -> Fault:
    return fault(name, title, replace(file, old, new), checks=checks, clauses=clauses)


RECURRENT: tuple[Fault, ...] = (
    _gdn(
        "M200",
        "the decay is that of one column further",
        "(counts - 1).clamp(min=0)",
        "counts.clamp(max=log_decay.shape[-1] - 1)",
    ),
    _gdn(
        "M201",
        "the last accepted column is left out",
        "device=state.device) >= counts\n",
        "device=state.device) >= counts - 1\n",
    ),
    _gdn(
        "M202",
        "the state moves by all columns",
        "by_head = counts[None, :, None]",
        "by_head = torch.full_like(counts, records.log_decay.shape[-1])[None, :, None]",
    ),
    _gdn(
        "M203",
        "the convolution's window ends one column early",
        "taps = counts[:, None] + ",
        "taps = (counts[:, None] - 1).clamp(min=0) + ",
    ),
    _gdn("M204", "the old state does not decay", "last.float().exp()[..., None] * state", "1.0 * state"),
    _gdn("M205", "updates do not decay", "weights = (last - log_decay)", "weights = (0 * log_decay)"),
    _gdn(
        "M206",
        "windows go to the lanes of other rows",
        "self.window.index_copy_(1, lanes, ",
        "self.window.index_copy_(1, lanes.flip(0), ",
    ),
    _one(
        "M207",
        "a long pass does not carry its state",
        GDN,
        "state = replay(state, key[:, :, part], update, own_decay, count)",
        "pass",
        CHUNKS,
    ),
    _one(
        "M208",
        "a cleared lane keeps its window",
        GDN,
        "        self.window[:, lane] = 0\n",
        "",
        LEFTOVERS,
        "LIFE-1",
        "EXEC-15",
    ),
    _one(
        "M209",
        "a snapshot loses the recurrent state",
        TARGET,
        "self.gdn.load(lane, recurrent)",
        "pass",
        PAUSES,
        "LIFE-4",
    ),
)
KEYS: tuple[Fault, ...] = (
    _one(
        "M210",
        "a window stands one position too far",
        PROGRAM,
        "starts = [len(lane.history) - 1 for lane in lanes]",
        "starts = [len(lane.history) for lane in lanes]",
        MOVED,
        "SPEC-1",
        "SPEC-6",
    ),
    _one(
        "M211",
        "a lane's target state is not cleared",
        PROGRAM,
        "        self._target.clear(lane.slot)\n",
        "",
        LEFTOVERS,
        "LIFE-1",
        "EXEC-15",
    ),
    _one(
        "M212",
        "a lane's drafter state is not cleared",
        PROGRAM,
        "        self._drafter.clear(lane.slot)\n",
        "",
        LEFTOVERS,
        "LIFE-1",
        "EXEC-15",
    ),
    _one(
        "M213",
        "a column does not see itself",
        ATTENTION,
        "<= positions[..., None]",
        "< positions[..., None]",
        LOGITS,
    ),
    _one(
        "M214",
        "a column sees the columns behind it",
        ATTENTION,
        "<= positions[..., None]",
        "<= positions[:, -1:, None]",
        LOGITS,
    ),
    _one(
        "M215",
        "the newest key does not come back",
        ATTENTION,
        "self.keys[lane, : len(keys)] = keys",
        "self.keys[lane, : len(keys) - 1] = keys[:-1]",
        PAUSES,
        "LIFE-4",
    ),
    _one(
        "M216",
        "every chunk of a history starts at its beginning",
        PROGRAM,
        "torch.tensor([start]), stop)",
        "torch.tensor([0]), stop)",
        HISTORIES,
    ),
)
OUTPUTS = "outputs = self._model(self._target.embed(next_ids), passed.hidden, placement, self._cache)"
CHAINED: tuple[Fault, ...] = (
    _mtp(
        "M220",
        "realigned rows are run but not kept",
        OUTPUTS,
        OUTPUTS.replace("self._cache)", "KeyValues(self._cache.keys.clone(), self._cache.values.clone()))"),
    ),
    _mtp("M221", "a row takes the token before its own", "embed(next_ids)", "embed(next_ids.roll(1, 1))"),
    _mtp("M222", "a chain stands one position too early", "positions + step, ", "positions + step - 1, "),
    _mtp(
        "M223",
        "a chain follows the last column, accepted or not",
        "last = (counts - 1).clamp(min=0)",
        "last = torch.full_like(counts, next_ids.shape[1] - 1)",
    ),
    _mtp(
        "M224",
        "a chain scores its first output again and again",
        "            hidden = self._model(",
        "            self._model(",
    ),
    _one(
        "M225",
        "drafts are kept after a commit of a part",
        PROGRAM,
        "pending.next_drafts[i] if whole else ()",
        "pending.next_drafts[i]",
        PARTIAL,
        "SPEC-15",
    ),
    _one(
        "M226",
        "embedding and hidden are joined the other way round",
        MTP,
        "torch.cat(both, dim=-1)",
        "torch.cat(both[::-1], dim=-1)",
        MTP_MODULE,
    ),
)
RESIDUAL = "                residuals[i] = x\n"
STREAMS: tuple[Fault, ...] = (
    _one(
        "M230",
        "features stand in the order of their layers",
        TARGET,
        "[residuals[i] for i in feature_layers]",
        "[residuals[i] for i in sorted(feature_layers)]",
        FEATURES,
    ),
    fault(
        "M231",
        "features are those before the layer",
        replace(TARGET, RESIDUAL, "                residuals[i] = before\n"),
        replace(
            TARGET,
            "            if kind == FULL:\n                x = ",
            "            before = x\n            if kind == FULL:\n                x = ",
        ),
        checks=FEATURES,
    ),
    _one(
        "M232", "features are normed", TARGET, RESIDUAL, RESIDUAL.replace("= x", "= self.norm(x)"), FEATURES
    ),
)
KEY = "key = (len(rows), num_drafts, batch.rows.context)"
CAPTURES: tuple[Fault, ...] = (
    _one(
        "M240",
        "a replay reads the inputs of its recording",
        GRAPHS,
        "buffer.copy_(tensor, non_blocking=True)",
        "pass",
        UPLOADS,
        "EXEC-2",
        "EXEC-8",
    ),
    _one(
        "M241",
        "a replay reads the masks of its recording",
        GRAPHS,
        "if buffer.data_ptr() != tensor.data_ptr():",
        "if buffer.data_ptr() != tensor.data_ptr() and tensor.dtype != torch.int32:",
        REPLAY,
        "EXEC-2",
        "EXEC-8",
    ),
    _one(
        "M242",
        "a recording's key leaves the context out",
        PROGRAM,
        KEY,
        "key = (len(rows), num_drafts)",
        REPLAY,
        "EXEC-2",
        "EXEC-3",
    ),
    _one(
        "M243",
        "a recording's key leaves the consumers out",
        PROGRAM,
        "*key, last, consumers.route)",
        "*key, last)",
        ROUTES,
        "EXEC-2",
        "EXEC-12",
    ),
    _one(
        "M244",
        "a recording's key leaves the purpose out",
        PROGRAM,
        "*key, last, consumers.route)",
        "*key, consumers.route)",
        REPLAY,
        "EXEC-2",
    ),
    _one(
        "M245",
        "results that are read too late are not poisoned",
        GRAPHS,
        "            self._poison()\n",
        "",
        POISON,
        "EXEC-16",
    ),
    _one(
        "M246",
        "a recorded phase may read its first lanes",
        GRAPHS,
        "return tuple(_without_lanes(part) for part in map_tensors(placed, inputs))",
        "return tuple(map_tensors(placed, inputs))",
        HOSTLESS,
        "EXEC-8",
    ),
    _one(
        "M247",
        "Finish does not wait for the drafts",
        GRAPHS,
        "if self._marked and not self._waited:",
        "if self._marked and self._waited is None:",
        ORDER,
        "EXEC-13",
    ),
    _one(
        "M248",
        "a moved tensor is not noticed",
        GRAPHS,
        "addresses) != addresses:",
        "addresses) is None:",
        ORDER,
        "EXEC-15",
    ),
)
ROUNDS: tuple[Fault, ...] = (
    _one(
        "M250",
        "every round has a mask buffer of its own",
        PROGRAM,
        "        stride = batch.num_columns\n        states, faults",
        "        stride = batch.num_columns\n"
        "        self._bitmask = torch.zeros_like(self._bitmask)\n"
        "        self._bitmask_view = self._bitmask.numpy()\n        states, faults",
        BUFFERS,
        "MASK-5",
        "BATCH-7",
    ),
    _one(
        "M251",
        "a batch of free rows asks for masks",
        PROGRAM,
        "        if not any(constrained):\n            return None\n",
        "",
        FREE_ROWS,
        "MASK-7",
    ),
    _one(
        "M252",
        "look-ahead follows the first row's drafts in every row",
        PROGRAM,
        "masks.fill(i, row_drafts, out)",
        "masks.fill(i, drafts[0], out)",
        TOGETHER,
        "SPEC-11",
    ),
    _one(
        "M253",
        "copied drafts are waited for as if a device had drafted them",
        "engine/runtime/drafters/ngram.py",
        "        self.num_drafts = num_drafts\n",
        "        self.num_drafts = num_drafts\n        self.on_device = True\n",
        ROUND_ORDER,
        "SPEC-13",
        "EXEC-10",
    ),
)
FAULTS = RECURRENT + KEYS + CHAINED + STREAMS + CAPTURES + ROUNDS
