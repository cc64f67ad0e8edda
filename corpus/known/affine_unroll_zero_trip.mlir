// A loop without iterations gives unroll factor 0, by which the pass divides.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'func.func(affine-loop-unroll{unroll-up-to-factor=true})'
// EXPECT: mlir crash
// EXPECT: enzyme-ad@0.0.14 crash
// EXPECT: enzyme-ad@0.0.15 crash
// EXPECT: enzyme-ad@0.0.16 crash
func.func @k() {
  affine.for %i = 0 to 0 {
    affine.parallel (%j) = (0) to (1) {
    }
  }
  return
}
