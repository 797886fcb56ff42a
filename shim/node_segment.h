// SPDX-License-Identifier: Apache-2.0
// The file in which the corun processes of one user on one machine meet: a header and a slot for each
// process, which alone writes it. Nothing in it is trusted: a slot is checked before it is believed, and who
// is alive is judged by what moves (policy/node_view.h).
//
// It is opened by its name at each visit, read and written by system calls and closed: a mapping would raise
// SIGBUS when somebody truncates the file or the file system is full, and a descriptor that stays open could
// be closed by the program and its number become a file of the program's own. So there is no lock either: a
// slot is taken by writing it, and whoever does not find itself there at its next visit takes another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "policy/node_view.h"

namespace corun {

inline constexpr std::uint64_t kNodeMagic = 0x65646f6e6e757263;  // "crunnode"
inline constexpr std::uint32_t kNodeVersion = 1;
inline constexpr std::size_t kNodeSlots = 128;
inline constexpr char kNodeFolder[] = "/dev/shm";

struct NodeHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t slot_bytes;
    char boot[48];  ///< the kernel's boot id, NUL-terminated
    char unused[448];
};

/// All texts are NUL-terminated; those of others may hold anything. A slot of zeros is free.
struct NodeSlot {
    std::uint64_t check;       ///< of all that follows: tells a slot that is being written
    std::uint64_t nonce;       ///< of the process; 0: free
    std::uint64_t beat;        ///< moves at each visit
    std::uint64_t pid_space;   ///< inode of its PID namespace
    std::uint64_t start_time;  ///< field 22 of /proc/PID/stat
    std::uint64_t group;       ///< inode of the cgroup whose quota is the smallest; 0: none
    std::int32_t pid;          ///< in that namespace
    std::int32_t most;         ///< CPUs that it can use at all
    float quota;               ///< of the group, CPUs
    float weight;
    float patience;  ///< seconds between visits that are usual for it
    float share;     ///< CPUs that it takes as its own
    float use;       ///< CPUs in use, over the latest second
    float ops;       ///< ops per second
    float gain;      ///< work rate with corun / without; 0: not known
    float wanted;    ///< CPUs that it will use, by what it has used lately; 0: not known
    policy::Gains gains;
    char state[12];
    char arm[24];
    char program[64];
    policy::CpuSet cpus;
    char unused[152];
};

static_assert(sizeof(NodeHeader) == 512 && sizeof(NodeSlot) == 512);
static_assert(std::is_trivially_copyable_v<NodeSlot> &&
              offsetof(NodeSlot, unused) + sizeof NodeSlot::unused == 512);

[[nodiscard]] std::uint64_t node_check(const NodeSlot& slot) noexcept;
/// Somebody holds it, and every number in it is possible.
[[nodiscard]] bool node_slot_holds(const NodeSlot& slot) noexcept;

enum class NodeState : std::uint8_t {
    open,
    none,     ///< there is no such file, or no folder where it could be made
    refused,  ///< problem() says why
};

/// The file, open for the length of a visit. No allocation.
class NodeFile {
  public:
    /// @param folder empty: /dev/shm, and where there is none, XDG_RUNTIME_DIR
    /// @param create makes it when it is not there, and anew when it is of an earlier boot
    NodeFile(const char* folder, bool create) noexcept;
    ~NodeFile();
    NodeFile(const NodeFile&) = delete;
    NodeFile& operator=(const NodeFile&) = delete;

    [[nodiscard]] NodeState state() const { return state_; }
    [[nodiscard]] const char* problem() const { return problem_; }  ///< one sentence without its end
    [[nodiscard]] const char* path() const { return path_; }

    /// Reads the slots. @return how many there are: those from there on are free
    std::size_t read(std::array<NodeSlot, kNodeSlots>& slots) const noexcept;
    bool write(std::size_t index, NodeSlot& slot) const noexcept;  ///< sets its check
    void remove() noexcept;  ///< nobody is left; whoever comes makes it anew

  private:
    void find_path(const char* folder) noexcept;
    void refuse(const char* why) noexcept;
    [[nodiscard]] bool is_ours() noexcept;
    [[nodiscard]] bool check_header(bool create) noexcept;

    int file_ = -1;
    NodeState state_ = NodeState::none;
    char path_[256] = {};
    char problem_[400] = {};
};

/// Field 22 of /proc/PID/stat and the CPU time that it has used.
struct ProcessTimes {
    std::uint64_t start_time = 0;
    double cpu_seconds = 0.0;
};
enum class ProcessState {
    there,
    ended,
    unknown,  ///< no descriptor is left, or there is no /proc
};
[[nodiscard]] ProcessState process_times(int pid, ProcessTimes& times) noexcept;
/// Whether the process that `pid` was when it had started at `start_time` has ended; `times` of one that has
/// not, where that is known.
[[nodiscard]] ProcessState process_state(int pid, std::uint64_t start_time, ProcessTimes& times) noexcept;
[[nodiscard]] std::uint64_t pid_space() noexcept;  ///< this process's PID namespace; 0: not known

}  // namespace corun
