// pipeline: remove-dead-values{canonicalize=false}
// null operands in every toolchain (PASSES 8)
"builtin.module"() ({
  "func.func"() <{function_type = (memref<4xf64>, index) -> f64, sym_name = "never_called", sym_visibility = "private"}> ({
  ^bb0(%arg1: memref<4xf64>, %arg2: index):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %2 = "arith.constant"() <{value = 1.000000e+00 : f64}> : () -> f64
    %3 = "scf.for"(%0, %arg2, %1, %2) ({
    ^bb0(%arg3: index, %arg4: f64):
      %4 = "memref.load"(%arg1, %arg3) : (memref<4xf64>, index) -> f64
      %5 = "arith.addf"(%arg4, %4) <{fastmath = #arith.fastmath<none>}> : (f64, f64) -> f64
      "scf.yield"(%5) : (f64) -> ()
    }) : (index, index, index, f64) -> f64
    "func.return"(%3) : (f64) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (memref<4xf64>) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<4xf64>):
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
