"""Drop discardable attributes and optional properties; flags become `none`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import set_property

# Entries an operation cannot do without: trying to drop them would only cost predicate calls.
_NEEDED = re.compile(
    r"^(?:value|function_type|sym_name|callee|kernel|fn|\w*[sS]egmentSizes|\w*predicate|kind|\w*[mM]ap|\w*Groups|steps?"
    r"|reductions|condition|elem_type|global_type|type|activity|ret_activity|case\w*|dimension|static_\w+|position"
    r"|rawConstantIndices|sym|linkage|width)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropEntry:
    """Remove the entry `name` of `op`."""

    op: int
    name: str

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is not None:
            entries = op.properties if self.name in op.properties else op.attributes
            entries.pop(self.name, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEntry:
    """Give the entry `name` of `op` the text `text`."""

    op: int
    name: str
    text: str

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is not None:
            set_property(op, self.name, self.text)


def propose_drops(snapshot: Snapshot) -> list[DropEntry]:
    """Every entry that may be optional, attributes of an op before its properties."""
    return [
        DropEntry(op=number, name=name)
        for number, op in enumerate(snapshot.ops)
        for name in (*op.attributes, *(n for n in op.properties if n not in op.attributes))
        if not _NEEDED.match(name) and (name in op.attributes or not _is_none(op.properties[name]))
    ]


def propose_flags(snapshot: Snapshot) -> list[SetEntry]:
    """Every enum of flags that is not `none` becomes `none`."""
    return [
        SetEntry(op=number, name=name, text=text)
        for number, op in enumerate(snapshot.ops)
        for name in (*op.properties, *op.attributes)
        if (text := _without_flags(op.get(name) or "")) is not None
    ]


def _without_flags(text: str) -> str | None:
    matched = re.match(r"^(#\w+(?:\.(?:fastmath|overflow)<|<(?:fastmath|overflow) ))([^>]*)>$", text)
    if matched is None or matched.group(2) == "none":
        return None
    return f"{matched.group(1)}none>"


def _is_none(text: str) -> bool:
    """A property that already says nothing: the printer writes it out again when it is dropped."""
    return "none>" in text or text in ("false", "[]", "unit")


PASSES = (Pass(name="attributes", propose=propose_drops), Pass(name="flags", propose=propose_flags))
