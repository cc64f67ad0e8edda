"""The pieces of generic text below an operation: dictionaries, types, aliases, locations; and errors with places.

`Fragments` walks one text. Positions go in and come out as integers; only top-level pieces move `position`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from difftest.errors import ReadError
from difftest.ir.lexer import (
    STRING,
    collapse_blank,
    line_end,
    scan,
    skip_blank,
    substitute_aliases,
    unquote,
)

_GAP = r"(?:\s++|//[^\n]*+)*+"
_KEY = re.compile(rf"{_GAP}(?:([A-Za-z_][\w$.]*+)|({STRING})){_GAP}(=|(?=[,}}]))", re.ASCII)
_TYPE_HEAD = re.compile(r"[A-Za-z!_][\w$.\-]*+", re.ASCII)
_PLAIN_TYPE = re.compile(r"[A-Za-z!_][\w$.]*+(?:<[\w?.:*, ]*+>)?(?=[,): \n])", re.ASCII)
_ARROW = re.compile(rf"{_GAP}->", re.ASCII)
_ALIAS_DEFINITION = re.compile(rf"([#!][A-Za-z_][\w$\-]*+){_GAP}=", re.ASCII)
_METADATA = re.compile(rf"\{{-#(?:{STRING}|[^\"#]++|#(?!-\}}))*+#-\}}")
_FOUND = re.compile(rf"{STRING}|[%^#!@]?[\w$.\-]++|.", re.ASCII | re.DOTALL)


@dataclass(slots=True, frozen=True)
class Tail:
    """What follows an op's operands (or its regions) on its line, parsed. `opens`: up to `({`, so without types."""

    properties: dict[str, str]
    attributes: dict[str, str]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    opens: bool = False


class Tails:
    """Parsed tails by text. Those without aliases mean the same in every text and are kept between reads."""

    limit = 20_000
    longest = 500

    def __init__(self, lasting: dict[str, Tail]) -> None:
        self.lasting = lasting
        self.own: dict[str, Tail] = {}

    def get(self, text: str) -> Tail | None:
        """The parsed tail of exactly this text, or None."""
        return self.lasting.get(text) or self.own.get(text)

    def put(self, text: str, tail: Tail, *, expanded: bool) -> None:
        """Remember `tail`; `expanded` when reading it substituted an alias."""
        if expanded:
            self.own[text] = tail
        elif len(text) <= self.longest:
            if len(self.lasting) >= self.limit:
                self.lasting.clear()
            self.lasting[text] = tail


class Fragments:
    """A text with its aliases, read piece by piece. Raises ReadError, and LexError for broken brackets or strings.

    `expand` false leaves aliases in the pieces as they are.
    """

    def __init__(self, text: str, *, expand: bool = True) -> None:
        self.text = text
        self.position = 0
        self.aliases: dict[str, str] = {}
        self.expand = expand
        self.expanded = False

    def read_tail(self, properties: dict[str, str], position: int) -> tuple[Tail, int]:
        """`{…} : (…) -> …` at `position`, and the position after it."""
        position = skip_blank(self.text, position)
        attributes: dict[str, str] = {}
        if self.text.startswith("{", position):
            attributes, position = self.read_dictionary(position)
        position = self.expect(":", position)
        inputs, position = self.read_types(self.expect("(", position))
        arrow = _ARROW.match(self.text, position)
        if arrow is None:
            self.fail("expected '->'", skip_blank(self.text, position))
        position = skip_blank(self.text, arrow.end())
        if self.text.startswith("(", position):
            outputs, position = self.read_types(position + 1)
        else:
            result, position = self.read_type(position)
            outputs = (result,)
        return Tail(properties, attributes, inputs, outputs), position

    # --- dictionaries and types -----------------------------------------------------------------------------

    def read_dictionary(self, position: int) -> tuple[dict[str, str], int]:
        """`{name = value, …}` and the position after it."""
        text = self.text
        entries: dict[str, str] = {}
        position = self.expect("{", position)
        closing = skip_blank(text, position)
        if text.startswith("}", closing):
            return entries, closing + 1
        while True:
            found = _KEY.match(text, position)
            if found is None:
                self.fail("expected an attribute name", skip_blank(text, position))
            name = found[1] if found[1] is not None else unquote(found[2])
            end = position = found.end()
            value = ""
            if found[3]:
                end = scan(text, position, ",}")
                value = self._expand(position, end)
                if not value:
                    self.fail(f"expected a value for '{name}'", position)
            if name in entries or (found[1] is None and not name):
                self.fail(f"bad or repeated attribute name '{name}'", found.start())
            entries[name] = "" if value == "unit" else value
            position = skip_blank(text, end)
            if text.startswith("}", position):
                return entries, position + 1
            position = self.expect(",", position)

    def _expand(self, start: int, end: int) -> str:
        """The text from `start` to `end` on one line and without aliases."""
        raw = collapse_blank(self.text[start:end])
        if not self.expand:
            return raw
        found = substitute_aliases(raw, self.aliases, skip_blank(self.text, start))
        if found is not raw:
            self.expanded = self.expanded or found != raw
        return found

    def read_types(self, position: int) -> tuple[tuple[str, ...], int]:
        """Types up to and including `)`; `position` is after `(`."""
        closing = skip_blank(self.text, position)
        if self.text.startswith(")", closing):
            return (), closing + 1
        found: list[str] = []
        while True:
            one, position = self.read_type(skip_blank(self.text, position))
            found.append(one)
            position = skip_blank(self.text, self.skip_location(position))
            if self.text.startswith(")", position):
                return tuple(found), position + 1
            position = self.expect(",", position)

    def read_type(self, position: int) -> tuple[str, int]:
        """One type and the position after it."""
        text = self.text
        plain = _PLAIN_TYPE.match(text, position)
        if plain is not None:
            found = plain.group()
            return (found if "!" not in found else self._expand(position, plain.end())), plain.end()
        end = self._type_end(position)
        return self._expand(position, end), end

    def _type_end(self, position: int) -> int:
        text = self.text
        if text.startswith("(", position):
            end = scan(text, position + 1, ")") + 1
            arrow = _ARROW.match(text, end)
            if arrow is None:
                self.fail("expected '->' in a function type", end)
            position = skip_blank(text, arrow.end())
            if text.startswith("(", position):
                return scan(text, position + 1, ")") + 1
        head = _TYPE_HEAD.match(text, position)
        if head is None:
            self.fail("expected a type", position)
        end = head.end()
        return scan(text, end + 1, ">") + 1 if text.startswith("<", end) else end

    # --- top level ------------------------------------------------------------------------------------------

    def read_alias(self) -> None:
        """Read the alias definition at the current position; aliases of locations are dropped."""
        found = _ALIAS_DEFINITION.match(self.text, self.position)
        if found is None:
            self.fail("expected an alias definition", self.position)
        position = skip_blank(self.text, found.end())
        end = line_end(self.text, position)
        name = found[1]
        body = collapse_blank(self.text[position:end])
        if not body:
            self.fail(f"expected a definition of {name}", position)
        if not body.startswith("loc("):
            if name in self.aliases:
                self.fail(f"redefinition of {name}", self.position)
            self.aliases[name] = substitute_aliases(body, self.aliases, position)
        self.position = end

    def skip_metadata(self) -> None:
        """Skip `{-# … #-}` (resource blobs) at the current position."""
        found = _METADATA.match(self.text, self.position)
        if found is None:
            self.fail_at_op()
        self.position = found.end()

    def skip_location(self, position: int) -> int:
        """The position after a `loc(…)` that starts here, or `position`."""
        start = skip_blank(self.text, position)
        return scan(self.text, start + 4, ")") + 1 if self.text.startswith("loc(", start) else position

    # --- errors ---------------------------------------------------------------------------------------------

    def expect(self, character: str, position: int) -> int:
        """The position after `character`, which must be next."""
        position = skip_blank(self.text, position)
        if not self.text.startswith(character, position):
            self.fail(f"expected '{character}'{self._shown(position)}", position)
        return position + 1

    def fail_at_op(self) -> NoReturn:
        """Raise for something else where an operation should start."""
        self.fail(f"expected an operation in generic form{self._shown(self.position)}", self.position)

    def _shown(self, position: int) -> str:
        found = _FOUND.match(self.text, position)
        return ", found the end of the text" if found is None else f", found {found.group()[:40]!r}"

    def fail(self, message: str, position: int) -> NoReturn:
        """Raise ReadError with the line and column of `position`."""
        position = min(position, len(self.text))
        line = self.text.count("\n", 0, position) + 1
        column = position - (self.text.rfind("\n", 0, position) + 1) + 1
        raise ReadError(message, line=line, column=column)
