// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

namespace fusewire {
namespace observe {
namespace {

constexpr std::string_view kEnding = ".json";
constexpr int kStartField = 22;  // of /proc/PID/stat, see proc(5)

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

bool IsOwnFolder(const std::string& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid();
}

std::string PathOf(const std::string& folder, pid_t pid) {
  return folder + "/" + std::to_string(pid) + std::string(kEnding);
}

// The process that a file of the folder is about; 0: it is no such file.
pid_t PidOf(std::string_view name) {
  pid_t pid = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
  const std::string_view rest = name.substr(static_cast<size_t>(read.ptr - name.data()));
  return read.ec == std::errc() && rest == kEnding && pid > 0 ? pid : 0;
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

// The start that an entry names: "start":123
uint64_t StartInEntry(std::string_view text) {
  constexpr std::string_view kKey = "\"start\":";
  const size_t at = text.find(kKey);
  uint64_t start = 0;
  if (at != std::string_view::npos) std::from_chars(text.data() + at + kKey.size(), text.data() + text.size(), start);
  return start;
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

uint64_t StartOf(pid_t pid) {
  const std::string text = ReadAll("/proc/" + std::to_string(pid) + "/stat", 4096);
  // pid (name) state ppid ...: the name may contain anything.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  size_t at = name_end;
  for (int field = 2; field < kStartField; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string::npos) return 0;
  }
  uint64_t start = 0;
  std::from_chars(text.data() + at + 1, text.data() + text.size(), start);
  return start;
}

Status WriteEntry(const std::string& folder, pid_t pid, const std::string& text) {
  const std::string path = PathOf(folder, pid), whole = path + ".tmp";
  const int file = open(whole.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return Status::FromErrno(Code::kUnavailable, "open", errno).Phase("writing " + whole);
  const ssize_t put = write(file, text.data(), text.size());
  const int error = errno;
  close(file);
  if (put != static_cast<ssize_t>(text.size()))
    return Status::FromErrno(Code::kUnavailable, "write", error).Phase("writing " + whole);
  if (rename(whole.c_str(), path.c_str()) != 0)
    return Status::FromErrno(Code::kUnavailable, "rename", errno).Phase("writing " + path);
  return Status::Ok();
}

void RemoveEntry(const std::string& folder, pid_t pid) { unlink(PathOf(folder, pid).c_str()); }

void RemoveStale(const std::string& folder, int64_t age_s) {
  const std::unique_ptr<DIR, CloseFolder> listing(opendir(folder.c_str()));
  if (listing == nullptr) return;
  std::vector<pid_t> pids;
  while (const dirent* entry = readdir(listing.get())) {
    if (const pid_t pid = PidOf(entry->d_name)) pids.push_back(pid);
  }
  for (const pid_t pid : pids) {
    const std::string path = PathOf(folder, pid);
    struct stat about {};
    if (lstat(path.c_str(), &about) != 0 || about.st_mtime + age_s > std::time(nullptr)) continue;
    const uint64_t start = StartOf(pid);
    if (start == 0 || start != StartInEntry(ReadAll(path, 64 * 1024))) unlink(path.c_str());
  }
}

}  // namespace observe
}  // namespace fusewire
