"""Run small PTX texts: a kernel body between standard headers, on arrays."""

import numpy as np

from difftest.devices import EmulatorDevice
from difftest.model import Schedule

HEADER = ".version 7.8\n.target sm_90\n.address_size 64\n"
REGISTERS = ".reg .pred %p<20>; .reg .b16 %rs<20>; .reg .b32 %r<40>; .reg .b64 %rd<40>;\n"
# Kernel `k(out, in…)`: %rd1 is the lane's place in out for elements of WIDTH bytes, %r1 its number.
PROLOGUE = """
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1;
"""


def kernel(body, parameters=(), extra=""):
    """The text of a kernel `k` with .u64 parameters p0, p1, … and a body."""
    given = ", ".join(f".param .{t} p{i}" for i, t in enumerate(parameters))
    return f"{HEADER}{extra}\n.visible .entry k({given})\n{{\n{REGISTERS}{body}\nret;\n}}\n"


def launch(text, arrays=(), scalars=(), *, grid=1, block=32, shared=0, device=None, **options):
    """Launch kernel `k` on copies of arrays (None elements of a list of sizes: uninitialised bytes).

    Gives the outcome and the arrays after it.
    """
    device = EmulatorDevice(**options) if device is None else device
    k = device.load(text)["k"]
    places = []
    for array in arrays:
        if isinstance(array, int):
            places.append((device.allocate(array), array, np.uint8))
            continue
        data = np.ascontiguousarray(array)
        address = device.allocate(max(1, data.nbytes))
        device.upload(address, data.reshape(-1).view(np.uint8))
        places.append((address, data.nbytes, data.dtype))
    sizes = [(x, 1, 1) if isinstance(x, int) else x for x in (grid, block)]
    arguments = [address for address, _, _ in places] + list(scalars)
    outcome = device.launch(k, grid=sizes[0], block=sizes[1], arguments=arguments, shared=shared)
    return outcome, [device.download(a, n)[0].view(d) for a, n, d in places]


WORDS = {1: "b8", 2: "b16", 4: "b32", 8: "b64"}
CLASS = {1: "%rs", 2: "%rs", 4: "%r", 8: "%rd"}


def compute(instructions, result, sources, *, registers="", options=None):
    """Run instructions lane by lane: sources (arrays of one length) are in %s0, %s1, …; the result register is %d.

    `result` is the dtype of the result; predicates are given as %q (selected to 0 or 1 by the caller).
    """
    n = len(sources[0])
    out = np.dtype(result)
    lines = [registers]
    for i, source in enumerate(sources):
        lines.append(f".reg .{WORDS[max(2, source.dtype.itemsize)]} %s{i};")
    lines += [f".reg .{WORDS[max(2, out.itemsize)]} %d;", ".reg .pred %q;", PROLOGUE]
    for i, source in enumerate(sources):
        size = source.dtype.itemsize
        lines.append(f"ld.param.u64 %rd{i + 10}, [p{i + 1}]; mad.wide.u32 %rd{i + 20}, %r1, {size}, %rd{i + 10};")
        lines.append(f"ld.global.{WORDS[size]} %s{i}, [%rd{i + 20}];")
    lines.append(instructions)
    lines.append(f"ld.param.u64 %rd1, [p0]; mad.wide.u32 %rd2, %r1, {out.itemsize}, %rd1;")
    lines.append(f"st.global.{WORDS[out.itemsize]} [%rd2], %d;")
    text = kernel("\n".join(lines), ["u64"] * (1 + len(sources)))
    outcome, arrays = launch(text, [np.zeros(n, out), *sources], block=n, **(options or {}))
    assert outcome.kind == "ok", outcome.fault
    return arrays[0]


ALL_SCHEDULES = tuple(Schedule)
