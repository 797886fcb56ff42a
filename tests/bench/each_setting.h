// SPDX-License-Identifier: Apache-2.0
// A process for each setting: the options are read when it starts.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace corun {

/// Runs this program anew for each of the settings (with `name` and `says`), which it finds by `variable`,
/// after set_environment(setting). Returns the exit code: 1 when one of them failed.
template <typename Settings, typename SetEnvironment>
int run_each(const Settings& settings, const char* variable, char** argv, SetEnvironment set_environment) {
    int failed = 0;
    for (const auto& one : settings) {
        std::printf("--- %s: %s\n", one.name, one.says);
        std::fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            setenv(variable, one.name, 1);
            set_environment(one);
            execv("/proc/self/exe", argv);
            _exit(127);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (status != 0) ++failed;
    }
    return failed == 0 ? 0 : 1;
}

}  // namespace corun
