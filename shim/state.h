// SPDX-License-Identifier: Apache-2.0
// The core's shared state: plain, constant-initialised, fixed in size, so that hooks may be entered before
// any constructor ran and the path of a settled op takes no lock and no allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "policy/arms.h"
#include "policy/constants.h"
#include "policy/ledger.h"
#include "shim/scope.h"

namespace corun {

// --- op keys
// -------------------------------------------------------------------------------------------------
enum RecordFlag : std::uint32_t {
    kContainer = 1U << 0,  ///< label, or held other scopes
    kAsked = 1U << 1,      ///< answers width_now()
    kCheap = 1U << 2,      ///< known and shorter than kCheapSeconds: never timed
    kAnchor = 1U << 3,
    kAssigned = 1U << 4,   ///< `assigned` holds a width to sample
    kWanted = 1U << 5,     ///< every duration is passed to the model
    kBrief = 1U << 6,      ///< known and shorter than kBriefSeconds: not timed while the decision is sparse
    kUnjudged = 1U << 7,   ///< of a source that nests: may turn out to be a container
    kOwnRegion = 1U << 8,  ///< it has opened a parallel region itself: no container, whatever else it holds
    kTrivial = 1U << 9,    ///< besides kCheap: shorter than kTrivialSeconds
};

inline constexpr std::size_t kRecords = 16384;
inline constexpr double kCheapSeconds = 3e-6;
inline constexpr double kTrivialSeconds = 1e-6;
inline constexpr double kBriefSeconds = 50e-6;
inline constexpr std::uint32_t kJudgedCalls = 3;  ///< whether an op is a container; the first does not count
inline constexpr std::uint32_t kCheapSkipped = 16;  ///< of so many cheap ops that nest, one reads the clock

struct alignas(64) OpRecord {
    std::atomic<std::uint32_t> flags;
    std::atomic<std::uint16_t> assigned;
    std::uint16_t bucket;                  ///< of the histogram, 1...
    std::atomic<std::uint64_t> reference;  ///< ticks; 0: not known yet
    std::atomic<std::uint64_t> calls;      ///< of threads that have ended or evicted their slot
    std::atomic<std::uint64_t> judged;     ///< ticks while kUnjudged
    std::atomic<std::uint64_t> inner;      ///< of them, in the scopes that it held
    std::atomic<std::uint32_t> judged_calls;
    std::atomic<std::uint16_t> width[policy::kArmSlots][policy::kIdleBuckets];  ///< 0: the program's own
};

// --- a thread
// ------------------------------------------------------------------------------------------------
inline constexpr std::size_t kSlots = 8192;  ///< thousands of kernels are usual; misses cost a microsecond
inline constexpr std::size_t kProbes = 8;    ///< a key lies at its own place or in the next seven
inline constexpr std::size_t kRing = 8192;
inline constexpr std::size_t kDepth = 32;
inline constexpr std::size_t kThreads = 1024;
inline constexpr std::size_t kBirths = 4096;
inline constexpr std::uint32_t kSampleEvery = 16;  ///< of the timed ops that nobody asked for: notices drift

/// Cache: (identity, shape) -> record. `birth` tells whether the identity was freed since.
struct alignas(64) Slot {
    const void* identity;
    std::atomic<OpRecord*> record;  ///< this and calls are read by the report; all else is the thread's own
    std::uint32_t shape;
    std::uint32_t birth;
    std::atomic<std::uint64_t> calls;
    const Slot* next;  ///< that came after this one the last time, and what it will look at
    const void* next_record;
    const void* next_birth;
    std::uint64_t
        built;  ///< bit per width at which an asking runtime was let run here: it has built what it keeps

    /// Hands its calls over to the record, so that it can be given to another op.
    void settle() {
        if (OpRecord* const old = record.load(std::memory_order_relaxed))
            old->calls.fetch_add(calls.load(std::memory_order_relaxed), std::memory_order_relaxed);
        calls.store(0, std::memory_order_relaxed);
        record.store(nullptr, std::memory_order_relaxed);
        built = 0;
    }
};

enum EntryFlag : std::uint16_t {
    kEntryTimed = 1U << 0,
    kEntrySolo = 1U << 1,  ///< nothing else was open from its begin to its end
    kEntryAssigned = 1U << 2,
    kEntryLever = 1U << 3,  ///< `saved` has to be put back
    kEntryContainer = 1U << 4,
    kEntryPlain = 1U << 5,     ///< the program's own width
    kEntryBuilds = 1U << 6,    ///< the first call at this width: may build what the runtime keeps for it
    kEntryJudged = 1U << 7,    ///< the time in the scopes that it holds is taken
    kEntryInner = 1U << 8,     ///< one of those: no op, has no record
    kEntryGated = 1U << 9,     ///< let in by the gate, which is to know of its end
    kEntryBounded = 1U << 10,  ///< narrower than the program's own width, though nothing was decided for it
};

/// One open scope.
struct Entry {
    const void* frame;
    OpRecord* record;
    std::uint64_t begin;  ///< ticks
    std::uint64_t inner;  ///< the same, of the scopes in it: with kEntryJudged
    policy::Ledger::Ticket ticket;
    std::int32_t saved;
    std::uint16_t width;    ///< as set; 0: the program's own
    std::uint16_t counted;  ///< as the ledger counts it
    std::uint16_t flags;
    Source source;
};

/// One duration on its way to the model.
struct RawSample {
    std::uint64_t begin;  ///< ticks
    std::uint64_t ticks;
    std::uint32_t op;
    std::uint16_t width;  ///< 0: the program's own
    std::uint16_t flags;  ///< EntryFlag
};

struct ThreadState {
    std::atomic<std::uint32_t> depth;
    std::atomic<std::uint64_t> last;  ///< ticks of the last begin or timed end on this thread
    std::uint64_t random;
    std::uint32_t sampled;
    std::uint32_t evicted;
    std::uint32_t cheap;                                              ///< that were skipped
    Slot* previous;                                                   ///< of the last op
    std::array<int*, static_cast<std::size_t>(Source::count)> lever;  ///< its width's place, or null: calls
    bool busy;                                                        ///< inside our own slow path
    bool gate_proof;                  ///< of the op that the gate has let in: what it computes is wanted
    std::uint64_t gate_ready;         ///< that it could have run until its begin, nanoseconds; 0: not wanted
    Entry* gate_entry;                ///< of what it has let in, or of what waits
    std::atomic<std::uint32_t> gate;  ///< how far that is
    bool in_use;
    std::array<Entry, kDepth> stack;
    std::array<std::atomic<std::uint64_t>, policy::kHistogramBuckets> work;  ///< reference ticks finished
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Source::count)> ops;
    std::atomic<std::uint64_t> inside;  ///< ticks that it was inside ops which count beside others, about
    std::uint64_t inside_seen;          ///< this and the next two are for whoever holds the driver's lock
    double cpu_seen;                    ///< seconds
    clockid_t clock;                    ///< of its own CPU time
    alignas(64) std::atomic<std::uint32_t> ring_head;  ///< written by the thread
    alignas(64) std::atomic<std::uint32_t> ring_tail;  ///< written by whoever drains
    std::atomic<std::uint64_t> dropped;
    std::array<Slot, kSlots + kProbes - 1> slots;
    std::array<RawSample, kRing> ring;
};

// --- the process
// ---------------------------------------------------------------------------------------------
/// What decides now, packed so that an op reads it with one load.
struct alignas(8) Decision {
    std::uint8_t arm = 0;         ///< column of OpRecord::width
    bool dynamic : 1 = false;     ///< depends on the idle CPUs
    bool exploring : 1 = false;   ///< assignments are in force
    bool record_all : 1 = false;  ///< every op is timed and passed to the model
    bool random : 1 = false;      ///< a test's widths
    bool uniform : 1 = false;     ///< one width for all ops, those among them that are not known yet
    bool gated : 1 = false;       ///< ops ask the gate
    bool sparse : 1 = false;      ///< nobody needs the ledger or every duration: brief ops are not timed
    std::uint16_t ceiling = 0;    ///< of every width, the program's own among them; 0: none
};

struct Globals {
    std::atomic<bool> active;  ///< hooks do their work
    std::atomic<Decision> decision;
    std::atomic<std::uint16_t> width_beside;  ///< of an op whose thread shares the budget with others; 0: any
    std::atomic<std::uint64_t> beside_until;  ///< ticks: it holds until then
    std::atomic<std::uint64_t> due;           ///< ticks: the driver wants to be called by then
    std::atomic<std::uint64_t> rest_from;     ///< ticks: see rest.h
    std::atomic<std::uint64_t> rest_until;    ///< 0: no rest
    alignas(64) policy::Ledger ledger;  ///< the timed scopes; a line of its own, as every timed op writes it
    std::atomic<std::uint64_t> quiet;   ///< ticks in which no scope was open
    std::atomic<std::uint64_t> quiet_until;
    alignas(64) std::uint64_t gap;  ///< ticks: a thread quiet for longer looks whether all were
    std::atomic<std::uint16_t> budget;
    std::atomic<std::uint16_t> widest;  ///< of the random arm
    std::array<std::atomic<std::uint32_t>, kBirths> births;
    std::array<std::atomic<ThreadState*>, kThreads> threads;
    std::atomic<std::uint32_t> thread_count;
    std::array<SourceTable, static_cast<std::size_t>(Source::count)> sources;
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Source::count)> async_ops;
    OpRecord* records;  ///< kRecords of them, mapped on activation
    std::atomic<std::uint32_t> record_count;
    std::atomic<std::uint32_t> asked_count;  ///< of records with kAsked
};

static_assert(std::atomic<Decision>::is_always_lock_free);

extern constinit Globals globals;

inline std::size_t birth_index(const void* identity) {
    return (reinterpret_cast<std::uintptr_t>(identity) * 0x9E3779B97F4A7C15ULL) >> 52;
}

}  // namespace corun
