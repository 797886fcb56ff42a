// SPDX-License-Identifier: Apache-2.0
#include "shim/originals.h"

#include "shim/loaded_list.h"
#include "shim/undisturbed.h"

namespace corun {
namespace {

void* defined_below(LoadedList& list, std::size_t index, const char* symbol) {
    if (index == LoadedList::kNone) return nullptr;
    list.order_below(index);
    return list.definition(symbol).address;
}

std::size_t holder_of(const LoadedList& list, const void* address) {
    LoadedObject object{};
    if (address == nullptr || !find_object(address, object)) return LoadedList::kNone;
    return list.index_of(object.dynamic);
}

}  // namespace

void* original_function(const char* library, const char* symbol, const void* caller) {
    const Undisturbed quiet;
    void* function = nullptr;
    with_loaded_list([&](LoadedList& list) {
        function = defined_below(list, list.named(library), symbol);
        if (function == nullptr) function = defined_below(list, holder_of(list, caller), symbol);
        if (function != nullptr) return;
        list.order_for(LoadedList::kNone);
        function = list.definition(symbol).address;
    });
    return function;
}

void* global_function(const char* symbol) {
    const Undisturbed quiet;
    void* function = nullptr;
    with_loaded_list([&](LoadedList& list) {
        for (std::size_t i = 0; i < list.own() && i < list.initial() && function == nullptr; ++i)
            function = DynamicSection(list[i].object).symbol(symbol);
        if (function != nullptr) return;
        list.order_for(LoadedList::kNone);
        function = list.definition(symbol).address;
    });
    return function;
}

void* variable_of_thread(const char* library, const char* symbol) {
    const Undisturbed quiet;
    void* variable = nullptr;
    with_loaded_list([&](LoadedList& list) {
        const std::size_t index = list.named(library);
        if (index == LoadedList::kNone || list[index].tls == nullptr) return;
        const ElfW(Sym)* const entry = DynamicSection(list[index].object).entry(symbol);
        if (entry != nullptr && ELF64_ST_TYPE(entry->st_info) == STT_TLS)
            variable = static_cast<char*>(list[index].tls) + entry->st_value;
    });
    return variable;
}

const char* loaded_path(const char* library) {
    const Undisturbed quiet;
    const char* path = nullptr;
    with_loaded_list([&](LoadedList& list) {
        const std::size_t index = list.named(library);
        if (index != LoadedList::kNone) path = list[index].object.name;
    });
    return path;
}

}  // namespace corun
