// SPDX-License-Identifier: Apache-2.0
// 64 threads open libraries, ask for the runtime of each, open regions on it and close them again, so that
// libraries come and go in one another's place. Each library's handle says which runtime is the right one.
// The core is linked in, without hooks but for one that does nothing, to which the libraries are bound.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "shim/openmp.h"
#include "shim/process.h"

extern "C" [[gnu::visibility("default")]] void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned) {}

namespace {

constexpr int kThreads = 64;
constexpr int kDepth = 6;
constexpr const char* kLibraries[]{"named", "namXd", "bare",
                                   "barX"};  // the second of each has another runtime

std::atomic<bool> stop{false};
std::atomic<long> rounds{0}, regions_opened{0}, wrong{0}, failed{0};

void nested(const corun::Runtime& runtime, const void* caller, int depth) {
    corun::OpenRegion region;
    // As many regions as there are depths and libraries: they share records.
    const auto body = reinterpret_cast<std::uintptr_t>(caller) + static_cast<std::uintptr_t>(depth);
    corun::region_begin(region, runtime, reinterpret_cast<const void*>(body), depth % 2, caller);
    regions_opened.fetch_add(1, std::memory_order_relaxed);
    if (depth > 0) nested(runtime, caller, depth - 1);
    corun::region_end(region);
}

// Like the loader's own lock, which a sanitizer does not see.
std::mutex loader;

void* open_library(const std::string& path) {
    const std::lock_guard<std::mutex> hold(loader);
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

void visit(const std::string& path) {
    void* const library = open_library(path);
    void* const caller = library != nullptr ? dlsym(library, "stress_caller") : nullptr;
    if (caller == nullptr) {
        failed.fetch_add(1);
        return;
    }
    void* const right = dlsym(library, "GOMP_parallel");
    for (int i = 0; i < 20; ++i) {
        const corun::Runtime& runtime = corun::runtime_of_body(caller, caller, corun::OpenMp::parallel);
        if (reinterpret_cast<void*>(corun::parallel_of(runtime)) != right) wrong.fetch_add(1);
        if (corun::get_level_of(runtime)() != 0) wrong.fetch_add(1);
        if (i % 5 == 0) nested(runtime, caller, kDepth);
    }
    {
        const std::lock_guard<std::mutex> hold(loader);
        dlclose(library);
    }
    rounds.fetch_add(1, std::memory_order_relaxed);
}

void work(const std::string& folder, unsigned seed) {
    while (!stop.load(std::memory_order_relaxed)) {
        seed = seed * 1664525U + 1013904223U;
        visit(folder + "/libstress-" + kLibraries[(seed >> 16) % 4] + ".so");
        if ((seed >> 20) % 8 == 0) std::this_thread::yield();
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return std::fputs("openmp_stress FOLDER SECONDS\n", stderr), 2;
    corun::process_start();
    visit(std::string(argv[1]) +
          "/libstress-named.so");  // the options are read by the first, and others not counted
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, argv[1], static_cast<unsigned>(i));
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(argv[2])));
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    std::uint64_t counted = 0;
    for (const corun::RegionRecord& record : corun::regions)
        for (const corun::RegionShard& shard : record.shards) counted += shard.calls.load();
    std::printf("%ld rounds, %ld regions, %llu counted, %zu runtimes, %ld wrong, %ld failed\n", rounds.load(),
                regions_opened.load(), static_cast<unsigned long long>(counted), corun::runtime_count(),
                wrong.load(), failed.load());
    const bool right = rounds > 0 && wrong == 0 && failed == 0 && corun::runtime_count() >= 2 &&
                       counted == static_cast<std::uint64_t>(regions_opened.load());
    return right ? 0 : 1;
}
