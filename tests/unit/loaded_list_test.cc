// SPDX-License-Identifier: Apache-2.0
// The loader's order, read from memory, against what the loader itself finds. The program is the library
// here, so that it looks in everything but the program.
#include "shim/loaded_list.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "shim/object_mark.h"

namespace corun {
namespace {

const void* here() {
    return reinterpret_cast<const void*>(here);
}

template <typename Action>
void with_list(Action action) {
    ASSERT_TRUE(with_loaded_list(action));
}

std::size_t holder(const LoadedList& list, const void* address) {
    LoadedObject object{};
    return find_object(address, object) ? list.index_of(object.dynamic) : LoadedList::kNone;
}

TEST(LoadedList, TheProgramIsFirstAndItsLibrariesStay) {
    void* const later = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(later, nullptr);
    const void* const function = dlsym(later, "ns_get32");
    with_list([&](LoadedList& list) {
        EXPECT_EQ(holder(list, here()), 0U);
        EXPECT_EQ(list.own(), 0U);
        const std::size_t libc = list.named("libc.so.6");
        ASSERT_NE(libc, LoadedList::kNone);
        EXPECT_EQ(list.named("/anywhere/libc.so.6"), libc);
        EXPECT_LT(libc, list.initial());
        EXPECT_TRUE(list.stays(libc));
        EXPECT_EQ(list.named("no-such-library.so"), LoadedList::kNone);
        const std::size_t resolv = list.named("libresolv.so.2");
        ASSERT_NE(resolv, LoadedList::kNone);
        EXPECT_EQ(holder(list, function), resolv);
        EXPECT_GE(resolv, list.initial());
    });
    dlclose(later);
}

TEST(LoadedList, GlobalNamesAreFoundWhereTheLoaderFindsThem) {
    for (const char* name : {"qsort", "pthread_create", "_ZdlPv", "_ZNSt6thread4joinEv", "cos"})
        with_list([&](LoadedList& list) {
            list.order_for(LoadedList::kNone);
            const Definition found = list.definition(name);
            void* const next = dlsym(RTLD_NEXT, name);
            EXPECT_TRUE(next == nullptr || found.address == next) << name;
        });
}

TEST(LoadedList, WhatIsOpenedIsFoundOnceItIsGlobal) {
    constexpr char kLibrary[] = "libresolv.so.2";
    constexpr char kName[] = "ns_get32";
    void* const local = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (local == nullptr || dlsym(RTLD_DEFAULT, kName) != nullptr) GTEST_SKIP() << "it is global already";
    const auto look = [&] {
        Definition found{};
        with_list([&](LoadedList& list) {
            list.order_for(LoadedList::kNone);
            found = list.definition(kName);
            // Its own functions find it in any case.
            list.order_for(list.named(kLibrary));
            EXPECT_EQ(list.definition(kName).address, dlsym(local, kName));
            list.order_below(list.named(kLibrary));
            EXPECT_EQ(list.ordered(0), list.named(kLibrary));
            EXPECT_NE(list.definition("qsort").address, nullptr);
        });
        return found.address;
    };
    EXPECT_EQ(look(), nullptr);
    void* const global = dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL);
    EXPECT_EQ(look(), dlsym(RTLD_DEFAULT, kName));
    EXPECT_NE(look(), nullptr);
    dlclose(global);
    dlclose(local);
}

TEST(ObjectMark, IsAnotherOneEachTimeAnObjectIsLoaded) {
    ObjectMark first{};
    for (int i = 0; i < 3; ++i) {
        void* const library = dlopen("libanl.so.1", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) GTEST_SKIP() << "no such library";
        with_list([&](LoadedList& list) {
            const std::size_t index = list.named("libanl.so.1");
            ASSERT_NE(index, LoadedList::kNone);
            if (list.stays(index)) GTEST_SKIP() << "it is part of the program";
            const ObjectMark mark = object_mark(list, index);
            ASSERT_NE(mark.place, nullptr);
            EXPECT_EQ(*mark.place, mark.value);
            EXPECT_EQ(object_mark(list, index).value, mark.value);
            EXPECT_GE(reinterpret_cast<std::uintptr_t>(mark.place), list[index].object.end);
            if (i == 0) first = mark;
            EXPECT_TRUE(i == 0 || mark.value != first.value);
        });
        dlclose(library);
    }
}

TEST(ObjectMark, WhatStaysNeedsNone) {
    with_list([](LoadedList& list) {
        const ObjectMark program = object_mark(list, 0);
        const ObjectMark libc = object_mark(list, list.named("libc.so.6"));
        EXPECT_EQ(program.place, libc.place);
        EXPECT_EQ(*libc.place, libc.value);
    });
}

}  // namespace
}  // namespace corun
