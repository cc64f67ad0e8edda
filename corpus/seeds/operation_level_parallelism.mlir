// Second documented case: two independent matrix products and their sum become three kernels. Lowered plainly the
// launches are synchronous; with gpu-async-region they carry tokens, yet the allocation between them breaks the
// chain and they still run one after the other. All forms compute the same values.
//
// DIFFTEST: entry=two_products inputs=seed=3
// RUN: difftest run %s --target mlir --pipeline nvvm-outline
// RUN: difftest run %s --target mlir --pipeline nvvm-async-outline
module {
  func.func @two_products(%lhs: memref<4x5xf32>, %rhs: memref<5x3xf32>) -> memref<4x3xf32> {
    %zero = arith.constant 0.0 : f32
    %first = memref.alloc() : memref<4x3xf32>
    %sum = memref.alloc() : memref<4x3xf32>
    affine.parallel (%i) = (0) to (4) {
      affine.parallel (%j) = (0) to (3) {
        %dot = affine.for %k = 0 to 5 iter_args(%acc = %zero) -> (f32) {
          %x = affine.load %lhs[%i, %k] : memref<4x5xf32>
          %y = affine.load %rhs[%k, %j] : memref<5x3xf32>
          %p = arith.mulf %x, %y : f32
          %s = arith.addf %acc, %p : f32
          affine.yield %s : f32
        }
        affine.store %dot, %first[%i, %j] : memref<4x3xf32>
      }
    }
    %second = memref.alloc() : memref<4x3xf32>
    affine.parallel (%i) = (0) to (4) {
      affine.parallel (%j) = (0) to (3) {
        %dot = affine.for %k = 0 to 5 iter_args(%acc = %zero) -> (f32) {
          %x = affine.load %lhs[%i, %k] : memref<4x5xf32>
          %y = affine.load %rhs[%k, %j] : memref<5x3xf32>
          %twice = arith.addf %x, %x : f32
          %p = arith.mulf %twice, %y : f32
          %s = arith.addf %acc, %p : f32
          affine.yield %s : f32
        }
        affine.store %dot, %second[%i, %j] : memref<4x3xf32>
      }
    }
    affine.parallel (%i) = (0) to (4) {
      affine.parallel (%j) = (0) to (3) {
        %x = affine.load %first[%i, %j] : memref<4x3xf32>
        %y = affine.load %second[%i, %j] : memref<4x3xf32>
        %z = arith.addf %x, %y : f32
        affine.store %z, %sum[%i, %j] : memref<4x3xf32>
      }
    }
    return %sum : memref<4x3xf32>
  }
}
