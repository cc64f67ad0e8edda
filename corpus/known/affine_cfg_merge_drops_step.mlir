// Merging the loops 0..n step 3 and 0..5 into one over 5n drops the step.
// DIFFTEST: entry=k inputs=%0=10,%1:[200]
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline affine-cfg
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%n: index, %o: memref<?xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %c10 = arith.constant 10 : index
  %z = arith.constant 0.0 : f64
  scf.parallel (%i) = (%c0) to (%c4) step (%c1) {
    scf.parallel (%j, %k) = (%c0, %c0) to (%n, %c5) step (%c3, %c1) {
      %a = arith.muli %i, %c10 : index
      %b = arith.addi %a, %j : index
      %c = arith.muli %b, %c5 : index
      %d = arith.addi %c, %k : index
      memref.store %z, %o[%d] : memref<?xf64>
      scf.reduce
    }
    scf.reduce
  }
  return
}
