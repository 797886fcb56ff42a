// SPDX-License-Identifier: Apache-2.0
#include "fake_tensorflow.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace Eigen {
template <typename Environment>
int ThreadPoolTempl<Environment>::NumThreads() const {
    return threads_;
}
template class ThreadPoolTempl<tsl::thread::EigenEnvironment>;
}  // namespace Eigen

namespace tsl::thread {

ThreadPool::ThreadPool(Env*, const ThreadOptions&, const std::string&, int threads, bool, Eigen::Allocator*)
    : eigen_(nullptr) {
    if (fake::at_pool_begin != nullptr) fake::at_pool_begin();
    eigen_ = new Eigen::ThreadPoolTempl<EigenEnvironment>(threads);
}

ThreadPool::~ThreadPool() {
    delete eigen_;
}

}  // namespace tsl::thread

namespace tensorflow {

Tensor::Tensor(const Shape& sizes) : elements(1), buffer(nullptr) {
    static thread_local std::uint8_t rubbish = 1;
    rubbish = static_cast<std::uint8_t>(rubbish * 5 + 1);
    std::memset(shape, rubbish, sizeof shape);
    for (std::size_t i = 0; i < sizes.size() && i < 6; ++i) {
        const auto size = static_cast<std::uint16_t>(sizes[i]);
        std::memcpy(shape + 2 * i, &size, sizeof size);
        elements *= size;
    }
    shape[13] = 1;  // float
    shape[15] = 0;
    shape[14] = static_cast<std::uint8_t>(sizes.size());
}

#if FAKE_LAYOUT != 0
namespace {

// What another version may have where the known one has its pointer to the parameters.
void* make_trap(const OpKernelContext::Params& real) {
    struct Block {
        std::uint64_t before[22];
        std::uint64_t inputs;
        std::uint64_t count;
        std::uint64_t after[40];
    };
    static thread_local Block block;
    static thread_local TensorValue values[8];
    static thread_local Tensor wrong({7, 7, 7});
    block = Block{};
    block.count = real.input_count;
    const char* kind = std::getenv("FAKE_TRAP");
    const std::string trap = kind == nullptr ? "zeros" : kind;
    if (trap == "zeros") block.count = 0;
    if (trap == "number") return reinterpret_cast<void*>(0x40);
    if (trap == "null") return nullptr;
    if (trap == "inputs") block.inputs = 0x1000;
    if (trap == "tensors" || trap == "elements") {
        block.inputs = reinterpret_cast<std::uint64_t>(values);
        for (TensorValue& value : values)
            value = {nullptr, trap == "elements" ? &wrong : reinterpret_cast<Tensor*>(0x2000)};
    }
    return &block;
}

}  // namespace
#endif

OpKernelContext::OpKernelContext(const std::vector<Shape>& shapes) : before_{}, params_(new Params{}) {
    for (const Shape& shape : shapes) values_.push_back({nullptr, new Tensor(shape)});
    params_->inputs = values_.data();
    params_->input_count = values_.size();
#if FAKE_LAYOUT != 0
    trap_ = make_trap(*params_);
#endif
}

OpKernelContext::~OpKernelContext() {
    for (const TensorValue& value : values_) delete value.tensor;
    delete params_;
}

OpKernel::OpKernel(std::string name, std::string type) : name_(std::move(name)), type_(std::move(type)) {}
OpKernel::~OpKernel() noexcept(false) {
    if (fake::at_kernel_end != nullptr) fake::at_kernel_end();
}

namespace {
std::atomic<long> traces{0};
}

#ifndef FAKE_WITHOUT_TRACE
std::string OpKernel::TraceString(const OpKernelContext& context, bool verbose) const {
    traces.fetch_add(1, std::memory_order_relaxed);
    if (fake::at_trace != nullptr) fake::at_trace();
    std::string text = name_;
    text += ':';
    text += type_;
    const auto& params = context.params();
    if (!verbose || params.input_count == 0) return text;
    text += "#shape=(";
    for (std::size_t i = 0; i < params.input_count; ++i) {
        const Tensor& tensor = *params.inputs[i].tensor;
        if (i > 0) text += ';';
        text += "float[";
        for (int d = 0; d < tensor.shape[14]; ++d) {
            std::uint16_t size = 0;
            std::memcpy(&size, tensor.shape + 2 * d, sizeof size);
            if (d > 0) text += ',';
            text += std::to_string(size);
        }
        text += "]";
    }
    text += ")#";
    return text;
}
#endif

void FactoryKeyCreator::Append(std::string_view piece) {
    key_.append(piece);
    key_ += 'x';
}

void ThreadPoolDevice::Compute(OpKernel* kernel, OpKernelContext* context) {
    kernel->Compute(context);
}

void ThreadPoolDevice::ComputeAsync(AsyncOpKernel* kernel, OpKernelContext* context,
                                    std::function<void()> done) {
    kernel->ComputeAsync(context, std::move(done));
}

thread_local int per_thread_max_parallelism = 1000000;

int NumInterOpThreadsFromEnvironment() {
    const char* const text = std::getenv("TF_NUM_INTEROP_THREADS");
    return text == nullptr ? 0 : std::atoi(text);
}

int GetPerThreadMaxParallelism() {
    return per_thread_max_parallelism;
}
void SetPerThreadMaxParallelism(int width) {
    per_thread_max_parallelism = width;
}

}  // namespace tensorflow

namespace fake {

thread_local void (*at_kernel_end)() = nullptr;
thread_local void (*at_trace)() = nullptr;
thread_local void (*at_pool_begin)() = nullptr;

long traced() {
    return tensorflow::traces.load();
}

tensorflow::ThreadPoolDevice& device() {
    static auto* const instance = new tensorflow::ThreadPoolDevice;
    return *instance;
}

}  // namespace fake
