// SPDX-License-Identifier: Apache-2.0
// The path of an op under many threads at once, made for sanitizers: nested scopes, scopes left by longjmp
// and by pthread_exit, kernels that are freed and born again, threads that come and go, a report that is read
// meanwhile, and corun switched off and on. What must hold: the ledger ends at exactly zero, every call is
// counted under its own key, and no width of ours is left behind.
//   core_stress [SECONDS [THREADS]]        CORUN_POLICY and so on as usual
#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shim/core.h"
#include "shim/driver.h"
#include "shim/report.h"
#include "shim/scope.h"

namespace {

using namespace corun;
using Clock = std::chrono::steady_clock;

constexpr unsigned kKinds = 40;
constexpr unsigned kShapes = 3;
constexpr unsigned kShared = 64;   // kernels that all threads run
constexpr unsigned kPrivate = 16;  // ... and those of one thread, which are born again as another op
constexpr unsigned kMostNested = 6;
constexpr int kOwn = 16;  // the program's own width

std::atomic<int> failures{0};

void expect(bool holds, const char* what, long a, long b) {
    if (holds || failures.fetch_add(1) > 20) return;
    std::printf("FAILED: %s (%ld, %ld)\n", what, a, b);
}

// --- a fake runtime
// ------------------------------------------------------------------------------------------

struct Kernel {
    unsigned kind = 0;
};

thread_local int parallelism = kOwn;
int lever_get() {
    return parallelism;
}
void lever_set(int width) {
    parallelism = width;
}

// What has held another scope once is a container from then on: only some kinds do.
bool is_label(unsigned kind) {
    return kind % 8 == 0;
}  // says so itself
bool may_hold(unsigned kind) {
    return kind % 8 <= 1;
}
unsigned spin_of(unsigned kind) {
    return kind % 3 == 0 ? 2000 : kind % 3 == 1 ? 300 : 5;
}

void describe(const void* identity, const void* call, OpText& text) {
    const auto kind = static_cast<const Kernel*>(identity)->kind;
    std::snprintf(text.kind, sizeof text.kind, "Kind%u", kind);
    std::snprintf(text.shapes, sizeof text.shapes, "(%u)", *static_cast<const unsigned*>(call));
    std::snprintf(text.example, sizeof text.example, "instance of %u", kind);
    text.elements = 10.0 * kind;
    text.container = is_label(kind);
    text.asked = kind % 5 == 0;
    // Describing an op may run ops of the program: they are not ours to see.
    Scope within;
    op_begin(within, Source::tensorflow, identity, 99, call);
    op_end(within);
}

constexpr SourceTable kTable{.name = "fake",
                             .describe = describe,
                             .lever_get = lever_get,
                             .lever_set = lever_set,
                             .beside = Beside::bounded};

std::array<Kernel, kShared> shared_kernels;

// --- a thread of the program
// ---------------------------------------------------------------------------------

using Counts = std::array<std::array<long, kShapes>, kKinds>;
Counts counted{};
std::mutex counted_mutex;

class Worker {
  public:
    explicit Worker(unsigned seed) : random_(seed) {
        for (Kernel& kernel : kernels_) kernel.kind = pick(kKinds);
    }
    ~Worker() {
        for (const Kernel& kernel : kernels_) identity_freed(&kernel);
        const std::lock_guard<std::mutex> hold(counted_mutex);
        for (unsigned kind = 0; kind < kKinds; ++kind)
            for (unsigned shape = 0; shape < kShapes; ++shape) counted[kind][shape] += calls_[kind][shape];
    }

    unsigned pick(unsigned count) { return static_cast<unsigned>(random_()) % count; }

    void act() {
        switch (pick(40)) {
            case 0:
                return jump();
            case 1:
                return reborn();
            case 2:
                return op_async(Source::tensorflow);
            default:
                return op(0);
        }
    }

    void op(unsigned depth) {
        Scope scope;
        const unsigned kind = begin(scope);
        expect(parallelism >= 1 && parallelism <= kOwn, "the width is no more than the program's own",
               parallelism, kOwn);
        expect(width_now() >= 0 && width_now() <= 0xffff, "a width that is asked for", width_now(), 0);
        const int inside = parallelism;
        spin(spin_of(kind));
        if (depth == 0)
            expect(parallelism == inside, "the width is constant in a scope", parallelism, inside);
        if (depth < kMostNested && may_hold(kind)) op(depth + 1);
        op_end(scope);
        if (depth == 0) expect(parallelism == kOwn, "nothing is left behind", parallelism, kOwn);
    }

    /// Leaves some scopes open, as pthread_exit in the middle of an op does.
    void leave() { fall(nullptr, 3); }

  private:
    // Each scope in a frame of its own, like the hooks. At the end the thread jumps back, or exits.
    [[noreturn, gnu::noinline]] void fall(jmp_buf* back, unsigned depth) {
        Scope scope;
        begin(scope, depth > 0);
        if (depth == 0 && back != nullptr) longjmp(*back, 1);
        if (depth == 0) pthread_exit(nullptr);
        fall(back, depth - 1);
        std::abort();  // no tail call
    }
    void jump() {
        jmp_buf back;
        if (setjmp(back) == 0) fall(&back, pick(4));
        Scope next;  // of a frame above theirs: drops what was left
        begin(next);
        op_end(next);
        expect(parallelism == kOwn, "nothing is left behind after a jump", parallelism, kOwn);
    }
    void reborn() {
        Kernel& kernel = kernels_[pick(kPrivate)];
        identity_freed(&kernel);
        kernel.kind = pick(kKinds);
    }
    unsigned begin(Scope& scope, bool holds = false) {
        const Kernel* chosen = pick(2) == 0 ? &shared_kernels[pick(kShared)] : &kernels_[pick(kPrivate)];
        while (holds && !may_hold(chosen->kind)) chosen = &shared_kernels[pick(kShared)];
        const Kernel& kernel = *chosen;
        const unsigned shape = pick(kShapes);
        op_begin(scope, Source::tensorflow, &kernel, shape, &shape);
        ++calls_[kernel.kind][shape];
        return kernel.kind;
    }
    void spin(unsigned turns) {
        for (unsigned i = 0; i < turns; ++i) sink_ = sink_ + i;
    }

    std::minstd_rand random_;
    std::array<Kernel, kPrivate> kernels_;
    Counts calls_{};
    volatile unsigned sink_ = 0;
};

struct Task {
    unsigned seed;
    Clock::time_point until;
};

void* run_thread(void* argument) {
    const Task task = *static_cast<Task*>(argument);
    const auto worker = std::make_unique<Worker>(task.seed);
    while (Clock::now() < task.until)
        for (int i = 0; i < 20; ++i) worker->act();
    if (task.seed % 3 == 0) {
        Worker last(task.seed + 1);
        last.leave();
    }
    return nullptr;
}

// --- who looks on
// --------------------------------------------------------------------------------------------

std::size_t reports = 0;
std::size_t shared = 0;  // looks at which threads shared the budget

void read_reports(const std::atomic<bool>& stop) {
    while (!stop) {
        driver_read([](policy::Controller& controller, const DriverFigures& figures) {
            reports += report_make(controller, figures).dump().size() > 2 ? 1 : 0;
        });
        shared += globals.width_beside.load() != 0 ? 1 : 0;
        usleep(3000);
    }
}

void switch_off_and_on(const std::atomic<bool>& stop) {
    while (!stop) {
        driver_set_active(false);
        usleep(500);
        driver_set_active(true);
        usleep(5000);
    }
    driver_set_active(true);
}

// --- the rounds
// ----------------------------------------------------------------------------------------------

void run_round(unsigned round, unsigned threads, double seconds) {
    const auto until = Clock::now() + std::chrono::microseconds(static_cast<long>(1e6 * seconds));
    std::vector<Task> tasks;
    for (unsigned i = 0; i < threads; ++i) tasks.push_back({round * 1000 + i + 1, until});
    std::vector<pthread_t> ids(threads);
    for (unsigned i = 0; i < threads; ++i)
        if (pthread_create(&ids[i], nullptr, run_thread, &tasks[i]) != 0) std::exit(2);
    for (const pthread_t id : ids) pthread_join(id, nullptr);
    expect(globals.ledger.open() == 0, "no scope is open", globals.ledger.open(), round);
    expect(globals.ledger.widths() == 0, "no CPU is held", globals.ledger.widths(), round);
}

void check_calls() {
    driver_read([](policy::Controller& controller, const DriverFigures& figures) {
        std::map<std::string, long> seen;
        for (model::OpId op = 0; op < controller.op_count(); ++op)
            seen[controller.op(op).info.key()] = static_cast<long>(figures.calls[op]);
        std::size_t containers = 0;
        for (const bool container : figures.container) containers += container ? 1 : 0;
        expect(containers <= kKinds / 4 * kShapes, "only what holds others is a container",
               static_cast<long>(containers), 0);
        long all = 0;
        for (unsigned kind = 0; kind < kKinds; ++kind) {
            for (unsigned shape = 0; shape < kShapes; ++shape) {
                const std::string key =
                    "fake/Kind" + std::to_string(kind) + "(" + std::to_string(shape) + ")";
                expect(seen[key] == counted[kind][shape], key.c_str(), seen[key], counted[kind][shape]);
                all += counted[kind][shape];
            }
        }
        expect(controller.op_count() <= kKinds * kShapes, "no other key",
               static_cast<long>(controller.op_count()), 0);
        expect(figures.open_scopes == 0, "no scope is open", figures.open_scopes, 0);
        std::printf("%ld calls, each under its key; state %s, %zu phases\n", all,
                    state_name(controller.state()), controller.phases().size());
    });
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 3.0;
    const auto threads = static_cast<unsigned>(argc > 2 ? std::atoi(argv[2]) : 64);
    for (unsigned i = 0; i < kShared; ++i) shared_kernels[i].kind = i % kKinds;
    if (source_unwanted(Source::tensorflow) || !source_activate(Source::tensorflow, kTable)) {
        std::puts("FAILED: the fake source is not active");
        return 1;
    }
    constexpr unsigned kRounds = 6;
    std::atomic<bool> stop{false};
    std::thread reader(read_reports, std::cref(stop));
    for (unsigned round = 0; round < kRounds; ++round) run_round(round, threads, 0.7 * seconds / kRounds);
    check_calls();
    std::thread switcher(switch_off_and_on, std::cref(stop));
    for (unsigned round = 0; round < kRounds; ++round)
        run_round(100 + round, threads, 0.3 * seconds / kRounds);
    stop = true;
    switcher.join();
    reader.join();
    expect(reports > 0, "the report was read meanwhile", static_cast<long>(reports), 0);
    const char* const policy = std::getenv("CORUN_POLICY");
    if (policy != nullptr && (std::strcmp(policy, "race") == 0 || std::strcmp(policy, "idle") == 0))
        expect(shared > 0, "threads side by side share the budget", 0, 0);
    else if (policy != nullptr)
        expect(shared == 0, "a width that was asked for is not limited", static_cast<long>(shared), 0);
    std::printf("%zu reports read; %d failures\n", reports, failures.load());
    return failures == 0 ? 0 : 1;
}
