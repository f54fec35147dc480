// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/endpoint_map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "fusewire/base/log.h"
#include "fusewire/transport/socket_address.h"
#include "fusewire/transport/transport.h"

namespace fusewire::tf {
namespace {

constexpr const char* kName = ".endpoint_map";
// Ten thousand tasks with names of a hundred bytes each.
constexpr size_t kBytesMax = 2 << 20;

// Why others could have written what is open here; empty: they couldn't.
std::string OthersCanWrite(const struct stat& about, const std::string& path) {
  if (about.st_uid != geteuid() && about.st_uid != 0) {
    return path + " belongs to user " + std::to_string(about.st_uid) + ", not to user " + std::to_string(geteuid()) +
           " or root: chown it, or remove it";
  }
  if ((about.st_mode & (S_IWGRP | S_IWOTH)) != 0) return path + " can be written by others: chmod go-w " + path;
  return "";
}

// The file's text. False: there is none, or, if *refused is not empty, it is left out for this reason.
bool Read(const std::string& folder, std::string* text, std::string* refused) {
  const transport::Fd directory(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return false;
  // Only regular files: reading a pipe would wait for its writer, and a device may never end.
  const transport::Fd file(openat(directory.get(), kName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  const std::string path = folder + "/" + kName;
  if (!file.valid()) {
    if (errno == ELOOP)
      *refused =
          path + " is a symbolic link: put the file itself there, or name its folder in TF_SEASTAR_ENDPOINT_MAP_PATH";
    return false;
  }
  struct stat about = {}, around = {};
  if (fstat(file.get(), &about) != 0 || fstat(directory.get(), &around) != 0) return false;
  if (!S_ISREG(about.st_mode) || about.st_size > static_cast<off_t>(kBytesMax)) {
    *refused = path + " is no file, or has more than " + std::to_string(kBytesMax) + " bytes";
    return false;
  }
  *refused = OthersCanWrite(about, path);
  if (refused->empty()) *refused = OthersCanWrite(around, folder);
  if (!refused->empty()) return false;
  text->resize(kBytesMax);
  size_t size = 0;
  for (ssize_t got = 1; got > 0 && size < text->size(); size += static_cast<size_t>(got)) {
    got = read(file.get(), text->data() + size, text->size() - size);
    if (got < 0) return false;
  }
  text->resize(size);
  return true;
}

// The first malformed lines, for one line of the log, whatever they contain.
class BadLines {
 public:
  void Add(const std::string& line) {
    if (++count_ > kLinesMax) return;
    words_ += (words_.empty() ? "" : ", ") + line.substr(0, kLineBytesMax) + (line.size() > kLineBytesMax ? "..." : "");
  }
  std::string Words() const {
    std::string words = words_;
    for (char& letter : words) {
      if (static_cast<unsigned char>(letter) < ' ') letter = '?';
    }
    return count_ > kLinesMax ? words + ", and " + std::to_string(count_ - kLinesMax) + " more" : words;
  }

 private:
  static constexpr size_t kLinesMax = 5, kLineBytesMax = 80;
  size_t count_ = 0;
  std::string words_;
};

}  // namespace

std::map<std::string, std::string> ParseEndpointMap(const std::string& text, std::string* bad) {
  std::map<std::string, std::string> endpoints;
  std::istringstream lines(text);
  std::string line;
  BadLines bad_lines;
  while (std::getline(lines, line)) {
    size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    size_t end = line.find_last_not_of(" \t\r") + 1;
    line = line.substr(begin, end - begin);
    size_t middle = line.find('=');
    bool ok = middle != std::string::npos && transport::Address::Parse(line.substr(0, middle)).ok() &&
              transport::Address::Parse(line.substr(middle + 1)).ok();
    if (ok) {
      endpoints[line.substr(0, middle)] = line.substr(middle + 1);
    } else {
      bad_lines.Add(line);
    }
  }
  *bad = bad_lines.Words();
  return endpoints;
}

std::map<std::string, std::string> ReadEndpointMap(const std::string& folder) {
  static std::atomic<bool> has_told{false};  // a process may have hundreds of servers
  std::error_code error;
  const std::string where = folder.empty() ? std::filesystem::current_path(error).string() : folder;
  std::string text, refused, bad;
  const bool has_read = Read(where, &text, &refused);
  if (!refused.empty())
    FUSEWIRE_LOG(kWarn, "%s is left out: %s; see docs/problems/doctor.md#endpoint-map", kName, refused.c_str());
  if (!has_read) return {};
  std::map<std::string, std::string> endpoints = ParseEndpointMap(text, &bad);
  if (!bad.empty()) {
    FUSEWIRE_LOG(kWarn, "%s/%s: left out what is not host:port=host:port: %s; see %s", where.c_str(), kName,
                 bad.c_str(), "docs/problems/doctor.md#endpoint-map");
  }
  if (!has_told.exchange(true)) {
    FUSEWIRE_LOG(kWarn, "%s/%s says where the data ports of %zu tasks are; see docs/problems/doctor.md#endpoint-map",
                 where.c_str(), kName, endpoints.size());
  }
  return endpoints;
}

}  // namespace fusewire::tf
