"""One program, one compiler, one pipeline: a verdict.

The reference runs first and in source mode; a program it rejects is judged no further.  The compiler's success is
not believed: its result is executed in intermediate mode and compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from difftest.devices import EmulatorDevice
from difftest.devices.host import run_on_device
from difftest.errors import UsageError
from difftest.inputs import make_arguments
from difftest.interpreter import interpret
from difftest.ir.attributes import parse_string
from difftest.ir.reader import read_module
from difftest.ir.tree import Operation, find_function
from difftest.ir.types import FunctionType, parse_type
from difftest.model import (
    CompileFailure,
    CompileResult,
    FailureKind,
    Mode,
    Outcome,
    OutcomeKind,
    Pipeline,
    Program,
    Schedule,
    Signature,
    Verdict,
    VerdictKind,
)
from difftest.oracle.compare import compare
from difftest.oracle.limits import documented_limit
from difftest.signature import of_failure
from difftest.targets.base import Target

_KINDS: Mapping[FailureKind, VerdictKind] = MappingProxyType(
    {
        FailureKind.CRASH: VerdictKind.CRASH,
        FailureKind.HANG: VerdictKind.HANG,
        FailureKind.PASS_FAILURE: VerdictKind.PASS_FAILURE,
        FailureKind.INVALID_IR: VerdictKind.INVALID_IR,
        FailureKind.INCOMPLETE: VerdictKind.INCOMPLETE,
        # Running out of stack or memory says how large the program is, not that the compiler is wrong.
        FailureKind.STACK_OVERFLOW: VerdictKind.INCONCLUSIVE,
        FailureKind.MEMORY: VerdictKind.INCONCLUSIVE,
        # Text that one version reads and another does not is version skew.
        FailureKind.REFUSED_INPUT: VerdictKind.UNSUPPORTED,
        FailureKind.SPELLING: VerdictKind.UNSUPPORTED,
    }
)
_REFERENCE_KINDS: Mapping[OutcomeKind, VerdictKind] = MappingProxyType(
    {
        OutcomeKind.UB: VerdictKind.BAD_PROGRAM,
        OutcomeKind.RACE: VerdictKind.BAD_PROGRAM,
        OutcomeKind.UNSUPPORTED: VerdictKind.UNSUPPORTED,
        OutcomeKind.INCONCLUSIVE: VerdictKind.INCONCLUSIVE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A program with its tree, its arguments and what the interpreter says it does."""

    program: Program
    module: Operation
    arguments: tuple[Any, ...]
    outcome: Outcome

    @property
    def usable(self) -> bool:
        """Whether compiled results can be held against it."""
        return self.outcome.kind is OutcomeKind.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict with what led to it: the compiler's result and the outcome of executing it."""

    verdict: Verdict
    result: CompileResult | None = None
    outcome: Outcome | None = None


def entry_types(module: Operation, entry: str) -> FunctionType:
    """The entry's type. Raises UsageError when there is no such function, naming those there are."""
    function = find_function(module, entry)
    if function is None:
        names = [parse_string(n) for b in module.regions[0].blocks for op in b.ops if (n := op.get("sym_name"))]
        raise UsageError(f"no function @{entry}; the module has: {', '.join(f'@{n}' for n in names) or 'none'}")
    type_ = parse_type(function.get("function_type") or "")
    if not isinstance(type_, FunctionType):
        raise UsageError(f"@{entry} ({function.name}) is not a function that can be called")
    return type_


def prepare(program: Program, *, schedule: Schedule = Schedule.LOCK_STEP, mode: Mode = Mode.SOURCE) -> Reference:
    """Read and execute `program`. Raises ReadError or UsageError for text or inputs that make no program."""
    module = read_module(program.text)
    arguments = tuple(make_arguments(entry_types(module, program.entry).inputs, program.inputs))
    outcome = interpret(module, entry=program.entry, arguments=arguments, mode=mode, schedule=schedule)
    return Reference(program=program, module=module, arguments=arguments, outcome=outcome)


def execute(text: str, reference: Reference, *, schedule: Schedule = Schedule.LOCK_STEP) -> Outcome:
    """Execute compiled generic text on the reference's arguments, in intermediate mode.

    Kernels that are device code (`gpu.binary` with PTX) run on the emulator, everything else in the interpreter; the
    outcome's notes then count the launches as `kernels`. Raises ReadError for text that does not read and UsageError
    for device code that is not PTX.
    """
    module = read_module(text)
    entry, arguments = reference.program.entry, reference.arguments
    if any(op.name == "gpu.binary" for op in module.walk()):
        device = EmulatorDevice(schedule=schedule)
        try:
            return run_on_device(module, entry=entry, arguments=arguments, device=device)
        finally:
            device.close()
    return interpret(module, entry=entry, arguments=arguments, mode=Mode.INTERMEDIATE, schedule=schedule)


def judge(
    reference: Reference,
    target: Target,
    pipeline: Pipeline,
    *,
    timeout: float = 20.0,
    schedule: Schedule = Schedule.LOCK_STEP,
) -> Judgement:
    """Compile `reference.program` on `target` with `pipeline` and hold the result, run by `schedule`, against it."""
    if not reference.usable:
        return Judgement(verdict=_reference_verdict(reference, target, pipeline))
    result = target.lower(reference.program.text, pipeline, timeout=timeout)
    if result.artifact is None:
        assert result.failure is not None
        return Judgement(verdict=failure_verdict(result.failure, target.label, pipeline), result=result)
    blank = Verdict(kind=VerdictKind.AGREE, target=target.label, pipeline=pipeline.text)
    try:
        outcome = execute(result.artifact.text, reference, schedule=schedule)
    except UsageError as error:
        message = f"the compiled program does not read: {error}"
        return Judgement(verdict=replace(blank, kind=VerdictKind.UNSUPPORTED, message=message), result=result)
    return Judgement(verdict=outcome_verdict(blank, reference, outcome), result=result, outcome=outcome)


def outcome_verdict(blank: Verdict, reference: Reference, outcome: Outcome) -> Verdict:
    """The verdict on executing a compiled program; `blank` names the target and pipeline."""
    if outcome.kind is OutcomeKind.OK:
        found = compare(reference.outcome, outcome).difference
        if found is None:
            return replace(blank, kind=VerdictKind.AGREE, notes=outcome.notes)
        shape = "undefined" if found.actual == "undefined" else "value"
        signature = Signature(kind=VerdictKind.MISMATCH, detail=(shape,))
        message = (
            f"{found.label}{list(found.index)} is {found.actual}, expected {found.expected} ({found.count} differ)"
        )
        return replace(blank, kind=VerdictKind.MISMATCH, signature=signature, difference=found, message=message)
    fault = outcome.fault
    assert fault is not None
    if outcome.kind in {OutcomeKind.UB, OutcomeKind.RACE}:
        # Undefined behaviour that the compiler introduced: whatever the bytes, the program no longer means the same.
        kind = VerdictKind.DEVICE_FAULT if outcome.notes.get("kernels") else VerdictKind.MISMATCH
        signature = Signature(kind=kind, detail=(fault.rule,))
        message = f"the compiled program is undefined: {fault.message}"
        return replace(blank, kind=kind, signature=signature, fault=fault, message=message, notes=outcome.notes)
    return replace(blank, kind=_REFERENCE_KINDS[outcome.kind], fault=fault, message=f"compiled: {fault.message}")


def failure_verdict(failure: CompileFailure, target: str, pipeline: Pipeline) -> Verdict:
    """The verdict on a compiler that gave no result."""
    blank = Verdict(kind=VerdictKind.AGREE, target=target, pipeline=pipeline.text, failure=failure)
    if failure.kind is FailureKind.BAD_PIPELINE:
        raise UsageError(f"{target} refuses the pipeline: {first_line(failure.diagnostic or failure.stderr)}")
    limit = documented_limit(failure)
    if limit is not None:
        return replace(blank, kind=VerdictKind.LIMIT, message=limit.reason)
    return replace(
        blank, kind=_KINDS[failure.kind], signature=of_failure(failure), message=first_line(failure.diagnostic)
    )


def _reference_verdict(reference: Reference, target: Target, pipeline: Pipeline) -> Verdict:
    fault = reference.outcome.fault
    return Verdict(
        kind=_REFERENCE_KINDS[reference.outcome.kind],
        target=target.label,
        pipeline=pipeline.text,
        fault=fault,
        message="" if fault is None else fault.message,
    )


def first_line(text: str) -> str:
    """The first non-empty line, for one-line messages."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
