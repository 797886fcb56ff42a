// SPDX-License-Identifier: Apache-2.0
#include "model/profile.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

#include "model/profile_format.h"

namespace corun::model {
namespace {

using nlohmann::json;
using profile_format::Broken;
using profile_format::kMostBytes;
using profile_format::kVersion;
using profile_format::Parsed;

constexpr int kMostTries = 100;          // names of the temporary file
constexpr int kLockTries = 200;          // for what others that end at the same moment have added
constexpr useconds_t kLockPause = 5000;  // microseconds

// --- files ---

class File {
  public:
    explicit File(int descriptor) : descriptor_(descriptor) {}
    ~File() { close(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    [[nodiscard]] int get() const { return descriptor_; }
    bool close() {
        const bool closed = descriptor_ < 0 || ::close(descriptor_) == 0;
        descriptor_ = -1;
        return closed;
    }

  private:
    int descriptor_;
};

struct Content {
    LoadStatus status = LoadStatus::ok;
    std::string text;
    std::string reason;  // when the status is not ok
    mode_t mode = 0644;  // of the file, or for a new one
};

std::string error_text(int error) {
    return std::generic_category().message(error);
}

Content read_file(const std::string& path) {
    Content content;
    const auto fail = [&content](LoadStatus status, std::string reason) {
        content.status = status;
        content.reason = std::move(reason);
        return content;
    };
    // Without O_NONBLOCK a FIFO would hold the program up for ever.
    const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) {
        if (errno == ENOENT || errno == ENOTDIR) return fail(LoadStatus::missing, "");
        return fail(LoadStatus::unreadable, error_text(errno));
    }
    struct stat about {};
    if (::fstat(file.get(), &about) != 0) return fail(LoadStatus::unreadable, error_text(errno));
    if (S_ISDIR(about.st_mode)) return fail(LoadStatus::unreadable, "it is a directory");
    if (!S_ISREG(about.st_mode)) return fail(LoadStatus::unreadable, "it is no regular file");
    content.mode = about.st_mode & 0777U;
    if (static_cast<std::uint64_t>(about.st_size) > kMostBytes)
        return fail(LoadStatus::broken, "it is over 64 MiB");
    content.text.resize(static_cast<std::size_t>(about.st_size));
    std::size_t had = 0;
    while (had < content.text.size()) {
        const ssize_t got = ::read(file.get(), content.text.data() + had, content.text.size() - had);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(LoadStatus::unreadable, error_text(errno));
        if (got == 0) break;
        had += static_cast<std::size_t>(got);
    }
    content.text.resize(had);
    return content;
}

bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t put = ::write(descriptor, text.data(), text.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
}

// `path` is the old file or the whole new one at every moment. Returns 0 or an errno.
int replace_file(const std::string& path, std::string_view text, mode_t mode) {
    rlimit limit{};  // exceeding it would raise SIGXFSZ in the program
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        text.size() > limit.rlim_cur) {
        return EFBIG;
    }
    std::string temporary;
    int descriptor = -1;
    for (int attempt = 0; descriptor < 0 && attempt < kMostTries; ++attempt) {
        temporary = path + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(attempt);
        descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (descriptor < 0 && errno != EEXIST) return errno;
    }
    if (descriptor < 0) return EEXIST;
    File file(descriptor);
    int error = 0;
    if (!write_all(descriptor, text) || ::fsync(descriptor) != 0 || !file.close() ||
        ::rename(temporary.c_str(), path.c_str()) != 0) {
        error = errno;
        ::unlink(temporary.c_str());
    }
    return error;
}

class FolderLock {
  public:
    FolderLock(int descriptor, bool busy) : file_(descriptor), busy_(busy) {}
    // Not by closing alone: a child that was forked meanwhile has the file as well.
    ~FolderLock() {
        if (file_.get() >= 0) ::flock(file_.get(), LOCK_UN);
    }
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    [[nodiscard]] bool busy() const { return busy_; }  ///< another process has it

  private:
    File file_;
    bool busy_;
};

// Several processes of a job end at once, and each adds to what it reads. The folder is locked, for the file
// is another one after each of them. Who cannot lock it, or waits a second for nothing, goes on without.
FolderLock lock_folder(const std::string& path, bool patient) {
    const auto slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool busy = descriptor >= 0;
    for (int i = 0; busy && i < (patient ? kLockTries : 1); ++i) {
        if (i > 0) ::usleep(kLockPause);
        busy = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    }
    return {descriptor, busy};
}

// A link stays a link: what it leads to is replaced.
std::string resolve(const std::string& path) {
    char* found = ::realpath(path.c_str(), nullptr);
    if (found == nullptr) return path;
    std::string resolved(found);
    std::free(found);
    return resolved;
}

// --- load and save ---

std::string broken_message(const std::string& path, const std::string& reason) {
    return path + " is not a corun profile or is damaged (" + reason +
           "); it is ignored and will be rewritten, the old file is kept as " + path + ".old.";
}

std::string newer_message(const std::string& path, int version, const char* consequence) {
    return path + " was written by a newer corun (format " + std::to_string(version) + ", this one knows " +
           std::to_string(kVersion) + "); " + consequence +
           ": update corun or name another file in CORUN_PROFILE.";
}

std::string foreign_message(const std::string& path, const json& sections, const json& identity) {
    const bool same_but_budget = std::any_of(sections.begin(), sections.end(), [&](const json& section) {
        const json& other = section["identity"];
        return other["cpu_model"] == identity["cpu_model"] && other["build_ids"] == identity["build_ids"];
    });
    const std::string whose = same_but_budget ? "another number of CPUs than " + identity["budget"].dump()
                                              : "another CPU model or other builds of the runtimes";
    return path + " holds only what was learned with " + whose +
           "; it is not used, and what this run learns is kept beside it.";
}

LoadResult load(const std::string& path, const Identity& identity) {
    LoadResult result;
    const Content content = read_file(path);
    result.status = content.status;
    if (content.status == LoadStatus::missing) return result;
    if (content.status == LoadStatus::unreadable) {
        result.message =
            path + " cannot be read (" + content.reason +
            "); nothing is taken from it: make it a readable file or name another in CORUN_PROFILE.";
        return result;
    }
    try {
        if (content.status == LoadStatus::broken) throw Broken(content.reason);
        const Parsed parsed = profile_format::parse(content.text);
        if (parsed.version > kVersion) {
            result.status = LoadStatus::newer_version;
            result.message = newer_message(path, parsed.version, "it is ignored and left alone");
            return result;
        }
        const json wanted = profile_format::encode(identity);
        for (const json& section : parsed.sections) {
            if (section["identity"] != wanted) continue;
            result.profile = profile_format::decode_section(section);
            return result;
        }
        // Runs of OpenMP programs are nobody else's knowledge of ops.
        const bool has_ops = std::any_of(parsed.sections.begin(), parsed.sections.end(),
                                         [](const json& section) { return !section["ops"].empty(); });
        result.status = has_ops ? LoadStatus::foreign : LoadStatus::missing;
        if (!has_ops) return result;
        result.message = foreign_message(path, parsed.sections, wanted);
    } catch (const Broken& broken) {
        result.status = LoadStatus::broken;
        result.message = broken_message(path, broken.what());
    }
    return result;
}

std::optional<std::string> save(const std::string& given_path, const Profile& profile, bool patient) {
    const auto failure = [&](const std::string& reason) {
        return "The profile " + given_path + " cannot be written (" + reason +
               "); what this run learned is lost: name a file in a writable directory in CORUN_PROFILE.";
    };
    if (profile.identity.budget < 0 || profile.identity.budget > profile_format::kMostWidth)
        return failure("absurd budget");
    const std::string path = resolve(given_path);
    const FolderLock lock = lock_folder(path, patient);
    if (!patient && lock.busy()) return std::nullopt;
    const Content content = read_file(path);
    if (content.status == LoadStatus::unreadable) return failure(content.reason);
    // The rename would not ask: a file that is write-protected is meant to stay.
    if (content.status != LoadStatus::missing && ::access(path.c_str(), W_OK) != 0)
        return failure(error_text(errno));
    json sections = json::array();
    if (content.status == LoadStatus::ok) {
        try {
            Parsed parsed = profile_format::parse(content.text);
            if (parsed.version > kVersion) {
                return newer_message(given_path, parsed.version, "it is left alone and nothing was saved");
            }
            sections = std::move(parsed.sections);
        } catch (const Broken&) {  // to be replaced; a mistyped path must not cost the user a file
            if (!content.text.empty()) ::rename(path.c_str(), (path + ".old").c_str());
        }
    }
    profile_format::merge(sections, profile);
    std::string text = profile_format::compose(sections);
    if (text.size() > kMostBytes) {  // it would be refused as broken: keep what is new
        sections = json::array();
        profile_format::merge(sections, profile);
        text = profile_format::compose(sections);
    }
    if (text.size() > kMostBytes) return failure("it would be over 64 MiB");
    const int error = replace_file(path, text, content.mode);
    if (error != 0) return failure(error_text(error));
    return std::nullopt;
}

}  // namespace

void put_curve(ProfileOp& op, const Curve& curve) {
    op.solo = curve.solo_points();
    op.counts.clear();
    for (const Point& point : op.solo)
        op.counts[point.width] = static_cast<int>(curve.solo_count(point.width));
}

Curve curve_of(const ProfileOp& op) {
    Curve curve;
    for (const Point& point : op.solo) {
        const auto count = op.counts.find(point.width);
        const int copies =
            std::min(count == op.counts.end() ? 1 : count->second, static_cast<int>(RobustSamples::capacity));
        for (int copy = 0; copy < copies; ++copy) curve.add({point.width, true, point.seconds});
    }
    return curve;
}

LoadResult load_profile(const std::string& path, const Identity& identity) {
    try {
        return load(path, identity);
    } catch (const std::exception& error) {  // out of memory
        return {LoadStatus::unreadable, {}, path + " cannot be read (" + error.what() + "); it is ignored."};
    }
}

std::optional<std::string> save_profile(const std::string& path, const Profile& profile, bool patient) {
    try {
        return save(path, profile, patient);
    } catch (const std::exception& error) {
        return "The profile " + path + " cannot be written (" + error.what() + ").";
    }
}

}  // namespace corun::model
