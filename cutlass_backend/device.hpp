// What comes before CUTLASS's headers: what NVRTC lacks of the standard library, and tensor descriptors made on the device.
#include <cuda/std/cstdint>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>

#ifdef __CUDACC_RTC__
namespace cute {
template <class...> struct tuple;
}
namespace std {
using cuda::std::is_pointer_v;
using cuda::std::void_t;
template <class...> struct tuple_size;
template <size_t, class...> struct tuple_element;
template <class... T> struct tuple_size<cute::tuple<T...> const> : cuda::std::integral_constant<size_t, sizeof...(T)> {};
template <size_t I, class... T> struct tuple_element<I, cute::tuple<T...> const> {
  using type = cuda::std::tuple_element_t<I, cuda::std::tuple<T...>> const;
};
}  // namespace std
#endif

namespace cutlass {
struct tfloat32_t;
}
namespace tilewright {

// What a descriptor is made of, kept in its place until `encode` makes it.
struct Recipe {
  unsigned long long address, strides[4];
  unsigned sizes[5];
  unsigned short box[5];
  unsigned char format, rank, swizzle;
};
static_assert(sizeof(Recipe) <= 128, "");

// PTX ISA, tensormap.replace: the values of the field elemtype; formats of one size differ in nothing that copies.
template <class T> constexpr int format_of = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 4;
template <> constexpr int format_of<cutlass::tfloat32_t> = 11;  // what is copied is rounded

__device__ inline void recipe(void* out, int format, int rank, void* address, cuda::std::uint64_t const* sizes,
                              cuda::std::uint64_t const* strides, cuda::std::uint32_t const* box, int swizzle) {
  Recipe r{};
  r.address = reinterpret_cast<unsigned long long>(address);
  r.format = format; r.rank = rank; r.swizzle = swizzle;
  for (int i = 0; i < 5; ++i) { r.sizes[i] = static_cast<unsigned>(sizes[i]); r.box[i] = box[i]; }
  for (int i = 0; i < 4; ++i) r.strides[i] = strides[i];
  *reinterpret_cast<Recipe*>(out) = r;
}

#define TILEWRIGHT_FIELD(name, type, c, value) \
  asm volatile("tensormap.replace.tile." name ".shared::cta.b1024." type " [%0], %1;" ::"r"(d), c(value) : "memory")
#define TILEWRIGHT_AXIS(name, type, i, c, value) \
  asm volatile("tensormap.replace.tile." name ".shared::cta.b1024." type " [%0], " #i ", %1;" ::"r"(d), c(value) : "memory")
#define TILEWRIGHT_KIND(name, v) \
  asm volatile("tensormap.replace.tile." name ".shared::cta.b1024.b32 [%0], " #v ";" ::"r"(d) : "memory")
#define TILEWRIGHT_SIZES(i)                                               \
  if (i < r.rank) {                                                       \
    TILEWRIGHT_AXIS("box_dim", "b32", i, "r", static_cast<unsigned>(r.box[i])); \
    TILEWRIGHT_AXIS("global_dim", "b32", i, "r", r.sizes[i]);             \
    TILEWRIGHT_AXIS("element_stride", "b32", i, "r", 1u);                 \
  }
#define TILEWRIGHT_STRIDES(i) \
  if (i + 1 < r.rank) TILEWRIGHT_AXIS("global_stride", "b64", i, "l", r.strides[i]);

// Make the descriptor that a recipe says, in 128 bytes of shared memory, and put it in the recipe's place.
__device__ inline void encode(void const* place, char* shared) {
  Recipe r = *reinterpret_cast<Recipe const*>(place);
  auto words = reinterpret_cast<unsigned long long volatile*>(shared);
  unsigned d = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  for (int i = 0; i < 16; ++i) words[i] = 0;
  TILEWRIGHT_FIELD("global_address", "b64", "l", r.address);
  TILEWRIGHT_FIELD("rank", "b32", "r", static_cast<unsigned>(r.rank) - 1);
  TILEWRIGHT_SIZES(0) TILEWRIGHT_SIZES(1) TILEWRIGHT_SIZES(2) TILEWRIGHT_SIZES(3) TILEWRIGHT_SIZES(4)
  TILEWRIGHT_STRIDES(0) TILEWRIGHT_STRIDES(1) TILEWRIGHT_STRIDES(2) TILEWRIGHT_STRIDES(3)
  if (r.format == 0) TILEWRIGHT_KIND("elemtype", 0);
  else if (r.format == 1) TILEWRIGHT_KIND("elemtype", 1);
  else if (r.format == 2) TILEWRIGHT_KIND("elemtype", 2);
  else TILEWRIGHT_KIND("elemtype", 4);
  TILEWRIGHT_KIND("interleave_layout", 0);
  TILEWRIGHT_KIND("fill_mode", 0);
  if (r.swizzle == 3) TILEWRIGHT_KIND("swizzle_mode", 3);
  else if (r.swizzle == 2) TILEWRIGHT_KIND("swizzle_mode", 2);
  else if (r.swizzle == 1) TILEWRIGHT_KIND("swizzle_mode", 1);
  else TILEWRIGHT_KIND("swizzle_mode", 0);
  auto to = reinterpret_cast<unsigned long long*>(const_cast<void*>(place));
  for (int i = 0; i < 16; ++i) to[i] = words[i];
}

// The thread that wrote descriptors, then all that use one.
__device__ inline void release() { asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory"); }
__device__ inline void acquire(void const* d) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(d) : "memory");
}

}  // namespace tilewright
