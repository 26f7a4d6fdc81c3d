// What comes after CUTLASS's headers: numbers as the kernel language has them.
namespace tilewright {

__device__ inline float infinity() { return __int_as_float(0x7f800000); }
__device__ inline float nan() { return __int_as_float(0x7fffffff); }
__device__ inline float larger(float a, float b) { return a > b || a != a ? a : b; }
__device__ inline float smaller(float a, float b) { return a < b || a != a ? a : b; }
__device__ inline float sign(float a) { return a != a || a == 0.0f ? a : copysignf(1.0f, a); }

// A number as one of a type, to the nearest, past its greatest number to infinity or NaN (the instructions stop there).
template <class T> __device__ inline T to(float x) { return T(x); }
template <> __device__ inline cutlass::float_e4m3_t to<cutlass::float_e4m3_t>(float x) {
  return cutlass::float_e4m3_t(fabsf(x) > 464.0f ? nan() : x);
}
template <> __device__ inline cutlass::float_e5m2_t to<cutlass::float_e5m2_t>(float x) {
  if (!(fabsf(x) >= 61440.0f)) return cutlass::float_e5m2_t(x);
  return cutlass::float_e5m2_t::bitcast(x > 0.0f ? 0x7c : 0xfc);
}
template <class T> __device__ inline float rounded(float x) { return static_cast<float>(to<T>(x)); }

}  // namespace tilewright
