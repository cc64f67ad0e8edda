"""The programs of the interpreter's benchmarks, in generic form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_SIGNATURE = "(memref<64x64xf32>, memref<64x64xf32>, memref<64x64xf32>) -> ()"
_HEAD = f"""\
"builtin.module"() ({{
  "func.func"() <{{function_type = {_SIGNATURE}, sym_name = "matmul"}}> ({{
  ^bb0(%a: memref<64x64xf32>, %b: memref<64x64xf32>, %c: memref<64x64xf32>):
    %c0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %c1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %c64 = "arith.constant"() <{{value = 64 : index}}> : () -> index
    %zero = "arith.constant"() <{{value = 0.000000e+00 : f32}}> : () -> f32
"""
_TAIL = """\
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""
_LOAD_A = '"memref.load"(%a, %i, %k) : (memref<64x64xf32>, index, index) -> f32'
_LOAD_B = '"memref.load"(%b, %k, %j) : (memref<64x64xf32>, index, index) -> f32'
_MUL = '"arith.mulf"(%x, %y) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32'
_PAR1 = "<{operandSegmentSizes = array<i32: 1, 1, 1, 0>}>"
_PAR1_INIT = "<{operandSegmentSizes = array<i32: 1, 1, 1, 1>}>"
_PAR2 = "<{operandSegmentSizes = array<i32: 2, 2, 2, 0>}>"


def _add(left: str, right: str) -> str:
    return f'"arith.addf"({left}, {right}) <{{fastmath = #arith.fastmath<none>}}> : (f32, f32) -> f32'


_CARRIED = f"""\
    "scf.parallel"(%c0, %c64, %c1) {_PAR1} ({{
    ^bb0(%i: index):
      "scf.parallel"(%c0, %c64, %c1) {_PAR1} ({{
      ^bb0(%j: index):
        %sum = "scf.for"(%c0, %c64, %c1, %zero) ({{
        ^bb0(%k: index, %acc: f32):
          %x = {_LOAD_A}
          %y = {_LOAD_B}
          %p = {_MUL}
          %s = {_add("%acc", "%p")}
          "scf.yield"(%s) : (f32) -> ()
        }}) : (index, index, index, f32) -> f32
        "memref.store"(%sum, %c, %i, %j) : (f32, memref<64x64xf32>, index, index) -> ()
        "scf.reduce"() : () -> ()
      }}) : (index, index, index) -> ()
      "scf.reduce"() : () -> ()
    }}) : (index, index, index) -> ()
"""
_REDUCED = f"""\
    "scf.parallel"(%c0, %c64, %c1) {_PAR1} ({{
    ^bb0(%i: index):
      "scf.parallel"(%c0, %c64, %c1) {_PAR1} ({{
      ^bb0(%j: index):
        %sum = "scf.parallel"(%c0, %c64, %c1, %zero) {_PAR1_INIT} ({{
        ^bb0(%k: index):
          %x = {_LOAD_A}
          %y = {_LOAD_B}
          %p = {_MUL}
          "scf.reduce"(%p) ({{
          ^bb0(%l: f32, %r: f32):
            %s = {_add("%l", "%r")}
            "scf.reduce.return"(%s) : (f32) -> ()
          }}) : (f32) -> ()
        }}) : (index, index, index, f32) -> f32
        "memref.store"(%sum, %c, %i, %j) : (f32, memref<64x64xf32>, index, index) -> ()
        "scf.reduce"() : () -> ()
      }}) : (index, index, index) -> ()
      "scf.reduce"() : () -> ()
    }}) : (index, index, index) -> ()
"""
_IN_MEMORY = f"""\
    "scf.parallel"(%c0, %c0, %c64, %c64, %c1, %c1) {_PAR2} ({{
    ^bb0(%i: index, %j: index):
      "memref.store"(%zero, %c, %i, %j) : (f32, memref<64x64xf32>, index, index) -> ()
      "scf.for"(%c0, %c64, %c1) ({{
      ^bb0(%k: index):
        %x = {_LOAD_A}
        %y = {_LOAD_B}
        %p = {_MUL}
        %old = "memref.load"(%c, %i, %j) : (memref<64x64xf32>, index, index) -> f32
        %s = {_add("%old", "%p")}
        "memref.store"(%s, %c, %i, %j) : (f32, memref<64x64xf32>, index, index) -> ()
        "scf.yield"() : () -> ()
      }}) : (index, index, index) -> ()
      "scf.reduce"() : () -> ()
    }}) : (index, index, index, index, index, index) -> ()
"""
MATMULS: Mapping[str, str] = MappingProxyType(
    {
        "carried": _HEAD + _CARRIED + _TAIL,
        "reduced": _HEAD + _REDUCED + _TAIL,
        "in-memory": _HEAD + _IN_MEMORY + _TAIL,
    }
)

_ROUNDS = 10
_TRIPS = 50


def _lanes(type_: str, body: str) -> str:
    return f"""\
"builtin.module"() ({{
  "func.func"() <{{function_type = (memref<4096x{type_}>) -> (), sym_name = "lanes"}}> ({{
  ^bb0(%m: memref<4096x{type_}>):
    %c0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %c1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %n = "arith.constant"() <{{value = 4096 : index}}> : () -> index
    %trips = "arith.constant"() <{{value = {_TRIPS} : index}}> : () -> index
    "scf.parallel"(%c0, %n, %c1) {_PAR1} ({{
    ^bb0(%i: index):
      %x = "memref.load"(%m, %i) : (memref<4096x{type_}>, index) -> {type_}
      %r = "scf.for"(%c0, %trips, %c1, %x) ({{
      ^bb0(%t: index, %v0: {type_}):
{body}
        "scf.yield"(%v{4 * _ROUNDS}) : ({type_}) -> ()
      }}) : (index, index, index, {type_}) -> {type_}
      "memref.store"(%r, %m, %i) : ({type_}, memref<4096x{type_}>, index) -> ()
      "scf.reduce"() : () -> ()
    }}) : (index, index, index) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def _chain(type_: str, ops: tuple[str, ...]) -> str:
    lines = [
        f'      %v{n + 1} = "{op[0]}"(%v{n}, %v0) {op[1]} : ({type_}, {type_}) -> {type_}'
        for n in range(4 * _ROUNDS)
        for op in [ops[n % 4].split(" ", 1)]
    ]
    return "\n".join(lines)


_NONE, _NSW = "<{overflowFlags = #arith.overflow<none>}>", "<{overflowFlags = #arith.overflow<nsw>}>"
_FAST = "<{fastmath = #arith.fastmath<none>}>"
_INTEGER = (f"arith.addi {_NONE}", "arith.xori ", "arith.maxsi ", "arith.andi ")
_CHECKED = ("arith.andi ", f"arith.addi {_NSW}", f"arith.subi {_NSW}", "arith.minsi ")
_FLOATS = (f"arith.addf {_FAST}", f"arith.subf {_FAST}", f"arith.maximumf {_FAST}", f"arith.minimumf {_FAST}")
LANES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "integer": (_lanes("i32", _chain("i32", _INTEGER)), 4 * _ROUNDS * _TRIPS),
        "integer-flags": (_lanes("i32", _chain("i32", _CHECKED)), 4 * _ROUNDS * _TRIPS),
        "float-bounds": (_lanes("f32", _chain("f32", _FLOATS)), 4 * _ROUNDS * _TRIPS),
    }
)

LOOP = f"""\
"builtin.module"() ({{
  "func.func"() <{{function_type = () -> i64, sym_name = "loop"}}> ({{
    %c0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %c1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %n = "arith.constant"() <{{value = 1000000 : index}}> : () -> index
    %a = "arith.constant"() <{{value = 12345 : i64}}> : () -> i64
    %r = "scf.for"(%c0, %n, %c1, %a) ({{
    ^bb0(%i: index, %acc: i64):
      %w = "arith.index_cast"(%i) : (index) -> i64
      %x = "arith.addi"(%acc, %w) {_NONE} : (i64, i64) -> i64
      %y = "arith.muli"(%x, %a) {_NONE} : (i64, i64) -> i64
      %z = "arith.xori"(%y, %w) : (i64, i64) -> i64
      "scf.yield"(%z) : (i64) -> ()
    }}) : (index, index, index, i64) -> i64
    "func.return"(%r) : (i64) -> ()
  }}) : () -> ()
}}) : () -> ()
"""
