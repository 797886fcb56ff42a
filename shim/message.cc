// SPDX-License-Identifier: Apache-2.0
#include "shim/message.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "shim/process.h"

namespace corun {
namespace {

constexpr int kMessages = 20;  // a program that prints thousands of lines of ours would be one that we broke

std::atomic<int> said{0};
std::atomic<bool> fault_said{false};
spdlog::level::level_enum threshold = spdlog::level::warn;

struct Memory {
    std::mutex mutex;
    std::vector<std::string> sentences;
};

// Made on the first message and never destroyed: threads may speak while the process exits. A logger of its
// own touches neither spdlog's registry nor its default logger, which prints on stdout.
spdlog::logger& logger() {
    static spdlog::logger* const instance = [] {
        auto* made = new spdlog::logger("corun", std::make_shared<spdlog::sinks::stderr_sink_mt>());
        made->set_pattern("corun: %v");
        made->set_level(threshold);
        return made;
    }();
    return *instance;
}

Memory& memory() {
    static Memory* const instance = new Memory;
    return *instance;
}

spdlog::level::level_enum level_of(Level level) {
    switch (level) {
        case Level::error:
            return spdlog::level::err;
        case Level::warning:
            return spdlog::level::warn;
        case Level::info:
            return spdlog::level::info;
        case Level::debug:
            return spdlog::level::debug;
    }
    return spdlog::level::err;
}

}  // namespace

void message_start(std::string_view level) {
    // Started without stderr, its number may go to a file of the program.
    if (fcntl(STDERR_FILENO, F_GETFD) < 0) level = "quiet";
    threshold = level == "quiet"   ? spdlog::level::off
                : level == "error" ? spdlog::level::err
                : level == "info"  ? spdlog::level::info
                : level == "debug" ? spdlog::level::debug
                                   : spdlog::level::warn;
}

void message(Level level, const char* sentence) noexcept {
    const int saved = errno;
    try {
        if (level_of(level) >= threshold && said.fetch_add(1, std::memory_order_relaxed) < kMessages)
            logger().log(level_of(level), "{}", sentence);
        if (level <= Level::warning) {
            const std::lock_guard<std::mutex> hold(memory().mutex);
            if (memory().sentences.size() < kMessages) memory().sentences.emplace_back(sentence);
        }
    } catch (...) {  // nowhere to say it
    }
    errno = saved;
}

void message_fault(const char* what) noexcept {
    if (fault_said.exchange(true)) return;
    char sentence[400];
    std::snprintf(sentence, sizeof sentence,
                  "internal fault (%s); corun stands aside from here on and the program runs as it is. "
                  "Please report it.",
                  what);
    message(Level::error, sentence);
    if (process_options().boolean(OptionId::strict)) std::_Exit(70);
}

std::vector<std::string> messages_said() {
    const std::lock_guard<std::mutex> hold(memory().mutex);
    return memory().sentences;
}

}  // namespace corun
