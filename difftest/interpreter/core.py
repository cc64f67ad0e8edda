"""The interpreter's core: compiles a function's ops to closures once, then runs them on frames of lanes.

How to write a rule
-------------------
A dialect file (`dialects/<name>.py`, found by listing) exports tables, see `registry`. The general form is

    def _load(op: Operation, context: Context) -> Step | None:
        memref, index = (context.slot(v) for v in op.operands)      # slots are numbered per function
        result = context.slot(op.results[0])
        cell = context.cell(op.results[0].type)                    # raises Stop(unsupported) at compile time
        memory = context.machine.memory

        def run(frame: Frame) -> None:
            v = frame.v
            where = locate(frame, op, v[memref], (v[index],), memory)  # access.py: bounds
            v[result] = memory.load(frame, op, v[memref].base, where, cell)
        return run

Values in `frame.v` are uniform scalars, lane arrays, or `Tagged`/`MemRef`/`Pointer` objects (`values`, `rules`). A rule
that does not know tags passes operands through `sink(frame, op, value, "what")` (poison there is UB) or `plain(value)`.
Anything raised as `unsupported(op, why)` (at compile or run time) ends the run only when the op is executed.
`context.constant(value, data)` makes a result a constant (return None then). `context.body(region)` compiles a region:

* `body.run(frame)` executes it in `frame`; `body.arguments` are the slots to fill before, `body.results` the operand
  slots of its terminator, to read after.
* lanes that differ: `child = frame.subset(index, body.captures)` (ascending parent lanes), run `body` in it, and bring
  results back with `values.merge([(value, index), …], frame.n, dtype)`; `frame.child(index, n, captures)` expands.
* `body.allocates`: a scope for allocas must be opened around each execution: `context.machine.scoped(body, frame)`.
* loops and kernels name their induction variables for fault messages: `context.induction(op, slots)`.
* parallel constructs: `parallel.run_parallel`, `parallel.barrier`; branches in CFGs: `cfg.Branch`.
* calls: `machine.call(function_op, arguments, frame)`; symbols: `machine.symbol(("module", "kernel"))`.

Faults: `raise stop(frame, op, "rule-name", "message", lane=…)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from difftest.interpreter import cfg, elementwise
from difftest.interpreter.cells import Cell, cell_of
from difftest.interpreter.checks import Level
from difftest.interpreter.faults import Stop, inconclusive, unsupported
from difftest.interpreter.frames import Frame, Scope, Step
from difftest.interpreter.memory import Memory
from difftest.interpreter.registry import Rules, all_rules
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.tracing import Tracer
from difftest.interpreter.values import UNDEFINED, dtype_of_text
from difftest.ir.attributes import parse_string
from difftest.ir.lexer import AttributeTextError
from difftest.ir.tree import Block, Operation, Region, Value
from difftest.ir.types import parse_type
from difftest.model import Mode, Schedule

MAXIMUM_DEPTH = 200
ALLOCATING = frozenset({"memref.alloca", "llvm.alloca"})
# Regions of these ops end the allocas made directly in them (SEMANTICS §6); allocas in others go to the scope around.
SCOPES = frozenset(
    {"func.func", "gpu.func", "llvm.func", "gpu.launch", "scf.for", "scf.parallel", "scf.forall", "affine.for",
     "affine.parallel", "memref.alloca_scope", "enzymexla.gpu_wrapper", "enzymexla.scope"}
)  # fmt: skip


class Body:
    """A compiled region. See the module's docstring."""

    __slots__ = ("allocates", "arguments", "captures", "region", "results", "run")

    def __init__(self, region: Region) -> None:
        self.region = region
        self.arguments: tuple[int, ...] = ()
        self.results: tuple[int, ...] = ()
        self.captures: tuple[int, ...] = ()
        self.allocates = False
        self.run: Step = _nothing


def _nothing(frame: Frame) -> None:
    del frame


class Code:
    """A compiled function: its body, the slots with constants filled in, and the induction variables by op."""

    __slots__ = ("body", "induction", "template")

    def __init__(self) -> None:
        self.template: list[Any] = []
        self.induction: dict[Operation, list[int]] = {}
        self.body: Body | None = None


class Context:
    """Compiles one function."""

    def __init__(self, machine: Machine, code: Code) -> None:
        self.machine = machine
        self.code = code
        self.rules = machine.rules
        self.dtypes: list[Any] = []
        self._slots: dict[Value, int] = {}
        self._constants: set[int] = set()
        self.used: set[int] = set()
        self.defined: set[int] = set()
        self._allocates = False

    def slot(self, value: Value) -> int:
        """The slot of an SSA value."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = len(self.dtypes)
            self.dtypes.append(dtype_of_text(value.type))
            self.code.template.append(UNDEFINED)
        return found

    def fresh(self, dtype: Any) -> int:
        """A slot that belongs to no SSA value."""
        self.dtypes.append(dtype)
        self.code.template.append(UNDEFINED)
        return len(self.dtypes) - 1

    def constant(self, value: Value, data: Any) -> None:
        """Make an SSA value a constant: it is in every frame from the start."""
        slot = self.slot(value)
        self.code.template[slot] = data
        self._constants.add(slot)

    def cell(self, text: str) -> Cell:
        """The cell of an element type's text; unsupported when memory cannot hold it."""
        found = cell_of(parse_type(text))
        if found is None:
            raise NoRuleError(f"memory of type {text}")
        return found

    def induction(self, op: Operation, slots: Sequence[int]) -> None:
        """Name the induction variables of `op`, for the iteration vectors of faults."""
        self.code.induction[op] = list(slots)

    def op(self, op: Operation) -> Step | None:
        """Compile one op; an op without a rule becomes a step that ends the run as unsupported."""
        if op.operands:
            self.used.update([self.slot(v) for v in op.operands])
        if op.results:
            self.defined.update([self.slot(v) for v in op.results])
        if op.name in ALLOCATING:
            self._allocates = True
        try:
            step = self._compile(op)
            tracer = self.machine.tracer
            return step if step is None or tracer is None else tracer.wrap(op, step, self)
        except (NoRuleError, AttributeTextError, NotImplementedError) as error:
            return refuse(op, unsupported(op, str(error)))
        except Stop as error:
            return refuse(op, error)

    def _compile(self, op: Operation) -> Step | None:
        factory = self.rules.elementwise.get(op.name)
        if factory is not None:
            if op.name in elementwise.SELECTS and self.dtypes[self.slot(op.results[0])] is None:
                return elementwise.select_object(op, self)
            rule = elementwise.cached_rule(factory, op)
            if not op.operands and rule.poison is None and rule.undefined is None:
                self.constant(op.results[0], rule.compute())
                return None
            return elementwise.wrap(rule, op, self)
        compile_op = self.rules.rules.get(op.name)
        if compile_op is None:
            raise unsupported(op)
        return compile_op(op, self)

    def body(self, region: Region) -> Body:
        """Compile a region of one or more blocks (a region without blocks does nothing)."""
        body = Body(region)
        outer = self.used, self.defined, self._allocates
        self.used, self.defined, self._allocates = set(), set(), False
        if len(region.blocks) == 1:
            block = region.blocks[0]
            body.run = self.block(block)
            body.arguments = tuple(self.slot(a) for a in block.arguments)
            body.results = tuple(self.slot(v) for v in block.ops[-1].operands) if block.ops else ()
            self.defined.update(body.arguments)
        elif region.blocks:
            cfg.compile_region(region, body, self)
        body.captures = tuple(sorted(self.used - self.defined - self._constants))
        used, allocates = self.used - self.defined, self._allocates
        self.used, self.defined, self._allocates = outer
        self.used |= used
        body.allocates = allocates
        if region.parent.name not in SCOPES:
            self._allocates = self._allocates or allocates
        return body

    def block(self, block: Block) -> Step:
        """The ops of a block, terminator included, as one step that also burns fuel."""
        steps = tuple([s for s in map(self.op, block.ops) if s is not None])
        return self.sequence(steps, len(block.ops))

    def sequence(self, steps: tuple[Step, ...], cost: int) -> Step:
        """Steps run one after the other, for `cost` units of fuel per `LANES_PER_FUEL` lanes."""
        machine = self.machine

        def run(frame: Frame) -> None:
            machine.fuel -= cost * frame.weight
            if machine.fuel < 0:
                raise inconclusive(None, "fuel", "the program runs longer than its fuel allows")
            for step in steps:
                step(frame)

        return run


def refuse(op: Operation, error: Stop) -> Step:
    """A step that ends the run."""
    kind, fault = error.kind, error.fault

    def run(frame: Frame) -> None:
        del frame
        raise Stop(kind, fault)

    del op
    return run


class Machine:
    """One run: the module, its memory, the schedule, and what is left of its fuel.

    `launch` is a callable for kernel launches (`interpreter.binaries`); `tape` a derivative's tape while one is
    recorded (`elementwise.ElementwiseTape`, `memory.MemoryTape`; assign `memory.tape` too). `host` is the level of host
    code, set by a dialect's `SETUP` when host accesses must be watched (asynchronous operations).
    """

    def __init__(
        self,
        module: Operation,
        *,
        mode: Mode,
        schedule: Schedule,
        seed: int,
        fuel: int,
        memory: int,
        launch: Callable[..., Any] | None,
        tracer: Tracer | None = None,
    ) -> None:
        self.module = module
        self.tracer = tracer
        self.source = mode is Mode.SOURCE
        self.schedule = schedule
        self.seed = seed
        self._random: np.random.Generator | None = None
        self.fuel = fuel
        self.notes: dict[str, int] = {}
        self.memory = Memory(source=self.source, budget=memory, notes=self.notes)
        self.launch = launch
        self.tape: Any = None
        self.rules: Rules = all_rules()
        self.depth = 0
        self.globals: dict[Operation, Any] = {}
        self.kernels: dict[Operation, Any] = {}
        self._used: set[Value] | None = None
        self._codes: dict[Operation, Code] = {}
        self._symbols: dict[Operation, dict[str, Operation]] = {}
        self.host: Level | None = None
        for setup in self.rules.setups:
            setup(self)

    @property
    def random(self) -> np.random.Generator:
        """The source of all random choices of this run."""
        if self._random is None:
            self._random = np.random.default_rng(self.seed)
        return self._random

    def symbol(self, path: Sequence[str], root: Operation | None = None) -> Operation | None:
        """The op that a (nested) symbol names, looked up from `root` (default: the module)."""
        at: Operation | None = self.module if root is None else root
        for name in path:
            if at is None:
                return None
            at = self._table(at).get(name)
        return at

    def _table(self, op: Operation) -> dict[str, Operation]:
        found = self._symbols.get(op)
        if found is None:
            found = self._symbols[op] = {}
            for region in op.regions:
                for inner in (o for block in region.blocks for o in block.ops):
                    name = inner.get("sym_name")
                    if name is not None:
                        found[parse_string(name)] = inner
        return found

    def used_values(self) -> set[Value]:
        """Every SSA value that some op of the module uses."""
        if self._used is None:
            self._used = {v for op in self.module.walk() for v in op.operands}
        return self._used

    def code(self, function: Operation) -> Code:
        """The compiled form of a function-like op (its first region)."""
        found = self._codes.get(function)
        if found is None:
            found = self._codes[function] = Code()
            found.body = Context(self, found).body(function.regions[0])
        return found

    def frame(self, code: Code, n: int, around: Frame | None) -> Frame:
        """A frame for `code`, with the lanes and the level of the frame around it."""
        if around is None:
            return Frame(n=n, template=code.template, ivs=code.induction, level=self.host)
        return Frame(n=n, template=code.template, ivs=code.induction, level=around.level, lanes=around.lanes)

    def call(self, function: Operation, arguments: Sequence[Any], around: Frame | None, op: Operation) -> list[Any]:
        """Call a function with a body; results are those of its return."""
        code = self.code(function)
        body = code.body
        if body is None or self.depth >= MAXIMUM_DEPTH:
            raise inconclusive(op, "recursion", f"calls nest deeper than {MAXIMUM_DEPTH}")
        frame = self.frame(code, 1 if around is None else around.n, around)
        for slot, value in zip(body.arguments, arguments, strict=True):
            frame.v[slot] = value
        self.depth += 1
        body.run(frame)
        self.depth -= 1
        results = [frame.v[s] for s in body.results]
        self.end(frame.scope)
        return results

    def scoped(self, body: Body, frame: Frame) -> None:
        """Run a body in an allocation scope of its own."""
        if not body.allocates:
            body.run(frame)
            return
        outer, frame.scope = frame.scope, Scope()
        body.run(frame)
        self.end(frame.scope)
        frame.scope = outer

    def end(self, scope: Scope) -> None:
        """End the allocations of a scope, last first."""
        while scope.bases:
            self.memory.release(scope.bases.pop())
