// An op inside an inner scf.for that uses the iter_arg of the affine.for around it is hoisted above that affine.for.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'func.func(affine-loop-invariant-code-motion)'
// EXPECT: mlir invalid-ir
// EXPECT: enzyme-ad@0.0.14 invalid-ir
// EXPECT: enzyme-ad@0.0.15 invalid-ir
// EXPECT: enzyme-ad@0.0.16 invalid-ir
func.func @k(%o: memref<1xi8>) {
  %z = arith.constant 1 : i8
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = affine.for %i = 0 to 2 iter_args(%x = %z) -> (i8) {
    scf.for %j = %c1 to %c4 step %c1 {
      %t = arith.addi %x, %z : i8
    }
    affine.yield %z : i8
  }
  affine.store %r, %o[0] : memref<1xi8>
  return
}
