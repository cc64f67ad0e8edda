"""Instructions -> closures over a wave's registers, once per kernel.

Each register keeps one dtype for the whole function: the float one when it is mostly used as a float, else the signed
integer. A result is merged with the old value under a mask only where that can be seen: not for a register that is
written and read in one basic block alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from difftest.devices.emulator.cfg import ENDING, MEETING, Block, build_blocks, family, is_local_call
from difftest.devices.emulator.closures import FULL, MASKED, guarded, in_order, nothing, refusing, with_casts
from difftest.devices.emulator.rules import DTYPES, Build, NoRuleError, Pure, Step, Steps, rule_of
from difftest.devices.emulator.syntax import (
    WIDTHS,
    Function,
    Immediate,
    Instruction,
    Operand,
    Pair,
    PtxError,
    Register,
    Sink,
    Symbol,
)
from difftest.devices.emulator.uses import expected_by_swaps, read, written

_INT = {16: np.dtype("i2"), 32: np.dtype("i4"), 64: np.dtype("i8"), 8: np.dtype("i1"), 1: np.dtype("?")}
_BOOL = _INT[1]
_FLOAT = {16: np.dtype("f2"), 32: np.dtype("f4"), 64: np.dtype("f8")}
_ZEROS: dict[Any, Any] = {dtype: np.zeros(1, dtype) for dtype in (*_INT.values(), *_FLOAT.values())}
PARAMETER_GAP = 16
SPECIAL = frozenset(
    {f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"}
    | {"%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid", "%clock", "%clock64", "%globaltimer"}
    | {f"%lanemask_{name}" for name in ("eq", "le", "lt", "ge", "gt")}
    | {"%dynamic_smem_size", "%total_smem_size", "%WARP_SZ"}
)


@dataclass(slots=True, kw_only=True)
class CodeBlock:
    """A compiled basic block: its steps without and with a mask, then how it ends."""

    full: tuple[Step, ...]
    masked: tuple[Step, ...]
    last: Instruction | None
    ending: str
    successors: list[int]
    meeting: int
    cost: int
    guard: tuple[int, bool] | None = None
    meet: Any = None
    barrier: tuple[int, int, str] | None = None
    callee: str = ""
    selector: int = -1


@dataclass(slots=True, kw_only=True)
class Code:
    """A compiled function. `template` holds the first contents of all registers, `specials` those to fill in."""

    function: Function
    blocks: list[CodeBlock] = field(default_factory=list[CodeBlock])
    template: list[Any] = field(default_factory=list[Any])
    specials: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    granule: int = 2
    parameters: dict[str, int] = field(default_factory=dict[str, int])
    parameters_addressed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What symbols of a module mean: addresses of .global and .const, offsets of .shared and .local, functions."""

    addresses: dict[str, int]
    offsets: dict[str, int]
    spaces: dict[str, str]
    functions: dict[str, Function]

    @property
    def local_functions(self) -> frozenset[str]:
        """Functions with a body."""
        return frozenset(name for name, f in self.functions.items() if f.body is not None)


class Compiler:
    """Compiles one function."""

    def __init__(self, function: Function, names: Names) -> None:
        self.function = function
        self.names = names
        self.code = Code(function=function)
        self._slots: dict[str, int] = {}
        self._constants: dict[tuple[int, Any], int] = {}
        self.dtypes: list[Any] = []
        self._votes: dict[str, int] = {}
        self._local: set[str] = set()
        self._types: dict[str, str] = {}
        self.expected: frozenset[str] = frozenset()
        at = 0
        for parameter in function.parameters if function.entry else ():
            at = -(-at // max(parameter.align, 1)) * max(parameter.align, 1)
            self.code.parameters[parameter.name] = at
            at += parameter.size + PARAMETER_GAP

    # --- registers ------------------------------------------------------------------------------------------------

    def type_of(self, name: str, line: int) -> str:
        """The declared type of a register."""
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = self._declared(name, line)
        return found

    def _declared(self, name: str, line: int) -> str:
        found = self.function.registers.get(name)
        if found is not None:
            return found
        if name in SPECIAL:
            return "b64" if name in {"%clock64", "%globaltimer"} else "b32"
        prefix = name.rstrip("0123456789")
        kind = self.function.families.get(prefix)
        number = name[len(prefix) :]
        if kind is None or not number or int(number[:9]) >= kind[1]:
            raise PtxError(f"register {name} is not declared", line=line)
        return kind[0]

    def width(self, register: Register, line: int) -> int:
        """Bits of a register."""
        return WIDTHS[self.type_of(register.name, line)]

    def slot(self, register: Register, line: int) -> int:
        """The slot of a register."""
        name = register.name
        found = self._slots.get(name)
        if found is None:
            width = self.width(register, line)
            if width not in _INT:
                raise NoRuleError(f"registers of {width} bits")
            is_float = self._votes.get(name, 0) > 0 and width in _FLOAT
            dtype = (_FLOAT if is_float else _INT)[width]
            found = self._slots[name] = self._new(dtype, _ZEROS[dtype])
            if name in SPECIAL:
                self.code.specials.append((found, name))
        return found

    def _new(self, dtype: Any, value: Any) -> int:
        self.dtypes.append(dtype)
        self.code.template.append(value)
        return len(self.dtypes) - 1

    def constant(self, value: int, dtype: Any) -> int:
        """A slot with given bits."""
        key = (value, dtype)
        found = self._constants.get(key)
        if found is None:
            data = (value & ((1 << 8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
            found = self._constants[key] = self._new(dtype, np.frombuffer(data, dtype))
        return found

    def symbol(self, symbol: Symbol, line: int) -> int:
        """The number that a variable's name stands for."""
        names = self.names
        for table in (names.addresses, names.offsets):
            if symbol.name in table:
                return table[symbol.name] + symbol.offset
        if symbol.name in self.code.parameters:
            self.code.parameters_addressed = True
            return self.code.parameters[symbol.name] + symbol.offset
        if symbol.name == "WARP_SZ":
            return 32
        raise PtxError(f"unknown name {symbol.name}", line=line)

    def is_local(self, operand: Operand) -> bool:
        """Whether a destination needs no merging under a mask."""
        return isinstance(operand, Register) and operand.name in self._local

    def source(self, operand: Operand, kind: str, line: int) -> tuple[int, Any, Any]:
        """(slot, cast, dtype) of an operand read as a type: cast is None, "view" or "narrow", to dtype."""
        dtype = DTYPES[kind]
        if isinstance(operand, Register):
            if operand.negated:
                raise NoRuleError("a negated operand")
            slot = self.slot(operand, line)
            have = self.dtypes[slot]
            if have == dtype:
                return slot, None, dtype
            if have.itemsize == dtype.itemsize and (have == _BOOL) == (dtype == _BOOL):
                return slot, "view", dtype
            if have.itemsize > dtype.itemsize and dtype != _BOOL:
                return slot, "narrow", dtype
            raise NoRuleError(f"register {operand.name} as {kind}")
        return self._constant_source(operand, kind, line), None, dtype

    def _constant_source(self, operand: Operand, kind: str, line: int) -> int:
        dtype = DTYPES[kind]
        if isinstance(operand, Symbol):
            return self.constant(self.symbol(operand, line), dtype)
        if not isinstance(operand, Immediate):
            raise NoRuleError("operand")
        if dtype == _BOOL:
            return self.constant(int(operand.value != 0), dtype)
        if operand.kind == "i":
            # "Integer constants are used as they are": in a float instruction they are bits.
            return self.constant(operand.value, dtype)
        real = np.dtype("f4" if operand.kind == "f" else "f8")
        value = np.frombuffer(operand.value.to_bytes(real.itemsize, "little"), real)
        if dtype.kind == "f" and dtype != real:
            return self.constant(int.from_bytes(value.astype(dtype).tobytes(), "little"), dtype)
        return self.constant(operand.value, dtype)

    # --- the function ---------------------------------------------------------------------------------------------

    def compile(self) -> Code:
        """Compile everything. Raises PtxError for undeclared registers and unknown labels."""
        body = self.function.body or []
        blocks = build_blocks(self.function, self.names.local_functions)
        rules = [rule_of(i.opcode) for i in body]
        self._choose_types(body, rules)
        self.expected = expected_by_swaps(body)
        self._find_local(body, blocks)
        self.code.blocks = [self._block(block, body, rules) for block in blocks]
        return self.code

    def _choose_types(self, body: list[Instruction], rules: list[Any]) -> None:
        votes = self._votes
        for instruction, rule in zip(body, rules, strict=True):
            if rule.__class__ is Pure:
                types = (rule.result, *rule.sources)
            elif rule.__class__ is Build:
                types = rule.types
            else:
                continue
            for operand, kind in zip(instruction.operands, types, strict=False):
                if isinstance(operand, Register):
                    weight = 2 if kind[0] == "f" and kind != "f16x2" else 0 if kind[0] == "b" else -2
                    votes[operand.name] = votes.get(operand.name, 0) + weight

    def _find_local(self, body: list[Instruction], blocks: list[Block]) -> None:
        """Registers whose every occurrence is in one block, with a plain write first."""
        home: dict[str, int] = {}
        for block in blocks:
            for instruction in body[block.start : block.end]:
                writes = written(instruction)
                for name in read(instruction, writes):
                    home[name] = block.number if home.get(name) == block.number else -1
                for name in writes:
                    known = home.get(name)
                    home[name] = block.number if known in {None, block.number} and instruction.guard is None else -1
        self._local = {name for name, number in home.items() if number >= 0}

    def _block(self, block: Block, body: list[Instruction], rules: list[Any]) -> CodeBlock:
        instructions = body[block.start : block.end]
        last = block.last
        ending = "" if last is None else family(last)
        if last is not None and (ending in ENDING or is_local_call(last, self.names.local_functions)):
            instructions = instructions[:-1]
        elif last is not None and ending in MEETING:
            instructions = instructions[:-1]
            ending = "meet"
        steps = [
            self.instruction(i, rules[block.start + at])
            for at, i in enumerate(instructions)
            if i.opcode not in {"pragma", "nop"}
        ]
        found = CodeBlock(
            full=tuple(s[0] for s in steps),
            masked=tuple(s[1] for s in steps),
            last=last,
            ending=ending,
            successors=block.successors,
            meeting=block.meeting,
            cost=block.end - block.start,
        )
        if last is not None:
            self._end(found, last, rules[block.end - 1])
        return found

    def _end(self, found: CodeBlock, last: Instruction, rule: Any) -> None:
        if last.guard is not None:
            found.guard = self.slot(Register(last.guard.name), last.line), last.guard.negated
        if found.ending == "meet":
            # The steps of a meeting point run when its lanes have met; a guard leaves the others out.
            found.meet = self.instruction(Instruction(last.opcode, last.operands, None, last.line), rule)
            found.barrier = self._barrier(last)
        elif found.ending == "call":
            found.callee = next(
                o.name for o in last.operands[:2] if isinstance(o, Symbol) and o.name in self.names.local_functions
            )
        elif found.ending == "brx":
            selector = last.operands[0] if last.operands else None
            if not isinstance(selector, Register):
                raise PtxError("brx.idx needs an index register", line=last.line)
            found.selector = self.slot(selector, last.line)

    def _barrier(self, last: Instruction) -> tuple[int, int, str] | None:
        """Slots of a barrier's name and count (-1: all threads of the block), and its kind; None for other meetings."""
        if family(last) not in {"bar", "barrier"} or ".warp." in last.opcode:
            return None
        kind = next((p for p in last.opcode.split(".") if p in {"sync", "arrive", "red"}), "")
        operands = last.operands[1:-1] if kind == "red" else last.operands
        if not kind or not operands:
            return None
        try:
            slots = [self.source(o, "u32", last.line)[0] for o in operands[:2]]
        except NoRuleError:
            return None
        return slots[0], slots[1] if len(slots) > 1 else -1, kind

    def instruction(self, instruction: Instruction, rule: Any) -> Steps:
        """The steps of one instruction; one without a rule ends the run as unsupported when it is reached."""
        try:
            if rule.__class__ is Pure:
                steps = self._pure(instruction, rule)
            elif rule.__class__ is Build:
                steps = rule.make(self, instruction)
            else:
                raise NoRuleError(str(rule))
        except NoRuleError as error:
            return refusing(instruction, str(error))
        if instruction.guard is not None:
            slot = self.slot(Register(instruction.guard.name), instruction.line)
            step = guarded(steps, slot, negated=instruction.guard.negated)
            return step, step
        return steps

    def _pure(self, instruction: Instruction, rule: Pure) -> Steps:
        operands, line = instruction.operands, instruction.line
        if len(operands) != len(rule.sources) + 1:
            raise NoRuleError(f"{instruction.opcode} with {len(operands)} operands")
        sources = [self.source(o, k, line) for o, k in zip(operands[1:], rule.sources, strict=True)]
        target = operands[0]
        if isinstance(target, Pair):
            if rule.second is None:
                raise NoRuleError(f"{instruction.opcode} with two results")
            steps = [
                self._assign(target.first, rule.compute, sources, rule.result, line),
                self._assign(target.second, rule.second, sources, rule.result, line),
            ]
            return in_order([s[0] for s in steps]), in_order([s[1] for s in steps])
        return self._assign(target, rule.compute, sources, rule.result, line)

    def _assign(self, target: Operand, compute: Any, sources: list[Any], kind: str, line: int) -> Steps:
        if isinstance(target, Sink):
            return nothing, nothing
        if not isinstance(target, Register):
            raise NoRuleError("destination")
        slot = self.slot(target, line)
        compute = with_casts(compute, sources, self.result_cast(slot, kind))
        slots = [s[0] for s in sources]
        if self.is_local(target):
            step = FULL[len(slots)](compute, slot, slots)
            return step, step
        return FULL[len(slots)](compute, slot, slots), MASKED[len(slots)](compute, slot, slots)

    def result_cast(self, slot: int, kind: str) -> Any:
        """What turns a value of a type into what a slot holds: None, or ("view" | "widen", dtype)."""
        have, want = DTYPES[kind], self.dtypes[slot]
        if have == want:
            return None
        if have.itemsize == want.itemsize and (have == _BOOL) == (want == _BOOL):
            return "view", want
        if have.itemsize < want.itemsize and have != _BOOL and have.kind in "iu":
            return "widen", _INT[8 * want.itemsize], want
        raise NoRuleError(f"a result of type {kind} in a register of {8 * want.itemsize} bits")
