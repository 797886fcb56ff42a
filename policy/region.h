// SPDX-License-Identifier: Apache-2.0
// Which raw OpenMP regions may run at another width than the program's own (DESIGN S5,
// CORUN_OPENMP=adaptive): what was seen of a region, of its object and of its runtime, and what follows from
// it. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace corun::policy {

enum class RuntimeKind : std::uint8_t {
    libgomp,  ///< a pool for each calling thread; every change of size but to and from 1 makes threads
    libomp,   ///< LLVM's or Intel's; changes size without making threads
};

/// What can be seen of one region. Bits, and sticky: a hook does `facts.fetch_or(bit)` on a word of the
/// region and nothing ever takes a bit back.
enum RegionFact : std::uint32_t {
    kAskedThread = 1U << 0,  ///< a thread inside asked for its number (omp_get_thread_num, also of ancestors)
    kAskedTeam = 1U << 1,    ///< ... for the size of the team (omp_get_num_threads, omp_get_team_size)
    kAskedMaximum = 1U << 2,   ///< ... for the maximum or the number of processors, inside
    kAskedParallel = 1U << 3,  ///< ... whether it runs in parallel (omp_in_parallel, levels): a team of 1
                               ///< does not
    kNamedSize = 1U << 4,      ///< a size of 2 or more was named, by a clause or by a push before the fork
    kNamedOne = 1U << 5,  ///< the size 1 was named: gcc's `if` clause when false. Such a call is forwarded
                          ///< untouched and counts for nothing, the others may be resized
    kInside = 1U << 6,    ///< it began inside another region
    kHolds = 1U << 7,     ///< another region began inside it: at width 1 that one would become wide
    kKeepsPerThread = 1U << 8,  ///< threadprivate data was used (__kmpc_threadprivate_cached)
    // How the runtime hands out its loops. gcc inlines the static schedule and asks instead.
    kLoopStatic = 1U << 9,  ///< __kmpc_for_static_init, GOMP_loop_static_start
    kLoopDynamic = 1U << 10,
    kLoopGuided = 1U << 11,
    kLoopRuntime = 1U << 12,
};

/// What can be seen of an object (a shared library or the executable). Sticky as well.
enum ObjectFact : std::uint32_t {
    kAskedOutside = 1U << 0,         ///< it asked for the maximum or the processors outside any region
    kAskedOutsideFortran = 1U << 1,  ///< the same by Fortran's name (omp_get_max_threads_)
    kSetNumber = 1U << 2,            ///< it set the number of threads itself
    kFortran = 1U << 3,              ///< compiled from Fortran
    kInductor = 1U << 4,             ///< made by torch.compile: the count is part of its code
    kThreadLocal = 1U << 5,  ///< it has thread-local data, which threadprivate data cannot be told from
    kOpened = 1U << 6,       ///< it was opened while the program ran: another may lie in its place later
};

/// What can be seen of a runtime. Sticky as well.
enum RuntimeFact : std::uint32_t {
    kAskedUnseen = 1U << 0,  ///< its functions can be reached past the hooks (ctypes, threadpoolctl, dlsym)
};

inline constexpr std::uint32_t kLoops = kLoopStatic | kLoopDynamic | kLoopGuided | kLoopRuntime;
inline constexpr std::uint32_t kAsked = kAskedThread | kAskedTeam | kAskedMaximum | kAskedParallel;
inline constexpr std::uint32_t kOutside = kAskedOutside | kAskedOutsideFortran | kSetNumber;

/// With one of these a region is never resized, listed or not. A hook can test its word with it.
inline constexpr std::uint32_t kNever = kNamedSize | kInside | kHolds;
/// With one of these an unlisted region is never resized.
inline constexpr std::uint32_t kRevokes = kNever | kAsked | kKeepsPerThread;

/// In the order in which they are looked for: the first that holds is the class.
enum class RegionClass : std::uint8_t {
    named_size,       ///< never, even when listed (S2)
    nested,           ///< never, even when listed
    inductor,         ///< never, even when listed
    opened_later,     ///< never, even when listed: its code may be replaced by another library's
    listed,           ///< the user vouches for it (CORUN_REGIONS)
    asks_its_team,    ///< may keep data by thread number
    per_thread_data,  ///< threadprivate, or an object with thread-local data of its own
    fortran,          ///< of a Fortran object
    planned_outside,  ///< an object of its runtime knows the number of threads
    distrusted,       ///< another region of the object was thought resizable and was not
    too_few_calls,    ///< not seen often enough yet
    no_shared_loop,   ///< the runtime hands out no loop of it: who does what is its own business
    resizable,
    count,
};

[[nodiscard]] const char* class_name(RegionClass kind);  ///< "asks-its-team"

/// Calls without evidence against it that a region needs; those with a team of 2 or more that ran a loop.
inline constexpr std::uint64_t kEvidenceCalls = 16;

struct RegionEvidence {
    std::uint32_t region = 0;   ///< RegionFact bits
    std::uint32_t object = 0;   ///< ObjectFact bits of its own object
    std::uint32_t objects = 0;  ///< ... of all objects of its runtime together
    std::uint32_t runtime = 0;  ///< RuntimeFact bits
    std::uint64_t calls = 0;    ///< that count, see kEvidenceCalls
    bool listed = false;        ///< in CORUN_REGIONS
    bool distrusted = false;    ///< evidence of this object was wrong once
};

/// The rule itself, a function of what was seen and of nothing else.
[[nodiscard]] RegionClass classify(const RegionEvidence& evidence);

/// May a region of this class run at another width?
[[nodiscard]] constexpr bool may_resize(RegionClass kind) {
    return kind == RegionClass::resizable || kind == RegionClass::listed;
}

/// The widths among which a region may be placed, ascending; `own` is the width that the program would run
/// at (its own word, capped at the budget; >= 1) and always the last. {1, own} on libgomp, where every other
/// change ends and makes threads; 1, 2, 4 ... own on libomp; {own} unless may_resize().
[[nodiscard]] std::vector<int> allowed_widths(RuntimeKind runtime, RegionClass kind, int own);

/// One entry of CORUN_REGIONS against one region. "NAME" is the name of the outlined function or of the
/// function that it is part of, "OBJECT:NAME" and "OBJECT+0x1a2b" are bound to an object (its file name
/// without folders); "*" stands for any text.
[[nodiscard]] bool entry_matches(std::string_view entry, std::string_view object, std::uint64_t offset,
                                 std::string_view symbol);
/// The same for a whole list: entries separated by commas or blanks.
[[nodiscard]] bool list_matches(std::string_view list, std::string_view object, std::uint64_t offset,
                                std::string_view symbol);

/// What was found of one region.
struct Judgement {
    RegionClass kind = RegionClass::too_few_calls;
    std::string why;               ///< a sentence for the report
    std::uint64_t revoked_at = 0;  ///< calls after which a resizable region ceased to be one; 0: it did not
};

/// Everything seen in one process. Not thread-safe; the hooks keep the sticky words and hand on news from
/// time to time, but test kNever / kRevokes on their own word before each use of a width: a book is always
/// late.
class RegionBook {
  public:
    using Id = std::uint32_t;  ///< dense from 0, for each of the three

    Id add_runtime(RuntimeKind kind);
    Id add_object(std::string name, Id runtime, std::uint32_t facts = 0);
    Id add_region(std::string name, Id object, bool listed = false);

    void runtime_seen(Id runtime, std::uint32_t facts);
    void object_seen(Id object, std::uint32_t facts);
    /// @param calls new ones that ran a loop of the runtime with a team of 2 or more
    /// @param facts seen in them or in others
    void region_seen(Id region, std::uint64_t calls, std::uint32_t facts);

    /// Brings the judgement up to date. A region that was resizable and is found not to be is revoked for
    /// good, and its object is distrusted: no other region of it becomes resizable, those that are cease.
    const Judgement& judge(Id region);

    [[nodiscard]] const std::string& why(Id region) const { return regions_.at(region).judgement.why; }
    [[nodiscard]] std::vector<int> widths(Id region, int own);  ///< allowed_widths() of its judgement
    [[nodiscard]] std::size_t regions() const { return regions_.size(); }

  private:
    struct Runtime {
        RuntimeKind kind;
        std::uint32_t facts = 0;
        std::uint32_t objects = 0;  // facts of all its objects
        std::string asker;          // the first object that planned outside ...
        std::uint32_t asked = 0;    // ... and what it did
    };
    struct Object {
        std::string name;
        Id runtime;
        std::uint32_t facts = 0;
        std::string failed;  // the region whose evidence was wrong
    };
    struct Region {
        std::string name;
        Id object;
        bool listed;
        std::uint32_t facts = 0;
        std::uint64_t calls = 0;
        bool judged = false;
        Judgement judgement;
    };

    [[nodiscard]] RegionEvidence evidence(const Region& region) const;
    [[nodiscard]] std::string sentence(const Region& region, RegionClass kind) const;

    std::vector<Runtime> runtimes_;
    std::vector<Object> objects_;
    std::deque<Region> regions_;  // judge() hands out references
};

}  // namespace corun::policy
