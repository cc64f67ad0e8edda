"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xf32>, memref<?xf32>, index) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<?xf32>, %arg1: memref<?xf32>, %arg2: index):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 64 : index}> : () -> index
    %3 = "enzymexla.gpu_wrapper"(%arg2, %1, %1, %2, %1, %1) ({
      "scf.parallel"(%0, %0, %arg2, %2, %1, %1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
      ^bb0(%arg3: index, %arg4: index):
        %4 = "arith.muli"(%arg3, %2) : (index, index) -> index
        %5 = "arith.addi"(%4, %arg4) : (index, index) -> index
        %6 = "memref.load"(%arg0, %5) : (memref<?xf32>, index) -> f32
        %7 = "math.sqrt"(%6) : (f32) -> f32
        "memref.store"(%7, %arg1, %5) : (f32, memref<?xf32>, index) -> ()
        "scf.reduce"() : () -> ()
      }) : (index, index, index, index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
