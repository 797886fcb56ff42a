// SPDX-License-Identifier: Apache-2.0
#include "shim/process.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>

#include "shim/adaptive_engine.h"
#include "shim/adaptive_objects.h"
#include "shim/budget_watch.h"
#include "shim/build_id.h"
#include "shim/clock.h"
#include "shim/control.h"
#include "shim/core.h"
#include "shim/cpu_view.h"
#include "shim/cpu_wait.h"
#include "shim/driver.h"
#include "shim/file_size_signal.h"
#include "shim/gate.h"
#include "shim/heap.h"
#include "shim/loaded_list.h"
#include "shim/message.h"
#include "shim/node.h"
#include "shim/openmp.h"
#include "shim/openmp_report.h"
#include "shim/openmp_runtime.h"
#include "shim/openmp_start.h"
#include "shim/report.h"
#include "shim/spin_lock.h"
#include "shim/start_profile.h"
#include "shim/undisturbed.h"

namespace corun {
namespace {

// Constant-initialised: hooks may run before any constructor of ours.
constinit Options options{};
constinit std::atomic<int> start_state{0};  // 0 not begun, 1 running, 2 done
constinit std::atomic<bool> off{true};
constinit std::atomic<int> affinity_at_start{0};
constinit std::atomic<bool> report_wanted{false};
constinit std::atomic<bool> profile_refused{false};  // said at start; writing it would say the same again
constexpr char kLaunched[] = "CORUN_LAUNCHED";

struct Stories {
    std::mutex mutex;
    std::vector<SourceStory> sources;
    std::vector<LeverStory> levers;
    std::vector<std::string> runtimes;
};

Stories& stories() {
    static Stories* const instance = new Stories;  // never destroyed, see message.cc
    return *instance;
}

void warn(const char* sentence) {
    message(Level::warning, sentence);
}

// The program may change its folder: a path counts from where it was started. One that gets too long stays.
void make_absolute(OptionId id) {
    auto& text = options.text[static_cast<std::size_t>(id)];
    char folder[Options::kText];
    if (text[0] == '\0' || text[0] == '/' || getcwd(folder, sizeof folder) == nullptr || folder[0] != '/')
        return;
    const std::size_t before = std::strlen(folder);
    const std::size_t length = std::strlen(text.data());
    if (before + 1 + length >= text.size()) return;
    std::memmove(text.data() + before + 1, text.data(), length + 1);
    std::memcpy(text.data(), folder, before);
    text[before] = '/';
}

// CORUN_FOLLOW=no: only the program itself. The launcher has left its pid, which exec keeps; with a plain
// LD_PRELOAD the first process to get here leaves it for its children.
bool is_unwanted_child() {
    if (!options.is(OptionId::follow, "no")) return false;
    char own[24];
    std::snprintf(own, sizeof own, "%ld", static_cast<long>(getpid()));
    const char* launched = std::getenv(kLaunched);
    if (launched == nullptr) {
        setenv(kLaunched, own, 1);
        return false;
    }
    return std::strcmp(launched, own) != 0;
}

constinit bool forks_followed = false;
constinit SpinLock activating;

void before_fork() {
    if (forks_followed) driver_begin_fork();
    engine_before_fork();
    loaded_list_before_fork();
    if (heap_before_fork != nullptr) heap_before_fork();
}
void in_parent() {
    if (heap_after_fork != nullptr) heap_after_fork(false);
    loaded_list_after_fork(false);
    engine_fork_in_parent();
    if (forks_followed) driver_end_fork();
}

constinit std::array<std::atomic<void (*)()>, static_cast<std::size_t>(Source::count)> after_fork_calls{};

void in_child() {
    if (heap_after_fork != nullptr) heap_after_fork(true);
    budget_after_fork();
    cpu_view_after_fork();
    loaded_list_after_fork(true);
    gate_after_fork();
    activating.unlock();  // whoever had it is not here
    resolver::after_fork();
    openmp_start_after_fork();
    for (const auto& call : after_fork_calls)
        if (auto* const known = call.load(std::memory_order_relaxed)) known();
    openmp_after_fork(!off.load(std::memory_order_relaxed) && options.is(OptionId::follow, "fork"));
    if (globals.budget.load(std::memory_order_relaxed) != 0)  // by the parent's share of the machine
        globals.budget.store(static_cast<std::uint16_t>(std::min(budget_now().cpus, 65535)),
                             std::memory_order_relaxed);
    if (off.load(std::memory_order_relaxed)) return;
    control_after_fork();
    node_after_fork();
    if (options.is(OptionId::follow, "fork")) {
        // The report's place is the parent's unless its name tells the two apart.
        if (options[OptionId::report].find("%p") == std::string_view::npos)
            options.text[static_cast<std::size_t>(OptionId::report)][0] = '\0';
        return driver_after_fork();
    }
    // Whoever forks without exec keeps the parent's runtimes but not their threads; the child runs as it is.
    globals.active.store(false, std::memory_order_relaxed);
    off.store(true, std::memory_order_relaxed);
    report_wanted.store(false, std::memory_order_relaxed);
}

// A policy with a gate has to be wanted as well.
std::string_view policy_in_force() {
    const std::string_view named = options[OptionId::policy];
    return options.is(OptionId::gate, "off") && named.rfind("gate-", 0) == 0 ? "race" : named;
}

// In which arms ops may wait.
policy::GateMode gate_mode() {
    if (options.is(OptionId::gate, "auto")) return policy::GateMode::beside;
    if (options.is(OptionId::gate, "on")) return policy::GateMode::alone;
    if (policy_in_force() != options[OptionId::policy])
        message(Level::warning, "CORUN_POLICY=gate-... needs CORUN_GATE=on; no op waits, the arms are raced");
    return policy::GateMode::off;
}

std::size_t framework_count() {
    const std::lock_guard<std::mutex> hold(stories().mutex);
    return stories().runtimes.size();
}

model::Identity identity(int budget) {
    model::Identity identity;
    identity.cpu_model = process_cpu_model();
    identity.budget = budget;
    const std::lock_guard<std::mutex> hold(stories().mutex);
    identity.build_ids = stories().runtimes;
    std::sort(identity.build_ids.begin(), identity.build_ids.end());
    return identity;
}

bool profile_wanted(const policy::Controller& controller) {
    return !options[OptionId::profile].empty() && !profile_refused.load(std::memory_order_relaxed) &&
           !process_frozen() && options.is(OptionId::mode, "tune") && controller.op_count() != 0;
}

void write_profile(const policy::Controller& controller) {
    if (!profile_wanted(controller)) return;
    const std::string path(options[OptionId::profile]);
    if (const auto error =
            model::save_profile(path, controller.export_profile(identity(controller.budget()))))
        message(Level::warning, error->c_str());
}

// At the end of the process: profile and report. Also entered by exit() in the middle of an op.
void at_end() {
    if (!report_wanted.exchange(false) || off.load(std::memory_order_relaxed)) return;
    const int saved = errno;
    const NoFileSizeSignal quiet;
    openmp_runtime_end();
    try {
        start_profile_save();
        const std::string path(options[OptionId::report]);
        const bool read = driver_read([&](policy::Controller& controller, const DriverFigures& figures) {
            write_profile(controller);
            report_write(path, controller, figures);
        });
        // Regions alone: nothing is decided, but what was seen is told.
        if (!read && openmp_seen()) report_write(path, policy::Controller({}, 0.0), {});
    } catch (const std::exception& error) {
        message_fault(error.what());
    }
    control_end();
    driver_end();
    errno = saved;
}

[[gnu::constructor]] void on_load() {
    process_start();
    openmp_loaded();
}
[[gnu::destructor]] void on_unload() {
    at_end();
}

}  // namespace

void process_start() noexcept {
    int expected = 0;
    if (!start_state.compare_exchange_strong(expected, 1)) return;
    const int saved = errno;
    clock_start();
    cpu_use_start();
    affinity_at_start.store(affinity_count(), std::memory_order_relaxed);
    adaptive_objects_start();
    read_options(environ, options, [](const char*) {});  // CORUN_LOG=quiet holds for what the others deserve
    message_start(options[OptionId::log]);
    read_options(environ, options, warn);
    make_absolute(OptionId::report);
    make_absolute(OptionId::profile);
    budget_start(options[OptionId::cgroup_root].data(), static_cast<int>(options.integer(OptionId::cpus)),
                 process_frozen(), static_cast<int>(options.integer(OptionId::emulated_cpus)));
    const bool openmp_wanted =
        options.set[static_cast<std::size_t>(OptionId::openmp)] ||
        (options.has_word(OptionId::hooks, "openmp") && !options.is(OptionId::hooks, "all"));
    if (openmp_hooked == nullptr && openmp_wanted && !options.is(OptionId::openmp, "off"))
        warn("this build has no OpenMP hooks: they need glibc 2.35 or later");
    else if (adaptive_hooked == nullptr && options.is(OptionId::openmp, "adaptive"))
        warn("CORUN_OPENMP=adaptive needs libcorun-adaptive.so: use `corun run`, which preloads that then");
    off.store(options.is(OptionId::mode, "off") || options.is(OptionId::hooks, "none") || is_unwanted_child(),
              std::memory_order_relaxed);
    const bool touched = !off.load(std::memory_order_relaxed) && !options.is(OptionId::mode, "observe");
    cpu_view_start(touched && !options.is(OptionId::cpu_view, "no"), options.is(OptionId::cpu_view, "yes"));
    if (!off.load(std::memory_order_relaxed)) openmp_runtime_start();
    report_wanted.store(true, std::memory_order_relaxed);
    const bool follow = !off.load(std::memory_order_relaxed) && options.is(OptionId::follow, "fork");
    forks_followed = follow;
    pthread_atfork(before_fork, in_parent, in_child);
    start_state.store(2, std::memory_order_release);
    openmp_process_started();
    errno = saved;
}

const Options& process_options() noexcept {
    return options;
}

Budget process_budget() {
    budget_refresh();
    return budget_now();
}

Budget process_lasting_budget() {
    const Budget now = process_budget();
    return make_budget(now.affinity, now.quota, 0.0, now.option);
}

Budget process_start_budget() {
    // The program may have widened its mask since; the runtime may have narrowed that of this thread.
    const int affinity = std::max(affinity_at_start.load(std::memory_order_relaxed), affinity_count());
    const Budget now = process_lasting_budget();
    return make_budget(affinity, now.quota, 0.0, now.option);
}

std::string process_cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const auto colon = line.find(':');
        if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "unknown";
}

bool process_frozen() noexcept {
    return options.is(OptionId::mode, "replay") || options.boolean(OptionId::reproducible);
}

std::uint64_t process_seed() noexcept {
    const long seed = options.integer(OptionId::seed);
    return seed != 0 ? static_cast<std::uint64_t>(seed) : monotonic_nanoseconds();
}

bool process_off() noexcept {
    return start_state.load(std::memory_order_acquire) != 2 || off.load(std::memory_order_relaxed);
}

bool source_early() noexcept {
    return start_state.load(std::memory_order_acquire) != 2;
}

void process_passive_op() {
    if (control_on_asked()) [[unlikely]] {
        const Undisturbed quiet;
        control_obeyed();
        driver_set_active(true);
    }
}

std::optional<model::Profile> process_profile_to_keep(const policy::Controller& controller, double now) {
    constexpr double kEvery = 600.0;
    static double next = 0.0;
    if (now < next || !profile_wanted(controller)) return std::nullopt;
    const policy::Phase* const phase = controller.current();
    if (phase == nullptr || !phase->decided_after()) return std::nullopt;
    next = now + kEvery;
    return controller.export_profile(identity(controller.budget()));
}

// An error is told of at the end; nothing else hangs on it.
void process_keep_profile(const model::Profile& profile) {
    const NoFileSizeSignal quiet;
    static_cast<void>(model::save_profile(std::string(options[OptionId::profile]), profile, false));
}

bool process_follows_budget() noexcept {
    return !process_frozen() && !options.is(OptionId::mode, "observe");
}

bool process_limits_widths() noexcept {
    const std::string_view policy = policy_in_force();
    return options.is(OptionId::mode, "tune") && !process_frozen() &&
           (policy == "race" || policy == "s1" || policy == "s2" || policy == "idle" ||
            policy.substr(0, 6) == "price-");
}

std::unique_ptr<policy::Controller> process_make_controller(int budget, double now, bool profile) {
    policy::ControllerSettings settings;
    settings.budget = budget;
    settings.observe = options.is(OptionId::mode, "observe");
    settings.replay = process_frozen();
    settings.gate = gate_mode();
    settings.policy = std::string(policy_in_force());
    settings.cheap_seconds = kCheapSeconds;
    settings.trivial_seconds = kTrivialSeconds;
    settings.seed = process_seed();
    settings.explorer.share = options.number(OptionId::explore) / 100.0;
    settings.explorer.max_width = settings.budget;
    settings.explorer.step = static_cast<int>(options.integer(OptionId::step));
    settings.coarse = std::any_of(globals.sources.begin(), globals.sources.end(),
                                  [](const SourceTable& source) { return source.coarse; });
    // From one end to the other.
    if (settings.coarse && settings.explorer.step == 0)
        settings.explorer.step = std::max(1, settings.budget - 1);
    auto controller = std::make_unique<policy::Controller>(settings, now);
    const std::string path(options[OptionId::profile]);
    if (!profile) return controller;
    if (!path.empty()) {
        const model::Identity own = identity(budget);
        model::LoadResult loaded = model::load_profile(path, own);
        // Before BLAS alone: a framework may follow, whose section it is.
        const bool early = loaded.status == model::LoadStatus::foreign && own.build_ids.empty();
        if (!loaded.message.empty()) message(early ? Level::info : Level::warning, loaded.message.c_str());
        profile_refused.store(loaded.status == model::LoadStatus::unreadable ||
                                  loaded.status == model::LoadStatus::newer_version,
                              std::memory_order_relaxed);
        if (loaded.status == model::LoadStatus::ok) controller->restore(std::move(loaded.profile));
    } else if (options.is(OptionId::mode, "replay")) {
        message(Level::warning,
                "CORUN_MODE=replay needs CORUN_PROFILE=FILE; without one every width is the program's own");
    }
    return controller;
}

// --- sources and levers
// --------------------------------------------------------------------------------------

void source_after_fork(Source source, void (*call)()) noexcept {
    after_fork_calls[static_cast<std::size_t>(source)].store(call, std::memory_order_relaxed);
}

bool source_activate(Source source, const SourceTable& table) noexcept {
    if (process_off()) return false;
    activating.lock();  // two sources may come at once, on two threads
    const Holder holder(activating);
    globals.sources[static_cast<std::size_t>(source)] = table;
    static std::size_t runtimes_known = 0;
    const std::size_t runtimes = framework_count();
    const bool started = driver_start(runtimes != std::exchange(runtimes_known, runtimes));
    if (started) {
        pressure_start();
        control_start();
        globals.active.store(true, std::memory_order_release);
    }
    return started;
}

int pool_limit() {
    if (process_off() || options.is(OptionId::mode, "observe") || !options.boolean(OptionId::pool_cap))
        return 0;
    return process_lasting_budget().cpus;
}

// What waits at the gate holds a thread: as many again may run.
int pool_room(int threads) {
    const bool wanted = options.is(OptionId::gate, "on") && options.is(OptionId::mode, "tune");
    return process_off() || !wanted || !options.boolean(OptionId::pool_cap) ? 0 : 2 * threads;
}

void pool_capped(const char* pool, int asked, int given) {
    const Undisturbed quiet;
    char effect[160];
    std::snprintf(effect, sizeof effect, "%s %d -> %d", pool, asked, given);
    lever_in_force(given > asked ? "room at the gate" : "pool cap", effect,
                   given > asked ? "CORUN_GATE" : "CORUN_POOL_CAP");
}

void lever_in_force(const char* lever, const char* effect, const char* option) noexcept {
    try {
        // In a forked child it may be held by a thread that is not there: rather no story than a hang.
        std::unique_lock<std::mutex> hold(stories().mutex, std::try_to_lock);
        for (int tries = 0; !hold.owns_lock() && tries < 100; ++tries) {
            usleep(100);
            static_cast<void>(hold.try_lock());
        }
        if (!hold.owns_lock()) return;
        for (const LeverStory& known : stories().levers)
            if (known.lever == lever && known.effect == effect) return;
        stories().levers.push_back({lever, effect, option});
    } catch (...) {  // only the story is lost
    }
}

bool source_unwanted(Source source) noexcept {
    static constexpr std::array<const char*, static_cast<std::size_t>(Source::count)> kWords{"tensorflow",
                                                                                             "torch", "blas"};
    return process_off() || !options.has_word(OptionId::hooks, kWords[static_cast<std::size_t>(source)]);
}

void source_tell(Source source, const char* name, const char* state, const char* version,
                 const char* reason) noexcept {
    try {
        const std::lock_guard<std::mutex> hold(stories().mutex);
        auto& sources = stories().sources;
        const auto known =
            std::find_if(sources.begin(), sources.end(), [&](const auto& s) { return s.source == source; });
        if (known != sources.end()) sources.erase(known);
        sources.push_back({source, name, state, version, reason, {}});
        if (std::strcmp(state, "refused") != 0) return;
        const std::string sentence = std::string(name) + " " + version + " is not tuned: " + reason +
                                     " (unknown version); the program runs as it is";
        message(Level::warning, sentence.c_str());
    } catch (...) {  // only the story is lost
    }
}

void lever_reached(Source source, const char* lever) noexcept {
    try {
        const std::lock_guard<std::mutex> hold(stories().mutex);
        for (SourceStory& story : stories().sources)
            if (story.source == source) story.levers.emplace_back(lever);
    } catch (...) {  // only the story is lost
    }
}

std::vector<SourceStory> process_sources() {
    const std::lock_guard<std::mutex> hold(stories().mutex);
    return stories().sources;
}

std::vector<LeverStory> process_levers() {
    const std::lock_guard<std::mutex> hold(stories().mutex);
    std::vector<LeverStory> levers = stories().levers;
    if (const int cpus = cpu_view_told(); cpus > 0)
        levers.push_back(
            {"CPU view", "CPUs that the program is told of: " + std::to_string(cpus), "CORUN_CPU_VIEW"});
    return levers;
}

void source_runtime(const char* object_path) noexcept {
    if (object_path == nullptr) return;
    try {
        const std::string id = build_id(object_path);
        const std::lock_guard<std::mutex> hold(stories().mutex);
        auto& runtimes = stories().runtimes;
        if (std::find(runtimes.begin(), runtimes.end(), id) == runtimes.end()) runtimes.push_back(id);
    } catch (...) {  // a profile without identity is foreign, no more
    }
}

}  // namespace corun
