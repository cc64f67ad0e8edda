// What comes after the inner loop runs once per thread of the block instead of once per block.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'func.func(gpu-map-parallel-loops),convert-parallel-loops-to-gpu'
// EXPECT: mlir mismatch
// EXPECT: enzyme-ad@0.0.14 mismatch
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k(%a: memref<6xi32>, %b: memref<2xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %i1 = arith.constant 1 : i32
  scf.parallel (%i) = (%c0) to (%c2) step (%c1) {
    scf.parallel (%j) = (%c0) to (%c3) step (%c1) {
      %x = arith.muli %i, %c3 : index
      %y = arith.addi %x, %j : index
      memref.store %i1, %a[%y] : memref<6xi32>
      scf.reduce
    }
    %v = memref.load %b[%i] : memref<2xi32>
    %w = arith.addi %v, %i1 : i32
    memref.store %w, %b[%i] : memref<2xi32>
    scf.reduce
  }
  return
}
