// Range analysis never visits the results of scf.parallel: a value carried around it stays the constant it began as.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline int-range-optimizations
// EXPECT: mlir mismatch
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%o: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %one = arith.constant 1 : i32
  %r = affine.for %i = 0 to 2 iter_args(%x = %one) -> (i32) {
    memref.store %x, %o[%c0] : memref<1xi32>
    %s = scf.parallel (%j) = (%c0) to (%c2) step (%c1) init (%x) -> i32 {
      scf.reduce(%one : i32) {
      ^bb0(%a: i32, %b: i32):
        %t = arith.addi %a, %b : i32
        scf.reduce.return %t : i32
      }
    }
    affine.yield %s : i32
  }
  return
}
