// SPDX-License-Identifier: Apache-2.0
// A TensorFlow of a few hundred lines for the victims: the classes and functions that corun hooks or needs,
// under their real mangled names and in a library of the real soname. Kernels are lambdas. Like the wheel's,
// its vtable slots are symbolic, so that a preloaded definition wins.
//
// FAKE_LAYOUT 0: OpKernelContext as in tensorflow-cpu 2.21. 1: another one; what lies where the known one has
// its pointers is chosen by FAKE_TRAP in the environment, up to pointers that must not be followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#ifndef FAKE_LAYOUT
#define FAKE_LAYOUT 0
#endif

namespace tsl {
class Env;
struct ThreadOptions {
    std::size_t stack_size = 0;
};
namespace thread {
struct EigenEnvironment {};
}  // namespace thread
}  // namespace tsl

namespace Eigen {
class Allocator;

template <typename Environment>
class ThreadPoolTempl {
  public:
    explicit ThreadPoolTempl(int threads) : threads_(threads) {}
    virtual ~ThreadPoolTempl() = default;
    virtual int NumThreads() const;

  private:
    int threads_;
};
extern template class ThreadPoolTempl<tsl::thread::EigenEnvironment>;
}  // namespace Eigen

namespace tsl::thread {
class ThreadPool {
  public:
    /// Calls fake::at_pool_begin.
    ThreadPool(Env* env, const ThreadOptions& options, const std::string& name, int threads, bool low_latency,
               Eigen::Allocator* allocator);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    [[nodiscard]] const Eigen::ThreadPoolTempl<EigenEnvironment>& eigen() const { return *eigen_; }

  private:
    Eigen::ThreadPoolTempl<EigenEnvironment>* eigen_;
};
}  // namespace tsl::thread

namespace tensorflow {

using Shape = std::vector<int>;

/// 13: data type, 14: rank, 15: 0 when the sizes are kept as 16 bit. Bytes of no dimension hold anything.
struct Tensor {
    explicit Tensor(const Shape& sizes);

    std::uint8_t shape[16];
    std::int64_t elements;
    void* buffer;
};

struct TensorValue {
    void* mutex_if_ref;
    Tensor* tensor;
};

class OpKernelContext {
  public:
    struct Params {
#if FAKE_LAYOUT == 0
        char before[176];
#else
        char before[208];
#endif
        const TensorValue* inputs;
        std::size_t input_count;
    };

    explicit OpKernelContext(const std::vector<Shape>& shapes);
    ~OpKernelContext();
    OpKernelContext(const OpKernelContext&) = delete;
    OpKernelContext& operator=(const OpKernelContext&) = delete;

    [[nodiscard]] const Params& params() const {
        return *params_;
    }
    [[nodiscard]] Params& params() {
        return *params_;
    }

  private:
#if FAKE_LAYOUT == 0
    char before_[24];
    Params* params_;
#else
    char before_[24];
    void* trap_;
    Params* params_;
#endif
    std::vector<TensorValue> values_;
};

class OpKernel {
  public:
    OpKernel(std::string name, std::string type);
    virtual ~OpKernel() noexcept(false);  ///< calls fake::at_kernel_end
    OpKernel(const OpKernel&) = delete;
    OpKernel& operator=(const OpKernel&) = delete;

    virtual void Compute(OpKernelContext* context) = 0;
#ifndef FAKE_WITHOUT_TRACE
    [[nodiscard]] std::string TraceString(const OpKernelContext& context, bool verbose) const;
#endif

  private:
    std::string name_;
    std::string type_;
};

class AsyncOpKernel : public OpKernel {
  public:
    using OpKernel::OpKernel;
    virtual void ComputeAsync(OpKernelContext* context, std::function<void()> done) = 0;
};

class ThreadPoolDevice {
  public:
    virtual ~ThreadPoolDevice() = default;
    virtual void Compute(OpKernel* kernel, OpKernelContext* context);
    virtual void ComputeAsync(AsyncOpKernel* kernel, OpKernelContext* context, std::function<void()> done);
};

/// The key under which a thread keeps a primitive: pieces, each followed by a separator.
class FactoryKeyCreator {
  public:
    void Append(std::string_view piece);
    [[nodiscard]] const std::string& key() const { return key_; }

  private:
    std::string key_;
};

int GetPerThreadMaxParallelism();
int NumInterOpThreadsFromEnvironment();  ///< TF_NUM_INTEROP_THREADS, 0: not set
void SetPerThreadMaxParallelism(int width);

}  // namespace tensorflow

namespace fake {

using tensorflow::OpKernelContext;

/// How often TraceString() was called.
long traced();

/// What the destructor of a kernel does on this thread; nothing if null.
extern thread_local void (*at_kernel_end)();
extern thread_local void (*at_trace)();       ///< the same for TraceString()
extern thread_local void (*at_pool_begin)();  ///< the same for the constructor of a pool

/// The device that all victims use; its dynamic type is hidden from the compiler.
tensorflow::ThreadPoolDevice& device();

class Kernel final : public tensorflow::OpKernel {
  public:
    using Body = std::function<void(OpKernelContext*)>;

    Kernel(
        std::string name, std::string type, Body body = [](OpKernelContext*) {})
        : OpKernel(std::move(name), std::move(type)), body_(std::move(body)) {}
    void Compute(OpKernelContext* context) override { body_(context); }

  private:
    Body body_;
};

class AsyncKernel final : public tensorflow::AsyncOpKernel {
  public:
    AsyncKernel(std::string name, std::string type, Kernel::Body body)
        : AsyncOpKernel(std::move(name), std::move(type)), body_(std::move(body)) {}
    void Compute(OpKernelContext*) override {}
    void ComputeAsync(OpKernelContext* context, std::function<void()> done) override {
        body_(context);
        done();
    }

  private:
    Kernel::Body body_;
};

inline void run(tensorflow::OpKernel& kernel, OpKernelContext& context) {
    device().Compute(&kernel, &context);
}

}  // namespace fake
