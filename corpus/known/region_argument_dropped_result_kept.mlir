// canonicalize drops the unused active argument of a region but keeps the result that was its gradient: two results,
// one active argument. `enzyme` then dies in varying places.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline canonicalize
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
"builtin.module"() ({
  "func.func"() <{function_type = (memref<1xf32>) -> (), sym_name = "k"}> ({
  ^bb0(%out: memref<1xf32>):
    %one = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> f32
    %c0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %g = "enzyme.autodiff_region"(%one, %one) <{activity = [#enzyme<activity enzyme_active>], ret_activity = [#enzyme<activity enzyme_activenoneed>]}> ({
    ^bb0(%x: f32):
      "enzyme.yield"(%one) : (f32) -> ()
    }) : (f32, f32) -> f32
    "memref.store"(%g, %out, %c0) : (f32, memref<1xf32>, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
