"""The comment header of a corpus file: how the program is called and what it is expected to do.

    // DIFFTEST: entry=mre inputs=%d0=2,%mem:[8],seed=7
    // RUN: difftest run %s --target enzyme-ad@0.0.15 --pipeline canonicalize,convert-parallel-to-gpu1
    // EXPECT: enzyme-ad@0.0.15 pass-failure

`EXPECT` gives the verdict that the command of `RUN` has on a target (`corpus.expect`). `inputs` gives scalars (`%n=4`),
shapes of memrefs (`%mem:[4,5]`, static dimensions included) and the seed of the contents; `%` names are those of the
entry's parameters, `%0`, `%1` … (or `%arg0` …) count them. The other entries of a `DIFFTEST` line: `target=` and
`pipeline=` (repeatable: every combination is a case, like a RUN line), `requires=gpu,tool:ptxas`,
`xfail="why it fails for now, https://…"` and `xfail-on=enzyme-ad>=0.0.16`. Values with blanks stand in quotes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corpus.expect import Expectation, TargetRange, parse_expectations, parse_range
from difftest.errors import UsageError
from difftest.model import InputSpec, Program, VerdictKind

_LINE = re.compile(r"^\s*//\s*(DIFFTEST|RUN|EXPECT):(.*)$")
_SCALAR = re.compile(r"%([\w$.-]+)=(-?[\w.+-]+)$")
_SHAPE = re.compile(r"%([\w$.-]+):\[([\d,\s]*)\]$")
_REPEATABLE = ("target", "pipeline")
_KEYS = ("entry", "inputs", *_REPEATABLE, "requires", "xfail", "xfail-on")
_URL = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file says about itself. Argument names are resolved by `input_spec`.

    `run_lines` are the line numbers of `runs`; `xfail` is empty unless the cases that `xfail_on` covers (all without
    it) are known not to meet their expectation.
    """

    entry: str | None = None
    scalars: Mapping[str, int | float] = field(default_factory=dict[str, "int | float"])
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    seed: int = 0
    profile: str = "exact"
    runs: tuple[str, ...] = ()
    run_lines: tuple[int, ...] = ()
    targets: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    requires: tuple[str, ...] = ()
    xfail: str = ""
    xfail_on: TargetRange | None = None

    @property
    def expected(self) -> Mapping[str, VerdictKind]:
        """The verdicts of the clauses that name one version of one target, by its label."""
        return {str(e.target): e.verdict for e in self.expectations if not re.search(r"[<>!~,*]", e.target.versions)}


def parse_header(text: str, *, path: str = "<text>") -> Header:
    """Read all header lines of `text`. Raises UsageError naming file and line for anything not understood."""
    fields: dict[str, list[str]] = {}
    runs: dict[int, str] = {}
    expectations: list[Expectation] = []
    places: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.match(line)
        if found is None:
            continue
        where = f"{path}:{number}"
        if found.group(1) == "RUN":
            runs[number] = found.group(2).strip()
        elif found.group(1) == "EXPECT":
            expectations += _new_clauses(expectations, parse_expectations(found.group(2), where, line=number), where)
        else:
            _read_entries(found.group(2), fields, places, where)
    return _header(fields, places, path, runs=runs, expectations=expectations)


def _new_clauses(known: Sequence[Expectation], new: Sequence[Expectation], where: str) -> Sequence[Expectation]:
    for clause in new:
        for other in known:
            if (clause.target, clause.pipeline) == (other.target, other.pipeline):
                raise UsageError(f"{where}: line {other.line} already says what is expected of {clause.target}")
    return new


def _read_entries(text: str, fields: dict[str, list[str]], places: dict[str, str], where: str) -> None:
    """Add the `key=value` words of one DIFFTEST line."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{where}: {str(error).lower()} in the header") from None
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS:
            raise UsageError(f"{where}: unknown header entry {word!r}; known keys: {', '.join(sorted(_KEYS))}")
        if key in fields and key not in _REPEATABLE:
            raise UsageError(f"{where}: {key} was already given at {places[key]}")
        fields.setdefault(key, []).append(value)
        places[key] = where


def _header(
    fields: Mapping[str, Sequence[str]],
    places: Mapping[str, str],
    path: str,
    *,
    runs: Mapping[int, str],
    expectations: Sequence[Expectation],
) -> Header:
    def value(key: str) -> str:
        return fields.get(key, ("",))[0]

    scalars, shapes, seed, profile = _parse_inputs(value("inputs"), places.get("inputs", path))
    requires = tuple(r for r in value("requires").split(",") if r)
    for requirement in requires:
        if requirement != "gpu" and not re.fullmatch(r"tool:.+", requirement):
            raise UsageError(f"{places['requires']}: requirement {requirement!r} is neither gpu nor tool:NAME")
    if "xfail" in fields and not _URL.search(value("xfail")):
        raise UsageError(f"{places['xfail']}: xfail needs a reason with a link (https://…), in quotes")
    if "xfail-on" in fields and "xfail" not in fields:
        raise UsageError(f"{places['xfail-on']}: xfail-on without xfail")
    return Header(
        entry=value("entry") or None,
        scalars=scalars,
        shapes=shapes,
        seed=seed,
        profile=profile,
        runs=tuple(runs.values()),
        run_lines=tuple(runs),
        targets=tuple(fields.get("target", ())),
        pipelines=tuple(fields.get("pipeline", ())),
        expectations=tuple(expectations),
        requires=requires,
        xfail=value("xfail"),
        xfail_on=parse_range(value("xfail-on"), places["xfail-on"]) if "xfail-on" in fields else None,
    )


def run_options(header: Header) -> dict[str, str]:
    """The `--name value` options of the first RUN line that calls `difftest run`. Raises UsageError without one."""
    for line in header.runs:
        words = shlex.split(line)
        if words[:2] == ["difftest", "run"]:
            names = [i for i, word in enumerate(words) if word.startswith("--")]
            return {words[i]: words[i + 1] for i in names if i + 1 < len(words)}
    raise UsageError("the file has no RUN line that calls `difftest run`")


def parse_inputs(text: str) -> Header:
    """The value of an `inputs=` entry alone, as given on a command line."""
    scalars, shapes, seed, profile = _parse_inputs(text, "--inputs")
    return Header(scalars=scalars, shapes=shapes, seed=seed, profile=profile)


def _parse_inputs(text: str, where: str) -> tuple[dict[str, int | float], dict[str, tuple[int, ...]], int, str]:
    scalars: dict[str, int | float] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    seed, profile = 0, "exact"
    for item in _split(text):
        shape, scalar = _SHAPE.match(item), _SCALAR.match(item)
        if shape:
            shapes[shape.group(1)] = tuple(int(d) for d in shape.group(2).split(",") if d.strip())
        elif scalar:
            scalars[scalar.group(1)] = _number(scalar.group(2), where)
        elif item.startswith("seed="):
            seed = int(_number(item.removeprefix("seed="), where))
        elif item.startswith("profile="):
            profile = item.removeprefix("profile=")
        else:
            raise UsageError(f"{where}: input {item!r} is neither %name=value, %name:[shape], seed=N nor profile=NAME")
    return scalars, shapes, seed, profile


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", text) if part]


def _number(text: str, where: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{where}: {text!r} is not a number") from None


def format_inputs(spec: InputSpec) -> str:
    """An `InputSpec` as the value of `inputs=`, with positional names."""
    items = [f"%{i}={v!r}" for i, v in sorted(spec.scalars.items())]
    items += [f"%{i}:[{','.join(map(str, s))}]" for i, s in sorted(spec.shapes.items())]
    if spec.profile != "exact":
        items.append(f"profile={spec.profile}")
    return ",".join([*items, f"seed={spec.seed}"])


def parameter_names(text: str, entry: str) -> tuple[str, ...]:
    """Names of the entry's parameters as written in `text` (pretty or generic form), without `%`."""
    pretty = re.search(rf"@(?:{re.escape(entry)}|\"{re.escape(entry)}\")\s*\(([^{{]*)", text)
    generic = re.search(rf'sym_name = "{re.escape(entry)}".*?\n\s*\^\w+\(([^\n]*)\):', text)
    # In generic form a call `@entry` may come first, so the form that names parameters with types decides.
    for found in (generic, pretty):
        if found:
            return tuple(re.findall(r"%([\w$.-]+)\s*:", found.group(1)))
    return ()


def input_spec(header: Header, text: str, entry: str) -> InputSpec:
    """The header's inputs with names resolved to positions. Raises UsageError for a name the entry lacks."""
    names = parameter_names(text, entry)

    def position(name: str) -> int:
        if name in names:
            return names.index(name)
        counted = re.fullmatch(r"(?:arg)?(\d+)", name)
        if counted:
            return int(counted.group(1))
        known = ", ".join(f"%{n}" for n in names) or "none"
        raise UsageError(f"@{entry} has no argument %{name}; it has: {known}")

    return InputSpec(
        scalars={position(n): v for n, v in header.scalars.items()},
        shapes={position(n): s for n, s in header.shapes.items()},
        seed=header.seed,
        profile=header.profile,
    )


def program_file(program: Program) -> str:
    """A program as the text of a corpus file: its header, then its MLIR."""
    header = f"// DIFFTEST: entry={program.entry} inputs={format_inputs(program.inputs)}"
    return f"{header}\n{program.text.rstrip()}\n"
