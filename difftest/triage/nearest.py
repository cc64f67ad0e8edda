"""Known shapes next to a finding: is it one of those already?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import corpus
from difftest.errors import UsageError
from difftest.ir.reader import read_module
from difftest.targets.pipelines import all_pass_names, resolve

COUNT = 3
_OP = re.compile(r"(?<![\w.@#!%\"])([a-z_]\w*\.[a-z_][\w.]*)")
_LINK = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A known case: the first line of its header, a link when it names one, its passes, verdicts and ops."""

    name: str
    title: str
    link: str
    passes: frozenset[str]
    kinds: frozenset[str]
    ops: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A known shape with how near it is: 1 is the same pass, the same kind of failure and the same kinds of ops."""

    shape: Shape
    score: float

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.shape.name,
            "title": self.shape.title,
            "link": self.shape.link,
            "score": round(self.score, 2),
        }

    def as_text(self) -> str:
        """In one line."""
        link = f" {self.shape.link}" if self.shape.link else ""
        return f"{self.shape.name} ({self.score:.2f}): {self.shape.title}{link}"


def nearest(text: str, *, passes: Iterable[str], kind: str, count: int = COUNT) -> tuple[Near, ...]:
    """The known shapes nearest to a generic text that fails with verdict `kind` in one of `passes`, nearest first.

    Shapes of other passes are no neighbours.
    """
    ops, names = frozenset(op.name for op in read_module(text).walk()) - {"builtin.module"}, frozenset(passes)
    found: list[Near] = []
    for shape in known_shapes():
        if not shape.passes & names:
            continue
        common = len(shape.ops & ops) / max(1, len(shape.ops | ops))
        found.append(Near(shape=shape, score=0.4 + 0.3 * (kind in shape.kinds) + 0.3 * common))
    return tuple(sorted(found, key=lambda n: (-n.score, n.shape.name))[:count])


@cache
def known_shapes() -> tuple[Shape, ...]:
    """The cases of corpus/known; none where only the package is installed."""
    folder = Path(corpus.__file__).parent / "known"
    return tuple(_shape(path) for path in sorted(folder.glob("*.mlir")))


def _shape(path: Path) -> Shape:
    text = path.read_text(encoding="utf-8")
    comments = [line.removeprefix("//").strip() for line in text.splitlines() if line.startswith("//")]
    code = "\n".join(line.partition("//")[0] for line in text.splitlines())
    link = next((found.group(0) for line in comments if (found := _LINK.search(line))), "")
    return Shape(
        name=path.stem,
        title=comments[0] if comments else "",
        link=link,
        passes=frozenset(p for line in comments if line.startswith("RUN:") for p in _passes(line)),
        kinds=frozenset(line.split()[-1] for line in comments if line.startswith("EXPECT:")) - {"agree"},
        ops=frozenset(_OP.findall(code)),
    )


def _passes(line: str) -> tuple[str, ...]:
    words = shlex.split(line)
    if "--pipeline" not in words[:-1]:
        return ()
    target = words[words.index("--target") + 1] if "--target" in words[:-1] else "mlir"
    try:
        return all_pass_names(resolve(words[words.index("--pipeline") + 1], target).text)
    except UsageError:
        return ()
