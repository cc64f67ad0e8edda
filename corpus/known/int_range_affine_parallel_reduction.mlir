// The reduced value of an affine.parallel is taken for the yielded one: a sum of two ones becomes 1.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline int-range-optimizations
// EXPECT: mlir agree
// EXPECT: enzyme-ad@0.0.14 agree
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%o: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %s = affine.parallel (%i) = (0) to (2) reduce ("addi") -> (i32) {
    affine.yield %one : i32
  }
  memref.store %s, %o[%c0] : memref<1xi32>
  return
}
