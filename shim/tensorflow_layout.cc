// SPDX-License-Identifier: Apache-2.0
#include "shim/tensorflow_layout.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "shim/readable.h"

namespace corun::tensorflow {
namespace {

// tensorflow-cpu 2.21.0, x86-64; see tests/packages/check_layout.cc.
constexpr std::size_t kContextParams = 24;
constexpr std::size_t kParamsInputs = 176;  // absl::Span: pointer, length
constexpr std::size_t kMostInputs = 100000;
constexpr std::uint8_t kOutOfLine = 2;

struct TensorValue {
    const void* mutex_if_ref;
    const struct Tensor* tensor;
};

struct Tensor {
    std::uint8_t shape[16];  // 13: data type, 14: rank, 15: how the sizes are kept
    std::int64_t elements;
};

struct Inputs {
    const TensorValue* values;
    std::size_t count;
};

Inputs inputs_of(const void* context) {
    const char* params =
        *reinterpret_cast<const char* const*>(static_cast<const char*>(context) + kContextParams);
    if (params == nullptr || (reinterpret_cast<std::uintptr_t>(params) & 7) != 0) return {nullptr, 0};
    Inputs inputs{};
    std::memcpy(&inputs, params + kParamsInputs, sizeof inputs);
    if (inputs.count > kMostInputs || (reinterpret_cast<std::uintptr_t>(inputs.values) & 7) != 0)
        return {nullptr, 0};
    return inputs;
}

// The bytes of a shape that mean something: those of its sizes, and 13 to 15. The others are never written.
struct Mask {
    std::uint64_t low;
    std::uint64_t high;
};
constexpr std::size_t kSizesBytes = 12;
constexpr std::array<Mask, kSizesBytes + 1> kMasks = [] {
    std::array<Mask, kSizesBytes + 1> masks{};
    for (std::size_t bytes = 0; bytes < masks.size(); ++bytes) {
        masks[bytes].high = 0xFFFFFF0000000000ULL;
        for (std::size_t i = 0; i < bytes; ++i)
            (i < 8 ? masks[bytes].low : masks[bytes].high) |= 0xFFULL << (8 * (i % 8));
    }
    return masks;
}();

std::uint64_t hash_of(const Tensor& tensor) {
    const std::uint8_t kept_as = tensor.shape[15];  // 0: 16 bit each, 1: 32 bit each
    const std::size_t bytes = kept_as < kOutOfLine ? std::size_t{tensor.shape[14]} << (1 + kept_as) : 0;
    std::uint64_t words[2];
    std::memcpy(words, tensor.shape, sizeof words);
    const Mask& mask = kMasks[std::min(bytes, kSizesBytes)];
    words[0] &= mask.low;
    words[1] &= mask.high;
    if (kept_as >= kOutOfLine) words[0] = static_cast<std::uint64_t>(tensor.elements);
    return (words[0] * 0xC2B2AE3D27D4EB4FULL) ^ std::rotl(words[1] * 0x9E3779B97F4A7C15ULL, 32);
}

constinit std::atomic<bool> holds{true};
constinit std::atomic<bool> checked{false};  // at least one op agreed

// Containers (DESIGN: labels, or ops that run other ops).
constexpr std::array<std::string_view, 22> kContainers{"PartitionedCall",
                                                       "StatefulPartitionedCall",
                                                       "While",
                                                       "StatelessWhile",
                                                       "If",
                                                       "StatelessIf",
                                                       "Case",
                                                       "StatelessCase",
                                                       "MapDefun",
                                                       "EagerPyFunc",
                                                       "PyFunc",
                                                       "PyFuncStateless",
                                                       "MakeIterator",
                                                       "RemoteCall",
                                                       "SymbolicGradient",
                                                       "ReduceDataset",
                                                       "ScanDataset",
                                                       "MapDataset",
                                                       "IteratorGetNext",
                                                       "IteratorGetNextSync",
                                                       "OneShotIterator",
                                                       "XlaLaunch"};

void copy(char* to, std::size_t size, std::string_view from) {
    const std::size_t n = std::min(size - 1, from.size());
    std::memcpy(to, from.data(), n);
    to[n] = '\0';
}

// Elements of one shape text: "float[3,4]" is 12, "int32[]" is 1. Negative when it is no shape.
std::int64_t elements_of(std::string_view shape) {
    const auto open = shape.find('[');
    if (open == std::string_view::npos || shape.back() != ']') return -1;
    std::int64_t elements = 1;
    const char* at = shape.data() + open + 1;
    while (*at != ']') {
        char* end = nullptr;
        const long long size = std::strtoll(at, &end, 10);
        if (end == at || size < 0) return -1;
        elements *= size;
        at = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end != ']') return -1;
    }
    return elements;
}

// Of a new op: a wrong layout has to show as a contradiction, not as a crash.
bool inputs_are_readable(const void* context, std::size_t count) {
    const char* pointer = static_cast<const char*>(context) + kContextParams;
    if (!readable(pointer)) return false;
    const char* params = *reinterpret_cast<const char* const*>(pointer);
    if (!readable(params + kParamsInputs) || !readable(params + kParamsInputs + 8)) return false;
    const Inputs inputs = inputs_of(context);
    if (inputs.count != count) return false;
    for (std::size_t i = 0; i < count; ++i) {
        if (!readable(&inputs.values[i].mutex_if_ref) || !readable(&inputs.values[i].tensor)) return false;
        const Tensor* tensor = inputs.values[i].tensor;
        if (tensor != nullptr && (!readable(tensor) || !readable(&tensor->elements))) return false;
    }
    return true;
}

// Holds "float[3,4];int32[];" against the inputs as we read them. Sums the elements.
double check_shapes(std::string_view list, const void* context) {
    const auto count = static_cast<std::size_t>(1 + std::count(list.begin(), list.end(), ';'));
    if (!inputs_are_readable(context, count)) return holds.store(false), 0.0;
    const Inputs inputs = inputs_of(context);
    double sum = 0;
    std::size_t input = 0;
    while (true) {
        const auto cut = list.find(';');
        const std::string_view item = list.substr(0, cut);
        const std::int64_t expected = item.empty() ? -1 : elements_of(item);
        if (expected >= 0) {
            if (input >= inputs.count) return holds.store(false), sum;
            const Tensor* tensor = inputs.values[input].tensor;
            if (tensor == nullptr || tensor->elements != expected) return holds.store(false), sum;
            checked.store(true, std::memory_order_relaxed);
            sum += static_cast<double>(expected);
        }
        ++input;
        if (cut == std::string_view::npos) break;
        list.remove_prefix(cut + 1);
    }
    if (input != inputs.count) holds.store(false);
    return sum;
}

}  // namespace

std::uint32_t layout_shape(const void* context) noexcept {
    if (!holds.load(std::memory_order_relaxed) || !checked.load(std::memory_order_relaxed)) return 0;
    const Inputs inputs = inputs_of(context);
    std::uint64_t hash = inputs.count;
    for (std::size_t i = 0; i < inputs.count; ++i) {
        const TensorValue& value = inputs.values[i];
        hash = std::rotl(hash, 23);  // the multiplications of several inputs overlap
        // A reference input may be resized by another op at this moment.
        if (value.tensor == nullptr || value.mutex_if_ref != nullptr) continue;
        hash ^= hash_of(*value.tensor);
    }
    hash *= 0x9E3779B97F4A7C15ULL;
    return static_cast<std::uint32_t>(hash >> 32) | 1U;
}

void layout_describe(const CxxString& trace, const void* context, OpText& text) noexcept {
    // "name:type#key=value,...#": a name has no '#', a type neither '#' nor ':'.
    const std::string_view whole(trace.data, trace.size);
    const std::string_view head = whole.substr(0, whole.find('#'));
    const auto colon = head.rfind(':');
    if (colon == std::string_view::npos || colon + 1 == head.size()) return holds.store(false);
    const std::string_view type = head.substr(colon + 1);
    if (!std::all_of(type.begin(), type.end(),
                     [](unsigned char c) { return std::isprint(c) != 0 && c != ' '; }))
        return holds.store(false);
    copy(text.kind, sizeof text.kind, type);
    copy(text.example, sizeof text.example, head.substr(0, colon));
    const auto open = whole.find("#shape=(");
    const auto close = whole.rfind(")#");
    if (open != std::string_view::npos && close != std::string_view::npos && close > open + 7) {
        const std::string_view list = whole.substr(open + 8, close - open - 8);
        text.elements = check_shapes(list, context);
        copy(text.shapes, sizeof text.shapes, whole.substr(open + 7, close - open - 6));
    }
    text.asked = type.substr(0, 4) == "_Mkl";
    text.container = std::find(kContainers.begin(), kContainers.end(), type) != kContainers.end();
}

bool layout_holds() noexcept {
    return holds.load(std::memory_order_relaxed);
}

}  // namespace corun::tensorflow
