// SPDX-License-Identifier: Apache-2.0
// Kernels that keep what they have built, as oneDNN's do: under a key that says nothing of the number of
// threads that it was built for. With "many" there are more of them than a cache could hold once for each
// width.
#include <map>
#include <memory>

#include "victim.h"

namespace {

constexpr int kRounds = 40;

std::map<std::string, int> kept;  ///< threads that it was built for

std::string key_of(const std::string& kind, int size) {
    tensorflow::FactoryKeyCreator key;
    key.Append(kind);
    key.Append(std::to_string(size));
    return key.key();
}

}  // namespace

int main(int argc, char** argv) {
    const bool many = std::string(victim::argument(argc, argv, 1, "")) == "many";
    const tsl::thread::ThreadPool owner(nullptr, {}, "other", 8, true, nullptr);
    const auto& pool = owner.eigen();
    long wrong = 0;
    std::vector<std::unique_ptr<fake::Kernel>> kernels;
    const int count = many ? 400 : 20;
    for (int i = 0; i < count; ++i) {
        kernels.push_back(
            std::make_unique<fake::Kernel>("conv", "_MklConv" + std::to_string(i), [&, i](auto*) {
                const int threads = kept.emplace(key_of("conv", i), pool.NumThreads()).first->second;
                if (threads != pool.NumThreads()) ++wrong;
            }));
    }
    fake::Kernel other("other", "Other", [](auto*) { CHECK(key_of("x", 1) == "xx1x"); });
    fake::OpKernelContext context({{2, 3}});
    std::size_t before = 0;
    for (int round = 0; round < kRounds; ++round) {
        if (round == kRounds / 2) before = kept.size();
        for (auto& kernel : kernels) fake::run(*kernel, context);
        fake::run(other, context);
        CHECK(key_of("x", 1) == "xx1x");
    }
    if (many) {
        CHECK(kept.size() == before);  // no further ones, for all that the width changes
    } else {
        CHECK(wrong == 0);
        CHECK(kept.size() >= static_cast<std::size_t>(count));
    }
    return victim::finish();
}
