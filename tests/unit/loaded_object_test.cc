// SPDX-License-Identifier: Apache-2.0
// What is in memory, read in place, against what the loader itself says of it.
#include "shim/loaded_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace corun {
namespace {

void here() {}

// Of libc itself: a sanitizer has definitions of its own before it.
void* in_libc(const char* name) {
    void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc != nullptr ? dlsym(libc, name) : nullptr;
}

const void* libc_function() {
    return in_libc("qsort");
}

TEST(LoadedObject, BothWaysFindTheSame) {
    for (const void* address : {reinterpret_cast<const void*>(here), libc_function()}) {
        LoadedObject quick{};
        LoadedObject listed{};
        ASSERT_TRUE(find_object(address, quick));
        ASSERT_TRUE(find_object_by_list(address, listed));
        EXPECT_EQ(quick.dynamic, listed.dynamic);
        EXPECT_EQ(quick.base, listed.base);
        EXPECT_STREQ(quick.name, listed.name);
        EXPECT_TRUE(quick.holds(address));
        EXPECT_TRUE(listed.holds(address));
        Dl_info info{};
        ASSERT_NE(dladdr(address, &info), 0);
        EXPECT_LE(listed.start, reinterpret_cast<std::uintptr_t>(info.dli_fbase));
    }
}

TEST(LoadedObject, NothingIsFoundWhereNoObjectLies) {
    const std::vector<char> heap(1 << 20);
    LoadedObject object{};
    EXPECT_FALSE(find_object(heap.data(), object));
    EXPECT_FALSE(find_object_by_list(heap.data(), object));
    EXPECT_FALSE(find_object_by_list(nullptr, object));
}

TEST(LoadedObject, TheProgramHoldsTheseFunctionsAndLibcDoesNot) {
    LoadedObject program{};
    LoadedObject libc{};
    ASSERT_TRUE(find_object(reinterpret_cast<const void*>(here), program));
    ASSERT_TRUE(find_object(libc_function(), libc));
    EXPECT_TRUE(is_our_own(program));
    EXPECT_FALSE(is_our_own(libc));
    EXPECT_STREQ(program.name, "");
}

TEST(LoadedObject, ListSeesWhatIsLoadedAndUnloadedLater) {
    // libresolv is in no program's way.
    for (int i = 0; i < 3; ++i) {
        const LoadCounters before = load_counters();
        void* const library = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << dlerror();
        const LoadCounters between = load_counters();
        EXPECT_FALSE(between == before);
        const void* const function = dlsym(library, "ns_get32");
        if (function == nullptr) GTEST_SKIP() << "another libresolv";
        LoadedObject object{};
        ASSERT_TRUE(find_object_by_list(function, object));
        EXPECT_NE(std::string(object.name).find("libresolv"), std::string::npos);
        EXPECT_TRUE(load_counters() == between);
        dlclose(library);
        if (load_counters() == between) GTEST_SKIP() << "it stays loaded";
        EXPECT_FALSE(find_object_by_list(function, object));
    }
}

TEST(DynamicSection, DefinesWhatTheLoaderFindsInIt) {
    LoadedObject libc{};
    ASSERT_TRUE(find_object(libc_function(), libc));
    const DynamicSection section(libc);
    for (const char* name : {"qsort", "getenv", "printf", "dlsym", "pthread_create"})
        EXPECT_EQ(section.symbol(name), in_libc(name)) << name;
    EXPECT_EQ(section.symbol("omp_get_level"), nullptr);
    EXPECT_EQ(section.symbol(""), nullptr);
    // What it only uses it does not define.
    LoadedObject program{};
    ASSERT_TRUE(find_object(reinterpret_cast<const void*>(here), program));
    EXPECT_EQ(DynamicSection(program).symbol("dladdr"), nullptr);
}

TEST(DynamicSection, RelocationsHoldWhatTheLoaderHasBound) {
    LoadedObject program{};
    ASSERT_TRUE(find_object(reinterpret_cast<const void*>(here), program));
    const DynamicSection section(program);
    Dl_info info{};
    ASSERT_NE(dladdr(reinterpret_cast<const void*>(here), &info), 0);  // is bound by this call
    bool seen = false;
    std::size_t others = 0;
    section.any_relocation([&](const char* name, void* const* slot, const ElfW(Sym) & symbol) {
        if (std::strcmp(name, "dladdr") != 0) return ++others, false;
        EXPECT_EQ(symbol.st_shndx, SHN_UNDEF);
        EXPECT_EQ(*slot, dlsym(RTLD_DEFAULT, "dladdr"));
        return seen = true;
    });
    EXPECT_TRUE(seen);
    EXPECT_GT(others, 0U);
}

}  // namespace
}  // namespace corun
