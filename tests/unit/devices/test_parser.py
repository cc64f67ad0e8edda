"""Reading PTX: what is understood, and that nothing but a PtxError comes out of bad text."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from difftest.devices import EmulatorDevice, PtxError
from difftest.devices.emulator.parser import parse_module
from difftest.devices.emulator.syntax import Address, Immediate, Pair, Register, Symbol
from tests.unit.devices.running import HEADER, kernel

DATA = Path(__file__).parent / "data"


def body_of(text):
    return parse_module(kernel(text)).functions["k"].body


def test_an_instruction_has_opcode_operands_guard_and_line():
    (first, second, _) = body_of(
        "@!%p1 ld.global.v2.f32\n {%r1, _}, [%rd1+-8];\nshfl.sync.up.b32 %r1|%p2, %r2, 0x1f, 0, -1;"
    )
    assert first.opcode == "ld.global.v2.f32" and first.guard == Register("%p1", negated=True)
    assert first.operands[1] == Address(Register("%rd1"), -8)
    assert second.operands[0] == Pair(Register("%r1"), Register("%p2"))
    assert second.operands[2] == Immediate(31) and second.operands[4] == Immediate(-1)
    assert second.line == first.line + 2


@pytest.mark.parametrize(
    ("text", "operand"),
    [("0f3F800000", Immediate(0x3F800000, "f")), ("0d3FF0000000000000", Immediate(0x3FF0000000000000, "d")),
     ("-5", Immediate(-5)), ("0b101", Immediate(5)), ("017", Immediate(15)), ("0xFFU", Immediate(255)),
     ("name+4", Symbol("name", 4)), ("%tid.x", Register("%tid.x"))],
)  # fmt: skip
def test_operands(text, operand):
    assert body_of(f"mov.b32 %r1, {text};")[0].operands[1] == operand


def test_comments_keep_lines_and_braces_scope():
    text = kernel("// one\n/* two\n three */ { .reg .b32 %x; mov.b32 %x, 1; }\nL: bra.uni L;")
    function = parse_module(text).functions["k"]
    assert function.registers["%x"] == "b32"
    assert function.body[1].line == text.splitlines().index("L: bra.uni L;") + 1


def test_variables_parameters_and_directives():
    text = (
        HEADER
        + """
    .extern .shared .align 16 .b8 dyn[];
    .global .align 8 .f32 table[2][2] = {1.0, 0f40000000};
    .const .u8 small = 7;
    .visible .entry k(.param .u64 .ptr .global .align 4 p, .param .align 2 .b8 half[2], .param .f32 x)
    .maxntid 7, 8, 1
    .minnctapersm 2
    { .local .align 8 .b8 depot[24]; ret; }
    .func (.param .b32 r) f(.reg .u32 %a);
    """.replace("(.reg .u32 %a)", "(.param .u32 a)")
    )
    module = parse_module(text)
    assert module.variables["dyn"].extern and module.variables["dyn"].count == 0
    assert module.variables["table"].size == 16
    assert np.frombuffer(module.variables["table"].data, np.float32).tolist() == [1.0, 2.0, 0.0, 0.0]
    k = module.functions["k"]
    assert [(p.size, p.align) for p in k.parameters] == [(8, 8), (2, 2), (4, 4)]
    assert k.directives == {"maxntid": "7, 8, 1", "minnctapersm": "2"}
    assert k.variables["depot"].size == 24
    assert module.functions["f"].body is None


@pytest.mark.parametrize(
    ("body", "line"),
    [("mov.b32 %r1 5 6;\nmov.b32 %r99, 1", 1), ("add.s32 %r1, %r2, ;", 1), ("\nmov.b32 %r1, [;", 2),
     ("bra NOWHERE;", 1),
     ("mov.b32 %r77, 1;", 1), ("\n\nL: L: ret;", 3), ("mov.b64 %rd1, nothing;", 1), ("mov.f32 %r1, 0f12;", 1),
     (".reg .f7 %z;", 1), (".local .b8;", 1), ("@%p1;", 1)],
)  # fmt: skip
def test_malformed_text_is_refused_with_its_line(body, line):
    text = kernel(f'\n.pragma "here";\n{body}\n')
    with pytest.raises(PtxError) as error:
        EmulatorDevice().load(text)
    first = text.splitlines().index('.pragma "here";') + 2
    assert error.value.line == first + line - 1 and str(error.value).startswith(f"line {error.value.line}: ")


@pytest.mark.parametrize(
    "text", ["", "hello", ".version x", ".version 7.8\n.target sm_90\n.address_size 32", HEADER + "}"]
)
def test_what_is_no_module_is_refused(text):
    with pytest.raises(PtxError):
        EmulatorDevice().load(text)


def attempt(text):
    """Load and run whatever the text holds: an outcome, or a PtxError. Anything else is a defect."""
    device = EmulatorDevice(memory=1 << 23, fuel=2000, lane_fuel=200_000)
    try:
        kernels = device.load(text)
    except PtxError as error:
        assert 1 <= error.line <= text.count("\n") + 2
        return "refused"
    kinds = []
    for found in kernels.values():
        address = device.allocate(2048)
        device.upload(address, np.zeros(2048, np.uint8))
        arguments = [address if size == 8 else 3 for size in found.parameters]
        kinds.append(str(device.launch(found, grid=(2, 1, 1), block=(4, 1, 1), arguments=arguments).kind))
    return kinds[0] if kinds else "nothing"


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.stem)
def test_text_cut_anywhere_is_refused_or_runs(path):
    text = path.read_text()
    seen = {attempt(text[:at]) for at in range(0, len(text), max(1, len(text) // 120))}
    assert "refused" in seen and attempt(text) in {"ok", "fault"}


TOKENS = re.compile(r"%?[\w.$]+|[^\w\s]")


def alike(token):
    return re.sub(r"\d+", "0", token) if token[0] == "%" else "." if "." in token else token[0].isdigit() or token


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.stem)
def test_replaced_tokens_are_refused_unsupported_or_run(path):
    text, source = path.read_text(), random.Random(5)
    start = text.index(".reg")
    seen = set()
    for _ in range(150):
        matches = [m for m in TOKENS.finditer(text) if m.start() > start]
        chosen = source.choice(matches)
        others = [m.group() for m in matches if alike(m.group()) == alike(chosen.group())]
        replacement = (
            source.choice(others) if source.random() < 0.8 else source.choice(["{", "]", ";", "-1", "%p1", "bra"])
        )
        seen.add(attempt(text[: chosen.start()] + replacement + text[chosen.end() :]))
    assert {"refused", "fault"} <= seen
