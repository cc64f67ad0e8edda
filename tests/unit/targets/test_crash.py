import ctypes
import os
import sys
from pathlib import Path

import pytest

from difftest.model import Frame
from difftest.targets import crash
from difftest.targets.protocol import CrashRecord, Segment


@pytest.mark.parametrize(
    ("name", "stripped"),
    [
        ("mlir::affine::tile(llvm::MutableArrayRef<mlir::affine::AffineForOp>, int)", "mlir::affine::tile"),
        ("void mlir::detail::walk<mlir::ForwardIterator>(mlir::Operation*)", "mlir::detail::walk"),
        ("(anonymous namespace)::Pass::runOnOperation()", "(anonymous namespace)::Pass::runOnOperation"),
        ("a::b(int)::{lambda(mlir::Value)#1}::operator()(mlir::Value) const", "a::b::{lambda}::operator()"),
        ("a::f(int)::'lambda'(int)::operator()(int) const", "a::f::{lambda}::operator()"),
        ("std::ostream& operator<< <char>(std::ostream&, char)", "operator<<"),
        ("a::B<int>::operator bool() const", "a::B::operator bool"),
        ("foo [clone .cold]", "foo"),
        ("plain_c_function", "plain_c_function"),
        ("a::operator->(int)", "a::operator->"),
    ],
)  # fmt: skip
def test_names_lose_what_differs_between_builds(name, stripped):
    assert crash.strip_name(name) == stripped


def test_demangling_gives_the_cxx_name_and_leaves_c_names():
    assert crash.demangle("main") == "main"
    assert crash.short_name("_ZN4mlir6detail18OpToOpPassAdaptor3runEPNS_4PassEPNS_9OperationE") in (
        "mlir::detail::OpToOpPassAdaptor::run",
        "_ZN4mlir6detail18OpToOpPassAdaptor3runEPNS_4PassEPNS_9OperationE",  # no C++ library here
    )


def _segments():
    rows = []
    with Path("/proc/self/maps").open() as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                start, end = (int(x, 16) for x in fields[0].split("-"))
                rows.append(Segment(start=start, end=end, offset=int(fields[2], 16), path=fields[5].strip()))
    return rows


def test_an_address_of_this_process_gets_the_name_of_its_function():
    libc = ctypes.CDLL(None)
    address = ctypes.cast(libc.qsort, ctypes.c_void_p).value
    assert address is not None
    frames = crash.frames_of(CrashRecord(signal=11, pc=address, frames=(address, 1)), _segments())
    assert "qsort" in frames[0].symbol
    assert frames[0].module.startswith("libc")
    assert frames[1] == Frame(symbol="?", module="?")


def test_a_return_address_belongs_to_the_call_before_it():
    libc = ctypes.CDLL(None)
    address = ctypes.cast(libc.qsort, ctypes.c_void_p).value
    assert address is not None
    record = CrashRecord(signal=11, pc=1, frames=(1, address))
    assert "qsort" not in crash.frames_of(record, _segments())[1].symbol


def test_files_that_are_not_elf_have_no_symbols(tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_text("")
    assert crash.symbol_table(str(tmp_path / "text")) is None
    assert crash.symbol_table(str(tmp_path / "empty")) is None
    assert crash.symbol_table(str(tmp_path / "missing")) is None


def test_stack_overflow_is_a_fault_at_the_stack_pointer():
    assert CrashRecord(signal=11, sp=0x7000_0000, address=0x6FFF_FFF8).is_stack_overflow
    assert not CrashRecord(signal=11, sp=0x7000_0000, address=0x10).is_stack_overflow
    assert not CrashRecord(signal=6, sp=0x7000_0000, address=0x7000_0000).is_stack_overflow


def test_the_running_pass_is_below_the_innermost_adaptor():
    adaptor = "mlir::detail::OpToOpPassAdaptor::run"
    inner = "(anonymous namespace)::ConvertPolygeistToLLVMPass::runOnOperation"
    stack = ["x", inner, adaptor, "Outer::runOnOperation", adaptor]
    frames = [Frame(symbol=s, module="m") for s in stack]
    assert crash.pass_class(frames) == "ConvertPolygeistToLLVMPass"
    assert crash.pass_class(frames[:1]) is None
    inlined = [Frame(symbol="a::FooPass::convertModule", module="m"), Frame(symbol=adaptor, module="m")]
    assert crash.pass_class(inlined) == "FooPass"
    assert (
        crash.match_pass("ConvertPolygeistToLLVMPass", ["cse", "convert-polygeist-to-llvm"])
        == "convert-polygeist-to-llvm"
    )
    assert crash.guess_pass("LoopUnroll", ["cse", "affine-loop-unroll"]) == "affine-loop-unroll"
    assert crash.guess_pass("LoopUnroll", ["affine-loop-unroll", "loop-unroll-more"]) is None
    assert crash.guess_pass("", ["cse"]) is None
    assert crash.match_pass("LoopTiling", ["affine-loop-tile"]) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_interpreters_own_binary_has_symbols():
    table = crash.symbol_table(os.path.realpath(sys.executable))
    if table is None:
        pytest.skip("a stripped interpreter")
    assert len(table.values) > 0
    assert (table.values[1:] >= table.values[:-1]).all()
