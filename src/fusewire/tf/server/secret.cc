// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace fusewire::tf {
namespace {

constexpr size_t kSecretFileBytesMax = 4096;

// Of an open file: its name may stand for another one by now.
Status CheckOwner(const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return Status::Refused("it is no file").Next("name a file with the secret");
  if (file.st_uid != 0 && file.st_uid != geteuid())
    return Status::Refused("it belongs to another user").Next("make it this user's, or root's");
  if ((file.st_mode & (S_IWGRP | S_IWOTH)) != 0) return Status::Refused("others can write it").Next("chmod 400");
  if ((file.st_mode & S_IROTH) != 0) return Status::Refused("others can read it").Next("chmod 400");
  // Kubernetes gives root's file to a group, which is the only way for a pod that is not root to read it.
  if ((file.st_mode & S_IRGRP) != 0 && file.st_uid != 0)
    return Status::Refused("its group can read it").Next("chmod 400");
  return Status::Ok();
}

Result<std::string> ReadFile(const std::string& path) {
  // Without waiting: it may be a pipe.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return Status::FromErrno(Code::kUnavailable, "open", errno).Next("name a file that this user can read");
  struct stat about {};
  Status checked = fstat(file, &about) == 0 ? CheckOwner(about) : Status::FromErrno(Code::kUnavailable, "fstat", errno);
  std::string text(kSecretFileBytesMax + 1, '\0');
  size_t size = 0;
  while (checked.ok() && size < text.size()) {
    const ssize_t got = read(file, text.data() + size, text.size() - size);
    if (got == 0) break;
    if (got > 0) size += static_cast<size_t>(got);
    if (got < 0 && errno != EINTR) checked = Status::FromErrno(Code::kUnavailable, "read", errno);
  }
  close(file);
  if (!checked.ok()) return checked;
  text.resize(size);
  if (size > kSecretFileBytesMax) return Status::Invalid("it has more than 4096 bytes").Next("openssl rand -hex 32");
  if (!text.empty() && text.back() == '\n') text.pop_back();
  // The same in a variable and in C.
  if (text.empty() ||
      !std::all_of(text.begin(), text.end(), [](char letter) { return letter >= ' ' && letter < 0x7f; }))
    return Status::Invalid("it is not one line of ASCII text").Next("openssl rand -hex 32");
  return text;
}

}  // namespace

Result<std::string> ReadSecret(const std::string& word, const std::string& file) {
  if (file.empty()) return word;
  if (!word.empty()) {
    return Status::Invalid("FUSEWIRE_SECRET and FUSEWIRE_SECRET_FILE are both set").Next("unset one of them");
  }
  Result<std::string> read = ReadFile(file);
  if (read.ok()) return read;
  return Status(read.status().code(), "FUSEWIRE_SECRET_FILE, " + file + ": " + read.status().cause())
      .Next(read.status().next());
}

}  // namespace fusewire::tf
