"""A second opinion: generated programs, lowered by `mlir-opt` and run natively by `mlir-runner`, agree bit for bit.

Everything in a program but the interpreter differs: parser, lowering, code generator, processor. Debian's package
`mlir-22-tools` has both tools.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from difftest.ir.types import FloatType, IndexType, IntegerType, MemRefType
from difftest.model import OutcomeKind, Program
from difftest.oracle.judge import entry_types, prepare
from generators import program_for_seed

OPT = shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
RUNNER = shutil.which("mlir-runner-22") or shutil.which("mlir-runner")
PROFILES = ("parallel", "integer", "scalar-float")
# PASSES §5, row cpu-llvm, with what our programs have beyond it: math, index and the rounding divisions.
PIPELINE = (
    "convert-linalg-to-loops,memref-expand,arith-expand,expand-strided-metadata,lower-affine,convert-scf-to-cf,"
    "convert-math-to-llvm,convert-math-to-libm,convert-arith-to-llvm,convert-index-to-llvm,finalize-memref-to-llvm,"
    "convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts"
)
TIMEOUT = 60


def library():
    """The shared library with `printI64`, beside the real runner."""
    folder = Path(RUNNER).resolve().parent.parent / "lib"
    found = sorted(folder.glob("libmlir_c_runner_utils.so*"))
    return found[0] if found else None


def missing():
    if OPT is None or RUNNER is None:
        return "mlir-opt and mlir-runner are not on PATH (Debian: mlir-22-tools)"
    return None if library() is not None else "libmlir_c_runner_utils.so is not beside mlir-runner"


pytestmark = [pytest.mark.tool, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


# --- the driver -----------------------------------------------------------------------------------------------


def literal(array):
    """A dense attribute's contents."""
    if array.size == 0:
        return "dense<>"
    if array.dtype == np.bool_:
        return f"dense<{str(array.tolist()).lower()}>"
    return f'dense<"0x{array.tobytes().hex()}">'


def static(kind, shape):
    return f"memref<{''.join(f'{d}x' for d in shape)}{kind.element}>"


def widened(kind, value, name):
    """Text that makes i64 `%name` from a value: bits of floats, sign of integers."""
    if isinstance(kind, IndexType):
        return f"%{name} = arith.index_cast {value} : index to i64"
    if isinstance(kind, FloatType):
        bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[kind.name]
        text = f"%{name}b = arith.bitcast {value} : {kind} to i{bits}\n"
        return text + (
            f"%{name} = arith.extui %{name}b : i{bits} to i64"
            if bits < 64
            else f"%{name} = arith.addi %{name}b, %zero : i64"
        )
    if kind.width == 64:
        return f"%{name} = arith.addi {value}, %zero : i64"
    return f"%{name} = arith.{'extui' if kind.width == 1 else 'extsi'} {value} : {kind} to i64"


def dump(number, kind, shape):
    """Loops that print every element of argument `number` in row-major order."""
    indices = [f"%i{number}_{axis}" for axis in range(len(shape))]
    head = "\n".join(f"scf.for {i} = %c0 to %d{n} step %c1 {{" for i, n in zip(indices, shape, strict=True))
    value = f"%e{number}"
    load = f"{value} = memref.load %a{number}[{', '.join(indices)}] : {kind}"
    wide = widened(kind.element, value, f"w{number}")
    show = f"func.call @printI64(%w{number}) : (i64) -> ()\nfunc.call @printNewline() : () -> ()"
    return "\n".join([head, load, wide, show, "}" * len(shape)])


def driver(reference):
    """The program's functions and a `@main` that gives them the same inputs and prints what is observed."""
    text = reference.program.text
    body = text[text.index("({") + 2 : text.rindex("})")]
    types = entry_types(reference.module, reference.program.entry)
    tops, calls, kinds, dumps, sizes = [], [], [], [], {0, 1}
    for number, (kind, argument) in enumerate(zip(types.inputs, reference.arguments, strict=True)):
        kinds.append(str(kind))
        if isinstance(kind, MemRefType):
            fixed = static(kind, argument.shape)
            tops.append(f"memref.global @in{number} : {fixed} = {literal(argument)}")
            calls.append(f"%g{number} = memref.get_global @in{number} : {fixed}")
            calls.append(f"%a{number} = memref.cast %g{number} : {fixed} to {kind}")
            sizes |= set(argument.shape)
            dumps.append(dump(number, kind, argument.shape))
        elif isinstance(kind, FloatType):
            bits = np.asarray(argument).view(f"u{np.asarray(argument).dtype.itemsize}").item()
            calls.append(f"%a{number} = arith.constant 0x{bits:0{np.asarray(argument).dtype.itemsize * 2}X} : {kind}")
        else:
            assert isinstance(kind, IntegerType | IndexType)
            spelled = str(argument).lower() if isinstance(argument, bool) else f"{int(argument)} : {kind}"
            calls.append(f"%a{number} = arith.constant {spelled}")
    names = ", ".join(f"%a{n}" for n in range(len(kinds)))
    count = len(types.results)
    left = f"%r:{count} = " if count else ""
    returned = ", ".join(map(str, types.results))
    call = f"func.call @{reference.program.entry}({names}) : ({', '.join(kinds)}) -> ({returned})"
    calls.append(left + call)
    for number, kind in enumerate(types.results):
        dumps.append(widened(kind, f"%r#{number}", f"x{number}"))
        dumps.append(f"func.call @printI64(%x{number}) : (i64) -> ()\nfunc.call @printNewline() : () -> ()")
    constants = [f"%d{s} = arith.constant {s} : index" for s in sorted(sizes)]
    constants += ["%c0 = arith.constant 0 : index", "%c1 = arith.constant 1 : index", "%zero = arith.constant 0 : i64"]
    main = "\n".join(["func.func @main() {", *constants, *calls, *dumps, "return", "}"])
    printers = "func.func private @printI64(i64)\nfunc.func private @printNewline()"
    return "\n".join(["module {", *tops, printers, body, main, "}"])


def run(command, text):
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def native(text):
    """The numbers that the lowered program prints."""
    lowered = run([OPT, f"--pass-pipeline=builtin.module({PIPELINE})"], text)
    assert lowered.returncode == 0, lowered.stderr[:2000]
    ran = run([RUNNER, "-e", "main", "-entry-point-result=void", f"-shared-libs={library()}"], lowered.stdout)
    assert ran.returncode == 0, ran.stderr[:2000]
    return [int(word) for word in ran.stdout.split()]


def expected(outcome):
    """The same numbers from the interpreter; None where nothing may be compared."""
    found = []
    for observed in outcome.observed:
        data = observed.data.reshape(-1)
        if data.dtype.kind in "fV":
            data = data.view(f"u{data.dtype.itemsize}")
        numbers = [int(x) for x in data]
        if data.dtype.kind == "u" and data.dtype.itemsize == 8:
            numbers = [x - (1 << 64) if x >> 63 else x for x in numbers]
        skip = np.zeros(len(numbers), np.bool_) if observed.skip is None else observed.skip.reshape(-1)
        found += [None if s else x for x, s in zip(numbers, skip, strict=True)]
    return found


def disagreement(program):
    """None when both agree or the program has no CPU lowering, else what differs."""
    if "enzyme" in program.text or '"gpu.' in program.text:
        return "skipped"
    reference = prepare(program)
    assert reference.outcome.kind is OutcomeKind.OK, reference.outcome.fault
    mine, theirs = expected(reference.outcome), native(driver(reference))
    assert len(mine) == len(theirs)
    wrong = [i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a is not None and a != b]
    if not wrong:
        return None
    first = wrong[0]
    return f"element {first}: {mine[first]} here, {theirs[first]} natively, {len(wrong)} in all"


def compare_programs(count, first=0):
    """(programs compared, disagreements) over the profiles in turn until `count` programs were compared."""
    compared, found, seed = 0, {}, first
    while compared < count:
        profile = PROFILES[seed % len(PROFILES)]
        said = disagreement(program_for_seed(seed, profile))
        if said != "skipped":
            compared += 1
            if said is not None:
                found[profile, seed] = said
        seed += 1
    return compared, found


def test_fifty_programs_agree_bit_for_bit():
    compared, found = compare_programs(50)
    assert compared == 50
    assert not found


@pytest.mark.slow
def test_five_hundred_programs_agree_bit_for_bit():
    compared, found = compare_programs(500, first=1000)
    assert compared == 500
    assert not found


PLANTED = """"builtin.module"() ({
"func.func"() <{function_type = (memref<2xi32>, i32) -> i32, sym_name = "k"}> ({
^bb0(%a: memref<2xi32>, %x: i32):
%i = "arith.constant"() <{value = 1 : index}> : () -> index
%s = "arith.addi"(%x, %x) : (i32, i32) -> i32
"memref.store"(%s, %a, %i) : (i32, memref<2xi32>, index) -> ()
"func.return"(%s) : (i32) -> ()
}) : () -> ()
}) : () -> ()
"""


def test_the_driver_sees_a_difference():
    """A program whose text differs from the one interpreted is told apart: the comparison can fail."""
    reference = prepare(Program(text=PLANTED, entry="k"))
    assert native(driver(reference)) == expected(reference.outcome)
    other = replace(reference, program=replace(reference.program, text=PLANTED.replace("arith.addi", "arith.muli")))
    changed = replace(other, arguments=(reference.arguments[0], 3))
    assert native(driver(changed)) != expected(reference.outcome)
