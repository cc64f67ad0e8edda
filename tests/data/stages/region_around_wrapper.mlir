"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xf64>, memref<?xf64>, index) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<?xf64>, %arg1: memref<?xf64>, %arg2: index):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 16 : index}> : () -> index
    "enzyme.autodiff_region"(%arg0, %arg1) <{activity = [#enzyme<activity enzyme_dup>], atomic_add = false, ret_activity = [], strong_zero = false, width = 1 : i64}> ({
    ^bb0(%arg3: memref<?xf64>):
      %3 = "enzymexla.gpu_wrapper"(%arg2, %1, %1, %2, %1, %1) ({
        "scf.parallel"(%0, %0, %arg2, %2, %1, %1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
        ^bb0(%arg4: index, %arg5: index):
          %4 = "arith.muli"(%arg4, %2) : (index, index) -> index
          %5 = "arith.addi"(%4, %arg5) : (index, index) -> index
          %6 = "memref.load"(%arg3, %5) : (memref<?xf64>, index) -> f64
          %7 = "arith.mulf"(%6, %6) : (f64, f64) -> f64
          "memref.store"(%7, %arg3, %5) : (f64, memref<?xf64>, index) -> ()
          "scf.reduce"() : () -> ()
        }) : (index, index, index, index, index, index) -> ()
        "enzymexla.polygeist_yield"() : () -> ()
      }) : (index, index, index, index, index, index) -> index
      "enzyme.yield"() : () -> ()
    }) : (memref<?xf64>, memref<?xf64>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
