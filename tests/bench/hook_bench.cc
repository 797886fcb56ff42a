// SPDX-License-Identifier: Apache-2.0
// What corun adds to one op: the whole path from the hook of ThreadPoolDevice::Compute to a kernel that does
// nothing. The core is linked into this program, the runtime is the victims' fake one. 3,000 kernels of 2,000
// op keys are visited in a shuffled order, as an executor does it: one context, whose inputs are put together
// before each call from tensors that are in use all the time.
//
// Every figure comes from one process in which the call with the hook and the call without are made in turn;
// the difference is what counts ("added_ns"). The settings (CORUN_MODE, CORUN_POLICY) are read once in a
// process, so each row is a process of its own: the program starts itself again for each.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "shim/core.h"
#include "shim/state.h"
#include "tests/bench/each_setting.h"
#include "tests/victims/fake_tensorflow/fake_tensorflow.h"

namespace {

using Clock = std::chrono::steady_clock;
using corun::globals;
using fake::OpKernelContext;
using ComputeFunction = void (*)(tensorflow::ThreadPoolDevice*, tensorflow::OpKernel*, OpKernelContext*);

constexpr char kCompute[] = "_ZN10tensorflow16ThreadPoolDevice7ComputeEPNS_8OpKernelEPNS_15OpKernelContextE";
constexpr std::size_t kKernels = 3000;
constexpr std::size_t kKinds = 50;
constexpr std::size_t kShapesOfKind = 40;
constexpr double kMostAdded = 40.0;  // nanoseconds, of a settled op

class EmptyKernel final : public tensorflow::OpKernel {
  public:
    using OpKernel::OpKernel;
    void Compute(OpKernelContext*) override {}
};

struct Op {
    std::unique_ptr<EmptyKernel> kernel;
    tensorflow::Tensor* left;
    tensorflow::Tensor* right;
};

class Executor {
  public:
    Executor() {
        for (int size = 1; size <= static_cast<int>(kShapesOfKind); ++size) {
            tensors_.push_back(std::make_unique<tensorflow::Tensor>(tensorflow::Shape{size, 64}));
            tensors_.push_back(std::make_unique<tensorflow::Tensor>(tensorflow::Shape{64, size}));
        }
        for (std::size_t i = 0; i < kKernels; ++i) {
            const std::size_t shape = 2 * ((i / kKinds) % kShapesOfKind);
            std::string kind("Kind");
            kind += std::to_string(i % kKinds);
            ops_.push_back(
                {std::make_unique<EmptyKernel>("k", kind), tensors_[shape].get(), tensors_[shape + 1].get()});
        }
        std::shuffle(ops_.begin(), ops_.end(), std::mt19937(1));
        hooked_ = reinterpret_cast<ComputeFunction>(dlsym(RTLD_DEFAULT, kCompute));
        void* runtime = dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
        direct_ = reinterpret_cast<ComputeFunction>(dlsym(runtime, kCompute));
    }

    [[nodiscard]] bool ready() const {
        return hooked_ != nullptr && direct_ != nullptr && hooked_ != direct_;
    }

    double hooked() { return round(hooked_); }  ///< nanoseconds per op of one round over all kernels
    double direct() { return round(direct_); }

  private:
    double round(ComputeFunction compute) {
        auto* const device = &fake::device();
        tensorflow::TensorValue inputs[2]{};
        context_.params().inputs = inputs;
        context_.params().input_count = 2;
        const auto begin = Clock::now();
        for (const Op& op : ops_) {
            inputs[0].tensor = op.left;
            inputs[1].tensor = op.right;
            compute(device, op.kernel.get(), &context_);
        }
        return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kKernels;
    }

    std::vector<std::unique_ptr<tensorflow::Tensor>> tensors_;
    std::vector<Op> ops_;
    OpKernelContext context_{{}};
    ComputeFunction hooked_ = nullptr;
    ComputeFunction direct_ = nullptr;
};

Executor& executor() {
    static auto* const instance = new Executor;
    return *instance;
}

// Until nothing is learned any more: no op is timed for the model, none is sampled at other widths.
bool settle(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) {
        for (int i = 0; i < 20; ++i) executor().hooked();
        const corun::Decision now = globals.decision.load();
        if (globals.active.load() && !now.record_all && !now.exploring) return true;
    }
    return false;
}

void for_all_records(void (*action)(corun::OpRecord&)) {
    for (std::uint32_t i = 0; i < globals.record_count.load(); ++i) action(globals.records[i]);
}

// --- the settings
// -------------------------------------------------------------------------------------------------

struct Setting {
    const char* name;
    const char* mode;
    const char* policy;
    bool settled;  ///< to be settled first, and held to the limit
    void (*prepare)();
    const char* says;
};

void nothing() {}
void never_cheap() {
    for_all_records([](corun::OpRecord& record) { record.flags.fetch_and(~std::uint32_t{corun::kCheap}); });
}
void dynamic() {
    never_cheap();
    corun::Decision decision = globals.decision.load();
    decision.dynamic = true;
    globals.decision.store(decision);
}

constexpr Setting kSettings[]{
    {"off", "off", "race", false, nothing, "CORUN_MODE=off: forwarded"},
    {"observe", "observe", "race", true, nothing, "observe, settled, ops known as cheap"},
    {"uniform-1", "tune", "uniform-1", true, nothing, "the lever told, ops known as cheap"},
    {"timed", "observe", "race", true, never_cheap, "observe, ops that are not cheap: two ticks, the ledger"},
    {"timed-uniform-1", "tune", "uniform-1", true, never_cheap, "the same with the lever told"},
    {"timed-idle", "tune", "uniform-1", true, dynamic,
     "the same, with a width that depends on the idle CPUs"},
};

const Setting* setting = nullptr;

void path(benchmark::State& state) {
    std::vector<double> added;
    double direct_sum = 0;
    double hooked_sum = 0;
    for (auto _ : state) {
        const double direct = executor().direct();
        const double hooked = executor().hooked();
        state.SetIterationTime(hooked * kKernels * 1e-9);
        added.push_back(hooked - direct);
        direct_sum += direct;
        hooked_sum += hooked;
    }
    const auto middle = added.begin() + static_cast<std::ptrdiff_t>(added.size() / 2);
    std::nth_element(added.begin(), middle, added.end());
    const auto rounds = static_cast<double>(added.size());
    const double median = *middle;
    state.counters["added_ns"] = median;
    const auto low = added.begin() + static_cast<std::ptrdiff_t>(added.size() / 10);
    std::nth_element(added.begin(), low, middle);
    state.counters["added_low_ns"] =
        *low;  // a tenth of the rounds was faster: the figure of a quieter machine
    state.counters["direct_ns"] = direct_sum / rounds;
    state.counters["hooked_ns"] = hooked_sum / rounds;
    if (setting->settled && median > kMostAdded && std::getenv("HOOK_BENCH_STRICT") != nullptr)
        state.SkipWithError("a settled op costs more than the limit");
}

// NumThreads() of a pool, outside any _Mkl kernel: the asked lever's price for everybody else.
void num_threads(benchmark::State& state) {
    const tsl::thread::ThreadPool pool(nullptr, {}, "other", 8, true, nullptr);
    int sum = 0;
    for (auto _ : state) sum += pool.eigen().NumThreads();
    benchmark::DoNotOptimize(sum);
}

int run_here(int argc, char** argv) {
    const std::string wanted = std::getenv("HOOK_BENCH_SETTING");
    for (const Setting& one : kSettings)
        if (wanted == one.name) setting = &one;
    if (setting == nullptr || !executor().ready())
        return std::fputs("the hook is not in the way\n", stderr), 1;
    if (setting->settled && !settle(45.0)) return std::fputs("the ops do not settle\n", stderr), 1;
    setting->prepare();
    benchmark::RegisterBenchmark(setting->name, path)->UseManualTime()->Unit(benchmark::kMicrosecond);
    if (std::string(setting->name) == "observe") benchmark::RegisterBenchmark("num_threads", num_threads);
    benchmark::Initialize(&argc, argv);
    const std::size_t ran = benchmark::RunSpecifiedBenchmarks();
    return ran > 0 ? 0 : 1;
}

int run_all(char** argv) {
    return corun::run_each(kSettings, "HOOK_BENCH_SETTING", argv, [](const Setting& one) {
        setenv("CORUN_MODE", one.mode, 1);
        setenv("CORUN_POLICY", one.policy, 1);
    });
}

}  // namespace

int main(int argc, char** argv) {
    return std::getenv("HOOK_BENCH_SETTING") == nullptr ? run_all(argv) : run_here(argc, argv);
}
