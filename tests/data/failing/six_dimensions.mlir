// pipeline: canonicalize,convert-parallel-to-gpu1
// never converges in enzyme-ad 0.0.14 and 0.0.15 (Enzyme-JAX issue 2358), fixed in 0.0.16
"builtin.module"() ({
  "func.func"() <{function_type = (memref<2x2xf32>, index) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<2x2xf32>, %arg1: index):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 2 : index}> : () -> index
    %3 = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> f32
    %4 = "enzymexla.gpu_wrapper"(%arg1, %arg1, %arg1, %arg1, %arg1, %arg1) ({
      "scf.parallel"(%0, %0, %0, %arg1, %arg1, %arg1, %1, %1, %1) <{operandSegmentSizes = array<i32: 3, 3, 3, 0>}> ({
      ^bb0(%arg2: index, %arg3: index, %arg4: index):
        "scf.parallel"(%0, %0, %0, %arg1, %arg1, %arg1, %1, %1, %1) <{operandSegmentSizes = array<i32: 3, 3, 3, 0>}> ({
        ^bb0(%arg5: index, %arg6: index, %arg7: index):
          "enzyme.autodiff_region"(%arg0, %arg0) <{activity = [#enzyme<activity enzyme_dup>], atomic_add = false, ret_activity = [], strong_zero = false, width = 1 : i64}> ({
          ^bb0(%arg8: memref<2x2xf32>):
            "scf.parallel"(%0, %2, %1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
            ^bb0(%arg9: index):
              "memref.store"(%3, %arg8, %arg9, %arg9) : (f32, memref<2x2xf32>, index, index) -> ()
              "scf.reduce"() : () -> ()
            }) : (index, index, index) -> ()
            "enzyme.yield"() : () -> ()
          }) : (memref<2x2xf32>, memref<2x2xf32>) -> ()
          "scf.reduce"() : () -> ()
        }) : (index, index, index, index, index, index, index, index, index) -> ()
        "scf.reduce"() : () -> ()
      }) : (index, index, index, index, index, index, index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
