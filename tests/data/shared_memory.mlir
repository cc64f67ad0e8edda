// Lowers to one kernel with a shared buffer in every enzyme-ad version.
"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xf64>, memref<?xf64>, index) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<?xf64>, %arg1: memref<?xf64>, %arg2: index):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 31 : index}> : () -> index
    %3 = "arith.constant"() <{value = 32 : index}> : () -> index
    %4 = "enzymexla.gpu_wrapper"(%arg2, %1, %1, %3, %1, %1) ({
      "scf.parallel"(%0, %arg2, %1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
      ^bb0(%arg3: index):
        %5 = "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<32xf64>
        "scf.parallel"(%0, %3, %1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
        ^bb0(%arg4: index):
          %6 = "arith.muli"(%arg3, %3) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
          %7 = "arith.addi"(%6, %arg4) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
          %8 = "memref.load"(%arg0, %7) : (memref<?xf64>, index) -> f64
          "memref.store"(%8, %5, %arg4) : (f64, memref<32xf64>, index) -> ()
          "enzymexla.barrier"(%arg4) : (index) -> ()
          %9 = "arith.subi"(%2, %arg4) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
          %10 = "memref.load"(%5, %9) : (memref<32xf64>, index) -> f64
          "memref.store"(%10, %arg1, %7) : (f64, memref<?xf64>, index) -> ()
          "scf.reduce"() : () -> ()
        }) : (index, index, index) -> ()
        "scf.reduce"() : () -> ()
      }) : (index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
