// SPDX-License-Identifier: Apache-2.0
#include "tools/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "shim/node_segment.h"

namespace corun::tools {
namespace {

constexpr int kReadAttempts = 50;

}  // namespace

std::uint64_t start_time_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text);
    const auto end_of_name = text.rfind(')');  // the name may hold spaces and brackets
    if (end_of_name == std::string::npos) return 0;
    std::istringstream fields(text.substr(end_of_name + 1));
    std::string field;
    for (int number = 3; number <= 22 && fields >> field; ++number) {
        if (number == 3 && (field == "Z" || field == "X")) return 0;
        if (number == 22) return std::strtoull(field.c_str(), nullptr, 10);
    }
    return 0;
}

Page::Page(std::filesystem::path path, pid_t pid) : path_(std::move(path)), pid_(pid) {
    map();
    if (page_ != nullptr) check();
}

Page::~Page() {
    if (page_ != nullptr) munmap(page_, sizeof(ControlPage));
}

void Page::map() {
    const int file = open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        problem_ = fmt::format("{}: {}", path_.string(), std::strerror(errno));
        return;
    }
    struct stat status {};
    const bool known = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    if (!known || (status.st_uid != geteuid() && geteuid() != 0) ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        problem_ = fmt::format("{} is not a private file of this user", path_.string());
    } else if (status.st_size < static_cast<off_t>(sizeof(ControlPage))) {
        problem_ = fmt::format("{} is too short for a control page", path_.string());
    } else {
        void* address = mmap(nullptr, sizeof(ControlPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (address == MAP_FAILED)
            problem_ = fmt::format("{}: {}", path_.string(), std::strerror(errno));
        else
            page_ = static_cast<ControlPage*>(address);
    }
    close(file);
}

void Page::check() {
    if (page_->magic != kControlMagic) {
        problem_ = fmt::format("{} is no control page of corun", path_.string());
    } else if (page_->version != kControlVersion) {
        problem_ = fmt::format("{} has version {}, this corun knows version {}", path_.string(),
                               page_->version, kControlVersion);
    } else if (page_->pid != pid_) {
        problem_ = fmt::format("{} names another process ({})", path_.string(), page_->pid);
    } else {
        const std::uint64_t started = start_time_of(pid_);
        state_ = started != 0 && started == page_->start_time ? State::live : State::stale;
        if (state_ == State::stale) problem_ = fmt::format("process {} has ended", pid_);
    }
}

corun::Command Page::command() const {
    const auto word = page_->command.load(std::memory_order_relaxed);
    return word == static_cast<std::uint32_t>(Command::off) ? Command::off : Command::on;
}

std::string Page::status() const {
    for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
        const auto before = page_->sequence.load(std::memory_order_acquire);
        std::array<char, sizeof page_->status> copy{};
        std::memcpy(copy.data(), page_->status, copy.size());
        std::atomic_thread_fence(std::memory_order_acquire);
        const auto after = page_->sequence.load(std::memory_order_relaxed);
        copy.back() = '\0';
        if (before == after && before % 2 == 0) return copy.data();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return "";
}

void Page::tell(corun::Command command) {
    page_->command.store(static_cast<std::uint32_t>(command), std::memory_order_release);
}

bool Page::wait_obeyed(corun::Command command, int milliseconds) const {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (page_->obeyed.load(std::memory_order_acquire) != static_cast<std::uint32_t>(command)) {
        if (Clock::now() >= end || start_time_of(pid_) != page_->start_time) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
}

std::vector<std::unique_ptr<Page>> find_pages() {
    std::vector<std::unique_ptr<Page>> pages;
    std::error_code error;
    const std::uint64_t space = pid_space();
    for (const auto& entry : std::filesystem::directory_iterator(kControlFolder, error)) {
        uid_t uid = 0;
        pid_t pid = 0;
        if (!control_page_owner(entry.path().filename().c_str(), space, uid, pid)) continue;
        if (uid != geteuid() && geteuid() != 0) continue;
        auto page = std::make_unique<Page>(entry.path(), pid);
        if (page->state() == Page::State::stale)
            std::filesystem::remove(page->path(), error);
        else
            pages.push_back(std::move(page));
    }
    std::sort(pages.begin(), pages.end(), [](const auto& a, const auto& b) { return a->pid() < b->pid(); });
    return pages;
}

}  // namespace corun::tools
