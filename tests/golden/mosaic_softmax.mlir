module @softmax {
  func.func @main(%arg0: i32, %arg1: memref<1x4x6xf32, #tpu.memory_space<vmem>>, %arg2: memref<1x4x6xf32, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>], iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, tpu.core_type = #tpu.core_type<tc>, window_params = [{transform_indices = @transform_0, window_bounds = array<i64: 1, 4, 6>}, {transform_indices = @transform_1, window_bounds = array<i64: 1, 4, 6>}]} {
    %c0 = arith.constant 0 : index
    %cst = arith.constant dense<0xFF800000> : vector<4xf32>
    %cst_0 = arith.constant dense<0.000000e+00> : vector<4xf32>
    %0 = vector.load %arg1[%c0, %c0, %c0] : memref<1x4x6xf32, #tpu.memory_space<vmem>>, vector<1x4x6xf32>
    %1 = vector.shape_cast %0 : vector<1x4x6xf32> to vector<4x6xf32>
    %2 = vector.multi_reduction <maximumf>, %1, %cst [1] : vector<4x6xf32> to vector<4xf32>
    %3 = vector.shape_cast %2 : vector<4xf32> to vector<4x1xf32>
    %4 = vector.shape_cast %3 : vector<4x1xf32> to vector<1x4xf32>
    %5 = vector.shape_cast %4 : vector<1x4xf32> to vector<4x1xf32>
    %6 = vector.broadcast %5 : vector<4x1xf32> to vector<4x6xf32>
    %7 = arith.subf %1, %6 : vector<4x6xf32>
    %8 = math.exp %7 : vector<4x6xf32>
    %9 = vector.multi_reduction <add>, %8, %cst_0 [1] : vector<4x6xf32> to vector<4xf32>
    %10 = vector.shape_cast %9 : vector<4xf32> to vector<4x1xf32>
    %11 = vector.shape_cast %10 : vector<4x1xf32> to vector<1x4xf32>
    %12 = vector.shape_cast %11 : vector<1x4xf32> to vector<4x1xf32>
    %13 = vector.broadcast %12 : vector<4x1xf32> to vector<4x6xf32>
    %14 = arith.divf %8, %13 : vector<4x6xf32>
    %15 = vector.shape_cast %14 : vector<4x6xf32> to vector<1x4x6xf32>
    tpu.vector_store %arg2[%c0, %c0, %c0], %15 {strides = array<i32>} : memref<1x4x6xf32, #tpu.memory_space<vmem>>, vector<1x4x6xf32>, 
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
}
