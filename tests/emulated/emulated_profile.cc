// SPDX-License-Identifier: Apache-2.0
// Writes the profile that corun would have learned of a graph on a machine that is not there, had it had the
// time: each op alone at each number of threads.
//   emulated_profile MACHINE GRAPH RUNTIME PROFILE     RUNTIME: the library whose build the profile is of
#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <string>

#include "model/profile.h"
#include "shim/build_id.h"
#include "shim/process.h"
#include "tests/emulated/emulated_key.h"
#include "tools/sim/cost.h"

namespace {

using namespace corun;
using namespace corun::tools;

model::ProfileOp learned(const sim::Machine& machine, const sim::GraphKey& key, std::size_t index) {
    model::ProfileOp op;
    op.name = "tensorflow/" + emulated::key_text(key.type, index);
    for (int width = 1; width <= machine.cores; ++width) {
        const int threads = key.parts > 1 ? width : 1;
        const double seconds = cost_parts(machine, key, threads, sockets_for(machine, threads)).seconds();
        op.solo.push_back({width, seconds});
        op.counts[width] = 5;
        op.reference = seconds;
    }
    return op;
}

int run(char** argv) {
    const sim::Machine machine = sim::read_machine(argv[1]);
    const sim::Graph graph = sim::read_graph(argv[2]);
    if (dlopen(argv[3], RTLD_LAZY) == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
    model::Profile profile;
    profile.identity = {process_cpu_model(), machine.cores, {build_id(argv[3])}};
    for (std::size_t key = 0; key < graph.keys.size(); ++key)
        profile.ops.push_back(learned(machine, graph.keys[key], key));
    const auto error = model::save_profile(argv[4], profile);
    if (error) std::fprintf(stderr, "%s\n", error->c_str());
    return error ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return std::fputs("emulated_profile MACHINE GRAPH RUNTIME PROFILE\n", stderr), 2;
    try {
        return run(argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
