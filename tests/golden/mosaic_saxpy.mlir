module @saxpy {
  func.func @main(%arg0: i32, %arg1: memref<1x1x4xf32, #tpu.memory_space<vmem>>, %arg2: memref<1x1x4xf32, #tpu.memory_space<vmem>>, %arg3: memref<1x1x4xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>], iteration_bounds = array<i64: 3>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, 1, 4>}, {transform_indices = @transform_1, window_bounds = array<i64: 1, 1, 4>}, {transform_indices = @transform_2, window_bounds = array<i64: 1, 1, 4>}]} {
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<2.500000e+00> : vector<1x4xf32>
    %0 = vector.load %arg1[%c0, %c0, %c0] : memref<1x1x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4xf32>
    %1 = vector.shape_cast %0 : vector<1x1x4xf32> to vector<1x4xf32>
    %2 = arith.mulf %cst, %1 : vector<1x4xf32>
    %3 = vector.load %arg2[%c0, %c0, %c0] : memref<1x1x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4xf32>
    %4 = vector.shape_cast %3 : vector<1x1x4xf32> to vector<1x4xf32>
    %5 = arith.addf %2, %4 : vector<1x4xf32>
    %6 = vector.shape_cast %5 : vector<1x4xf32> to vector<1x1x4xf32>
    tpu.vector_store %arg3[%c0, %c0, %c0], %6 {strides = array<i32>} : memref<1x1x4xf32, #tpu.memory_space<vmem>>, vector<1x1x4xf32>, 
    return
  }
  func.func @transform_0(%arg0: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32, %c0_i32 : i32, i32, i32
  }
  func.func @transform_1(%arg0: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32, %c0_i32 : i32, i32, i32
  }
  func.func @transform_2(%arg0: i32) -> (i32, i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32, %c0_i32 : i32, i32, i32
  }
}
