// SPDX-License-Identifier: Apache-2.0
#include "shim/budget.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

namespace corun {
namespace {

double read_number(const std::string& path, double otherwise) {
    std::ifstream file(path);
    double value = 0;
    return file >> value ? value : otherwise;
}

// cgroup v1: quota and period in microseconds, a file each; -1 is no limit.
double quota_v1(const std::string& folder) {
    const double quota = read_number(folder + "/cpu.cfs_quota_us", -1);
    const double period = read_number(folder + "/cpu.cfs_period_us", 0);
    return quota > 0 && period > 0 ? quota / period : 0.0;
}

// cgroup v2: "max 100000" or "400000 100000".
double quota_v2(const std::string& folder) {
    std::ifstream file(folder + "/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0.0;
    const double value = std::strtod(quota.c_str(), nullptr);
    return value > 0 ? value / period : 0.0;
}

void keep_smallest(double& smallest, double quota) {
    if (quota > 0 && (smallest == 0.0 || quota < smallest)) smallest = quota;
}

// A limit on any ancestor holds as well. Inside a cgroup namespace the path may not exist below the mount;
// the walk then still reaches the root of the mount, which is the container's own group.
template <typename Read>
void walk_up(const std::string& mount, std::string path, Read read, double& smallest) {
    while (true) {
        keep_smallest(smallest, read(mount + path));
        const auto parent = path.rfind('/');
        if (path == "/" || parent == std::string::npos) return;
        path.erase(parent);
    }
}

bool has_word(const std::string& list, const std::string& word) {
    std::stringstream stream(list);
    for (std::string item; std::getline(stream, item, ',');)
        if (item == word) return true;
    return false;
}

}  // namespace

int affinity_count() noexcept {
    unsigned long mask[65536 / (8 * sizeof(unsigned long))];  // a machine may have more CPUs than a cpu_set_t
    const long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    int count = 0;
    for (std::size_t i = 0; bytes > 0 && i < static_cast<std::size_t>(bytes) / sizeof mask[0]; ++i)
        count += __builtin_popcountl(mask[i]);
    return count > 0 ? count : std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

double find_quota(const std::string& cgroup_root, const std::string& membership) {
    double smallest = 0.0;
    std::ifstream file(membership);
    for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/user.slice" or "0::/user.slice"
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {
            walk_up(cgroup_root, path, quota_v2, smallest);
            walk_up(cgroup_root + "/unified", path, quota_v2, smallest);
        } else if (has_word(controllers, "cpu")) {
            walk_up(cgroup_root + "/cpu", path, quota_v1, smallest);
            walk_up(cgroup_root + "/cpu,cpuacct", path, quota_v1, smallest);
        }
    }
    return smallest;
}

Budget find_budget(const std::string& cgroup_root, const std::string& membership, int cpus_option,
                   int affinity) {
    Budget budget;
    budget.affinity = affinity > 0 ? affinity : affinity_count();
    budget.quota = find_quota(cgroup_root, membership);
    budget.option = cpus_option;
    if (budget.quota > 0) budget.allowed = std::max(1, static_cast<int>(std::ceil(budget.quota - 0.01)));
    if (budget.option > 0) budget.allowed = std::min(budget.allowed, budget.option);
    budget.cpus = std::min(budget.affinity, budget.allowed);
    return budget;
}

}  // namespace corun
