"builtin.module"() ({
  "func.func"() <{function_type = (f64, f64, memref<?xf64>) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: f64, %arg1: f64, %arg2: memref<?xf64>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "enzyme.autodiff_region"(%arg0, %arg1) <{activity = [#enzyme<activity enzyme_active>], atomic_add = false, ret_activity = [#enzyme<activity enzyme_activenoneed>], strong_zero = false, width = 1 : i64}> ({
    ^bb0(%arg3: f64):
      %2 = "math.cos"(%arg3) : (f64) -> f64
      %3 = "arith.mulf"(%2, %arg3) : (f64, f64) -> f64
      "enzyme.yield"(%3) : (f64) -> ()
    }) : (f64, f64) -> f64
    "memref.store"(%1, %arg2, %0) : (f64, memref<?xf64>, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
