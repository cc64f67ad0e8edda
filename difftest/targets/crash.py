"""Native stack frames to names: ELF symbol tables read with numpy, demangled by libstdc++. BINDINGS C9, PIPELINES §7.

Addresses come from a dead child; because children are forked, the zygote's memory map is theirs. Nothing here needs
binutils or debug information. The tables are read on the first crash only (25-85 ms for 900,000 symbols).
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from difftest.model import Frame
from difftest.targets.protocol import CrashRecord, Segment

_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_SECTION = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("addr", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("align", "<u8"),
        ("entsize", "<u8"),
    ]
)
_SEGMENT = np.dtype(
    [
        ("type", "<u4"),
        ("flags", "<u4"),
        ("offset", "<u8"),
        ("vaddr", "<u8"),
        ("paddr", "<u8"),
        ("filesz", "<u8"),
        ("memsz", "<u8"),
        ("align", "<u8"),
    ]
)
_SHT_SYMTAB, _SHT_DYNSYM, _STT_FUNC, _PT_LOAD = 2, 11, 2, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolTable:
    """The functions of one shared object, sorted by address, and its loadable segments."""

    values: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    names: NDArray[np.uint32]
    strings: int
    data: mmap.mmap
    segments: NDArray[np.void]

    def virtual_address(self, file_offset: int) -> int | None:
        """Where a byte of the file is loaded, relative to the object's base."""
        for segment in self.segments:
            start = int(segment["offset"])
            if start <= file_offset < start + int(segment["filesz"]):
                return file_offset - start + int(segment["vaddr"])
        return None

    def name_at(self, address: int) -> str | None:
        """The mangled name of the function that holds `address`.

        A symbol of size 0 covers all up to the next. Stripped libraries have no local functions: there a gap after
        the nearest exported one means that the name is unknown.
        """
        at = int(np.searchsorted(self.values, np.uint64(address), side="right")) - 1
        if at < 0:
            return None
        size = int(self.sizes[at])
        if size and address >= int(self.values[at]) + size:
            return None
        start = self.strings + int(self.names[at])
        return self.data[start : self.data.find(b"\0", start)].decode("utf-8", "replace")


@cache
def symbol_table(path: str) -> SymbolTable | None:
    """The function symbols of an ELF64 little-endian file, or None when it is not one or has none."""
    try:
        with Path(path).open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    header = np.frombuffer(data, "<u8", 3, 0x18)  # entry, program header offset, section header offset
    counts = np.frombuffer(data, "<u2", 6, 0x34)
    segments = np.frombuffer(data, _SEGMENT, int(counts[2]), int(header[1]))
    sections = np.frombuffer(data, _SECTION, int(counts[4]), int(header[2])) if header[2] else np.zeros(0, _SECTION)
    for kind in (_SHT_SYMTAB, _SHT_DYNSYM):
        for section in sections[sections["type"] == kind]:
            symbols = np.frombuffer(data, _SYMBOL, int(section["size"]) // _SYMBOL.itemsize, int(section["offset"]))
            functions = symbols[((symbols["info"] & 15) == _STT_FUNC) & (symbols["value"] != 0)]
            order = np.argsort(functions["value"], kind="stable")
            return SymbolTable(
                values=functions["value"][order],
                sizes=functions["size"][order],
                names=functions["name"][order],
                strings=int(sections[int(section["link"])]["offset"]),
                data=data,
                segments=segments[segments["type"] == _PT_LOAD],
            )
    return None


def frames_of(record: CrashRecord, maps: Sequence[Segment]) -> tuple[Frame, ...]:
    """The named frames of a crash, innermost first."""
    found: list[Frame] = []
    for depth, address in enumerate(record.frames):
        # A return address may be the first byte of the next function; the faulting one is exact.
        exact = address if depth == 0 and address == record.pc else address - 1
        segment = next((m for m in maps if m.start <= exact < m.end), None)
        if segment is None:
            found.append(Frame(symbol="?", module="?"))
            continue
        found.append(Frame(symbol=_symbol(segment, exact) or "?", module=Path(segment.path).name))
    return tuple(found)


def _symbol(segment: Segment, address: int) -> str | None:
    table = symbol_table(segment.path)
    if table is None:
        return None
    virtual = table.virtual_address(address - segment.start + segment.offset)
    name = None if virtual is None else table.name_at(virtual)
    return None if name is None else short_name(name)


def frame_at(path: str, address: int) -> str | None:
    """The function at a virtual address of a shared object, as stack dumps print it (`path+0x1f`)."""
    table = symbol_table(path)
    name = None if table is None else table.name_at(address - 1)
    return None if name is None else short_name(name)


@cache
def _demangler() -> ctypes.CDLL | None:
    for name in ("libstdc++.so.6", "libc++abi.so.1"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.__cxa_demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        return library
    return None


@lru_cache(4096)
def demangle(name: str) -> str:
    """The C++ name of a mangled symbol; the symbol itself when it has none or there is no C++ library."""
    library = _demangler() if name.startswith("_Z") else None
    if library is None:
        return name
    pointer = library.__cxa_demangle(name.encode(), None, None, None)
    if not pointer:
        return name
    text = ctypes.string_at(pointer).decode("utf-8", "replace")
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    libc.free(pointer)
    return text


@lru_cache(4096)
def short_name(mangled: str) -> str:
    """The name without template arguments, parameters, return type and qualifiers: stable between builds."""
    return strip_name(demangle(mangled))


_ANONYMOUS = "(anonymous namespace)"


def strip_name(name: str) -> str:
    """`void a::f<int>(b*)::{lambda(x)#1}::operator()(y) const` -> `a::f::{lambda}::operator()`."""
    text = re.sub(r"\{lambda\(.*?\)#\d+\}|'lambda\d*'", "{lambda}", name).replace(_ANONYMOUS, "{anonymous}")
    text = re.sub(r"\[(abi:|clone )[^\]]*\]|\s\(\.[\w.]+\)", "", text)
    kept: list[str] = []
    depth = 0
    position = 0
    while position < len(text):
        operator = re.compile(r"operator(\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?)").match(text, position)
        if operator is not None and depth == 0:
            kept.append(operator.group())
            position = operator.end()
            continue
        char = text[position]
        position += 1
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(char)
    words = re.sub(r"\s+(const|volatile|&&?)(?=\s|:|$)", "", "".join(kept)).split()
    stripped = words[-1] if words else name
    if len(words) > 1 and words[-2].endswith("operator"):  # a conversion operator keeps its type
        stripped = f"{words[-2]} {words[-1]}"
    return stripped.replace("{anonymous}", _ANONYMOUS)


_ADAPTOR = "mlir::detail::OpToOpPassAdaptor::run"


def pass_class(frames: Iterable[Frame]) -> str | None:
    """The C++ class of the pass that was running: it owns the method just below the innermost pass adaptor.

    That is `runOnOperation`, or what it was inlined away in favour of.
    """
    previous = ""
    for frame in frames:
        owner, _, method = previous.rpartition("::")
        if frame.symbol.startswith(_ADAPTOR) and (method == "runOnOperation" or owner.endswith("Pass")):
            return owner.rsplit("::", 1)[-1]
        previous = frame.symbol
    return None


def match_pass(class_name: str, names: Iterable[str]) -> str | None:
    """The pass name that a class implements: `ConvertPolygeistToLLVMPass` is `convert-polygeist-to-llvm`."""
    wanted = _squeeze(class_name)
    return next((name for name in names if _squeeze(name) == wanted), None)


def guess_pass(class_name: str, names: Iterable[str]) -> str | None:
    """The one name that contains the class's or is contained in it: `LoopUnroll` is `affine-loop-unroll`."""
    wanted = _squeeze(class_name)
    found = {name for name in names if len(wanted) > 5 and (wanted in _squeeze(name) or _squeeze(name) in wanted)}
    return found.pop() if len(found) == 1 else None


def _squeeze(name: str) -> str:
    return re.sub(r"pass$|base$", "", re.sub(r"[^a-z0-9]", "", name.lower()))
