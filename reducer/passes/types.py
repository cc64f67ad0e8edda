"""Smaller types over the whole module: narrower floats and integers, static and smaller shapes, lower ranks.

One edit renames a type everywhere, in types and in attributes, so uses stay consistent; what a rename breaks
(a cast between two widths that became one) the verifier refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from difftest.ir.tree import Operation
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import drop_operands, segments, values_of

_SCALARS = (("f64", "f32"), ("bf16", "f32"), ("f16", "f32"), ("f64", "i32"), ("f32", "i32"), ("i64", "i32"))
_SHAPED = re.compile(r"(?:memref|vector|tensor)<(?:[?\d]+x)+[^<>]*(?:<[^<>]*>[^<>]*)*>")
_DIMENSION = re.compile(r"(?<=[<x])(\?|\d+)x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retype:
    """Write the type `new` wherever the type or element type `old` stands."""

    old: str
    new: str

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        pattern = re.compile(rf"(?<![a-wyzA-Z_.\d$@\"]){re.escape(self.old)}(?![\w.])")
        ops = draft.live_ops
        for axis in _fixed_axes(self.old, self.new):
            for op in ops:
                drop_size(op, self.old, axis)
        for value in values_of(ops):
            value.type = _rename(pattern, self.old, self.new, value.type)
        for op in ops:
            for entries in (op.properties, op.attributes):
                for name, text in entries.items():
                    if not text.startswith(('"', "@")):
                        entries[name] = _rename(pattern, self.old, self.new, text)


def propose(snapshot: Snapshot) -> list[Retype]:
    """Renames of scalar types that occur, then of each shaped type."""
    texts = dict.fromkeys(_type_texts(snapshot))
    everything = "\n".join(texts)
    edits = [Retype(old=old, new=new) for old, new in _SCALARS if old in everything]
    shaped = dict.fromkeys(found for text in texts for found in _SHAPED.findall(text))
    edits.extend(Retype(old=old, new=new) for old in shaped for new in _smaller_shapes(old))
    return edits


def drop_size(op: Operation, type_text: str, axis: int) -> None:
    """Remove the operand that sizes dynamic axis `axis` of an allocation of type `type_text`, if there is one."""
    if op.name not in ("memref.alloc", "memref.alloca", "gpu.alloc") or op.results[0].type != type_text:
        return
    extents = [matched.group(1) for matched in _DIMENSION.finditer(type_text)]
    if extents[axis] == "?":
        sizes = segments(op) or [0]
        before = sizes[0] if op.name == "gpu.alloc" else 0
        drop_operands(op, {before + extents[:axis].count("?")})


def _fixed_axes(old: str, new: str) -> list[int]:
    """The axes that are dynamic in `old` and static in `new`, last first."""
    if not (old.startswith("memref<") and new.startswith("memref<")):
        return []
    pairs = zip(_DIMENSION.finditer(old), _DIMENSION.finditer(new), strict=False)
    if len(_DIMENSION.findall(old)) != len(_DIMENSION.findall(new)):
        return []
    return [n for n, (a, b) in enumerate(pairs) if a.group(1) == "?" and b.group(1) != "?"][::-1]


def _rename(pattern: re.Pattern[str], old: str, new: str, text: str) -> str:
    return pattern.sub(new, text) if old in text else text


def _type_texts(snapshot: Snapshot) -> Iterator[str]:
    for value in values_of(snapshot.ops):
        yield value.type
    for op in snapshot.ops:
        yield from _attribute_texts(op)


def _attribute_texts(op: Operation) -> Iterator[str]:
    for entries in (op.properties, op.attributes):
        for text in entries.values():
            if text and not text.startswith(('"', "@", "dense")):
                yield text


def _smaller_shapes(text: str) -> Iterator[str]:
    """Each dimension static 2 or 1; one dimension less for identity layouts."""
    for matched in _DIMENSION.finditer(text):
        for extent in ("1", "2"):
            if matched.group(1) == "?" or int(matched.group(1)) > int(extent):
                yield f"{text[: matched.start()]}{extent}x{text[matched.end() :]}"


PASSES = (Pass(name="types", propose=propose),)
