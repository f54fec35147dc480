// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

#include "fusewire/observe/process.h"
#include "fusewire/observe/request.h"

namespace fusewire::observe {
namespace {

constexpr std::string_view kEnding = ".json";
constexpr int kEntriesMax = 16;  // libraries of one process that show it
constexpr size_t kEntryBytesMax = 64 * 1024;
constexpr int kAnswerMs = 200;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

bool IsOwnFolder(const std::string& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid();
}

std::string PathOf(const std::string& folder, pid_t pid, int number) {
  const std::string name = number == 0 ? std::to_string(pid) : std::to_string(pid) + "." + std::to_string(number);
  return folder + "/" + name + std::string(kEnding);
}

// The process that a file of the folder is about; 0: it is not such a file.
pid_t PidOf(std::string_view name) {
  pid_t pid = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
  std::string_view rest = name.substr(static_cast<size_t>(read.ptr - name.data()));
  if (read.ec != std::errc() || pid <= 0) return 0;
  if (rest.size() > kEnding.size() + 1) {  // .1
    int number = 0;
    const auto more = std::from_chars(rest.data() + 1, rest.data() + rest.size(), number);
    if (rest.front() != '.' || more.ec != std::errc() || number <= 0) return 0;
    rest = rest.substr(static_cast<size_t>(more.ptr - rest.data()));
  }
  return rest == kEnding ? pid : 0;
}

std::string ReadAll(const std::string& path, size_t bytes_max) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return {};
  std::string text(bytes_max, '\0');
  const ssize_t got = read(file, text.data(), text.size());
  close(file);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// A number that an entry names: "start":123
uint64_t NumberInEntry(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  uint64_t number = 0;
  if (at != std::string_view::npos) std::from_chars(text.data() + at + key.size(), text.data() + text.size(), number);
  return number;
}
constexpr std::string_view kStartKey = "\"start\":", kPortKey = "\"port\":";

// Whether anything listens at the place that an entry names. The program before exec() had the same process: its file
// is left, and its port is not.
bool IsServed(std::string_view text) {
  constexpr std::string_view kHostKey = "\"host\":\"";
  const size_t begin = text.find(kHostKey);
  if (begin == std::string_view::npos) return false;
  const std::string_view rest = text.substr(begin + kHostKey.size());
  SocketName name;
  if (!name.Set(std::string(rest.substr(0, rest.find('"'))), static_cast<uint16_t>(NumberInEntry(text, kPortKey))))
    return false;
  const int probe = socket(name.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return true;
  int error = connect(probe, name.get(), name.size) == 0 ? 0 : errno;
  pollfd connects{probe, POLLOUT, 0};
  socklen_t size = sizeof(error);
  // It is this machine's own address: the kernel answers at once, even if the process there does not.
  if (error == EINPROGRESS && poll(&connects, 1, kAnswerMs) > 0) getsockopt(probe, SOL_SOCKET, SO_ERROR, &error, &size);
  const bool is_refused = error == ECONNREFUSED;
  close(probe);
  return !is_refused;
}

Status WriteWhole(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return Status::FromErrno(Code::kUnavailable, "open", errno).Phase("writing " + path);
  const ssize_t put = write(file, text.data(), text.size());
  const int error = errno;
  close(file);
  if (put != static_cast<ssize_t>(text.size()))
    return Status::FromErrno(Code::kUnavailable, "write", error).Phase("writing " + path);
  return Status::Ok();
}

}  // namespace

Result<std::string> OpenFolder(const std::string& runtime, const std::string& temporary) {
  const bool has_runtime = !runtime.empty() && IsOwnFolder(runtime);
  const std::string folder = has_runtime ? runtime + "/fusewire" : temporary + "/fusewire-" + std::to_string(geteuid());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Status::FromErrno(Code::kUnavailable, "mkdir", errno).Phase("making " + folder);
  struct stat about {};
  if (!IsOwnFolder(folder) || lstat(folder.c_str(), &about) != 0 || (about.st_mode & 0077) != 0)
    return Status::Refused(folder + " is not a folder that only this user can enter")
        .Next("remove it, or set XDG_RUNTIME_DIR");
  return folder;
}

// A link to a whole file: it fails if another library of the process was first, and nobody reads half of it.
Result<int> ClaimEntry(const std::string& folder, pid_t pid, uint64_t start, const std::string& text) {
  const std::string whole =
      folder + "/" + std::to_string(pid) + "." + std::to_string(NumberInEntry(text, kPortKey)) + ".claim";
  FUSEWIRE_TRY(WriteWhole(whole, text));
  Status refused = Status::Overloaded("there are " + std::to_string(kEntriesMax) + " files of this process");
  int number = 0;
  for (; number < kEntriesMax; ++number) {
    const std::string path = PathOf(folder, pid, number);
    const std::string there = ReadAll(path, kEntryBytesMax);
    const bool is_stale = !there.empty() && (NumberInEntry(there, kStartKey) != start || !IsServed(there));
    if (is_stale) unlink(path.c_str());
    refused = link(whole.c_str(), path.c_str()) == 0 ? Status::Ok() : refused;
    if (refused.ok()) break;
    if (errno == EEXIST) continue;
    refused = Status::FromErrno(Code::kUnavailable, "link", errno);
    break;
  }
  unlink(whole.c_str());
  if (!refused.ok()) return refused.Phase("naming the status port in " + folder);
  return number;
}

Status WriteEntry(const std::string& folder, pid_t pid, int number, const std::string& text) {
  const std::string path = PathOf(folder, pid, number), whole = path + ".tmp";
  FUSEWIRE_TRY(WriteWhole(whole, text));
  if (rename(whole.c_str(), path.c_str()) != 0)
    return Status::FromErrno(Code::kUnavailable, "rename", errno).Phase("writing " + path);
  return Status::Ok();
}

void RemoveEntry(const std::string& folder, pid_t pid, int number) { unlink(PathOf(folder, pid, number).c_str()); }

void RemoveStale(const std::string& folder, int64_t age_s) {
  const std::unique_ptr<DIR, CloseFolder> listing(opendir(folder.c_str()));
  if (listing == nullptr) return;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(listing.get())) {
    if (PidOf(entry->d_name) != 0) names.emplace_back(entry->d_name);
  }
  for (const std::string& name : names) {
    const pid_t pid = PidOf(name);
    const std::string path = folder + "/" + name;
    struct stat about {};
    if (lstat(path.c_str(), &about) != 0 || about.st_mtime + age_s > std::time(nullptr)) continue;
    const uint64_t start = StartOf(pid);
    if (start == 0 || start != NumberInEntry(ReadAll(path, kEntryBytesMax), kStartKey)) unlink(path.c_str());
  }
}

}  // namespace fusewire::observe
