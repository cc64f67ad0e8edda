"""vector: moving, combining, loading and storing elements, with lanes and with tags (SEMANTICS §7)."""

import numpy as np
import pytest

from difftest.model import Mode, OutcomeKind

V = "vector<4xf32>"
M = "memref<?xf32>"
ARGS = f"%A: {M}; %B: {M}; %i: index"
DYNAMIC = -(2**63)


def buffer(n=8, start=1):
    return np.arange(start, start + n, dtype=np.float32)


def read(name, memref="A", index="c0", shape="4"):
    return f"%{name} = vector.load(%{memref}, %{index}) : ({M}, index) -> vector<{shape}xf32>\n"


def write(name, shape="4", memref="B", index="c0"):
    return f"vector.store(%{name}, %{memref}, %{index}) : (vector<{shape}xf32>, {M}, index) -> ()\n"


def scalar(name, index="c0"):
    return f"memref.store(%{name}, %B, %{index}) : (f32, {M}, index) -> ()\n"


def result(p, body, *, i=1, n=32, **options):
    """What `body` leaves in B, which starts as -1."""
    found = p.ok(ARGS, body, buffer(), np.full(n, -1, np.float32), i, **options)
    return found["arg1"].data


A = buffer()
GRID = A.reshape(2, 4)
MATRIX = read("v", shape="8") + "%m = vector.shape_cast(%v) : (vector<8xf32>) -> vector<2x4xf32>\n"


def grid(body, kind, count):
    """`body` makes %r of type `kind` from the 2x4 matrix %m; flattened and stored."""
    return f"{MATRIX}{body}%o = vector.shape_cast(%r) : (vector<{kind}xf32>) -> vector<{count}xf32>\n" + write(
        "o", str(count)
    )


MOVES = {
    "transpose": (
        "vector.transpose(%m) <{permutation = array<i64: 1, 0>}> : (vector<2x4xf32>) -> vector<4x2xf32>",
        GRID.T,
    ),
    "slice": (
        "vector.extract_strided_slice(%m) <{offsets = [1, 1], sizes = [1, 2], strides = [1, 1]}> : "
        "(vector<2x4xf32>) -> "
        "vector<1x2xf32>",
        GRID[1:2, 1:3],
    ),
    "row": ("vector.extract(%m) <{static_position = array<i64: 1>}> : (vector<2x4xf32>) -> vector<4xf32>", GRID[1]),
    "dynamic row": (
        f"vector.extract(%m, %i) <{{static_position = array<i64: {DYNAMIC}>}}> : (vector<2x4xf32>, index) -> "
        f"vector<4xf32>",
        GRID[1],
    ),
    "repeat": ("vector.broadcast(%m) : (vector<2x4xf32>) -> vector<3x2x4xf32>", np.stack([GRID] * 3)),
    "choose": (
        "vector.shuffle(%m, %m) <{mask = array<i64: 3, 0>}> : (vector<2x4xf32>, vector<2x4xf32>) -> vector<2x4xf32>",
        GRID[[1, 0]],
    ),
    "interleave": (
        "vector.interleave(%m, %m) : (vector<2x4xf32>, vector<2x4xf32>) -> vector<2x8xf32>",
        np.repeat(GRID, 2, axis=1),
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_elements_go_where_the_op_says(p, name):
    text, expected = MOVES[name]
    kind = text.rpartition("vector<")[2].removesuffix("xf32>")
    count = expected.size
    found = result(p, grid(f"%r = {text}\n", kind, count))
    assert found[:count].tolist() == expected.reshape(-1).tolist()
    assert (found[count:] == -1).all()


def test_insertions_leave_the_rest(p):
    body = MATRIX + read("w", index="c1") + "%f = const 9.0 : f32\n"
    body += (
        "%a = vector.insert(%w, %m) <{static_position = array<i64: 0>}> : (vector<4xf32>, vector<2x4xf32>) "
        "-> vector<2x4xf32>\n"
    )
    body += (
        f"%b = vector.insert(%f, %a, %i) <{{static_position = array<i64: 1, {DYNAMIC}>}}> : (f32, "
        f"vector<2x4xf32>, index) -> "
        "vector<2x4xf32>\n"
    )
    body += (
        "%s = vector.extract_strided_slice(%m) <{offsets = [0, 0], sizes = [1, 2], strides = [1, 1]}> : "
        "(vector<2x4xf32>) "
        "-> vector<1x2xf32>\n%r = vector.insert_strided_slice(%s, %b) <{offsets = [1, 2], strides = [1, 1]}> : "
        "(vector<1x2xf32>, vector<2x4xf32>) -> vector<2x4xf32>\n"
    )
    found = result(p, body + "%o = vector.shape_cast(%r) : (vector<2x4xf32>) -> vector<8xf32>\n" + write("o", "8"), i=1)
    assert found[:8].tolist() == [2, 3, 4, 5, 5, 9, 1, 2]


def test_scalars_and_vectors_change_into_each_other(p):
    body = read("v") + "%e:4 = vector.to_elements(%v) : (vector<4xf32>) -> (f32, f32, f32, f32)\n"
    body += "%f = vector.from_elements(%e#3, %e#2, %e#1, %e#0) : (f32, f32, f32, f32) -> vector<4xf32>\n"
    body += "%l, %h = vector.deinterleave(%f) : (vector<4xf32>) -> (vector<2xf32>, vector<2xf32>)\n" + write("f")
    body += "%c4 = const 4 : index\n%c6 = const 6 : index\n" + write("l", "2", index="c4") + write("h", "2", index="c6")
    body += "%x = vector.extractelement(%v, %i) : (vector<4xf32>, index) -> f32\n%c8 = const 8 : index\n" + scalar(
        "x", "c8"
    )
    body += (
        "%y = vector.insertelement(%x, %v, %c0) : (f32, vector<4xf32>, index) -> vector<4xf32>\n%c9 = const 9 : index\n"
    )
    assert result(p, body + write("y", index="c9"))[:13].tolist() == [4, 3, 2, 1, 4, 2, 3, 1, 2, 2, 2, 3, 4]


@pytest.mark.parametrize("bad", [-1, 4])
def test_a_dynamic_position_outside_is_undefined_a_static_minus_one_is_poison(p, bad):
    extract = (
        f"%x = vector.extract(%v, %i) <{{static_position = array<i64: {DYNAMIC}>}}> : (vector<4xf32>, index) -> f32\n"
    )
    given = (buffer(), buffer(), bad)
    assert p.fault(ARGS, read("v") + extract + scalar("x"), *given)[:2] == ("ub", "out-of-bounds")
    never = "%x = vector.extract(%v) <{static_position = array<i64: -1>}> : (vector<4xf32>) -> f32\n"
    assert p.ok(ARGS, read("v") + never + scalar("x"), *given)["arg1"].skip.tolist() == [True] + [False] * 7
    put = f"%w = vector.insert(%f, %v) <{{static_position = array<i64: -1>}}> : (f32, {V}) -> {V}\n"
    body = read("v") + "%f = const 1.0 : f32\n" + put + write("w")
    assert p.ok(ARGS, body, *given)["arg1"].skip.tolist() == [True] * 4 + [False] * 4
    mix = f"%w = vector.shuffle(%v, %v) <{{mask = array<i64: 5, -1, 0, -1>}}> : ({V}, {V}) -> {V}\n"
    found = p.ok(ARGS, read("v") + mix + write("w"), *given)["arg1"]
    assert found.skip.tolist() == [False, True, False, True] + [False] * 4
    assert found.data[[0, 2]].tolist() == [2, 1]


def test_poison_stays_with_its_element(p):
    mix = f"%w = vector.shuffle(%v, %v) <{{mask = array<i64: -1, 1, 2, 3>}}> : ({V}, {V}) -> {V}\n"
    body = read("v") + mix + f"%s = arith.addf(%w, %v) : ({V}, {V}) -> {V}\n"
    body += f"%r = vector.shuffle(%s, %v) <{{mask = array<i64: 1, 0, 4, 2>}}> : ({V}, {V}) -> {V}\n" + write("r")
    found = p.ok(ARGS, body, buffer(), buffer(), 0)["arg1"]
    assert found.skip.tolist() == [False, True] + [False] * 6
    assert found.data[[0, 2, 3]].tolist() == [4, 1, 6]


INTEGER = {
    "add": -4, "mul": 2 * -7 * 1, "minsi": -7, "maxsi": 2, "minui": 1, "maxui": -7, "and": 0, "or": -5, "xor": -6,
}  # fmt: skip


@pytest.mark.parametrize("kind", INTEGER)
def test_integer_reductions(p, kind):
    data = np.array([2, -7, 1], np.int32)
    expected = {
        "and": int(np.bitwise_and.reduce(data)), "or": int(np.bitwise_or.reduce(data)),
        "xor": int(np.bitwise_xor.reduce(data)),
    }.get(kind, INTEGER[kind])  # fmt: skip
    body = "%v = vector.load(%A, %c0) : (memref<?xi32>, index) -> vector<3xi32>\n"
    body += f"%r = vector.reduction(%v) <{{kind = #vector.kind<{kind}>}}> : (vector<3xi32>) -> i32\n"
    assert p.data("%A: memref<?xi32>", body, data, returns="%r : i32")[1] == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("add", 11), ("mul", 24), ("minimumf", 1), ("maximumf", 4), ("minnumf", 1), ("maxnumf", 4)]
)
def test_float_reductions_with_a_start(p, kind, expected):
    start = "" if kind == "mul" else ", %f"
    types = "(vector<4xf32>)" if kind == "mul" else "(vector<4xf32>, f32)"
    body = read("v") + "%f = const 1.0 : f32\n"
    body += f"%r = vector.reduction(%v{start}) <{{kind = #vector.kind<{kind}>}}> : {types} -> f32\n" + scalar("r")
    assert result(p, body)[0] == expected


@pytest.mark.parametrize("flags", ["", "fastmath = #arith.fastmath<reassoc>, "])
def test_a_reduction_in_order_is_exact_about_its_rounding_another_order_has_a_bound(p, flags):
    data = np.array([1e8, 1.5, -1e8, 0.25], np.float32)
    body = read("v") + f"%r = vector.reduction(%v) <{{{flags}kind = #vector.kind<add>}}> : (vector<4xf32>) -> f32\n"
    found = p.ok(ARGS, body + scalar("r"), data, buffer(), 0)["arg1"]
    total = np.float32(0)
    for x in data:
        total += x
    assert found.data[0] == total
    bound = np.inf if found.bound is None else found.bound[0]
    assert bound >= abs(total - 1.75)
    assert (found.skip is not None and found.skip[0]) or bound > 0


def test_reductions_over_dimensions_and_contractions(p):
    body = (
        MATRIX + read("v4") + "%z2 = vector.extract_strided_slice(%v4) <{offsets = [0], sizes = [2], strides = [1]}> : "
    )
    body += "(vector<4xf32>) -> vector<2xf32>\n"
    body += "%a = vector.multi_reduction(%m, %z2) <{kind = #vector.kind<add>, reduction_dims = array<i64: 1>}> : "
    body += "(vector<2x4xf32>, vector<2xf32>) -> vector<2xf32>\n"
    body += "%b = vector.multi_reduction(%m, %v4) <{kind = #vector.kind<maximumf>, reduction_dims = array<i64: 0>}> : "
    body += "(vector<2x4xf32>, vector<4xf32>) -> vector<4xf32>\n"
    maps = "affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>"
    body += f"%c = vector.contract(%m, %v4, %z2) <{{indexing_maps = [{maps}], iterator_types = "
    body += "[#vector.iterator_type<parallel>, #vector.iterator_type<reduction>], kind = #vector.kind<add>}> : "
    body += "(vector<2x4xf32>, vector<4xf32>, vector<2xf32>) -> vector<2xf32>\n"
    body += "%o = vector.outerproduct(%z2, %v4, %m) <{kind = #vector.kind<add>}> : (vector<2xf32>, vector<4xf32>, "
    body += (
        "vector<2x4xf32>) -> vector<2x4xf32>\n%p = vector.outerproduct(%z2, %v4) : (vector<2xf32>, vector<4xf32>) -> "
    )
    body += "vector<2x4xf32>\n%po = arith.addf(%p, %o) : (vector<2x4xf32>, vector<2x4xf32>) -> vector<2x4xf32>\n"
    body += "%fp = vector.shape_cast(%po) : (vector<2x4xf32>) -> vector<8xf32>\n"
    for n, (name, shape) in {0: ("a", "2"), 2: ("b", "4"), 6: ("c", "2"), 8: ("fp", "8")}.items():
        body += f"%at{n} = const {n} : index\n" + write(name, shape, index=f"at{n}")
    found = result(p, body)
    outer = np.outer(A[:2], A[:4])
    assert found[:2].tolist() == [11, 28]
    assert found[2:6].tolist() == [5, 6, 7, 8]
    assert found[6:8].tolist() == (GRID @ A[:4] + A[:2]).tolist()
    assert found[8:16].tolist() == (2 * outer + GRID).reshape(-1).tolist()


def test_fma_and_bitcast_are_element_wise(p):
    body = read("v") + f"%f = vector.fma(%v, %v, %v) : ({V}, {V}, {V}) -> {V}\n"
    body += f"%b = vector.bitcast(%f) : ({V}) -> vector<4xi32>\n%r = arith.bitcast(%b) : (vector<4xi32>) -> {V}\n"
    assert result(p, body + write("r"))[:4].tolist() == [2, 6, 12, 20]
    refused = f"%b = vector.bitcast(%v) : ({V}) -> vector<8xi16>\n"
    assert p.fault(ARGS, read("v") + refused, buffer(), buffer(), 0)[0] == "unsupported"


def test_loads_and_stores_past_the_end_are_undefined(p):
    for index, good in ((4, True), (5, False), (-1, False)):
        for body in (read("v", index="i"), read("v") + write("v", index="i")):
            found = p.run(ARGS, body, buffer(), buffer(), index)
            assert (found.kind is OutcomeKind.OK) is good
            assert good or found.fault.rule == "out-of-bounds"


TRANSFER = "operandSegmentSizes = array<i32: 1, {0}, 1, 0>"


def transfer(map_, inside, rank=1, kind=V, memref=M):
    indices = ", %i" if rank == 1 else ", %c0, %i"
    types = ", ".join(["index"] * rank)
    return (
        f"%pad = const -5.0 : f32\n%v = vector.transfer_read(%A{indices}, %pad) <{{in_bounds = {inside}, "
        f"{TRANSFER.format(rank)}, permutation_map = affine_map<{map_}>}}> : ({memref}, {types}, f32) -> {kind}\n"
    )


def test_transfers_pad_outside_and_write_nothing_there(p):
    body = transfer("(d0) -> (d0)", "[false]")
    assert result(p, body + write("v"), i=6)[:4].tolist() == [7, 8, -5, -5]
    put = (
        f"vector.transfer_write(%v, %A, %i) <{{in_bounds = [false], operandSegmentSizes = array<i32: 1, 1, 1, 0>, "
        f"permutation_map = affine_map<(d0) -> (d0)>}}> : ({V}, {M}, index) -> ()\n"
    )
    found = p.ok(ARGS, read("v") + put, buffer(), buffer(), 6)["arg0"].data
    assert found.tolist() == [1, 2, 3, 4, 5, 6, 1, 2]
    promised = transfer("(d0) -> (d0)", "[true]")
    assert p.fault(ARGS, promised, buffer(), buffer(), 6)[:2] == ("ub", "out-of-bounds")
    assert result(p, promised + write("v"), i=4)[:4].tolist() == [5, 6, 7, 8]


def test_transfers_permute_and_repeat(p):
    matrix = "memref<2x4xf32>"
    args = f"%A: {matrix}; %B: {M}; %i: index"
    turned = transfer("(d0, d1) -> (d1, d0)", "[false, true]", 2, "vector<4x2xf32>", matrix)
    turned += "%f = vector.shape_cast(%v) : (vector<4x2xf32>) -> vector<8xf32>\n" + write("f", "8")
    found = p.ok(args, turned, GRID, buffer(), 1)["arg1"].data
    assert found.tolist() == [2, 6, 3, 7, 4, 8, -5, -5]
    same = transfer("(d0, d1) -> (0, d1)", "[true, true]", 2, "vector<2x2xf32>", matrix)
    same += "%f = vector.shape_cast(%v) : (vector<2x2xf32>) -> vector<4xf32>\n" + write("f")
    assert p.ok(args, same, GRID, buffer(), 2)["arg1"].data[:4].tolist() == [3, 4, 3, 4]


MASK = "%k = vector.create_mask(%i) : (index) -> vector<4xi1>\n"
INDICES = "%x = const dense<[3, 0, 900, 3]> : vector<4xi32>\n"
TYPES = f"({M}, index, vector<4xi32>, vector<4xi1>, {V})"


def test_masks_keep_elements_from_memory(p):
    few = "%q = vector.constant_mask() <{mask_dim_sizes = array<i64: 3>}> : () -> vector<4xi1>\n"
    masked = f"%m = vector.maskedload(%A, %c6, %k, %v) : ({M}, index, vector<4xi1>, {V}) -> {V}\n"
    body = "%c6 = const 6 : index\n" + read("v") + MASK + masked + write("m")
    assert result(p, body, i=2)[:4].tolist() == [7, 8, 3, 4]
    assert p.fault(ARGS, body, buffer(), buffer(), 3)[:2] == ("ub", "out-of-bounds")
    put = f"vector.maskedstore(%B, %c1, %q, %v) : ({M}, index, vector<4xi1>, {V}) -> ()\n"
    assert result(p, read("v") + few + put)[:6].tolist() == [-1, 1, 2, 3, -1, -1]
    got = f"%g = vector.gather(%A, %c1, %x, %k, %v) : {TYPES} -> {V}\n"
    assert result(p, read("v") + MASK + INDICES + got + write("g"), i=2)[:4].tolist() == [5, 2, 3, 4]
    assert p.fault(ARGS, read("v") + MASK + INDICES + got, buffer(), buffer(), 3)[:2] == ("ub", "out-of-bounds")
    near = INDICES.replace("900", "1")
    out = f"vector.scatter(%B, %c1, %x, %k, %v) : {TYPES} -> ()\n"
    assert result(p, read("v") + MASK + near + out, i=4)[:5].tolist() == [-1, 2, 3, -1, 4]
    none = p.ok(ARGS, read("v") + MASK + INDICES + out, buffer(), buffer(), 0)["arg1"].data
    assert none.tolist() == buffer().tolist()


@pytest.mark.parametrize("rows", [1, 3])
def test_vectors_of_many_lanes(p, schedule, rows):
    """Each iteration moves its own row; a store into the next row is a race."""
    data = np.arange(rows * 4, dtype=np.float32)
    body = "%four = const 4 : index\n%at = arith.muli(%l, %four) : (index, index) -> index\n" + read("v", index="at")
    body += "%s = vector.reduction(%v) <{kind = #vector.kind<add>}> : (vector<4xf32>) -> f32\n"
    body += f"%b = vector.broadcast(%s) : (f32) -> {V}\n%w = arith.addf(%b, %v) : ({V}, {V}) -> {V}\n"
    body += f"%e = vector.extract(%w, %l) <{{static_position = array<i64: {DYNAMIC}>}}> : ({V}, index) -> f32\n"
    body += f"%y = vector.insert(%e, %w) <{{static_position = array<i64: 3>}}> : (f32, {V}) -> {V}\n"
    loop = f"%n = const {rows} : index\n" + p.parallel("%l=%c0:%n:%c1", body + write("y", index="at"))
    found = p.ok(ARGS, loop, data, np.zeros_like(data), 0, schedule=schedule)["arg1"].data
    grid = data.reshape(rows, 4)
    expected = grid + grid.sum(axis=1, keepdims=True)
    expected[:, 3] = expected[np.arange(rows), np.arange(rows)]
    assert found.tolist() == expected.reshape(-1).tolist()
    if rows > 1:
        racy = p.run(
            ARGS, loop.replace(write("y", index="at"), write("y", index="l")), data, np.zeros(13, np.float32), 0
        )
        assert racy.kind is OutcomeKind.RACE


def test_uninitialised_elements_are_poison_one_by_one(p):
    make = "%m = memref.alloca() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<?xf32>\n".replace("?", "4")
    put = "%f = const 2.0 : f32\nmemref.store(%f, %m, %c1) : (f32, memref<4xf32>, index) -> ()\n"
    get = f"%v = vector.load(%m, %c0) : (memref<4xf32>, index) -> {V}\n" + write("v")
    given = (buffer(), buffer(), 0)
    assert p.fault(ARGS, make + put + get, *given)[:2] == ("ub", "uninitialised-read")
    found = p.ok(ARGS, make + put + get, *given, mode=Mode.INTERMEDIATE)["arg1"]
    assert found.skip.tolist() == [True, False, True, True] + [False] * 4


def test_steps_and_memory_of_vectors(p):
    step = (
        "%s = vector.step() : () -> vector<4xindex>\n%x = arith.index_cast(%s) : (vector<4xindex>) -> vector<4xi32>\n"
    )
    step += f"%f = arith.sitofp(%x) : (vector<4xi32>) -> {V}\n" + write("f")
    assert result(p, step)[:4].tolist() == [0, 1, 2, 3]
    cast = f"%t = vector.type_cast(%A) : (memref<4xf32>) -> memref<{V}>\n%v = vector.load(%t) : (memref<{V}>) -> {V}\n"
    cast += f"%w = arith.addf(%v, %v) : ({V}, {V}) -> {V}\nvector.store(%w, %t) : ({V}, memref<{V}>) -> ()\n"
    assert p.data("%A: memref<4xf32>", cast, buffer(4))[0].tolist() == [2, 4, 6, 8]
    shown = read("v") + f"vector.print(%v) <{{punctuation = #vector.punctuation<newline>}}> : ({V}) -> ()\n"
    assert result(p, shown + write("v"))[0] == 1


REFUSED = {
    "permuting mask": "%v = vector.transfer_read(%A, %c0, %c0, %f, %k) <{in_bounds = [true, true], "
    "operandSegmentSizes = array<i32: 1, 2, 1, 1>, permutation_map = affine_map<(d0, d1) -> (d1, d0)>}> : "
    "(memref<2x4xf32>, index, index, f32, vector<2x4xi1>) -> vector<4x2xf32>",
    "strange map": "%v = vector.transfer_read(%A, %c0, %c0, %f) <{in_bounds = [true], "
    "operandSegmentSizes = array<i32: 1, 2, 1, 0>, permutation_map = affine_map<(d0, d1) -> (d0 + d1)>}> : "
    "(memref<2x4xf32>, index, index, f32) -> vector<4xf32>",
    "repeating mask": "%v = vector.transfer_read(%A, %c0, %c0, %f, %k) <{in_bounds = [true, true], "
    "operandSegmentSizes = array<i32: 1, 2, 1, 1>, permutation_map = affine_map<(d0, d1) -> (0, d1)>}> : "
    "(memref<2x4xf32>, index, index, f32, vector<2x4xi1>) -> vector<2x4xf32>",
    "other element": "%v = vector.load(%A, %c0, %c0) : (memref<2x4xf32>, index, index) -> vector<2xf64>",
    "higher rank": "%v = vector.load(%A, %c0, %c0) : (memref<2x4xf32>, index, index) -> vector<1x1x2xf32>",
    "kind": "%v = vector.reduction(%w) <{kind = #vector.kind<and>}> : (vector<4xf32>) -> f32",
    "tensor": "%v = vector.transfer_write(%w, %A, %c0, %c0) <{in_bounds = [true], operandSegmentSizes = "
    "array<i32: 1, 1, 2, 0>, permutation_map = affine_map<(d0, d1) -> (d1)>}> : "
    "(vector<4xf32>, memref<2x4xf32>, index, index) -> tensor<2x4xf32>",
    "scalable": "%v = vector.broadcast(%f) : (f32) -> vector<[4]xf32>",
}


@pytest.mark.parametrize("name", REFUSED)
def test_forms_without_a_meaning_here_are_unsupported(p, name):
    body = "%f = const 1.0 : f32\n%k = const dense<true> : vector<2x4xi1>\n%w = const dense<1.0> : vector<4xf32>\n"
    found = p.fault("%A: memref<2x4xf32>", body + REFUSED[name], GRID)
    assert found[:2] == ("unsupported", "unsupported-op")


# --- llvm and affine ------------------------------------------------------------------------------------------


def test_llvm_moves_elements(p):
    body = read("v") + "%k = const 2 : i64\n%f = const 9.0 : f32\n"
    body += f"%e = llvm.extractelement(%v, %k) : ({V}, i64) -> f32\n{scalar('e')}"
    body += f"%w = llvm.insertelement(%v, %f, %k) : ({V}, f32, i64) -> {V}\n"
    body += f"%s = llvm.shufflevector(%v, %w) <{{mask = array<i32: 6, -1, 0, 3>}}> : ({V}, {V}) -> {V}\n"
    found = p.ok(ARGS, body + write("s", index="c1"), buffer(), buffer(), 0)["arg1"]
    assert found.data[[0, 1, 3, 4]].tolist() == [3, 9, 1, 4]
    assert found.skip.tolist() == [False, False, True, False, False, False, False, False]


REDUCE = {"fadd": 1 + 10, "fmul": 24, "fmax": 4, "fmin": 1, "fmaximum": 4, "fminimum": 1}


@pytest.mark.parametrize("name", REDUCE)
def test_llvm_float_reductions(p, name):
    start, kinds = ("%f, ", "f32, ") if name in {"fadd", "fmul"} else ("", "")
    flags = "<{fastmathFlags = #llvm.fastmath<none>}>"
    body = read("v") + "%f = const 1.0 : f32\n"
    body += f"%r = llvm.intr.vector.reduce.{name}({start}%v) {flags} : ({kinds}{V}) -> f32\n"
    assert result(p, body + scalar("r"))[0] == REDUCE[name]


@pytest.mark.parametrize(("name", "expected"), [("add", -4), ("smax", 2), ("smin", -7), ("umax", -7), ("umin", 1)])
def test_llvm_integer_reductions(p, name, expected):
    body = "%v = vector.load(%A, %c0) : (memref<?xi32>, index) -> vector<3xi32>\n"
    body += f"%r = llvm.intr.vector.reduce.{name}(%v) : (vector<3xi32>) -> i32\n"
    assert p.data("%A: memref<?xi32>", body, np.array([2, -7, 1], np.int32), returns="%r : i32")[1] == expected


def test_llvm_masked_memory(p):
    pointer = f'%p = "enzymexla.memref2pointer"(%A) : ({M}) -> !llvm.ptr\n'
    body = (
        pointer
        + MASK
        + read("v", "B")
        + f"%m = llvm.intr.masked.load(%p, %k, %v) : (!llvm.ptr, vector<4xi1>, {V}) -> {V}\n"
    )
    found = p.ok(ARGS, body + write("m"), buffer(2), np.full(4, -1, np.float32), 2)
    assert found["arg1"].data.tolist() == [1, 2, -1, -1]
    assert p.fault(ARGS, body, buffer(2), buffer(4), 3)[:2] == ("ub", "out-of-bounds")
    put = f"llvm.intr.masked.store(%v, %p, %k) : ({V}, !llvm.ptr, vector<4xi1>) -> ()\n"
    stored = p.ok(ARGS, pointer + MASK + read("v", "B") + put, buffer(2), np.full(4, -1, np.float32), 1)
    assert stored["arg0"].data.tolist() == [-1, 2]


PYTHON = {
    "sadd.sat": lambda a, b: min(max(a + b, -128), 127),
    "ssub.sat": lambda a, b: min(max(a - b, -128), 127),
    "uadd.sat": lambda a, b: min((a & 255) + (b & 255), 255),
    "usub.sat": lambda a, b: max((a & 255) - (b & 255), 0),
}
EDGES = np.array([-128, -127, -1, 0, 1, 2, 64, 126, 127], np.int8)


@pytest.mark.parametrize("name", PYTHON)
def test_saturating_arithmetic_against_python(p, schedule, name):
    a, b = (x.reshape(-1) for x in np.meshgrid(EDGES, EDGES))
    kind = "memref<?xi8>"
    body = f"%x = memref.load(%A, %l) : ({kind}, index) -> i8\n%y = memref.load(%B, %l) : ({kind}, index) -> i8\n"
    body += f"%r = llvm.intr.{name}(%x, %y) : (i8, i8) -> i8\nmemref.store(%r, %A, %l) : (i8, {kind}, index) -> ()\n"
    found = p.data(
        f"%A: {kind}; %B: {kind}; %n: index", p.parallel("%l=%c0:%n:%c1", body), a, b, len(a), schedule=schedule
    )
    expected = [PYTHON[name](int(x), int(y)) for x, y in zip(a, b, strict=True)]
    assert (found[0].view(np.uint8)).tolist() == [e & 255 for e in expected]


def test_bits_in_other_orders(p):
    body = "%k = const 36 : i32\n%y = llvm.intr.fshl(%x, %x, %k) : (i32, i32, i32) -> i32\n"
    body += "%z = llvm.intr.fshr(%x, %y, %k) : (i32, i32, i32) -> i32\n%s = llvm.intr.bswap(%x) : (i32) -> i32\n"
    body += "%t = llvm.intr.bitreverse(%x) : (i32) -> i32\n%e = llvm.intr.expect(%x, %k) : (i32, i32) -> i32\n"
    body += 'llvm.fence() <{ordering = 7 : i64, syncscope = "agent"}> : () -> ()\n'
    found = p.data("%x: i32", body, 0x12345678, returns="%y, %z, %s, %t, %e : i32, i32, i32, i32, i32")
    shifted = 0x23456781
    joined = (0x12345678 << 32 | shifted) >> 4 & 0xFFFFFFFF
    expected = [shifted, joined, 0x78563412, int(f"{0x12345678:032b}"[::-1], 2), 0x12345678]
    assert [int(x) & 0xFFFFFFFF for x in found] == expected


def test_affine_loads_and_stores_of_vectors(p):
    twice = "<{map = affine_map<(d0) -> (d0 * 2)>}>"
    body = f"%v = affine.vector_load(%A, %i) {twice} : ({M}, index) -> {V}\n"
    body += f"affine.vector_store(%v, %B, %i) {twice} : ({V}, {M}, index) -> ()\n"
    assert result(p, body, i=2)[:9].tolist() == [-1] * 4 + [5, 6, 7, 8, -1]
    assert p.fault(ARGS, body, buffer(), buffer(), 3)[:2] == ("ub", "out-of-bounds")
