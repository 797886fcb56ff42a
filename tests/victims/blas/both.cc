// SPDX-License-Identifier: Apache-2.0
// BLAS beside other things: another source, calls of another size, callers that lie in no file:
// victim-blas-both BEHAVIOUR.
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "fake_blas.h"
#include "victim.h"

extern "C" {
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
            const int*, const double*, const int*, const double*, double*, const int*);
void dpotrf_(const char*, const int*, double*, const int*, int*);
}

namespace {

int gemm(int size) {
    const double one = 1.0;
    double c = 0.0;
    dgemm_("N", "N", &size, &size, &size, &one, &c, &size, &c, &size, &one, &c, &size);
    return fake_last()->width;
}

void ops(int rounds) {
    fake::Kernel product("dense/MatMul", "MatMul", [](fake::OpKernelContext*) { victim::spin(50); });
    fake::OpKernelContext two({{3, 4}, {4, 5}});
    for (int i = 0; i < rounds; ++i) fake::run(product, two);
}

long rounds = 0;

void blas_first() {
    for (int i = 0; i < 50; ++i) gemm(300);
    ops(static_cast<int>(rounds));
}

// Both come to their first call at once.
void together() {
    std::atomic<int> there{0};
    const auto meet = [&] {
        there.fetch_add(1);
        while (there.load() < 2) {
        }
    };
    std::thread other([&] {
        meet();
        for (int i = 0; i < 300; ++i) gemm(300);
    });
    meet();
    ops(300);
    other.join();
}

// Small calls, one right after the other, and a large one in the middle of them.
void large() {
    std::atomic<bool> going{false};
    std::atomic<bool> over{false};
    openblas_set_num_threads(8);
    std::thread other([&] {
        fake_during([] { victim::spin(1000); });
        while (!over.load()) {
            gemm(64);
            going.store(true);
        }
    });
    while (!going.load()) std::this_thread::yield();
    int narrow = 0;
    for (int i = 0; i < 20; ++i) narrow += gemm(1000) < 4;
    over.store(true);
    other.join();
    std::printf("large ones narrow: %s, after %d\n", narrow > 2 ? "most" : "few", openblas_get_num_threads());
}

// As a compiler at run time makes it: the return address lies in no file.
void compiled() {
    using Potrf = void(const char*, const int*, double*, const int*, int*);
    Potrf* const target = dpotrf_;
    unsigned char code[] = {0x48, 0x83, 0xEC, 0x08, 0x48, 0xB8, 0,    0,    0,    0,   0,
                            0,    0,    0,    0xFF, 0xD0, 0x48, 0x83, 0xC4, 0x08, 0xC3};
    std::memcpy(code + 6, &target, sizeof target);
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) std::exit(2);
    std::memcpy(page, code, sizeof code);
    mprotect(page, 4096, PROT_READ | PROT_EXEC);
    int size = 900;
    int info = 0;
    double a = 0.0;
    for (int i = 0; i < 20; ++i) reinterpret_cast<Potrf*>(page)("L", &size, &a, &size, &info);
    std::printf("%s, %d calls\n", fake_last()->name, fake_own_calls());
}

}  // namespace

int main(int argc, char** argv) {
    const std::map<std::string, std::function<void()>> behaviours{
        {"blas-first", blas_first}, {"together", together}, {"large", large}, {"compiled", compiled}};
    const auto chosen = behaviours.find(victim::argument(argc, argv, 1, ""));
    if (chosen == behaviours.end()) return 2;
    rounds = victim::number(argc, argv, 2, 300);
    chosen->second();
    return victim::finish();
}
