// SPDX-License-Identifier: Apache-2.0
#include "shim/openmp_start.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>

#include "policy/openmp_cap.h"
#include "policy/wait_policy.h"
#include "shim/cpu_wait.h"
#include "shim/environment.h"
#include "shim/message.h"
#include "shim/node.h"
#include "shim/openmp.h"
#include "shim/process.h"
#include "shim/start_profile.h"
#include "shim/undisturbed.h"
#include "shim/weak_references.h"

namespace corun {

constinit std::atomic<bool> openmp_own_word{false};
constinit std::atomic<bool> openmp_watch{false};

namespace {

constexpr char kNumThreads[] = "OMP_NUM_THREADS";
constexpr char kSpinCount[] = "GOMP_SPINCOUNT";

enum class Decided { no, running, yes };
constinit std::atomic<Decided> decided{Decided::no};
constinit OpenMpStart start{};

constinit std::atomic<bool> has_runtime_at_start{false};
constinit std::atomic<const void*> counted{nullptr};  // the runtime that counted last
constinit std::atomic<bool> spins_set{false};         // in the environment, by us
constinit char wait_effect[200];                      // for the report

// Less is too coarse for the kernel's count of time that CPUs were idle, which is in steps of 10 ms.
constexpr double kLeastSeconds = 0.1;

// --- how threads wait
// --------------------------------------------------------------------------------------------

bool is_set(const char* name) {
    return std::getenv(name) != nullptr;
}

// "0.52 0.58 0.59 3/467 11206": load of 1, 5 and 15 minutes, tasks that run or want to, of all.
void read_load(policy::WaitFacts& facts) {
    std::ifstream file("/proc/loadavg");
    double five = 0.0;
    double fifteen = 0.0;
    int runnable = 0;
    if (!(file >> facts.load >> five >> fifteen >> runnable)) return;
    facts.runnable = std::max(0, runnable - 1);                // without ourselves
    facts.load = std::max(facts.load, node_neighbours_use());  // who has just begun is not in it yet
}

// Where the kernel does not count it nobody is taken for a neighbour.
void read_waiting(policy::WaitFacts& facts) {
    const CpuWait wait = cpu_wait_now();
    facts.ran = wait.ran;
    facts.waited = wait.waited;
}

// `wanted` threads without corun; 0: nothing is capped.
void decide_wait(int wanted) {
    policy::WaitFacts facts;
    facts.threads = std::min(start.width, start.affinity);
    facts.wanted = wanted;
    facts.affinity = start.affinity;
    facts.machine = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    facts.quota = start.quota;
    for (const char* name : {"OMP_WAIT_POLICY", kSpinCount, "KMP_BLOCKTIME", "KMP_LIBRARY"})
        facts.chosen = facts.chosen || is_set(name);
    read_load(facts);
    read_waiting(facts);
    // Who sleeps between regions for ever because something else ends just now pays for nothing.
    if (const double used = used_by_others_since_start(kLeastSeconds); used >= 0.0) facts.used = used;
    const policy::WaitChoice choice = policy::choose_wait(facts);
    if (choice.kind == policy::WaitKind::leave) return;
    start.wait = choice.kind;
    const char* const name = choice.kind == policy::WaitKind::passive   ? "no spin"
                             : choice.kind == policy::WaitKind::brief   ? "brief spin"
                             : choice.kind == policy::WaitKind::bounded ? "bounded spin"
                                                                        : "limited spin";
    std::snprintf(wait_effect, sizeof wait_effect, "%s: %s", name, choice.why.c_str());
}

// --- the number of threads
// ---------------------------------------------------------------------------------------

// "gmx mdrun -ntomp 16" with OMP_NUM_THREADS=16: it may compare the two, so neither can be lowered. Then
// nothing may be capped either, for some of its teams go by what it has read.
bool is_said_twice(int number) {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string word;
    std::getline(file, word, '\0');  // the program
    while (std::getline(file, word, '\0'))
        if (policy::word_names(word, number)) return true;
    return false;
}

void decide() {
    const Options& options = process_options();
    start.environment = openmp_environment_number();
    start.wanted =
        !process_off() && options.has_word(OptionId::hooks, "openmp") && !options.is(OptionId::openmp, "off");
    start.follows_forks = start.wanted && options.is(OptionId::follow, "fork");
    if (!start.wanted) return;
    const Budget budget = process_start_budget();
    start.affinity = budget.affinity;
    start.quota = budget.quota;
    const int own = start.environment > 0 ? start.environment : budget.affinity;
    start.width = own;
    if (options.is(OptionId::mode, "observe")) return;
    // Whoever reads the number must find the one that its teams will have.
    const bool stays = start.environment > 0 && (!has_runtime_at_start.load() || is_said_twice(own));
    if (own > budget.cpus && stays && has_runtime_at_start.load()) return decide_wait(0);
    // CPUs that the program adds to its mask are its own.
    start.processors = budget.allowed;
    const int most = std::min(own, budget.cpus);
    start.width = stays ? most : start_profile_width(most, budget.cpus);
    start.limit = start.width < most ? start.width : budget.cpus;
    decide_wait(own);
}

void lower_environment() {
    constexpr std::size_t length = sizeof kNumThreads - 1;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        if (std::strncmp(*entry, kNumThreads, length) != 0 || (*entry)[length] != '=') continue;
        char* const list = *entry + length + 1;
        const int before = policy::outermost_number(list);
        if (!policy::lower_outermost(list, start.limit)) continue;
        char effect[100];
        std::snprintf(effect, sizeof effect, "OMP_NUM_THREADS %d -> %d, for those who read it", before,
                      policy::outermost_number(list));
        lever_in_force("OpenMP environment", effect, "CORUN_OPENMP");
    }
}

bool is_loaded_runtime(dl_phdr_info* info) {
    const LoadedObject object = object_of(*info);
    return object.dynamic != nullptr && !is_our_own(object) && is_runtime(object);
}

// Launchers (mpirun, a shell, python) hand OMP_NUM_THREADS on to programs and machines that we know nothing
// of; only who has a runtime reads it for its own threads.
bool has_runtime() {
    return dl_iterate_phdr(
               [](dl_phdr_info* info, std::size_t, void*) { return is_loaded_runtime(info) ? 1 : 0; },
               nullptr) != 0;
}

void set_spins() {
    static constinit char entry[40];
    if (start.wait == policy::WaitKind::leave || is_set(kSpinCount) || spins_set.exchange(true)) return;
    const int spins = start.wait == policy::WaitKind::limited   ? policy::kLimitedSpins
                      : start.wait == policy::WaitKind::bounded ? policy::kBoundedSpins
                      : start.wait == policy::WaitKind::brief   ? policy::kBriefSpins
                                                                : 0;
    std::snprintf(entry, sizeof entry, "%s=%d", kSpinCount, spins);
    if (environment_lend(entry))
        openmp_tell_wait();
    else
        spins_set.store(false);
}

template <typename Action>
void quietly(Action action) noexcept {
    if (openmp_thread.busy) return;
    const Undisturbed quiet;
    openmp_thread.busy = true;  // what we call may come back to the hooks
    try {
        action();
    } catch (const std::exception& error) {
        message_fault(error.what());
    }
    openmp_thread.busy = false;
}

}  // namespace

int openmp_environment_number() noexcept {
    const char* const text = std::getenv(kNumThreads);
    return text != nullptr ? policy::outermost_number(text) : 0;
}

[[gnu::noinline]] static const OpenMpStart& decide_or_wait() noexcept {
    Decided expected = Decided::no;
    if (decided.compare_exchange_strong(expected, Decided::running, std::memory_order_acq_rel)) {
        try {
            decide();
        } catch (const std::exception& error) {
            message_fault(error.what());
            start = {};
        }
        decided.store(Decided::yes, std::memory_order_release);
    }
    // Asleep, so that whoever decides has a CPU whatever the priorities are.
    while (decided.load(std::memory_order_acquire) != Decided::yes) usleep(200);
    return start;
}

// Without a catch, see undisturbed.h: setters come here again and again.
const OpenMpStart& openmp_start() noexcept {
    return decided.load(std::memory_order_acquire) == Decided::yes ? start : decide_or_wait();
}

void openmp_process_started() noexcept {
    if (openmp_hooked == nullptr) return;
    quietly([] {
        empty_weak_references();
        if (!has_runtime()) return;
        has_runtime_at_start.store(true);
        resolver::look_at_start();
        if (process_off() || !openmp_start().wanted) return;
        if (start.environment > start.limit) lower_environment();
        set_spins();
    });
}

[[gnu::noinline]] static void counts_cpus(const LoadedObject& object) noexcept {
    if (!is_runtime(object)) return;
    counted.store(object.dynamic, std::memory_order_relaxed);
    if (source_early()) return process_start();
    if (process_off()) return;
    quietly([] {
        if (!openmp_start().wanted) return;
        set_spins();
    });
}

// Without a catch too: whoever asks for the CPUs comes here each time.
void openmp_counts_cpus(const void* caller) noexcept {
    LoadedObject object{};
    if (find_object(caller, object) && object.dynamic != counted.load(std::memory_order_relaxed))
        counts_cpus(object);
}

bool openmp_runtime_at_start() noexcept {
    return has_runtime_at_start.load();
}

void openmp_environment_back() noexcept {
    if (spins_set.load(std::memory_order_relaxed) && spins_set.exchange(false)) environment_take_back();
}

void openmp_tell_wait() noexcept {
    lever_in_force("OpenMP wait policy", wait_effect, "CORUN_OPENMP");
}

void openmp_start_after_fork() noexcept {
    if (decided.load() == Decided::running) decided.store(Decided::no);
}

}  // namespace corun
