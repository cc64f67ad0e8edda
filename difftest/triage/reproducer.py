"""A failure without this project: the IR just before the culprit, and one command, in the toolchain's own syntax."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from difftest.errors import ReadError, UsageError
from difftest.ir import spelling
from difftest.ir.lexer import quote
from difftest.ir.spelling import SpellingError
from difftest.model import Pipeline, Verdict, VerdictKind
from difftest.oracle.judge import Reference, execute, failure_verdict, outcome_verdict
from difftest.targets.base import Target
from difftest.targets.pipelines import join, split
from difftest.triage.culprit import WRONG
from difftest.triage.locate import Located


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """A program in the compiler's spelling and the passes to run on it.

    `confirmed`: the failure was seen again on exactly this. `single`: one element is enough; otherwise the program is
    the original one, because the culprit alone does not fail on the IR printed before it.
    """

    program: str
    passes: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    tool: str
    confirmed: bool

    @property
    def single(self) -> bool:
        """Whether it is the culprit alone."""
        return len(self.passes) == 1

    def command(self, file: str = "before.mlir") -> str:
        """The command line of the `*-opt` tool."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in self.environment]
        return " ".join([*variables, self.tool, file, shlex.quote(f"--pass-pipeline={self.pipeline}")])

    @property
    def pipeline(self) -> str:
        """The passes with their anchor."""
        return f"builtin.module({join(self.passes)})"

    def crash_file(self) -> str:
        """The program as a file for `--run-reproducer` (MLIR "Pass Infrastructure", crash reproducers)."""
        resource = (
            "\n{-#\n  external_resources: {\n    mlir_reproducer: {\n"
            f"      pipeline: {quote(self.pipeline)},\n"
            "      disable_threading: true,\n      verify_each: true\n    }\n  }\n#-}\n"
        )
        return self.program.rstrip() + "\n" + resource

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "command": self.command(),
            "program": self.program,
            "crash_reproducer": self.crash_file(),
            "confirmed": self.confirmed,
            "single_pass": self.single,
        }


def reproducer_for(
    located: Located, reference: Reference, target: Target, pipeline: Pipeline, *, timeout: float = 20.0
) -> Reproducer:
    """The smallest of: the culprit on the IR before it; the whole prefix on the original program."""
    text, passes = located.before, (located.element,)

    def confirmed() -> bool:
        alone = Pipeline(text=join(passes), env=pipeline.env)
        return fails_so(text, alone, located=located, reference=reference, target=target, timeout=timeout)

    seen = not located.inner and confirmed()
    if not seen:
        text, passes = reference.program.text, (*located.prefix, located.element)
        seen = confirmed()
    return Reproducer(
        program=_spelled(text, target.label),
        passes=tuple(p for e in passes for p in split(e)),
        environment=tuple(sorted(pipeline.env.items())),
        tool=tool_name(target.label),
        confirmed=seen,
    )


def fails_so(
    text: str, passes: Pipeline, *, located: Located, reference: Reference, target: Target, timeout: float
) -> bool:
    """Whether `passes` on `text` show the failure that was located: the same kind, a wrong result still wrong."""
    result = target.lower(text, passes, timeout=timeout)
    wanted = located.verdict.kind
    if result.artifact is None:
        assert result.failure is not None
        return wanted not in WRONG and failure_verdict(result.failure, target.label, passes).kind is wanted
    if wanted not in WRONG:
        return False
    blank = Verdict(kind=VerdictKind.AGREE, target=target.label, pipeline=passes.text)
    try:
        return outcome_verdict(blank, reference, execute(result.artifact.text, reference)).kind in WRONG
    except UsageError:
        return False


def tool_name(label: str) -> str:
    """What the toolchain's `*-opt` is called."""
    if label.startswith("opt:"):
        return label.removeprefix("opt:")
    return "enzymexlamlir-opt" if label.startswith("enzyme-ad") else "mlir-opt"


def _spelled(text: str, label: str) -> str:
    try:
        return spelling.from_house(text, target=label)
    except (ReadError, SpellingError):
        return text
