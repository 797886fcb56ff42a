// SPDX-License-Identifier: Apache-2.0
// Holds what shim/torch_layout.h assumes against the wheel's own headers: compiles only where it holds. Links
// nothing of PyTorch; see check_layout.sh.
#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "shim/torch_layout.h"

#pragma GCC diagnostic ignored "-Winvalid-offsetof"

namespace known = corun::torch;

#define SAME(type, field, offset) static_assert(offsetof(type, field) == (offset))

SAME(at::StepCallbacks, callbacks_, offsetof(known::StepCallbacks, pairs));
SAME(at::StepCallbacks, thread_id_, offsetof(known::StepCallbacks, thread));
SAME(at::StepCallbacks, scope_, offsetof(known::StepCallbacks, scope));
SAME(at::StepCallbacks, needs_inputs_, offsetof(known::StepCallbacks, needs_inputs));
SAME(at::StepCallbacks, needs_outputs_, offsetof(known::StepCallbacks, needs_outputs));
SAME(at::StepCallbacks, needs_ids_, offsetof(known::StepCallbacks, needs_ids));
static_assert(sizeof(std::optional<at::StepCallbacks>) == sizeof(known::StepCallbacks));
static_assert(sizeof(at::StepCallbacks::StartEndPair) == sizeof(known::StepCallbacks::Pair));
SAME(at::StepCallbacks::StartEndPair, start_, offsetof(known::StepCallbacks::Pair, start));
SAME(at::StepCallbacks::StartEndPair, end_, offsetof(known::StepCallbacks::Pair, end));
static_assert(at::kSoftLimitCallbacks == known::StepCallbacks::kRoom);
static_assert(static_cast<std::uint8_t>(at::RecordScope::FUNCTION) == known::kScopeFunction);

SAME(at::RecordFunction, fn_, known::kRecordName);
SAME(at::RecordFunction, inputs_, known::kRecordInputs);
SAME(c10::FunctionSchema, name_, 0U);
SAME(c10::OperatorName, name, 0U);
SAME(c10::OperatorName, overload_name, known::kSchemaOverload);

static_assert(sizeof(c10::IValue) == sizeof(known::Value));
SAME(c10::IValue, payload, offsetof(known::Value, payload));
SAME(c10::IValue, tag, offsetof(known::Value, tag));
static_assert(static_cast<std::uint32_t>(c10::IValue::Tag::Tensor) == known::kTagTensor);

using Sizes = c10::impl::SizesAndStrides;
SAME(c10::TensorImpl, sizes_and_strides_, known::kTensorRank);
static_assert(offsetof(c10::TensorImpl, sizes_and_strides_) + offsetof(Sizes, inlineStorage_) ==
              known::kTensorSizes);
SAME(Sizes, size_, 0U);
SAME(Sizes, outOfLineStorage_, offsetof(Sizes, inlineStorage_));
SAME(c10::TensorImpl, numel_, known::kTensorElements);
SAME(c10::TensorImpl, data_type_, known::kTensorType);
static_assert(C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE == known::kInlineRank);

// What no offset tells: where a variant and an optional keep which of theirs they hold, and what a small
// vector looks like.
template <typename T>
const T& at_offset(const void* object, std::size_t offset) {
    return *reinterpret_cast<const T*>(static_cast<const char*>(object) + offset);
}

int main() {
    using Name = decltype(at::RecordFunction::fn_);
    alignas(Name) char bytes[sizeof(Name)] = {};
    auto* const name = new (bytes) Name(std::string("a label"));
    constexpr std::size_t index = known::kRecordNameIndex - known::kRecordName;
    int wrong = bytes[index] == known::kNameIsSchema ? 1 : 0;
    alignas(c10::FunctionSchema) static char schema[sizeof(c10::FunctionSchema)];
    *name = std::cref(*reinterpret_cast<const c10::FunctionSchema*>(schema));
    wrong += bytes[index] == known::kNameIsSchema && at_offset<const void*>(bytes, 0) == schema ? 0 : 1;

    const std::string overload(40, 'x');
    wrong += at_offset<const char*>(&overload, 0) == overload.data() &&
                     at_offset<std::size_t>(&overload, sizeof(char*)) == overload.size()
                 ? 0
                 : 1;

    std::optional<at::StepCallbacks> callbacks;
    const auto& seen = reinterpret_cast<const known::StepCallbacks&>(callbacks);
    wrong += seen.has_value ? 1 : 0;
    callbacks.emplace(7, at::RecordScope::FUNCTION);
    wrong += seen.has_value && seen.thread == 7 && seen.count == 0 && seen.capacity == seen.kRoom ? 0 : 1;
    wrong += static_cast<const void*>(seen.pairs) == static_cast<const void*>(seen.room) ? 0 : 1;
    callbacks->callbacks_.push_back({nullptr, nullptr});
    wrong += seen.count == 1 ? 0 : 1;

    std::printf("name %zu, its kind %zu, inputs %zu, callbacks' value %zu: %d wrong\n", known::kRecordName,
                known::kRecordNameIndex, known::kRecordInputs, offsetof(known::StepCallbacks, has_value),
                wrong);
    return wrong;
}
