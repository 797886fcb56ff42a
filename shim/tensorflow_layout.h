// SPDX-License-Identifier: Apache-2.0
// What is read of TensorFlow's objects without its headers: op name, input shapes.
// tests/packages/check_layout.cc holds the figures against the wheel's own headers; at run time each new op
// key is held against TraceString().
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/scope.h"

namespace corun::tensorflow {

/// std::string as libstdc++ lays it out (new ABI). Freed by free_string() only.
struct CxxString {
    char* data;
    std::size_t size;
    char local[16];
};

/// 0 when the layout is not to be relied upon; else a hash of the shapes of all inputs. Some nanoseconds.
std::uint32_t layout_shape(const void* context) noexcept;

/// Fills `text` from TraceString()'s answer ("name:type#shape=(float[3,4];...)#") and holds the shapes read
/// by layout_shape()'s way against it.
void layout_describe(const CxxString& trace, const void* context, OpText& text) noexcept;

/// False after the first contradiction.
bool layout_holds() noexcept;

}  // namespace corun::tensorflow
