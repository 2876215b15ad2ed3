"""The one place where a token becomes real.

Preview every row, let the program commit the same prefixes, confirm every session, publish: in this order and
nowhere else. A refused preview restores every preview of the batch and aborts the batch; a failed program
commit restores them too, confirms nothing and publishes nothing. A row that failed or was cancelled commits
zero tokens while its neighbours commit by unchanged rules.
"""

from collections.abc import Sequence

from engine.errors import CoreFault
from engine.runtime.contract import (
    CommitDecision,
    PendingBatch,
    PreviewFailed,
    Program,
    Publisher,
    RowFailure,
)
from engine.runtime.session import NOTHING, OutputSession


def commit_round(
    program: Program,
    pending: PendingBatch,
    sessions: Sequence[OutputSession],
    publish: Publisher,
    upload_bytes: int = 0,
) -> tuple[CommitDecision, ...]:
    """Commit one round; `sessions` stand in compact row order, `upload_bytes` is the mask copy of one row.

    Raises PreviewFailed (the batch is aborted) and whatever the program's commit raises.
    """
    decisions = _preview_all(program, pending, sessions)
    try:
        program.commit(pending, [decision.num_committed for decision in decisions])
    except BaseException:
        _discard(sessions)
        raise
    for session in sessions:
        session.confirm(upload_bytes)
    for row, decision in enumerate(decisions):
        publish(row, pending.rows[row].tokens[: decision.num_published], decision)
    return decisions


def _preview_all(
    program: Program, pending: PendingBatch, sessions: Sequence[OutputSession]
) -> tuple[CommitDecision, ...]:
    decisions = []
    for row, (result, session) in enumerate(zip(pending.rows, sessions, strict=True)):
        failed = result.failure is not RowFailure.NONE and not session.cancelled
        try:
            decisions.append(NOTHING if failed else session.preview(result.tokens))
        except BaseException as fault:
            _discard(sessions)
            program.abort(pending)
            if isinstance(fault, CoreFault):
                raise PreviewFailed(f"row {row}: {fault}", row) from fault
            raise
    return tuple(decisions)


def _discard(sessions: Sequence[OutputSession]) -> None:
    for session in sessions:
        session.discard()
