"builtin.module"() ({
  "func.func"() <{function_type = (memref<4xf64>, memref<4xf64>, memref<4xf64>, memref<4xf64>) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<4xf64>, %arg1: memref<4xf64>, %arg2: memref<4xf64>, %arg3: memref<4xf64>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 4 : index}> : () -> index
    "enzyme.autodiff_region"(%arg0, %arg1, %arg2, %arg3) <{activity = [#enzyme<activity enzyme_dup>, #enzyme<activity enzyme_dup>], atomic_add = false, ret_activity = [], strong_zero = false, width = 1 : i64}> ({
    ^bb0(%arg4: memref<4xf64>, %arg5: memref<4xf64>):
      "scf.for"(%0, %2, %1) ({
      ^bb0(%arg6: index):
        %3 = "memref.load"(%arg4, %arg6) : (memref<4xf64>, index) -> f64
        %4 = "arith.mulf"(%3, %3) : (f64, f64) -> f64
        "memref.store"(%4, %arg5, %arg6) : (f64, memref<4xf64>, index) -> ()
        "scf.yield"() : () -> ()
      }) : (index, index, index) -> ()
      "enzyme.yield"() : () -> ()
    }) : (memref<4xf64>, memref<4xf64>, memref<4xf64>, memref<4xf64>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
