"""Hosts as compilers lower them: runtime calls, and launches that leave the interpreter (SEMANTICS §7, "
"PIPELINES §2)."""

import numpy as np
import pytest

from difftest.interpreter import interpret
from difftest.interpreter.faults import stop
from difftest.ir.reader import read_module
from difftest.model import OutcomeKind

P = "!llvm.ptr"
CALL = "op_bundle_sizes = array<i32>, operandSegmentSizes = array<i32: {0}, 0>"


def call(name, operands, types, results=""):
    left = f"%{results.split(':')[0]} = " if results else ""
    kind = results.split(":")[1] if results else ""
    count = len([o for o in operands.split(",") if o.strip()])
    return f'{left}"llvm.call"({operands}) <{{callee = @{name}, {CALL.format(count)}}}> : ({types}) -> ({kind})\n'


def declare(name):
    return f'"llvm.func"() <{{function_type = !llvm.func<void ()>, sym_name = "{name}"}}> ({{\n}}) : () -> ()\n'


NAMES = (
    "cudaMalloc", "cudaFree", "cudaMemcpy", "cudaMemset", "cudaLaunchKernel", "cudaDeviceSynchronize", "mgpuMemAlloc",
    "mgpuMemFree", "mgpuMemcpy", "mgpuMemset32", "mgpuStreamCreate", "mgpuStreamSynchronize", "mgpuStreamDestroy",
    "aligned_alloc", "free", "nobody",
)  # fmt: skip


def constant(name, value, kind="i64"):
    return f'%{name} = "llvm.mlir.constant"() <{{value = {value} : {kind}}}> : () -> {kind}\n'


def module(body, more=""):
    """`@k(%a, %n)` over the pointer to 4 i32 and a number."""
    return f"""
"builtin.module"() ({{
{"".join(declare(n) for n in NAMES)}
{more}
"func.func"() <{{function_type = (memref<4xi32>, i64) -> (), sym_name = "k"}}> ({{
^bb0(%a: memref<4xi32>, %n: i64):
{constant("c0", 0)}{constant("c1", 1)}{constant("c16", 16)}{constant("w0", 0, "i32")}{constant("w1", 1, "i32")}
{constant("w9", 9, "i32")}%null = "llvm.mlir.zero"() : () -> {P}
%p = "enzymexla.memref2pointer"(%a) : (memref<4xi32>) -> {P}
{body}
"func.return"() : () -> ()
}}) : () -> ()
}}) {{gpu.container_module}} : () -> ()
"""


def run(body, *, more="", n=3, **options):
    data = np.array([1, 2, 3, 4], np.int32)
    return interpret(read_module(module(body, more)), entry="k", arguments=[data, n], **options)


def data(body, **options):
    outcome = run(body, **options)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    return outcome.observed[0].data.tolist()


SLOT = f'%s = "llvm.alloca"(%c1) <{{elem_type = {P}}}> : (i64) -> {P}\n'
GET = f'%d = "llvm.load"(%s) : ({P}) -> {P}\n'
MALLOC = SLOT + call("cudaMalloc", "%s, %c16", f"{P}, i64", "r:i32") + GET
BACK = call("cudaMemcpy", "%p, %d, %c16, %w0", f"{P}, {P}, i64, i32", "m:i32")
FREE = call("cudaFree", "%d", P, "f:i32")


def test_cuda_memory_goes_there_and_back():
    there = call("cudaMemset", "%d, %w9, %c16", f"{P}, i32, i64", "e:i32")
    wait = call("cudaDeviceSynchronize", "", "", "y:i32")
    assert data(MALLOC + there + wait + BACK + FREE) == [0x09090909] * 4


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (MALLOC + BACK, "uninitialised-read"),
        (MALLOC + FREE + FREE.replace("%f", "%g"), "double-free"),
        (MALLOC.replace("%c16", "%n") + BACK, "out-of-bounds"),
        (call("cudaFree", "%p", P, "f:i32"), "bad-free"),
        (call("mgpuMemAlloc", "%m, %null, %c1", f"i64, {P}, i64", f"d:{P}").replace("%m", "%low"), "negative-size"),
    ],
)
def test_misused_runtime_memory_is_undefined(body, rule):
    found = run(constant("low", -4) + body)
    assert (found.kind, found.fault.rule) == (OutcomeKind.UB, rule)


def test_mgpu_calls_of_upstream_hosts():
    body = call("mgpuStreamCreate", "", "", f"t:{P}")
    body += call("mgpuMemAlloc", "%c16, %t, %c0", f"i64, {P}, i64", f"d:{P}")
    body += call("mgpuMemset32", "%d, %w9, %n, %t", f"{P}, i32, i64, {P}")
    body += constant("c12", 12) + call("mgpuMemcpy", "%p, %d, %c12, %t", f"{P}, {P}, i64, {P}")
    body += call("mgpuStreamSynchronize", "%t", P) + call("mgpuMemFree", "%d, %t", f"{P}, {P}")
    assert data(body + call("mgpuStreamDestroy", "%t", P)) == [9, 9, 9, 4]


def test_aligned_memory_of_the_c_library():
    body = call("aligned_alloc", "%c16, %c16", "i64, i64", f"d:{P}") + f'"llvm.store"(%w9, %d) : (i32, {P}) -> ()\n'
    body += f'%v = "llvm.load"(%d) : ({P}) -> i32\n"llvm.store"(%v, %p) : (i32, {P}) -> ()\n'
    assert data(body + call("free", "%d", P)) == [9, 2, 3, 4]


def test_a_function_nobody_knows_is_unsupported():
    found = run(call("nobody", "", "", ""))
    assert (found.kind, found.fault.rule) == (OutcomeKind.UNSUPPORTED, "unsupported-op")


# --- launches -------------------------------------------------------------------------------------------------


class Device:
    """Adds 10 to the first `grid * block` elements behind the first argument."""

    def __init__(self):
        self.calls = []

    def __call__(self, *given):
        memory, op, _, values, sizes, _ = given
        self.calls.append(given[2:])
        first = values[0].address // 4
        count = int(np.prod([int(s) for s in sizes]))
        if count > 4:
            raise stop(None, op, "out-of-bounds", "past the end")
        memory.views[3][first : first + count] += 10


BINARY = '"gpu.binary"() <{objects = [], sym_name = "m"}> : () -> ()\n'
SIZES = '%i1 = "arith.constant"() <{value = 1 : index}> : () -> index\n'
SIZES += '%in = "arith.index_cast"(%n) : (i64) -> index\n'
LAUNCH = SIZES + (
    '"gpu.launch_func"(%in, %i1, %i1, %i1, %i1, %i1, %a, %w9) <{kernel = @m::@add, operandSegmentSizes = '
    "array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0>}> : (index, index, index, index, index, index, "
    "memref<4xi32>, i32) -> ()\n"
)


def test_a_compiled_kernel_goes_to_the_device():
    device = Device()
    assert data(LAUNCH, more=BINARY, launch=device) == [11, 12, 13, 4]
    ((path, values, sizes, shared),) = device.calls
    assert path == ("m", "add") and shared == 0
    assert sizes == [3, 1, 1, 1, 1, 1]
    assert values[0].sizes == (4,) and values[1] == 9


def test_a_stream_after_the_operands_changes_nothing():
    stream = (
        LAUNCH.replace("2, 0>}", "2, 1>}").replace("%a, %w9)", "%a, %w9, %null)").replace("i32) ->", f"i32, {P}) ->")
    )
    assert data(stream, more=BINARY, launch=Device()) == [11, 12, 13, 4]


def test_without_a_device_a_compiled_kernel_is_unsupported():
    found = run(LAUNCH, more=BINARY)
    assert found.kind is OutcomeKind.UNSUPPORTED
    assert "m::add is compiled" in found.fault.message


def test_faults_and_empty_launches_of_the_device():
    found = run(LAUNCH, more=BINARY, launch=Device(), n=5)
    assert (found.kind, found.fault.rule, found.fault.op) == (OutcomeKind.UB, "out-of-bounds", "gpu.launch_func")
    device = Device()
    empty = run(LAUNCH, more=BINARY, launch=device, n=0)
    assert empty.kind is OutcomeKind.OK and empty.notes == {"zero-launch": 1} and not device.calls


def stubbed(numbers):
    """cudaLaunchKernel of @m's kernel `add` with the pointer and, stored in objects of their own, some numbers."""
    body = f'%f = "llvm.mlir.addressof"() <{{global_name = @__polygeist_m_add_device_stub}}> : () -> {P}\n'
    body += constant("count", 1 + len(numbers), "i32")
    body += f'%q = "llvm.alloca"(%c1) <{{elem_type = {P}}}> : (i64) -> {P}\n"llvm.store"(%p, %q) : ({P}, {P}) -> ()\n'
    body += (
        f'%v = "llvm.alloca"(%count) <{{elem_type = {P}}}> : (i32) -> {P}\n"llvm.store"(%q, %v) : ({P}, {P}) -> ()\n'
    )
    for i, (value, kind) in enumerate(numbers):
        index = f"rawConstantIndices = array<i32: {i + 1}>"
        body += constant(f"n{i}", value, kind)
        body += f'%s{i} = "llvm.alloca"(%c1) <{{elem_type = {kind}}}> : (i64) -> {P}\n'
        body += f'"llvm.store"(%n{i}, %s{i}) : ({kind}, {P}) -> ()\n'
        body += f'%z{i} = "llvm.getelementptr"(%v) <{{elem_type = {P}, {index}}}> : ({P}) -> {P}\n'
        body += f'"llvm.store"(%s{i}, %z{i}) : ({P}, {P}) -> ()\n'
    body += constant("y", 1 << 32 | 1) + constant("g", 1 << 32 | 3)
    types = f"{P}, i64, i32, i64, i32, {P}, i64, {P}"
    return body + call("cudaLaunchKernel", "%f, %g, %w1, %y, %w1, %v, %c16, %null", types, "r:i32")


STUB = """"llvm.func"() <{function_type = !llvm.func<void ()>, sym_name = "__polygeist_m_add_device_stub"}> ({
"llvm.return"() : () -> ()
}) : () -> ()
"""


def test_cuda_launches_name_their_stub_and_point_to_their_arguments():
    device = Device()
    body = stubbed([(7, "i32"), ("2.0 ", "f64"), ("1.5 ", "f32")])
    assert data(body, more=BINARY + STUB, launch=device) == [11, 12, 13, 4]
    ((path, values, sizes, shared),) = device.calls
    assert (path, sizes, shared) == (("m", "add"), [3, 1, 1, 1, 1, 1], 16)
    bits = [np.float64(2).view(np.int64), np.float32(1.5).view(np.int32)]
    assert [int(v) for v in values[1:]] == [7, *(int(b) for b in bits)]


def test_cuda_launches_without_a_known_kernel_are_unsupported():
    body = stubbed([])
    assert run(body, more=STUB, launch=Device()).kind is OutcomeKind.UNSUPPORTED
    lost = body.replace(
        '"llvm.mlir.addressof"() <{global_name = @__polygeist_m_add_device_stub}>', '"llvm.mlir.zero"()'
    )
    assert run(lost, more=BINARY + STUB, launch=Device()).kind is OutcomeKind.UNSUPPORTED
    wide = stubbed([("dense<0> ", "vector<4xi32>")])
    assert run(wide, more=BINARY + STUB, launch=Device()).kind is OutcomeKind.UNSUPPORTED


# --- globals --------------------------------------------------------------------------------------------------

COMPUTED = """
"llvm.mlir.global"() <{global_type = i32, linkage = #llvm.linkage<internal>, sym_name = "g"}> ({
%one = "llvm.mlir.constant"() <{value = 20 : i32}> : () -> i32
%sum = "llvm.add"(%one, %one) : (i32, i32) -> i32
"llvm.return"(%sum) : (i32) -> ()
}) : () -> ()
"""
READ = f'%g = "llvm.mlir.addressof"() <{{global_name = @g}}> : () -> {P}\n%v = "llvm.load"(%g) : ({P}) -> i32\n'
READ += f'"llvm.store"(%v, %p) : (i32, {P}) -> ()\n'


def test_globals_run_their_initialisers_and_others_hold_nothing():
    assert data(READ, more=COMPUTED) == [40, 2, 3, 4]
    start, end = COMPUTED.index("%one"), COMPUTED.index("})")
    bare = COMPUTED[:start] + COMPUTED[end:]
    assert run(READ, more=bare).observed[0].skip.tolist() == [True, False, False, False]
    assert run(READ, more=bare.replace("internal", "external")).kind is OutcomeKind.UNSUPPORTED


def test_functions_of_the_math_library_are_called_by_func_too(p):
    others = 'func.func() <{function_type = (f32) -> f32, sym_name = "floorf"}> ({\n}) : () -> ()'
    body = "%r = func.call(%x) <{callee = @floorf}> : (f32) -> f32\n"
    assert p.data("%x: f32", body, np.float32(2.75), returns="%r : f32", others=others) == [2]
    wrong = body.replace("floorf", "strange")
    found = p.fault("%x: f32", wrong, np.float32(1), others=others.replace("floorf", "strange"))
    assert found[0] == "unsupported"


KERNEL = f""""gpu.module"() <{{sym_name = "m"}}> ({{
"llvm.func"() <{{function_type = !llvm.func<void (ptr, i32)>, sym_name = "add"}}> ({{
^bb0(%x: {P}, %s: i32):
%t = "nvvm.read.ptx.sreg.ctaid.x"() : () -> i32
%q = "llvm.getelementptr"(%x, %t) <{{elem_type = i32, rawConstantIndices = array<i32: -2147483648>}}>
    : ({P}, i32) -> {P}
%v = "llvm.load"(%q) : ({P}) -> i32
%w = "llvm.add"(%v, %s) : (i32, i32) -> i32
"llvm.store"(%w, %q) : (i32, {P}) -> ()
"llvm.return"() : () -> ()
}}) {{nvvm.kernel}} : () -> ()
}}) : () -> ()
"""


def test_cuda_launches_of_kernels_that_still_have_a_body_run_here():
    body = stubbed([(7, "i32")])
    assert data(body, more=KERNEL + STUB) == [8, 9, 10, 4]
    twice = body + call(
        "cudaLaunchKernel", "%f, %g, %w1, %y, %w1, %v, %c16, %null", f"{P}, i64, i32, i64, i32, {P}, i64, {P}", "r2:i32"
    )
    assert data(twice, more=KERNEL + STUB) == [15, 16, 17, 4]
    other = KERNEL.replace('sym_name = "add"', 'sym_name = "sub"')
    assert run(body, more=other + STUB).kind is OutcomeKind.UNSUPPORTED


def test_modelled_functions_are_called_by_func_too(p):
    others = f'func.func() <{{function_type = (i64) -> {P}, sym_name = "malloc"}}> ({{\n}}) : () -> ()\n'
    others += f'func.func() <{{function_type = ({P}) -> (), sym_name = "free"}}> ({{\n}}) : () -> ()\n'
    body = f"%m = func.call(%n) <{{callee = @malloc}}> : (i64) -> {P}\n%x = const 6 : i32\n"
    body += f"llvm.store(%x, %m) : (i32, {P}) -> ()\n%v = llvm.load(%m) : ({P}) -> i32\n"
    free = f"func.call(%m) <{{callee = @free}}> : ({P}) -> ()\n"
    assert p.data("%n: i64", body + free, 8, returns="%v : i32", others=others) == [6]
    assert p.fault("%n: i64", body + free + free, 8, others=others)[:2] == ("ub", "double-free")
