"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xi32>, index, index) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<?xi32>, %arg1: index, %arg2: index):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 2 : index}> : () -> index
    %3 = "arith.constant"() <{value = 3 : index}> : () -> index
    %4 = "arith.constant"() <{value = 7 : i32}> : () -> i32
    "scf.parallel"(%0, %0, %arg1, %arg2, %1, %1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
    ^bb0(%arg3: index, %arg4: index):
      "scf.parallel"(%0, %0, %2, %3, %1, %1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
      ^bb0(%arg5: index, %arg6: index):
        %5 = "arith.muli"(%arg3, %arg2) : (index, index) -> index
        %6 = "arith.addi"(%5, %arg4) : (index, index) -> index
        %7 = "arith.muli"(%6, %2) : (index, index) -> index
        %8 = "arith.addi"(%7, %arg5) : (index, index) -> index
        %9 = "arith.muli"(%8, %3) : (index, index) -> index
        %10 = "arith.addi"(%9, %arg6) : (index, index) -> index
        %11 = "memref.load"(%arg0, %10) : (memref<?xi32>, index) -> i32
        %12 = "arith.xori"(%11, %4) : (i32, i32) -> i32
        "memref.store"(%12, %arg0, %10) : (i32, memref<?xi32>, index) -> ()
        "scf.reduce"() : () -> ()
      }) : (index, index, index, index, index, index) -> ()
      "scf.reduce"() : () -> ()
    }) : (index, index, index, index, index, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
