// SPDX-License-Identifier: Apache-2.0
// What corun adds to one OpenMP region: the hook of GOMP_parallel on the way to a team of one thread, which
// gcc's runtime opens in some tens of nanoseconds. The call with the hook and the call without are made in
// turn in one process, in rounds; the median of the differences is what counts ("added_ns").
//
// The program starts itself again for each setting: the options are read once in a process.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "shim/adaptive.h"
#include "shim/openmp.h"
#include "tests/bench/each_setting.h"
#include "tests/bench/openmp_caller.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostAdded = 25.0;     // nanoseconds, of an untouched region
constexpr double kMostResized = 60.0;   // ... of one that runs at the width that was found for it
constexpr double kMostLoop = 60.0;      // ... of the start of a loop inside such a region
constexpr double kMostResolver = 10.0;  // of finding a known caller's runtime
constexpr int kRound = 500;             // so short that what disturbs one disturbs few

struct Setting {
    const char* name;
    const char* mode;
    const char* openmp;
    unsigned threads;
    const char* library;
    bool limited;
    const char* says;
    bool resized = false;  ///< two threads, and the one that is listed comes to run at one
    bool loop = false;     ///< the start of a loop inside, whose chunk was found
};
// Objects that the calls come from: loaded with the program, or later, which the loader finds more slowly.
constexpr char kLinked[] = "linked";
constexpr char kOpened[] = "opened";
constexpr char kUnbound[] = "unbound";
constexpr Setting kSettings[]{
    {"mode-off", "off", "safe", 1, kLinked, false, "CORUN_MODE=off: forwarded"},
    {"openmp-off", "tune", "off", 1, kLinked, false, "CORUN_OPENMP=off: forwarded"},
    {"named", "tune", "safe", 1, kLinked, true, "CORUN_OPENMP=safe, a region that names its size: counted"},
    {"raw", "tune", "safe", 0, kLinked, true,
     "CORUN_OPENMP=safe, a region that does not (OMP_NUM_THREADS=1)"},
    {"opened", "tune", "safe", 1, kOpened, true, "the same from an object that was opened later"},
    {"hooked-names-only", "tune", "safe", 1, kUnbound, true,
     "the same from an object of which no word tells the runtime"},
    {"resized", "tune", "adaptive", 0, kLinked, true,
     "CORUN_OPENMP=adaptive, a region that was found to be best at one thread, beside one that names it",
     true},
    {"loop-start", "tune", "adaptive", 0, kLinked, true,
     "CORUN_OPENMP=adaptive, the start of a loop whose chunk was found, in a team of one", false, true},
};
const Setting* setting = nullptr;

Parallel* hooked = nullptr;
Parallel* direct = nullptr;
Caller* caller = nullptr;
long sum = 0;

[[gnu::noinline]] double round_of(Parallel* parallel) {
    const auto begin = Clock::now();
    const bool at_one = setting->resized && parallel == direct;
    caller(parallel, &sum, at_one ? 1 : setting->threads, kRound);
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kRound;
}

double quantile(std::vector<double>& values, double share) {
    const auto at =
        values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

void region(benchmark::State& state) {
    std::vector<double> added;
    std::vector<double> plain;
    for (auto _ : state) {
        const double without = round_of(direct);
        const double with = round_of(hooked);
        state.SetIterationTime((with + without) * kRound * 1e-9);
        added.push_back(with - without);
        plain.push_back(without);
    }
    const double median = quantile(added, 0.5);
    state.counters["added_ns"] = median;
    state.counters["added_low_ns"] = quantile(added, 0.1);  // the figure of a quieter machine
    state.counters["direct_ns"] = quantile(plain, 0.5);
    const double most = setting->resized ? kMostResized : kMostAdded;
    if (setting->limited && median > most && std::getenv("HOOK_BENCH_STRICT") != nullptr)
        state.SkipWithError("an untouched region costs more than the limit");
}

struct LoopRounds {
    benchmark::State* state;
    LoopStart* hooked;
    LoopStart* direct;
    LoopEnd* end;
    std::vector<double> added, plain;
};

double loop_round(const LoopRounds& rounds, LoopStart* start) {
    const auto begin = Clock::now();
    openmp_loop_caller(start, rounds.end, kRound);
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kRound;
}

// In the region's own code: what the leader would have decided is put into the thread's words.
void loops_inside(void* argument) {
    auto& rounds = *static_cast<LoopRounds*>(argument);
    if (corun::adaptive_thread.inside == nullptr) return rounds.state->SkipWithError("not looked at");
    const void* const at = reinterpret_cast<const void*>(openmp_loop_caller);
    corun::adaptive_thread.chunk = corun::chunk_word(64, 1000);
    corun::adaptive_thread.runtime = &corun::runtime_asked(at, corun::OpenMp::for_nonmonotonic_dynamic);
    for (auto _ : *rounds.state) {
        const double without = loop_round(rounds, rounds.direct);
        const double with = loop_round(rounds, rounds.hooked);
        rounds.state->SetIterationTime((with + without) * kRound * 1e-9);
        rounds.added.push_back(with - without);
        rounds.plain.push_back(without);
    }
}

void loop_start(benchmark::State& state) {
    constexpr char kName[] = "GOMP_loop_nonmonotonic_dynamic_start";
    void* const runtime = dlopen("libgomp.so.1", RTLD_LAZY);
    LoopRounds rounds{};
    rounds.state = &state;
    rounds.hooked = reinterpret_cast<LoopStart*>(dlsym(RTLD_DEFAULT, kName));
    rounds.direct = reinterpret_cast<LoopStart*>(dlsym(runtime, kName));
    rounds.end = reinterpret_cast<LoopEnd*>(dlsym(runtime, "GOMP_loop_end_nowait"));
    if (rounds.hooked == rounds.direct || rounds.end == nullptr) return state.SkipWithError("no hook");
    hooked(loops_inside, &rounds, 0, 0);
    if (rounds.added.empty()) return;
    const double median = quantile(rounds.added, 0.5);
    state.counters["added_ns"] = median;
    state.counters["added_low_ns"] = quantile(rounds.added, 0.1);
    state.counters["direct_ns"] = quantile(rounds.plain, 0.5);
    if (median > kMostLoop && std::getenv("HOOK_BENCH_STRICT") != nullptr)
        state.SkipWithError("the start of a loop costs more than the limit");
}

// A loop that does nothing is measured in turn with it.
template <typename Find>
void measure(benchmark::State& state, const void* known, bool limited, Find find) {
    std::vector<double> hit;
    for (auto _ : state) {
        const auto begin = Clock::now();
        for (int i = 0; i < kRound; ++i) {
            const void* at = known;
            benchmark::DoNotOptimize(at);
            benchmark::ClobberMemory();
        }
        const auto middle = Clock::now();
        for (int i = 0; i < kRound; ++i) {
            const void* at = known;
            benchmark::DoNotOptimize(at);
            benchmark::DoNotOptimize(&find(at));
            benchmark::ClobberMemory();
        }
        const auto end = Clock::now();
        const std::chrono::duration<double, std::nano> empty = middle - begin;
        const std::chrono::duration<double, std::nano> full = end - middle;
        state.SetIterationTime(full.count() * 1e-9);
        hit.push_back((full - empty).count() / kRound);
    }
    const double median = quantile(hit, 0.5);
    state.counters["hit_ns"] = median;
    state.counters["hit_low_ns"] = quantile(hit, 0.1);
    if (limited && median > kMostResolver && std::getenv("HOOK_BENCH_STRICT") != nullptr)
        state.SkipWithError("finding a known caller's runtime costs more than the limit");
}

// No limit for an object that was opened later: the loader alone needs as much.
void resolver(benchmark::State& state) {
    measure(state, reinterpret_cast<const void*>(caller), setting->library == kLinked,
            [](const void* at) -> const corun::Runtime& {
                return corun::runtime_of_body(at, at, corun::OpenMp::parallel);
            });
}

// A question behind a tail call: the return address lies in an object that has nothing to do with OpenMP.
void resolver_of_nobody(benchmark::State& state) {
    measure(state, reinterpret_cast<const void*>(qsort), false, [](const void* at) -> const corun::Runtime& {
        return corun::runtime_asked(at, corun::OpenMp::get_max);
    });
}

std::string folder_of_program() {
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    const std::string name(path, length > 0 ? static_cast<std::size_t>(length) : 0);
    return name.substr(0, name.rfind('/'));
}

Caller* opened_caller() {
    const std::string path = folder_of_program() + "/libopenmp_caller_" + setting->library + ".so";
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    return library != nullptr ? reinterpret_cast<Caller*>(dlsym(library, "openmp_caller")) : nullptr;
}

// Until the region has the width that it keeps.
bool wait_until_resized() {
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < end) {
        for (int i = 0; i < 1000; ++i) round_of(hooked);
        for (const corun::AdaptiveRegion& one : corun::adaptive_regions)
            if (one.control.load() >> corun::kWidthShift == 1) return true;
    }
    return false;
}

int run_here(int argc, char** argv) {
    const char* const wanted = std::getenv("OPENMP_BENCH_SETTING");
    for (const Setting& one : kSettings)
        if (std::strcmp(wanted, one.name) == 0) setting = &one;
    if (setting == nullptr) return std::fputs("no such setting\n", stderr), 1;
    hooked = reinterpret_cast<Parallel*>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    void* const runtime = dlopen("libgomp.so.1", RTLD_LAZY);
    direct = runtime != nullptr ? reinterpret_cast<Parallel*>(dlsym(runtime, "GOMP_parallel")) : nullptr;
    caller = setting->library == kLinked ? openmp_caller : opened_caller();
    if (caller == nullptr || hooked == nullptr || direct == nullptr || hooked == direct)
        return std::fputs("the hook is not in the way\n", stderr), 1;
    round_of(hooked);
    const void* const at = reinterpret_cast<const void*>(caller);
    const corun::Runtime& found = corun::runtime_of_body(at, at, corun::OpenMp::parallel);
    if (corun::parallel_of(found) != direct)
        return std::fputs("the hook does not find the runtime\n", stderr), 1;
    if (setting->resized && !wait_until_resized()) return std::fputs("not resized\n", stderr), 1;
    benchmark::RegisterBenchmark(setting->name, setting->loop ? loop_start : region)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
    if (std::strcmp(setting->openmp, "off") != 0)
        benchmark::RegisterBenchmark("resolver", resolver)->UseManualTime()->Unit(benchmark::kMicrosecond);
    if (std::strcmp(setting->name, "raw") == 0)
        benchmark::RegisterBenchmark("resolver-of-nobody", resolver_of_nobody)
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
    benchmark::Initialize(&argc, argv);
    return benchmark::RunSpecifiedBenchmarks() > 0 ? 0 : 1;
}

int run_all(char** argv) {
    return corun::run_each(kSettings, "OPENMP_BENCH_SETTING", argv, [](const Setting& one) {
        setenv("CORUN_MODE", one.mode, 1);
        setenv("CORUN_OPENMP", one.openmp, 1);
        setenv("OMP_NUM_THREADS", one.resized ? "2" : "1", 1);
        if (one.resized) setenv("CORUN_REGIONS", "*", 1);
    });
}

}  // namespace

int main(int argc, char** argv) {
    return std::getenv("OPENMP_BENCH_SETTING") == nullptr ? run_all(argv) : run_here(argc, argv);
}
