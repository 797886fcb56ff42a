// SPDX-License-Identifier: Apache-2.0
// The wall between hooks and the rest. This and one hook file (tensorflow.cc) are enough to add a runtime.
#pragma once

#include <cstdint>

namespace corun {

enum class Source : std::uint8_t { tensorflow, torch, blas, count };

/// What a source says of an op, once for each op key. Texts are NUL-terminated and cut to fit.
struct OpText {
    char kind[80];      ///< name without shapes, "MatMul"
    char shapes[400];   ///< "(float[3,4];float[4,5])" or empty
    char example[160];  ///< name of one instance, for people
    double elements;    ///< any number that grows with the work of a call
    bool container;     ///< only a label: sets nothing, is not timed
    bool asked;         ///< its runtime asks width_now() while the op runs
};

/// What its ops are to those of other threads.
enum class Beside : std::uint8_t {
    nothing,  ///< they may wait inside for each other, or share one pool
    counts,   ///< they keep CPUs busy
    bounded,  ///< the same, and each brings a team of its own, which is to leave the others theirs
};

/// One source: how to describe its ops, and its *told* lever (null where it has none).
struct SourceTable {
    const char* name;
    void (*describe)(const void* identity, const void* call, OpText& text);  ///< may allocate, may be slow
    int (*lever_get)();  ///< the width that the runtime holds for this thread now
    void (*lever_set)(int);
    int* (*lever_place)() =
        nullptr;  ///< optional: where it is kept for this thread, as long as the thread lives
    /// Optional: puts `own` back, unless the program has set another number than `width` meanwhile.
    void (*lever_restore)(int width, int own) = nullptr;
    bool nests = false;  ///< its ops hold others as a matter of course: see op_begin_at()
    bool coarse =
        false;  ///< its runtime alternates cheaply between one thread and all, and among no other widths
    Beside beside = Beside::nothing;
    bool rests = false;  ///< its hook asks source_rests()
};

struct Scope {            // lives in the hook's frame; its address tells the frame
    std::uint32_t depth;  ///< 0: not recorded
};

bool source_early() noexcept;  ///< our constructors have not run yet: forward, and ask again with the next op
bool source_awake() noexcept;  ///< false: no op need be told now
/// When a thread has looked whether there is a rest.
struct RestLook {
    std::uint64_t at;       ///< ticks
    std::uint32_t skipped;  ///< looks that may be left out
};
/// True: now no op need be told, nor anything be done for it (rest.h). @param look of this thread
bool source_rests(RestLook& look) noexcept;
bool source_unwanted(Source source) noexcept;  ///< off in this process, or not among CORUN_HOOKS
/// In a forked child, where the other threads are gone: called from now on, whether or not it becomes active.
void source_after_fork(Source source, void (*call)()) noexcept;
bool source_activate(Source source, const SourceTable& table) noexcept;  ///< false: not possible
/// For report and log. `state`: active, refused (said once on stderr).
void source_tell(Source, const char* name, const char* state, const char* version,
                 const char* reason) noexcept;
void source_runtime(const char* object_path) noexcept;  ///< its build is part of the profile's identity

/// Before the program's own call. `identity` and `shape` name the op (kernel, hash of its input shapes),
/// `call` is handed to describe(). Decides the width and pulls the told lever. Never blocks, keeps errno.
/// `limit` (0: none) is what is known against more threads in this very call; it holds in every arm.
/// @return the width; 0: the program's own
/// Not noexcept, like all that may take our slow path: see undisturbed.h.
int op_begin(Scope&, Source, const void* identity, std::uint32_t shape, const void* call, int limit = 0);
/// For a source that pulls its lever itself: the number of threads that this scope has got instead.
void op_width(const Scope& scope, int width) noexcept;
/// Whether this thread is inside an op that is no container.
bool op_open(const void* frame = __builtin_frame_address(0)) noexcept;
/// After it. Scopes that an exception, longjmp or pthread_exit has left are dropped here and in op_begin.
void op_end(Scope& scope) noexcept;
/// The same for a source that `nests` and whose ops have no frame of ours: `frame` is an address in a frame
/// of theirs. Outside all scopes an op is a container if those in it have most of its time (its first calls
/// show it); in one that is none, nothing is set.
enum class Begun : std::uint8_t {
    open,       ///< what begins before its end is to be told
    inside,     ///< it need not be; the op is part of another
    fresh,      ///< it need not be; the op's cost is not known yet
    op,         ///< it need not be
    cheap,      ///< it need not be: known, too short to gain
    trivial,    ///< it need not be: known, too short to have a team at all
    container,  ///< known: nothing was done
};
Begun op_begin_at(const void* frame, Source, const void* identity, std::uint32_t shape, const void* call);
/// Every op is narrower now than the program's own number, whatever is known of it: all of them are to be
/// told.
bool widths_bounded() noexcept;
void op_end_at(const void* frame) noexcept;
/// This thread opens a parallel region: to be told of each in an op that is `open`. Whether it is in one.
bool op_region() noexcept;
/// Around the program's setting its own number: it is what a scope that has pulled the lever puts back, and
/// in force at once only if it is smaller.
void lever_out(Source source) noexcept;
void lever_in(Source source) noexcept;
/// Drops them too: for hooks of what asks for a width or sets one. `frame` is the hook's own.
void scopes_left(const void* frame = __builtin_frame_address(0)) noexcept;
/// The width in force on this thread for a runtime that asks; 0: the program's own number.
int width_now(const void* frame = __builtin_frame_address(0)) noexcept;
/// The same for a runtime that keeps what it has built for a width. 0 too where that would be too much.
int width_kept(const void* frame = __builtin_frame_address(0)) noexcept;

void lever_reached(Source source, const char* lever) noexcept;  ///< once, for the report; `lever`: a literal
void op_async(Source source) noexcept;               ///< an asynchronous op was forwarded: counted only
void identity_freed(const void* identity) noexcept;  ///< its address may come back for another op
int pool_limit();                                    ///< CPUs that a compute pool may have; 0: no limit
/// Threads for a dispatch pool that was to have `threads`, which nobody chose; 0: those.
int pool_room(int threads);
void pool_capped(const char* pool, int asked, int given);  ///< for the report

}  // namespace corun
