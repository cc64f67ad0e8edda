"builtin.module"() ({
  "func.func"() <{function_type = (memref<6x12xf64>, memref<6x12xf64>) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<6x12xf64>, %arg1: memref<6x12xf64>):
    %0 = "arith.constant"() <{value = 1.000000e+00 : f64}> : () -> f64
    "affine.parallel"() <{lowerBoundsGroups = dense<1> : tensor<1xi32>, lowerBoundsMap = affine_map<() -> (0)>, reductions = [], steps = [1], upperBoundsGroups = dense<1> : tensor<1xi32>, upperBoundsMap = affine_map<() -> (6)>}> ({
    ^bb0(%arg2: index):
      "affine.parallel"() <{lowerBoundsGroups = dense<1> : tensor<1xi32>, lowerBoundsMap = affine_map<() -> (0)>, reductions = [], steps = [1], upperBoundsGroups = dense<1> : tensor<1xi32>, upperBoundsMap = affine_map<() -> (12)>}> ({
      ^bb0(%arg3: index):
        %1 = "affine.for"(%0) <{lowerBoundMap = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 0, 0, 1>, step = 1 : index, upperBoundMap = affine_map<() -> (3)>}> ({
        ^bb0(%arg4: index, %arg5: f64):
          %2 = "affine.load"(%arg0, %arg2, %arg3, %arg4) <{map = affine_map<(d0, d1, d2) -> (d0, (d1 + d2) mod 12)>}> : (memref<6x12xf64>, index, index, index) -> f64
          %3 = "arith.addf"(%arg5, %2) : (f64, f64) -> f64
          "affine.yield"(%3) : (f64) -> ()
        }) : (f64) -> f64
        "affine.if"(%arg2, %arg3) <{condition = affine_set<(d0, d1) : (d0 - d1 >= 0)>}> ({
          "affine.store"(%1, %arg1, %arg2, %arg3) <{map = affine_map<(d0, d1) -> (d0, d1)>}> : (f64, memref<6x12xf64>, index, index) -> ()
          "affine.yield"() : () -> ()
        }, {
        }) : (index, index) -> ()
        "affine.yield"() : () -> ()
      }) : () -> ()
      "affine.yield"() : () -> ()
    }) : () -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
