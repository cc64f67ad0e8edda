"""Two rewrites that ask what a schedule could be: allocations hoisted in the source, and tokens only where needed."""

from __future__ import annotations

from difftest.ir.attributes import parse_int_array
from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.tree import Block, Operation, Value, find_function
from difftest.triage.launches import Watched
from difftest.triage.schedule import required

TOKEN = "!gpu.async.token"


def hoist_allocations(text: str, entry: str) -> str | None:
    """`text` with the entry's allocations of fixed size moved to its start, in order; None when they are there."""
    module = read_module(text)
    function = find_function(module, entry)
    if function is None or not function.regions or len(function.regions[0].blocks) != 1:
        return None
    block = function.regions[0].blocks[0]
    return print_module(module) if _hoist(block) else None


def _hoist(block: Block) -> bool:
    made = [op for op in block.ops if op.name == "memref.alloc" and not op.operands]
    order = [*made, *(op for op in block.ops if op not in made)]
    changed = any(a is not b for a, b in zip(order, block.ops, strict=True))
    block.ops[:] = order
    return changed


def concurrent_form(watched: Watched) -> str | None:
    """The watched module with allocations first and each launch after exactly those launches that it has to follow.

    None when the host does more than launch kernels from one block, each once, and wait: then waits may be needed.
    """
    found = watched.operations
    if not found or watched.dropped or any(o.op.name != "gpu.launch_func" or o.held for o in found):
        return None
    block = found[0].op.parent
    if block is None or len({id(o.op) for o in found}) != len(found) or any(o.op.parent is not block for o in found):
        return None
    needs = required(found)
    direct = [needs[i].difference(*(needs[j] for j in needs[i])) for i in range(len(found))]
    waits = [op for op in block.ops if op.name == "gpu.wait"]
    block.ops[:] = [op for op in block.ops if op not in waits]
    _hoist(block)
    ends: list[Value] = []
    for operation, earlier in zip(found, direct, strict=True):
        op = operation.op
        tokens = [ends[j] for j in sorted(earlier)]
        if not tokens:
            ready = Operation("gpu.wait", result_types=[TOKEN])
            _insert(block, block.ops.index(op), ready)
            tokens = ready.results
        ends.append(_set_tokens(op, tokens))
    last = Operation("gpu.wait", operands=ends)
    _insert(block, len(block.ops) - 1, last)
    return print_module(_root(block.parent.parent))


def _set_tokens(op: Operation, tokens: list[Value]) -> Value:
    """Make a launch asynchronous and dependent on `tokens`; its own token."""
    op.operands = [*tokens, *(v for v in op.operands if v.type != TOKEN)]
    sizes = parse_int_array(op.get("operandSegmentSizes") or "array<i32>")
    place = op.properties if "operandSegmentSizes" in op.properties else op.attributes
    place["operandSegmentSizes"] = f"array<i32: {', '.join(map(str, (len(tokens), *sizes[1:])))}>"
    if not op.results:
        op.results.append(Value(TOKEN, op, 0))
    return op.results[0]


def _insert(block: Block, index: int, op: Operation) -> None:
    block.append(op)
    block.ops.insert(index, block.ops.pop())


def _root(op: Operation) -> Operation:
    while op.parent_op is not None:
        op = op.parent_op
    return op
