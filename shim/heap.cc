// SPDX-License-Identifier: Apache-2.0
#include "shim/heap.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

#include "shim/clock.h"
#include "shim/spin_lock.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these have their own
namespace corun {
namespace {

constexpr std::size_t kPooled = std::size_t{64} << 10;  // bytes: what is larger has pages of its own
constexpr std::size_t kSlab = std::size_t{1} << 20;
constexpr int kSpins = 1000;
constexpr long kNap = 50'000;  // nanoseconds

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
    std::pmr::unsynchronized_pool_resource pools{{0, kPooled / 2}, &pages};
};

constinit SpinLock lock;
alignas(Heap) constinit std::byte memory[sizeof(Heap)] = {};
constinit Heap* heap = nullptr;  // never destroyed

// Another library's handler of fork() may come back to us while we have the lock for it.
constinit thread_local bool forking __attribute__((tls_model("initial-exec"))) = false;

void take_lock() noexcept {
    for (int i = 0; !lock.try_lock(); ++i)
        if (i > kSpins) nap(kNap);  // whoever has it needs a CPU, whatever the priorities are
}

class Taking {
  public:
    Taking() : taken_(!forking) {
        if (taken_) take_lock();
    }
    ~Taking() {
        if (taken_) lock.unlock();
    }
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;

  private:
    bool taken_;
};

// In front of each block.
struct alignas(std::max_align_t) Size {
    std::size_t bytes;
};

}  // namespace

void heap_before_fork() noexcept {
    take_lock();
    forking = true;
}
void heap_after_fork() noexcept {
    forking = false;
    lock.unlock();
}

}  // namespace corun

void* operator new(std::size_t bytes) {
    using namespace corun;
    if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
    bytes += sizeof(Size);
    const Taking taking;
    if (heap == nullptr) heap = new (memory) Heap;
    auto* const size = static_cast<Size*>(heap->pools.allocate(bytes, alignof(Size)));
    size->bytes = bytes;
    return size + 1;
}

void operator delete(void* block) noexcept {
    using namespace corun;
    if (block == nullptr) return;
    auto* const size = static_cast<Size*>(block) - 1;
    const Taking taking;
    heap->pools.deallocate(size, size->bytes, alignof(Size));
}

void operator delete(void* block, std::size_t) noexcept {
    operator delete(block);
}
#else
namespace corun {
void heap_before_fork() noexcept {}
void heap_after_fork() noexcept {}
}  // namespace corun
#endif
