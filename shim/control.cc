// SPDX-License-Identifier: Apache-2.0
#include "shim/control.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "shim/control_page.h"
#include "shim/core.h"
#include "shim/file_size_signal.h"
#include "shim/node_segment.h"

namespace corun {
namespace {

constinit std::atomic<ControlPage*> page{nullptr};
char path[128];

std::uint64_t start_time() {
    std::ifstream file("/proc/self/stat");
    std::string text;
    std::getline(file, text);
    const auto end = text.rfind(')');  // the program's name may hold blanks
    if (end == std::string::npos) return 0;
    std::size_t at = end + 1;
    for (int field = 2; field < 21; ++field) at = text.find(' ', at + 1);
    return std::strtoull(text.c_str() + at, nullptr, 10);
}

// Not ftruncate: where the file system is full, the first write into the mapping would raise SIGBUS.
bool fill(int file) {
    static constexpr char kNothing[4096] = {};
    return write(file, kNothing, sizeof kNothing) == static_cast<ssize_t>(sizeof kNothing);
}

// Of processes that were killed: nobody else would remove them.
void remove_stale() noexcept {
    if (pid_space() == 0) return;
    constexpr int kMost = 1000;  // names that are looked at
    try {
        int looked = 0;
        std::error_code error;
        for (std::filesystem::directory_iterator entry(kControlFolder, error), end;
             !error && entry != end && ++looked < kMost; entry.increment(error)) {
            uid_t uid = 0;
            pid_t pid = 0;
            const std::string name = entry->path().filename().string();
            if (control_page_owner(name.c_str(), pid_space(), uid, pid) && uid == geteuid() &&
                kill(pid, 0) != 0 && errno == ESRCH)
                unlink(entry->path().c_str());
        }
    } catch (...) {  // out of memory: another one will
    }
}

bool asked(Command command) {
    const ControlPage* p = page.load(std::memory_order_relaxed);
    if (p == nullptr) return false;
    const auto wanted = p->command.load(std::memory_order_relaxed) == static_cast<std::uint32_t>(Command::off)
                            ? Command::off
                            : Command::on;
    return wanted == command &&
           p->obeyed.load(std::memory_order_relaxed) != static_cast<std::uint32_t>(command);
}

}  // namespace

void control_start() noexcept {
    if (page.load() != nullptr) return;
    char name[80];
    control_page_name(name, geteuid(), getpid(), pid_space());
    std::snprintf(path, sizeof path, "%s/%s", kControlFolder, name);
    remove_stale();
    unlink(path);  // of an earlier process of this pid; if it is not ours, O_EXCL below fails
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return;
    void* memory = MAP_FAILED;
    const NoFileSizeSignal quiet;
    if (fill(file)) memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) {
        unlink(path);
        return;
    }
    auto* made = new (memory) ControlPage{};
    made->version = kControlVersion;
    made->pid = static_cast<std::int32_t>(getpid());
    try {
        made->start_time = start_time();
    } catch (...) {
        made->start_time = 0;
    }
    std::strcpy(made->status, "{\"state\":\"learning\"}");
    std::atomic_thread_fence(std::memory_order_release);
    made->magic = kControlMagic;
    page.store(made);
}

void control_end() noexcept {
    if (page.exchange(nullptr) != nullptr) unlink(path);  // stays mapped: another thread may be reading it
}

void control_after_fork() noexcept {
    page.store(nullptr);
}

bool control_off_asked() noexcept {
    return asked(Command::off);
}
bool control_on_asked() noexcept {
    return asked(Command::on);
}

void control_obeyed() noexcept {
    ControlPage* p = page.load();
    if (p != nullptr) p->obeyed.store(p->command.load() == static_cast<std::uint32_t>(Command::off) ? 1 : 0);
}

void control_write_status(const policy::Controller& controller, int open_scopes) {
    ControlPage* p = page.load();
    if (p == nullptr) return;
    nlohmann::json status;
    status["state"] = policy::state_name(controller.state());
    status["op_keys"] = controller.op_count();
    status["open_scopes"] = open_scopes;
    if (const policy::Phase* phase = controller.current()) {
        status["arm"] = controller.arms()[static_cast<std::size_t>(phase->arm())].name;
        status["explanation"] = controller.explain(*phase);
        status["phases"] = controller.phases().size();
        status["seconds_to_decision"] =
            phase->decided_after() ? nlohmann::json(*phase->decided_after()) : nlohmann::json();
        if (const auto gain = phase->gain())
            status["gain"] = {{"ratio", std::exp(gain->estimate)},
                              {"low", std::exp(gain->low)},
                              {"high", std::exp(gain->high)}};
        if (phase->guard() != nullptr) status["blocks"] = phase->guard()->blocks();
    }
    const std::string text = status.dump();
    p->sequence.fetch_add(1, std::memory_order_acq_rel);
    std::snprintf(p->status, sizeof p->status, "%s", text.c_str());
    p->sequence.fetch_add(1, std::memory_order_release);
}

}  // namespace corun
