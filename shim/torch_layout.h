// SPDX-License-Identifier: Apache-2.0
// What is read and written of PyTorch's objects without its headers. tests/packages/check_torch_layout.cc
// holds the figures against the wheel's own headers; at run time each new op key is held against what
// exported functions say.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/scope.h"

namespace corun::torch {

// PyTorch 2.13, x86-64, both libstdc++ ABIs.
inline constexpr std::uint64_t kKnownVersion = 0x020D'0000'0000'0000;  ///< of aoti_torch_abi_version()
inline constexpr std::uint64_t kVersionMask = 0xFFFF'0000'0000'0000;   ///< without the patch level

inline constexpr std::uint8_t kScopeFunction = 0;  ///< at::RecordScope::FUNCTION: operators, and some labels

/// at::StepCallbacks in a std::optional: who is to be called at the begin and the end of a record.
struct StepCallbacks {
    static constexpr std::uint32_t kRoom = 4;
    struct Pair {
        const void* start;
        const void* end;
    };

    Pair* pairs;  ///< c10::SmallVector: `room` itself, or on the heap
    std::uint32_t count;
    std::uint32_t capacity;
    Pair room[kRoom];
    std::uint64_t thread;
    std::uint8_t scope;
    bool needs_inputs;
    bool needs_outputs;
    bool needs_ids;
    alignas(8) bool has_value;  ///< the optional's
};
static_assert(offsetof(StepCallbacks, scope) == 88 && offsetof(StepCallbacks, has_value) == 96);

/// at::RecordFunction.
inline constexpr std::size_t kRecordName = 160;  ///< std::variant<std::string, FunctionSchema const&>
inline constexpr std::size_t kRecordNameIndex = kRecordName + 32;
inline constexpr std::size_t kRecordInputs = 208;  ///< c10::ArrayRef<IValue>: pointer, length
inline constexpr std::uint8_t kNameIsSchema = 1;

/// c10::FunctionSchema: name, then the overload's, both std::string.
inline constexpr std::size_t kSchemaOverload = 32;  ///< pointer, length

/// c10::IValue.
struct Value {
    const void* payload;
    std::uint32_t tag;
    std::uint32_t unused;
};
inline constexpr std::uint32_t kTagTensor = 1;

/// c10::TensorImpl.
inline constexpr std::size_t kTensorRank = 56;  ///< c10::impl::SizesAndStrides: rank, then sizes
inline constexpr std::size_t kTensorSizes = 64;
inline constexpr std::size_t kTensorElements = 152;
inline constexpr std::size_t kTensorType = 160;
inline constexpr std::size_t kInlineRank = 5;  ///< above, the sizes are behind a pointer

/// The operator's schema, which is there as long as the operator; null: the record is a label.
inline const void* layout_schema(const void* record) noexcept {
    const char* const bytes = static_cast<const char*>(record);
    if (static_cast<std::uint8_t>(bytes[kRecordNameIndex]) != kNameIsSchema) return nullptr;
    return *reinterpret_cast<const void* const*>(bytes + kRecordName);
}

/// A hash of the shapes of all tensors among the inputs; one value for all shapes of an operator that has had
/// too many. `inputs`: how many it has, as an exported function says. Some nanoseconds.
std::uint32_t layout_shape(const void* schema, const void* record, std::size_t inputs) noexcept;

/// Fills `text` of an operator's record. `name` is what an exported function says of it, as `inputs`. False
/// if the record contradicts them.
bool layout_describe(const void* record, const char* name, std::size_t inputs, OpText& text) noexcept;

}  // namespace corun::torch
