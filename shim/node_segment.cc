// SPDX-License-Identifier: Apache-2.0
#include "shim/node_segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/file_size_signal.h"

namespace corun {
namespace {

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";

// Not by way of open(), which the program may have replaced.
int open_file(const char* path, int flags) {
    return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600));
}

std::size_t read_text(const char* path, char* text, std::size_t size) {
    const int file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
    const ssize_t length = file < 0 ? 0 : read(file, text, size - 1);
    const int error = errno;
    if (file >= 0) close(file);
    errno = error;
    const std::size_t end = length > 0 ? static_cast<std::size_t>(length) : 0;
    text[end] = '\0';
    return end;
}

bool possible(float value, float least, float most) {
    return value >= least && value <= most;  // not of a NaN
}

template <std::size_t n>
bool ends(const char (&text)[n]) {
    return std::memchr(text, '\0', n) != nullptr;
}

}  // namespace

std::uint64_t node_check(const NodeSlot& slot) noexcept {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&slot);
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (std::size_t at = sizeof slot.check; at < sizeof slot; at += sizeof hash) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes + at, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 29;
    }
    return hash;
}

bool node_slot_holds(const NodeSlot& slot) noexcept {
    if (slot.nonce == 0 || slot.check != node_check(slot)) return false;
    for (const float gain : slot.gains)
        if (!possible(gain, 0.0F, 65536.0F)) return false;
    return slot.pid > 0 && slot.most >= 1 && slot.most <= 65536 && possible(slot.weight, 1e-4F, 1e4F) &&
           possible(slot.quota, 0.0F, 65536.0F) && possible(slot.patience, 0.0F, 3600.0F) &&
           possible(slot.share, 0.0F, 65536.0F) && possible(slot.wanted, 0.0F, 1e6F) &&
           possible(slot.use, 0.0F, 65536.0F) && possible(slot.ops, 0.0F, 1e12F) &&
           possible(slot.gain, 0.0F, 1e6F) && ends(slot.state) && ends(slot.arm) && ends(slot.program);
}

void NodeFile::find_path(const char* folder) noexcept {
    struct stat status {};
    if (folder[0] == '\0') {
        folder = kNodeFolder;
        const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
        if (stat(folder, &status) != 0 && runtime != nullptr && runtime[0] == '/') folder = runtime;
    }
    std::snprintf(path_, sizeof path_, "%s/corun-node-%u", folder, static_cast<unsigned>(geteuid()));
}

void NodeFile::refuse(const char* why) noexcept {
    state_ = NodeState::refused;
    std::snprintf(problem_, sizeof problem_, "%s %s", path_, why);
}

bool NodeFile::is_ours() noexcept {
    struct stat status {};
    if (fstat(file_, &status) != 0) return refuse("cannot be looked at"), false;
    if (!S_ISREG(status.st_mode)) return refuse("is no file"), false;
    if (status.st_uid != geteuid() || (status.st_mode & 077) != 0 || status.st_nlink > 1)
        return refuse("is not a private file of this user"), false;
    return true;
}

bool NodeFile::check_header(bool create) noexcept {
    NodeHeader wanted{};
    wanted.magic = kNodeMagic;
    wanted.version = kNodeVersion;
    wanted.slot_bytes = sizeof(NodeSlot);
    read_text(kBootId, wanted.boot, sizeof wanted.boot);
    NodeHeader header{};
    const ssize_t length = pread(file_, &header, sizeof header, 0);
    const bool empty = length == 0 || (length == sizeof header && header.magic == 0 && header.version == 0);
    if (empty) {  // just made, or truncated by somebody; whoever finds it so writes the same
        if (!create) return false;
        const NoFileSizeSignal quiet;
        return pwrite(file_, &wanted, sizeof wanted, 0) == sizeof wanted;
    }
    // Where one of them cannot tell which boot it is.
    if (wanted.boot[0] == '\0') std::memcpy(wanted.boot, header.boot, sizeof wanted.boot);
    if (header.boot[0] == '\0') std::memcpy(header.boot, wanted.boot, sizeof header.boot);
    if (length == sizeof header && std::memcmp(&header, &wanted, sizeof header) == 0) return true;
    wanted.boot[0] = header.boot[0] = '\0';
    if (length != sizeof header || header.magic != wanted.magic) return refuse("is damaged"), false;
    if (header.version != wanted.version || header.slot_bytes != wanted.slot_bytes)
        return refuse("is of another version of corun"), false;
    if (create) unlink(path_);  // of an earlier boot: the next visit makes it anew
    return false;
}

NodeFile::NodeFile(const char* folder, bool create) noexcept {
    find_path(folder);
    file_ = open_file(path_, O_RDWR | O_NONBLOCK | (create ? O_CREAT : 0));
    if (file_ < 0) {
        if (errno == ELOOP)
            refuse("is no file");
        else if (errno == EACCES || errno == EPERM || errno == EISDIR || errno == ENXIO)
            refuse("cannot be opened");
        return;
    }
    if (is_ours() && check_header(create)) state_ = NodeState::open;
}

NodeFile::~NodeFile() {
    if (file_ >= 0) close(file_);
}

std::size_t NodeFile::read(std::array<NodeSlot, kNodeSlots>& slots) const noexcept {
    const ssize_t length = pread(file_, slots.data(), sizeof slots, sizeof(NodeHeader));
    return length > 0 ? static_cast<std::size_t>(length) / sizeof(NodeSlot) : 0;
}

bool NodeFile::write(std::size_t index, NodeSlot& slot) const noexcept {
    slot.check = slot.nonce != 0 ? node_check(slot) : 0;
    const NoFileSizeSignal quiet;
    const auto at = static_cast<off_t>(sizeof(NodeHeader) + index * sizeof slot);
    return pwrite(file_, &slot, sizeof slot, at) == sizeof slot;
}

void NodeFile::remove() noexcept {
    unlink(path_);
}

ProcessState process_times(int pid, ProcessTimes& times) noexcept {
    char path[40];
    std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
    char text[1024];
    if (read_text(path, text, sizeof text) == 0) {
        if (errno != ENOENT && errno != ESRCH) return ProcessState::unknown;
        return read_text("/proc/self/stat", text, sizeof text) != 0 ? ProcessState::ended
                                                                    : ProcessState::unknown;
    }
    const char* at = std::strrchr(text, ')');  // the program's name may hold anything
    if (at == nullptr || std::strlen(at) < 4) return ProcessState::unknown;
    const bool zombie = at[2] == 'Z' || at[2] == 'X';
    double ticks = 0.0;
    long threads = 0;
    at += 2;  // field 3
    for (int field = 3; field < 22; ++field) {
        at = std::strchr(at, ' ');
        if (at == nullptr) return ProcessState::unknown;
        ++at;
        if (field + 1 == 14 || field + 1 == 15) ticks += std::strtod(at, nullptr);
        if (field + 1 == 20) threads = std::strtol(at, nullptr, 10);
    }
    if (zombie && threads <= 1) return ProcessState::ended;  // others go on where the first thread has ended
    times.start_time = std::strtoull(at, nullptr, 10);
    times.cpu_seconds = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    return ProcessState::there;
}

ProcessState process_state(int pid, std::uint64_t start_time, ProcessTimes& times) noexcept {
    const ProcessState state = process_times(pid, times);
    return state == ProcessState::there && times.start_time != start_time ? ProcessState::ended : state;
}

std::uint64_t pid_space() noexcept {
    struct stat status {};
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace corun
