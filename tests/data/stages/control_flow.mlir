"builtin.module"() ({
  "func.func"() <{function_type = (i64) -> (i64, i1), sym_name = "helper", sym_visibility = "private"}> ({
  }) : () -> ()
  "func.func"() <{function_type = (i64, i1, memref<?xi64>) -> i64, sym_name = "k"}> ({
  ^bb0(%arg0: i64, %arg1: i1, %arg2: memref<?xi64>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 1 : i64}> : () -> i64
    %3 = "arith.constant"() <{value = 10 : i64}> : () -> i64
    %4:2 = "scf.while"(%arg0, %2) ({
    ^bb0(%arg3: i64, %arg4: i64):
      %9 = "arith.cmpi"(%arg3, %3) <{predicate = 2 : i64}> : (i64, i64) -> i1
      "scf.condition"(%9, %arg3, %arg4) : (i1, i64, i64) -> ()
    }, {
    ^bb0(%arg3: i64, %arg4: i64):
      %9 = "arith.muli"(%arg4, %3) <{overflowFlags = #arith.overflow<nsw>}> : (i64, i64) -> i64
      %10 = "arith.addi"(%arg3, %2) : (i64, i64) -> i64
      "scf.yield"(%10, %9) : (i64, i64) -> ()
    }) : (i64, i64) -> (i64, i64)
    %5 = "scf.index_switch"(%1) <{cases = array<i64: 0, 1>}> ({
      "scf.yield"(%3) : (i64) -> ()
    }, {
      "scf.yield"(%2) : (i64) -> ()
    }, {
      "scf.yield"(%4#1) : (i64) -> ()
    }) : (index) -> i64
    %6:2 = "func.call"(%5) <{callee = @helper}> : (i64) -> (i64, i1)
    "cf.cond_br"(%6#1, %6#0)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i1, i64) -> ()
  ^bb1(%7: i64):
    "memref.store"(%7, %arg2, %0) : (i64, memref<?xi64>, index) -> ()
    "cf.br"(%7)[^bb3] : (i64) -> ()
  ^bb2:
    "cf.switch"(%arg0, %2, %3)[^bb3, ^bb3] <{case_operand_segments = array<i32: 1>, case_values = dense<3> : vector<1xi64>, operandSegmentSizes = array<i32: 1, 1, 1>}> : (i64, i64, i64) -> ()
  ^bb3(%8: i64):
    "func.return"(%8) : (i64) -> ()
  }) : () -> ()
}) : () -> ()
