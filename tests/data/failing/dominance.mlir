// pipeline: lower-affine,convert-parallel-to-gpu1
// invalid IR, a use is not dominated, in enzyme-ad 0.0.14, 0.0.15, 0.0.16 (PIPELINES 9)
"builtin.module"() ({
  "func.func"() <{function_type = (memref<32xf32>, f32) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<32xf32>, %arg1: f32):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 2 : index}> : () -> index
    %3 = "arith.constant"() <{value = 32 : index}> : () -> index
    %4 = "enzymexla.gpu_wrapper"(%2, %1, %1, %3, %1, %1) ({
      "scf.parallel"(%0, %0, %2, %3, %1, %1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
      ^bb0(%arg2: index, %arg3: index):
        %5 = "memref.atomic_rmw"(%arg1, %arg0, %arg3) <{kind = 8 : i64}> : (f32, memref<32xf32>, index) -> f32
        "scf.parallel"(%0, %2, %1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
        ^bb0(%arg4: index):
          "memref.store"(%5, %arg0, %arg4) : (f32, memref<32xf32>, index) -> ()
          "scf.reduce"() : () -> ()
        }) : (index, index, index) -> ()
        "scf.reduce"() : () -> ()
      }) : (index, index, index, index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
