// SPDX-License-Identifier: Apache-2.0
// Random graphs on an emulated machine, their ops at the gate: leaves, containers, ops that wait for another
// op in the middle of their scope, ops that are left by a jump, asynchronous ones; costs, strategy and arm
// change meanwhile, processes fork. What must hold: every op runs once and after its sources, nobody waits
// for ever, and at every change the ledger is the sum of the widths of the scopes that run.
//   gate_stress GRAPHS [THREADS]
#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "emulated.h"
#include "shim/core.h"
#include "shim/driver.h"
#include "shim/gate.h"
#include "shim/scope.h"

namespace {

using namespace corun;

constexpr int kCpus = 16;  // many fewer than threads, so that there is a crowd
constexpr unsigned kKeys = 24;

std::atomic<int> failures{0};

void expect(bool holds, const char* what, long a, long b) {
    if (holds || failures.fetch_add(1) > 20) return;
    std::printf("FAILED: %s (%ld, %ld)\n", what, a, b);
    std::fflush(stdout);
}

// --- a fake runtime
// ------------------------------------------------------------------------------------------

struct Kernel {
    unsigned key = 0;
    bool container = false;
    double work = 0.0;  ///< seconds at width 1
    int most = 1;       ///< threads that gain
};

std::array<Kernel, kKeys> kernels;
Kernel label;

thread_local int parallelism = kCpus;
int lever_get() {
    return parallelism;
}
void lever_set(int width) {
    parallelism = width;
}
// `call`: what sets the key apart from the kernel's own, or null.
void describe(const void* identity, const void* call, OpText& text) {
    const auto& kernel = *static_cast<const Kernel*>(identity);
    std::snprintf(text.kind, sizeof text.kind, "%s%u", kernel.container ? "Label" : "Kind", kernel.key);
    if (call != nullptr)
        std::snprintf(text.shapes, sizeof text.shapes, "(%s)", static_cast<const char*>(call));
    text.container = kernel.container;
}
constexpr SourceTable kTable{"fake", describe, lever_get, lever_set, nullptr};

double seconds_of(const Kernel& kernel, int width) {
    return kernel.work / std::min(width, kernel.most) + 1e-6 * width;
}

std::vector<policy::KeyCosts> costs(std::mt19937& random) {
    std::lognormal_distribution<double> noise(0.0, 0.2);
    std::vector<policy::KeyCosts> keys;
    for (const Kernel& kernel : kernels) {
        policy::KeyCosts& key = keys.emplace_back();
        key.type = "Kind" + std::to_string(kernel.key / 4);
        if (random() % 16 == 0) continue;  // not known yet
        for (int width = 1; width <= kCpus; ++width)
            key.seconds.push_back(seconds_of(kernel, width) * noise(random));
    }
    return keys;
}

// --- the ops of a graph
// --------------------------------------------------------------------------------------

enum class Kind { leaf, container, waits, left, asynchronous, forks };

struct Op {
    Kind kind = Kind::leaf;
    unsigned key = 0;
    std::vector<std::uint32_t> sources;
    std::uint32_t other = 0;  ///< that a waiting one waits for
    std::atomic<int> ran{0};
};

emulated::Cpus cpus(kCpus);

void run_kernel(const Kernel& kernel) {
    Scope scope;
    op_begin(scope, Source::tensorflow, &kernel, 0, nullptr);
    expect(parallelism >= 1 && parallelism <= kCpus, "a width", parallelism, kCpus);
    cpus.compute(parallelism, seconds_of(kernel, parallelism));
    op_end(scope);
    expect(parallelism == kCpus, "nothing is left behind", parallelism, kCpus);
}

[[gnu::noinline]] void jump_out(const Kernel& kernel, jmp_buf& back) {
    Scope scope;
    op_begin(scope, Source::tensorflow, &kernel, 0, nullptr);
    cpus.compute(parallelism, 20e-6);
    longjmp(back, 1);
}

[[gnu::noinline]] void leave(const Kernel& kernel) {
    jmp_buf back;
    if (setjmp(back) == 0) jump_out(kernel, back);
}

// In the middle of an op. The child ends it, and runs another.
void fork_inside(const Kernel& kernel) {
    Scope scope;
    op_begin(scope, Source::tensorflow, &kernel, 0, nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        op_end(scope);
        Scope next;
        op_begin(next, Source::tensorflow, &kernel, 0, nullptr);
        op_end(next);
        // In one that is not followed the others' scopes stay, as nobody looks.
        const bool counted = globals.active.load();
        _exit(parallelism == kCpus && (!counted || globals.ledger.open() == 0) ? 0 : 1);
    }
    op_end(scope);
    int status = -1;
    waitpid(child, &status, 0);
    expect(status == 0, "a forked child goes on", status, child);
}

void run_op(std::vector<Op>& ops, std::uint32_t at) {
    Op& op = ops[at];
    const Kernel& kernel = kernels[op.key];
    for (const std::uint32_t source : op.sources)
        expect(ops[source].ran.load() == 1, "sources have run", source, at);
    switch (op.kind) {
        case Kind::leaf:
            run_kernel(kernel);
            break;
        case Kind::container: {
            Scope scope;
            // One that says so itself, and one that turns out to be when it holds others for the first time.
            if (at % 2 == 0)
                op_begin(scope, Source::tensorflow, &label, 0, nullptr);
            else
                op_begin(scope, Source::tensorflow, &kernel, 2, "holds");
            run_kernel(kernel);
            run_kernel(kernels[(op.key + 1) % kKeys]);
            op_end(scope);
            break;
        }
        case Kind::waits: {
            Scope scope;
            op_begin(scope, Source::tensorflow, &kernel, 1, "waits");
            while (ops[op.other].ran.load() == 0) usleep(20);
            op_end(scope);
            break;
        }
        case Kind::left:
            leave(kernel);
            scopes_left();
            break;
        case Kind::asynchronous:
            op_async(Source::tensorflow);
            cpus.compute(1, 30e-6);
            break;
        case Kind::forks:
            fork_inside(kernel);
            break;
    }
    op.ran.fetch_add(1);
}

Kind kind_of(std::mt19937& random) {
    const auto chance = static_cast<unsigned>(random()) % 400;
    if (chance < 20) return Kind::container;
    if (chance < 40) return Kind::left;
    if (chance < 60) return Kind::asynchronous;
#if !defined(__SANITIZE_THREAD__)
    if (chance == 60) return Kind::forks;
#endif
    return Kind::leaf;
}

/// Each op after some of those before it, now near ones and now far ones.
std::vector<Op> make_ops(std::mt19937& random, int threads) {
    std::vector<Op> ops(8 + random() % 60);
    int waiting = random() % 4 == 0 ? 0 : threads;  // nobody is made to wait beside such
    for (std::uint32_t at = 0; at < ops.size(); ++at) {
        Op& op = ops[at];
        op.kind = kind_of(random);
        op.key = static_cast<unsigned>(random()) % kKeys;
        const auto window = std::min<std::uint32_t>(at, 4 + random() % 40);
        for (unsigned i = 0; window > 0 && i < random() % 3; ++i) {
            const auto source = at - 1 - static_cast<std::uint32_t>(random()) % window;
            if (std::find(op.sources.begin(), op.sources.end(), source) == op.sources.end())
                op.sources.push_back(source);
        }
        // As long as there are threads for the others, as any program of this kind has to see to.
        if (at > 0 && op.kind == Kind::leaf && waiting < threads / 2 - 1 && random() % 12 == 0) {
            op.kind = Kind::waits;
            op.other = static_cast<std::uint32_t>(random()) % at;
            ++waiting;
        }
    }
    return ops;
}

emulated::Graph graph_of(const std::vector<Op>& ops) {
    emulated::Graph graph;
    graph.successors.resize(ops.size());
    for (std::uint32_t at = 0; at < ops.size(); ++at) {
        graph.sources.push_back(static_cast<std::uint32_t>(ops[at].sources.size()));
        for (const std::uint32_t source : ops[at].sources) graph.successors[source].push_back(at);
    }
    return graph;
}

// By then the kernels are proven to compute all the time.
void prove() {
    for (int i = 0; i < 25; ++i)
        for (const Kernel& kernel : kernels) run_kernel(kernel);
}

// --- who decides
// -------------------------------------------------------------------------------------------

// Puts the gate in force over and over, as the driver knows no such arm here and sets others.
void govern(const std::atomic<bool>& stop) {
    std::mt19937 random(3);
    constexpr std::array<const char*, 5> kStrategies{"s1", "s3", "idle", "price-0.05", "uniform-8"};
    for (unsigned turn = 0; !stop; ++turn) {
        if (turn % 100 == 0)
            gate_adopt(costs(random), kStrategies[random() % kStrategies.size()], kCpus, true);
        Decision decision;
        decision.gated = random() % 50 != 0;
        globals.decision.store(decision);
        usleep(200);
    }
}

// --- the fake runtime's start
// ------------------------------------------------------------------------------

bool start() {
    for (unsigned key = 0; key < kKeys; ++key)
        kernels[key] = {key, false, 100e-6 * (1U << key % 8), 1 << key % 5};
    label = {0, true, 0.0, 1};
    if (source_unwanted(Source::tensorflow) || !source_activate(Source::tensorflow, kTable)) return false;
    for (const Kernel& kernel : kernels) {  // in this order they get their records
        Scope scope;
        op_begin(scope, Source::tensorflow, &kernel, 0, nullptr);
        op_end(scope);
    }
    gate_check(true);
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    const int graphs = argc > 1 ? std::atoi(argv[1]) : 300;
    const int threads = argc > 2 ? std::atoi(argv[2]) : 64;
    if (!start()) return std::puts("FAILED: the fake source is not active"), 1;
    std::atomic<bool> stop{false};
    std::thread governor(govern, std::cref(stop));
    std::mt19937 random(11);
    long all = 0;
    {
        emulated::Executor executor(threads);
        prove();
        for (int i = 0; i < graphs; ++i) {
            std::vector<Op> ops = make_ops(random, threads);
            const emulated::Graph graph = graph_of(ops);
            alarm(120);  // a hang is a failure
            executor.run(graph, [&](std::uint32_t op) { run_op(ops, op); });
            for (std::uint32_t op = 0; op < ops.size(); ++op)
                expect(ops[op].ran == 1, "every op runs once", ops[op].ran, op);
            expect(globals.ledger.open() == 0, "no scope is open", globals.ledger.open(), i);
            expect(globals.ledger.widths() == 0, "no CPU is held", globals.ledger.widths(), i);
            all += static_cast<long>(ops.size());
        }
    }
    stop = true;
    governor.join();
    const GateFigures gate = gate_figures();
    expect(gate.differences == 0, "the ledger is exact", static_cast<long>(gate.differences), 0);
    expect(gate.opened == 0, "the watchdog has nothing to do", static_cast<long>(gate.opened), 0);
    expect(gate.waited > 0, "ops have waited", static_cast<long>(gate.waited), 0);
    std::printf(
        "%d graphs, %ld ops; %lu at the gate, %lu waited %.3f s in all, %lu of them in vain; %d failures\n",
        graphs, all, static_cast<unsigned long>(gate.entered), static_cast<unsigned long>(gate.waited),
        gate.seconds, static_cast<unsigned long>(gate.expired), failures.load());
    return failures == 0 ? 0 : 1;
}
