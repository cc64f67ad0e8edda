"""Erase functions, globals and kernels modules together with every operation that names them."""

from __future__ import annotations

from dataclasses import dataclass

from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import symbol_name, symbols_used


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseSymbol:
    """Erase the symbol op `op` and the operations `users` that refer to it."""

    op: int
    users: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        for number in (self.op, *self.users):
            op = draft.op(number)
            if op is not None:
                draft.erase(op)


def propose(snapshot: Snapshot) -> list[EraseSymbol]:
    """One edit per symbol other than the entry, last first (callees of kernels usually follow their callers)."""
    users: dict[str, list[int]] = {}
    for number, op in enumerate(snapshot.ops):
        for symbol in symbols_used(op):
            users.setdefault(symbol, []).append(number)
    edits: list[EraseSymbol] = []
    for number, op in enumerate(snapshot.ops):
        name = symbol_name(op)
        if name is not None and (not snapshot.candidate.entry or name != snapshot.candidate.entry):
            edits.append(EraseSymbol(op=number, users=tuple(u for u in users.get(name, ()) if u != number)))
    return edits[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseEntry:
    """Erase the entry function `op`: for failures that need no program to run."""

    op: int
    users: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        EraseSymbol(op=self.op, users=self.users).apply(draft)
        draft.entry = ""


def propose_entry(snapshot: Snapshot) -> list[EraseEntry]:
    """The entry, if the module has something else to offer."""
    entry = snapshot.candidate.entry
    numbers = [n for n, op in enumerate(snapshot.ops) if entry and symbol_name(op) == entry]
    others = any(symbol_name(op) not in (None, entry) for op in snapshot.ops)
    users = tuple(n for n, op in enumerate(snapshot.ops) if entry in symbols_used(op))
    return [EraseEntry(op=number, users=users) for number in numbers if others]


PASSES = (Pass(name="functions", propose=propose), Pass(name="entry", propose=propose_entry))
