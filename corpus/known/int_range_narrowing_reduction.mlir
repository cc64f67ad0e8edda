// The range of a reduction is taken for that of one yielded value, and the sum is narrowed away. Right: 0 + 0 + 2 = 2.
// DIFFTEST: entry=k
// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline 'arith-int-range-narrowing{int-bitwidths-supported=1,8,16,32}'
// EXPECT: mlir agree
// EXPECT: enzyme-ad@0.0.14 agree
// EXPECT: enzyme-ad@0.0.15 mismatch
// EXPECT: enzyme-ad@0.0.16 mismatch
func.func @k() -> i64 {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %s = affine.parallel (%i, %j) = (0, 0) to (3, 1) reduce ("addi") -> (i32) {
    %a = arith.andi %i, %c2 : index
    %b = arith.ori %a, %c1 : index
    %c = arith.index_cast %b : index to i32
    %d = arith.index_cast %c1 : index to i32
    %e = arith.xori %c, %d : i32
    affine.yield %e : i32
  }
  %r = arith.extui %s : i32 to i64
  return %r : i64
}
