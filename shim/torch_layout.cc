// SPDX-License-Identifier: Apache-2.0
#include "shim/torch_layout.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "model/fnv.h"
#include "shim/readable.h"

namespace corun::torch {
namespace {

constexpr std::size_t kMostInputs = 1000;
constexpr std::size_t kMostRank = 64;

struct Inputs {
    const Value* values;
    std::size_t count;
};

// An interpreter's record has the whole of its stack, which ends with the inputs.
Inputs inputs_of(const void* record, std::size_t count) {
    Inputs all{};
    std::memcpy(&all, static_cast<const char*>(record) + kRecordInputs, sizeof all);
    if (count > kMostInputs || all.count < count) return {};
    return {all.values + (all.count - count), count};
}

template <typename T>
T at(const void* object, std::size_t offset) {
    T value{};
    std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
    return value;
}

std::size_t rank_of(const void* tensor) {
    return std::min(at<std::size_t>(tensor, kTensorRank), kMostRank);
}

const std::int64_t* sizes_of(const void* tensor, std::size_t rank) {
    const char* const sizes = static_cast<const char*>(tensor) + kTensorSizes;
    return rank <= kInlineRank ? reinterpret_cast<const std::int64_t*>(sizes)
                               : *reinterpret_cast<const std::int64_t* const*>(sizes);
}

// Programs whose shapes never repeat would describe each op anew: an operator with too many has one class.
// Different ones are counted, by a bit for each: every thread describes what it sees. Two operators may share
// a place; then both lose what they were counted by, no more.
struct Varied {
    std::atomic<const void*> schema;
    std::array<std::atomic<std::uint64_t>, 8> seen;
    std::atomic<bool> many;
};
constexpr int kMostBits = 60;  // of 512, which 64 shapes set on average
constexpr std::size_t kVaried = 1024;
constinit std::array<Varied, kVaried> varied{};

Varied& varied_of(const void* schema) {
    return varied[(reinterpret_cast<std::uintptr_t>(schema) * 0x9E3779B97F4A7C15ULL) >> 54];
}
static_assert(kVaried == 1024);

bool is_varied(const void* schema) {
    const Varied& place = varied_of(schema);
    return place.schema.load(std::memory_order_relaxed) == schema &&
           place.many.load(std::memory_order_relaxed);
}

void count_shape(const void* schema, const char* shapes) {
    Varied& place = varied_of(schema);
    if (place.schema.exchange(schema, std::memory_order_relaxed) != schema) {
        place.many.store(false, std::memory_order_relaxed);
        for (auto& word : place.seen) word.store(0, std::memory_order_relaxed);
    }
    const std::uint64_t hash = model::fnv1a(shapes);
    const std::uint64_t mixed = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15ULL;
    place.seen[mixed >> 61].fetch_or(std::uint64_t{1} << (mixed >> 55 & 63U), std::memory_order_relaxed);
    int bits = 0;
    for (const auto& word : place.seen) bits += std::popcount(word.load(std::memory_order_relaxed));
    if (bits > kMostBits) place.many.store(true, std::memory_order_relaxed);
}

// By c10::ScalarType.
constexpr std::array<const char*, 16> kTypes{
    "uint8",     "int8",      "int16",      "int32", "int64", "half",   "float",  "double",
    "complex32", "complex64", "complex128", "bool",  "qint8", "quint8", "qint32", "bfloat16"};

// Operators that only call others: their time would show it, this is quicker.
constexpr std::array<std::string_view, 33> kContainers{"aten::linear",
                                                       "aten::matmul",
                                                       "aten::conv1d",
                                                       "aten::conv2d",
                                                       "aten::conv3d",
                                                       "aten::convolution",
                                                       "aten::_convolution",
                                                       "aten::lstm",
                                                       "aten::gru",
                                                       "aten::rnn_tanh",
                                                       "aten::rnn_relu",
                                                       "aten::lstm_cell",
                                                       "aten::gru_cell",
                                                       "aten::layer_norm",
                                                       "aten::batch_norm",
                                                       "aten::_batch_norm_impl_index",
                                                       "aten::group_norm",
                                                       "aten::instance_norm",
                                                       "aten::dropout",
                                                       "aten::softmax",
                                                       "aten::log_softmax",
                                                       "aten::cross_entropy_loss",
                                                       "aten::nll_loss",
                                                       "aten::nll_loss_nd",
                                                       "aten::embedding_bag",
                                                       "aten::einsum",
                                                       "aten::bilinear",
                                                       "aten::scaled_dot_product_attention",
                                                       "aten::_scaled_dot_product_attention_math",
                                                       "aten::max_pool2d",
                                                       "aten::adaptive_avg_pool2d",
                                                       "aten::to",
                                                       "aten::reshape"};

// Kernels of libtorch itself. What others register may be a whole program, in Python too.
constexpr std::array<std::string_view, 8> kOwn{"aten::",      "mkldnn::", "mkldnn_prepacked::", "mkl::",
                                               "quantized::", "sparse::", "_quantized::",       "onednn::"};

// "dim_IntList" of aten::sum.dim_IntList, or empty. An operator may do no more than call another overload of
// its name with the same inputs: that other one is what works.
std::string_view overload_of(const void* schema) {
    constexpr std::size_t kLongest = 60;
    const char* const bytes = static_cast<const char*>(schema) + kSchemaOverload;
    if (!readable(bytes) || !readable(bytes + sizeof(char*))) return {};
    const auto text = at<const char*>(bytes, 0);
    const auto length = at<std::size_t>(bytes, sizeof(char*));
    if (length == 0 || length > kLongest || !readable(text) || !readable(text + length)) return {};
    return {text, length};
}

bool is_container(std::string_view name) {
    return std::find(kContainers.begin(), kContainers.end(), name) != kContainers.end() ||
           std::none_of(kOwn.begin(), kOwn.end(),
                        [&](std::string_view own) { return name.substr(0, own.size()) == own; });
}

class Text {
  public:
    Text(char* to, std::size_t size) : to_(to), left_(size) {}
    template <typename... Arguments>
    void add(const char* format, Arguments... arguments) {
        const int length = std::snprintf(to_, left_, format, arguments...);
        const std::size_t used = std::min(static_cast<std::size_t>(std::max(length, 0)), left_ - 1);
        to_ += used;
        left_ -= used;
    }

  private:
    char* to_;
    std::size_t left_;
};

void describe_tensor(const void* tensor, Text& shapes, double& elements) {
    const auto type = at<std::uint16_t>(tensor, kTensorType);
    shapes.add("%s[", type < kTypes.size() ? kTypes[type] : "type");
    const std::size_t rank = rank_of(tensor);
    const std::int64_t* const sizes = sizes_of(tensor, rank);
    for (std::size_t i = 0; i < rank && readable(sizes + i); ++i)
        shapes.add(i == 0 ? "%lld" : ",%lld", static_cast<long long>(sizes[i]));
    shapes.add("]");
    elements += static_cast<double>(at<std::int64_t>(tensor, kTensorElements));
}

}  // namespace

std::uint32_t layout_shape(const void* schema, const void* record, std::size_t count) noexcept {
    if (is_varied(schema)) [[unlikely]]
        return 1;
    const Inputs inputs = inputs_of(record, count);
    std::uint64_t hash = inputs.count;
    const auto mix = [&](std::uint64_t value) {
        hash = (std::rotl(hash, 23) ^ value) * 0xC2B2AE3D27D4EB4FULL;
    };
    for (std::size_t i = 0; i < inputs.count; ++i) {
        const Value& value = inputs.values[i];
        if (value.tag != kTagTensor || value.payload == nullptr) continue;
        const std::size_t rank = rank_of(value.payload);
        mix(i + 1000 * rank + 100000 * std::uint64_t{at<std::uint16_t>(value.payload, kTensorType)});
        const std::int64_t* const sizes = sizes_of(value.payload, rank);
        for (std::size_t d = 0; d < rank; ++d) mix(static_cast<std::uint64_t>(sizes[d]));
    }
    return static_cast<std::uint32_t>(hash >> 32) | 2U;
}

bool layout_describe(const void* record, const char* name, std::size_t count, OpText& text) noexcept {
    const void* const schema = layout_schema(record);
    if (schema == nullptr || !readable(schema) || *static_cast<const char* const*>(schema) != name)
        return false;
    const Inputs all = inputs_of(record, count);
    if (all.count != count) return false;
    const std::string_view overload = overload_of(schema);
    std::snprintf(text.kind, sizeof text.kind, "%s%s%.*s", name, overload.empty() ? "" : ".",
                  static_cast<int>(overload.size()), overload.data());
    text.container = is_container(name);
    Text shapes(text.shapes, sizeof text.shapes);
    shapes.add("(");
    bool first = true;
    for (std::size_t i = 0; i < all.count; ++i) {
        if (!readable(&all.values[i]) || !readable(&all.values[i].tag)) return false;
        const Value& value = all.values[i];
        if (value.tag != kTagTensor || value.payload == nullptr) continue;
        if (!readable(value.payload) || !readable(static_cast<const char*>(value.payload) + kTensorType))
            return false;
        if (!first) shapes.add(";");
        first = false;
        describe_tensor(value.payload, shapes, text.elements);
    }
    shapes.add(")");
    count_shape(schema, text.shapes);
    if (is_varied(schema)) {
        std::snprintf(text.shapes, sizeof text.shapes, "(varied)");
        text.elements = 0.0;
    }
    return true;
}

}  // namespace corun::torch
