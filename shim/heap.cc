// SPDX-License-Identifier: Apache-2.0
#include "shim/heap.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

#include "shim/spin_lock.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these have their own
namespace corun {
namespace {

constexpr std::size_t kPooled = std::size_t{32} << 10;  // bytes: what is larger has pages of its own
constexpr std::size_t kSlab = std::size_t{1} << 20;

void* pages(std::size_t bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
}

// Under the pools. Their chunks stay theirs.
class Pages : public std::pmr::memory_resource {
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (bytes > kPooled) return pages(bytes);
        used_ = (used_ + alignment - 1) / alignment * alignment;
        if (slab_ == nullptr || used_ + bytes > kSlab) slab_ = static_cast<char*>(pages(kSlab)), used_ = 0;
        void* const memory = slab_ + used_;
        used_ += bytes;
        return memory;
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
        if (bytes > kPooled) munmap(memory, bytes);
    }
    [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
        return this == &other;
    }

    char* slab_ = nullptr;
    std::size_t used_ = 0;
};

struct Heap {
    Pages pages;
    std::pmr::unsynchronized_pool_resource pools{{0, kPooled}, &pages};
};

constinit SpinLock lock;
alignas(Heap) constinit std::byte memory[sizeof(Heap)] = {};
constinit Heap* heap = nullptr;  // never destroyed
constinit bool broken = false;   // in a child: the lock is of a thread that is not here

// This thread is in the middle of the pools; a signal handler of the program may come to us all the same.
constinit thread_local bool inside __attribute__((tls_model("initial-exec"))) = false;
// It has the lock for a fork(): another library's handler may come to us meanwhile, or fork itself.
constinit thread_local int forks __attribute__((tls_model("initial-exec"))) = 0;

// Whether the pools can be used now.
class Taking {
  public:
    Taking() noexcept : pools_(forks > 0) {
        if (pools_ || inside || broken) return;
        taken_ = pools_ = lock.lock_within_a_second();
        if (taken_) inside = true;
    }
    ~Taking() {
        if (!taken_) return;
        inside = false;
        lock.unlock();
    }
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;
    explicit operator bool() const noexcept { return pools_; }

  private:
    bool pools_;
    bool taken_ = false;
};

// In front of each block.
struct alignas(std::max_align_t) Size {
    std::size_t bytes;
    bool pooled;  // or it has pages of its own
};

}  // namespace

void heap_before_fork() noexcept {
    if (inside) return;  // fork() in a signal handler: what it has interrupted goes on in both
    if (forks > 0 || lock.lock_within_a_second()) ++forks;
}

void heap_after_fork(bool child) noexcept {
    if (inside) return;
    if (forks > 0) {
        if (--forks == 0) lock.unlock();
    } else if (child) {
        broken = true;
    }
}

}  // namespace corun

void* operator new(std::size_t bytes) {
    using namespace corun;
    if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
    // Whole units: the pools align to 16 bytes only what is a multiple of that.
    bytes = (bytes + 2 * sizeof(Size) - 1) / sizeof(Size) * sizeof(Size);
    Size* size = nullptr;
    if (const Taking pools; pools) {
        if (heap == nullptr) heap = new (memory) Heap;
        size = static_cast<Size*>(heap->pools.allocate(bytes, alignof(Size)));
        if (size == nullptr) throw std::bad_alloc();
        size->pooled = true;
    } else {
        size = static_cast<Size*>(pages(bytes));
        size->pooled = false;
    }
    size->bytes = bytes;
    return size + 1;
}

void operator delete(void* block) noexcept {
    using namespace corun;
    if (block == nullptr) return;
    auto* const size = static_cast<Size*>(block) - 1;
    if (!size->pooled) {
        munmap(size, size->bytes);
        return;
    }
    if (const Taking pools; pools) heap->pools.deallocate(size, size->bytes, alignof(Size));
}

void operator delete(void* block, std::size_t) noexcept {
    operator delete(block);
}
#else
namespace corun {
void heap_before_fork() noexcept {}
void heap_after_fork(bool) noexcept {}
}  // namespace corun
#endif
