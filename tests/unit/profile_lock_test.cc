// SPDX-License-Identifier: Apache-2.0
// Several processes of a job that end at once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "model/profile.h"

namespace corun::model {
namespace {

Profile profile_of_a_run() {
    Profile profile;
    profile.identity.cpu_model = "a CPU";
    profile.identity.budget = 4;
    profile.runs.push_back({"program", "words", 2, 1.0, {{"region", 1, 1.0, 0.0, 0.0}}});
    return profile;
}

// Each adds to what it reads: all but one would lose their runs.
TEST(ProfileLock, WhoSavesWaitsForWhoIsAtIt) {
    std::string folder = (std::filesystem::temp_directory_path() / "corun-lock-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/profile.json";
    const int held = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(::flock(held, LOCK_EX), 0);
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(held);
        ::_exit(save_profile(path, profile_of_a_run()) ? 1 : 0);
    }
    ::usleep(150000);
    const bool written = ::access(path.c_str(), F_OK) == 0;
    // It waits for a second at most, and so does not on a machine that stood still.
    if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(900)) {
        EXPECT_FALSE(written);
    }
    ::close(held);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(load_profile(path, profile_of_a_run().identity).profile.runs.size(), 1U);
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace corun::model
