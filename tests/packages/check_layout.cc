// SPDX-License-Identifier: Apache-2.0
//
// Holds the layout that the TensorFlow source assumes against the wheel's own
// headers. Compiles only where the assumptions hold; run, it prints each figure
// as name=value and checks what the headers keep in inline functions.
//
//   flags=$(python -c 'import tensorflow as tf; print(*tf.sysconfig.get_compile_flags())')
//   g++ -std=c++17 -O1 -w -fno-access-control -ffunction-sections $flags
//       -Wl,--gc-sections check_layout.cc -o check_layout
//
// It links nothing of TensorFlow: the inline functions that would need it are
// never called, so --gc-sections drops them. -fno-access-control opens the
// private members. The figures are those of tensorflow-cpu 2.21.0 on x86-64.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tensorflow/core/framework/op_kernel.h"

namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShapeRep;
using tensorflow::TensorValue;
using Params = OpKernelContext::Params;
using Inputs = decltype(Params::inputs);

// These classes have virtual functions or non-standard layout, where offsetof is
// only conditionally supported; gcc and clang give the true offset (-w: no warning).
#define CORUN_LAYOUT(X)                                                \
    X(context_params, offsetof(OpKernelContext, params_), 24)          \
    X(params_op_kernel, offsetof(Params, op_kernel), 32)               \
    X(params_device, offsetof(Params, device), 40)                     \
    X(params_inputs, offsetof(Params, inputs), 176)                    \
    X(inputs_size, sizeof(Inputs), 16)                                 \
    X(inputs_data, offsetof(Inputs, ptr_), 0)                          \
    X(inputs_length, offsetof(Inputs, len_), 8)                        \
    X(tensor_value_size, sizeof(TensorValue), 16)                      \
    X(tensor_value_mutex, offsetof(TensorValue, mutex_if_ref), 0)      \
    X(tensor_value_tensor, offsetof(TensorValue, tensor), 8)           \
    X(tensor_size, sizeof(Tensor), 32)                                 \
    X(tensor_shape, offsetof(Tensor, shape_), 0)                       \
    X(shape_size, sizeof(TensorShapeRep), 24)                          \
    X(shape_bytes, offsetof(TensorShapeRep, u_), 0)                    \
    X(shape_num_elements, offsetof(TensorShapeRep, num_elements_), 16) \
    X(shape_tag_16_bit_dims, TensorShapeRep::REP16, 0)                 \
    X(shape_tag_32_bit_dims, TensorShapeRep::REP32, 1)                 \
    X(shape_tag_out_of_line, TensorShapeRep::REP_OUT_OF_LINE, 2)       \
    X(shape_unknown_rank, TensorShapeRep::kUnknownRank, 255)

#define CORUN_ASSERT(name, value, expected) static_assert((value) == (expected), #name " is not " #expected);
CORUN_LAYOUT(CORUN_ASSERT)
#undef CORUN_ASSERT

static_assert(sizeof(Inputs::ptr_) == 8 && sizeof(Inputs::len_) == 8);
static_assert(sizeof(TensorShapeRep::num_elements_) == 8);
static_assert(sizeof(TensorShapeRep::Rep16) == 12);
static_assert(sizeof(TensorShapeRep::Rep32) == 12);

// The members that no assumption rests on, printed for who needs them.
#define CORUN_FIGURES(X)                                       \
    X(context_size, sizeof(OpKernelContext))                   \
    X(params_size, sizeof(Params))                             \
    X(kernel_name_view, offsetof(OpKernel, name_view_))        \
    X(kernel_type_view, offsetof(OpKernel, type_string_view_)) \
    X(kernel_expensive, offsetof(OpKernel, expensive_))

// What a byte of the shape means is written in inline functions only: a shape
// whose byte i holds i tells where each of them looks.
struct ShapeBytes {
    alignas(TensorShapeRep) unsigned char bytes[sizeof(TensorShapeRep)] = {};
    const TensorShapeRep& shape() const { return *reinterpret_cast<const TensorShapeRep*>(bytes); }
};

int failures = 0;

void check(const char* name, std::size_t value, std::size_t expected) {
    std::printf("%s=%zu\n", name, value);
    if (value == expected) return;
    std::fprintf(stderr, "%s is %zu, not %zu\n", name, value, expected);
    ++failures;
}

void check_shape_bytes() {
    ShapeBytes probe;
    for (std::size_t i = 0; i < sizeof probe.bytes; ++i) probe.bytes[i] = static_cast<unsigned char>(i);
    check("shape_tag_byte", probe.shape().tag(), 15);
    check("shape_ndims_byte", probe.shape().ndims_byte(), 14);
    check("shape_dtype_byte", probe.shape().data_type(), 13);

    ShapeBytes narrow;
    const std::uint16_t narrow_dims[] = {7, 11};
    std::memcpy(narrow.bytes, narrow_dims, sizeof narrow_dims);
    check("shape_second_16_bit_dim", narrow.shape().as16()->dims_[1], 11);

    ShapeBytes wide;
    const std::uint32_t wide_dims[] = {70000, 80000};
    std::memcpy(wide.bytes, wide_dims, sizeof wide_dims);
    check("shape_second_32_bit_dim", wide.shape().as32()->dims_[1], 80000);
}

}  // namespace

int main() {
#define CORUN_PRINT(name, value, expected) std::printf("%s=%zu\n", #name, static_cast<std::size_t>(value));
    CORUN_LAYOUT(CORUN_PRINT)
#undef CORUN_PRINT
#define CORUN_PRINT(name, value) std::printf("%s=%zu\n", #name, static_cast<std::size_t>(value));
    CORUN_FIGURES(CORUN_PRINT)
#undef CORUN_PRINT
    check_shape_bytes();
    return failures != 0;
}
