// Reverse mode of a loop whose step does not divide its range: the cache has (ub - lb) / step slots, rounded down, and
// the reverse index is off. Right: 2 x at 1, 3, 5 and nothing elsewhere.
// DIFFTEST: entry=gradient
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline enzyme-diff
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
"builtin.module"() ({
  "func.func"() <{function_type = (memref<6xf64>, memref<6xf64>) -> (), sym_name = "squares", sym_visibility = "private"}> ({
  ^bb0(%x: memref<6xf64>, %y: memref<6xf64>):
    %c1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %c2 = "arith.constant"() <{value = 2 : index}> : () -> index
    %c6 = "arith.constant"() <{value = 6 : index}> : () -> index
    "scf.for"(%c1, %c6, %c2) ({
    ^bb0(%i: index):
      %a = "memref.load"(%x, %i) : (memref<6xf64>, index) -> f64
      %m = "arith.mulf"(%a, %a) : (f64, f64) -> f64
      "memref.store"(%m, %y, %i) : (f64, memref<6xf64>, index) -> ()
      "scf.yield"() : () -> ()
    }) : (index, index, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (memref<6xf64>, memref<6xf64>, memref<6xf64>, memref<6xf64>) -> (), sym_name = "gradient"}> ({
  ^bb0(%x: memref<6xf64>, %dx: memref<6xf64>, %y: memref<6xf64>, %dy: memref<6xf64>):
    "enzyme.autodiff"(%x, %dx, %y, %dy) <{activity = [#enzyme<activity enzyme_dup>, #enzyme<activity enzyme_dup>], fn = @squares, ret_activity = [], width = 1 : i64}> : (memref<6xf64>, memref<6xf64>, memref<6xf64>, memref<6xf64>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
