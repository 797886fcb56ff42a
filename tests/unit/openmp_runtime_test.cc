// SPDX-License-Identifier: Apache-2.0
// Whether a program can have another OpenMP runtime: on objects that are made up, and on files that are
// there.
#include "tools/openmp_runtime.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "shim/openmp_difference.h"
#include "tools/elf_symbols.h"
#include "tools/loaded_files.h"

namespace corun::tools {
namespace {

namespace fs = std::filesystem;

// "name", "name@version", "name@@version" (the default one)
ElfSymbol symbol(const std::string& text, bool defined) {
    ElfSymbol made;
    const auto at = text.find('@');
    made.name = text.substr(0, at);
    made.defined = defined;
    if (at == std::string::npos) return made;
    made.hidden = defined && text[at + 1] != '@';
    made.version = text.substr(text.find_last_of('@') + 1);
    return made;
}

LoadedFile object(const std::string& path, const std::vector<std::string>& wanted,
                  const std::vector<std::string>& defined = {}) {
    LoadedFile file;
    file.path = path;
    file.elf.has_versions = true;
    for (const std::string& text : wanted) file.elf.symbols.push_back(symbol(text, false));
    for (const std::string& text : defined) file.elf.symbols.push_back(symbol(text, true));
    return file;
}

LoadedFile libomp(const std::string& path = "/lib/libomp.so") {
    return object(path, {},
                  {"__kmpc_fork_call@@VERSION", "omp_get_level@@VERSION", "GOMP_parallel@@VERSION",
                   "GOMP_parallel@GOMP_4.0", "omp_alloc@@VERSION", "GOMP_taskloop@GOMP_4.5"});
}
LoadedFile libgomp() {
    return object("/lib/libgomp.so.1", {},
                  {"omp_get_level@@OMP_3.0", "GOMP_parallel@@GOMP_4.0", "omp_alloc@@OMP_5.0.1",
                   "GOMP_scope_start@@GOMP_5.1", "GOMP_taskloop@@GOMP_4.5"});
}
LoadedFile corun_library() {
    return object("/lib/libcorun.so", {}, {"GOMP_parallel"});
}

std::string refused(const LoadedFile& program, const std::vector<LoadedFile>& more = {}) {
    std::vector<LoadedFile> files{program, corun_library(), libomp()};
    files.insert(files.end(), more.begin(), more.end());
    files.push_back(libgomp());
    return refusal(files, "/lib/libomp.so", "/lib/libcorun.so");
}

TEST(OpenMpRuntime, ServesAProgramWhoseNamesItHas) {
    EXPECT_EQ(refused(object("/bin/p", {"GOMP_parallel@GOMP_4.0"})), "");
    EXPECT_EQ(refused(object("/bin/p", {})), "");
    EXPECT_EQ(refused(object("/bin/p", {"__kmpc_fork_call@VERSION", "omp_get_level"})), "");
}

TEST(OpenMpRuntime, RefusesNamesAndVersionsThatItLacks) {
    EXPECT_EQ(refused(object("/bin/p", {"GOMP_parallel@GOMP_4.0", "GOMP_scope_start@GOMP_5.1"})),
              "/bin/p needs GOMP_scope_start@GOMP_5.1, which it lacks");
    // The name is there; the loader wants its version and finds that in gcc's.
    EXPECT_EQ(refused(object("/bin/p", {"omp_alloc@OMP_5.0.1"})),
              "/bin/p needs omp_alloc@OMP_5.0.1, which it lacks");
    EXPECT_EQ(refused(object("/bin/p", {"omp_alloc"})), "");
}

TEST(OpenMpRuntime, LooksAtEveryObject) {
    EXPECT_EQ(refused(object("/bin/p", {}), {object("/lib/one.so", {"GOMP_scope_start@GOMP_5.1"})}),
              "/lib/one.so needs GOMP_scope_start@GOMP_5.1, which it lacks");
}

TEST(OpenMpRuntime, NamesTheFirstOfMany) {
    std::vector<LoadedFile> files{
        object("/bin/p", {"GOMP_a", "GOMP_b", "GOMP_c", "GOMP_d", "GOMP_e"}), libomp(),
        object("/lib/libgomp.so.1", {},
               {"omp_get_level", "GOMP_parallel", "GOMP_a", "GOMP_b", "GOMP_c", "GOMP_d", "GOMP_e"})};
    EXPECT_EQ(refusal(files, "/lib/libomp.so", "/lib/libcorun.so"),
              "/bin/p needs GOMP_a, GOMP_b, GOMP_c and 2 more, which it lacks");
}

TEST(OpenMpRuntime, RefusesWhatItMeansOtherwise) {
    EXPECT_EQ(refused(object("/bin/p", {"GOMP_taskloop@GOMP_4.5"})),
              "/bin/p calls GOMP_taskloop, where LLVM's runtime crashes when a loop is empty or counts down");
}

TEST(OpenMpRuntime, RefusesObjectsWithFunctionsOfTheirOwn) {
    EXPECT_EQ(refused(object("/bin/p", {}), {object("/lib/stubs.so", {}, {"omp_get_level"})}),
              "/lib/stubs.so has omp_get_level of its own");
    // Before it in the search they serve as ever; others' names are nothing to it.
    EXPECT_EQ(refused(object("/bin/p", {}, {"omp_get_level"})), "");
    EXPECT_EQ(refused(object("/bin/p", {}), {object("/lib/other.so", {}, {"omp_of_its_own"})}), "");
}

TEST(OpenMpRuntime, RefusesAProgramThatOnlyLooksForOpenMp) {
    LoadedFile program = object("/bin/p", {"GOMP_parallel"});
    program.elf.symbols.back().weak = true;
    EXPECT_EQ(refused(program), "");
    EXPECT_EQ(refusal({program, libomp()}, "/lib/libomp.so", "/lib/libcorun.so"),
              "/bin/p only looks whether OpenMP is there, and it is not");
}

TEST(OpenMpRuntime, RefusesASecondOneOfItsKind) {
    const std::string reason = refused(object("/bin/p", {}), {libomp("/opt/libiomp5.so")});
    EXPECT_NE(reason.find("/opt/libiomp5.so already"), std::string::npos) << reason;
}

TEST(OpenMpRuntime, MustBeFoundFirst) {
    const LoadedFile program = object("/bin/p", {"GOMP_parallel@GOMP_4.0"});
    EXPECT_EQ(refusal({program, libgomp(), libomp()}, "/lib/libomp.so", "/lib/libcorun.so"),
              "/bin/p needs GOMP_parallel@GOMP_4.0, which it lacks");
    EXPECT_EQ(refusal({program, libgomp()}, "/lib/libomp.so", "/lib/libcorun.so"),
              "the loader does not take it");
}

TEST(OpenMpRuntime, LeavesAToolBetweenThemAlone) {
    std::vector<LoadedFile> files{object("/bin/p", {"GOMP_parallel@GOMP_4.0"}), corun_library(),
                                  object("/lib/tool.so", {}, {"GOMP_parallel"}), libomp(), libgomp()};
    EXPECT_EQ(refusal(files, "/lib/libomp.so", "/lib/libcorun.so"), "");
}

TEST(OpenMpDifference, IsOfGccsNamesOnly) {
    for (const char* name : {"GOMP_parallel", "GOMP_loop_dynamic_start", "GOMP_task", "omp_get_num_teams",
                             "__kmpc_taskloop", "__kmpc_doacross_post", "GOMP_sections_start"})
        EXPECT_EQ(openmp_difference(name), "") << name;
    for (const char* name :
         {"GOMP_loop_ull_static_start", "GOMP_taskloop_ull", "GOMP_doacross_wait",
          "GOMP_loop_doacross_static_start", "GOMP_loop_start", "GOMP_target", "GOMP_teams"})
        EXPECT_NE(openmp_difference(name), "") << name;
}

// --- files

TEST(ElfSymbols, OfThisProgram) {
    const auto elf = read_elf("/proc/self/exe");
    ASSERT_TRUE(elf);
    EXPECT_NE(elf->interpreter.find("/ld-"), std::string::npos) << elf->interpreter;
    EXPECT_TRUE(elf->symbols.empty());
    EXPECT_FALSE(read_elf("/nowhere"));
    EXPECT_FALSE(read_elf("/etc/passwd"));
    EXPECT_FALSE(read_elf("/etc"));
}

TEST(LoadedFiles, OfThisProgram) {
    const auto elf = read_elf("/proc/self/exe");
    ASSERT_TRUE(elf);
    const fs::path self = fs::read_symlink("/proc/self/exe");
    Environment environment = Environment::of_this_process();
    const auto files = loaded_files(self, elf->interpreter, environment);
    ASSERT_GT(files.size(), 2U);
    EXPECT_EQ(files.front(), self);
    EXPECT_TRUE(std::any_of(files.begin(), files.end(),
                            [](const fs::path& file) { return file.filename() == "libc.so.6"; }));
    EXPECT_TRUE(loaded_files("/etc/passwd", elf->interpreter, environment).empty());
}

TEST(LoadedFiles, ArePathsInWhatTheLoaderPrints) {
    const auto paths = listed_paths(
        "\tlinux-vdso.so.1 (0x00007ffd2a5f4000)\n"
        "\t/opt/with space/libcorun.so (0x00007f1234)\n"
        "\tlibm.so.6 => /lib/libm.so.6 (0x00007f5678)\n"
        "\tlibnone.so => not found\n"
        "\t/lib64/ld-linux-x86-64.so.2 (0x00007f9abc)\n");
    EXPECT_EQ(paths, (std::vector<fs::path>{"/opt/with space/libcorun.so", "/lib/libm.so.6",
                                            "/lib64/ld-linux-x86-64.so.2"}));
    EXPECT_TRUE(listed_paths("\tstatically linked\n").empty());
}

class Scripts : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "corun-scripts-XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder = name;
    }
    void TearDown() override { fs::remove_all(folder); }
    fs::path write(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name) << text;
        return folder / name;
    }
    fs::path folder;
};

TEST_F(Scripts, AreRunByTheirInterpreter) {
    EXPECT_EQ(executed_file("/proc/self/exe"), "/proc/self/exe");
    EXPECT_EQ(executed_file(write("one", "#!/proc/self/exe -x\necho")), "/proc/self/exe");
    EXPECT_EQ(executed_file(write("two", "#! " + (folder / "one").string() + "\n")), "/proc/self/exe");
    EXPECT_EQ(executed_file(write("plain", "echo\n")), "/bin/sh");
    const fs::path by_env = executed_file(write("env", "#!/usr/bin/env -S LC_ALL=C sh -e\n"));
    EXPECT_EQ(by_env.filename(), executed_file(resolve_program("sh")).filename());
    EXPECT_TRUE(executed_file(folder / "none").empty());
    EXPECT_TRUE(executed_file(write("itself", "#!" + (folder / "itself").string() + "\n")).empty());
}

TEST(Preload, RuntimeComesLastAndOnce) {
    Environment environment = Environment::of_this_process();
    environment.set("LD_PRELOAD", "/a/libcorun.so:/b/tool.so");
    append_preload(environment, "/c/libomp.so");
    append_preload(environment, "/c/libomp.so");
    EXPECT_EQ(environment.get("LD_PRELOAD"), "/a/libcorun.so:/b/tool.so:/c/libomp.so");
    environment.set("CORUN_OPENMP_RUNTIME", "/c/libomp.so");
    remove_corun(environment);
    EXPECT_EQ(environment.get("LD_PRELOAD"), "/b/tool.so");
    EXPECT_EQ(environment.get("CORUN_OPENMP_RUNTIME"), "");
}

TEST_F(Scripts, ARuntimeThatIsNoneIsRefused) {
    EXPECT_EQ(unusable_runtime("/nowhere/libomp.so"), "there is no such file");
    EXPECT_EQ(unusable_runtime("/proc/self/exe"), "it is no shared library of this machine");
    EXPECT_EQ(unusable_runtime(write("a b", "")), "LD_PRELOAD allows no space and no colon in a path");
    Environment environment = Environment::of_this_process();
    environment.set("CORUN_OPENMP_RUNTIME", "/nowhere/libomp.so");
    const std::string sentence = add_openmp_runtime(environment, "/lib/libcorun.so", "true");
    EXPECT_EQ(sentence,
              "/nowhere/libomp.so is not used for OpenMP: there is no such file. The program runs with "
              "its own runtime");
    EXPECT_EQ(environment.get("CORUN_OPENMP_RUNTIME"), "");
    EXPECT_EQ(add_openmp_runtime(environment, "/lib/libcorun.so", "true"), "");
}

}  // namespace
}  // namespace corun::tools
