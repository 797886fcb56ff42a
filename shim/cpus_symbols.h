// SPDX-License-Identifier: Apache-2.0
// What programs ask how many CPUs there are, and gcc's OpenMP runtime counts them by: the list of what is
// hooked, see tensorflow_symbols.h. All are glibc's.
#pragma once

// X(id, symbol, result, parameters)
// clang-format off
#define CORUN_CPUS_HOOKED(X)                                                                                      \
    X(get_mask, "sched_getaffinity", int, (pid_t thread, std::size_t size, cpu_set_t* mask))                      \
    X(set_mask, "sched_setaffinity", int, (pid_t thread, std::size_t size, const cpu_set_t* mask))                \
    X(get_affinity, "pthread_getaffinity_np", int, (pthread_t thread, std::size_t size, cpu_set_t* mask))         \
    X(set_affinity, "pthread_setaffinity_np", int, (pthread_t thread, std::size_t size, const cpu_set_t* mask))   \
    X(set_attribute, "pthread_attr_setaffinity_np", int,                                                          \
      (pthread_attr_t* attribute, std::size_t size, const cpu_set_t* mask))                                       \
    X(system_value, "sysconf", long, (int name))                                                                  \
    X(online_cpus, "get_nprocs", int, ())                                                                         \
    X(current_cpu, "sched_getcpu", int, ())                                                                       \
    X(current_place, "getcpu", int, (unsigned* cpu, unsigned* node))                                              \
    X(open, "open", int, (const char* path, int flags, mode_t mode))                                              \
    X(open64, "open64", int, (const char* path, int flags, mode_t mode))                                          \
    X(open_at, "openat", int, (int folder, const char* path, int flags, mode_t mode))                             \
    X(open_at64, "openat64", int, (int folder, const char* path, int flags, mode_t mode))                         \
    X(open_2, "__open_2", int, (const char* path, int flags))                                                     \
    X(open64_2, "__open64_2", int, (const char* path, int flags))                                                 \
    X(open_at_2, "__openat_2", int, (int folder, const char* path, int flags))                                    \
    X(open_at64_2, "__openat64_2", int, (int folder, const char* path, int flags))                                \
    X(open_stream, "fopen", FILE*, (const char* path, const char* mode))                                          \
    X(open_stream64, "fopen64", FILE*, (const char* path, const char* mode))
// clang-format on
