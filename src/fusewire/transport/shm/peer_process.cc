// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/peer_process.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {
namespace {

constexpr int kStartField = 22;  // of /proc/PID/stat, see proc(5)
constexpr char kOneContainer[] =
    "run both tasks in one container, or let the containers share its namespaces (Kubernetes: shareProcessNamespace, "
    "Docker: --pid container:NAME); until then they use TCP";

Status Unseen(const std::string& why) {
  return Status::Refused("whether the process at the other end is in our container cannot be seen: " + why)
      .Next(kOneContainer);
}
Status UnseenFor(const char* call, int error) {
  if (error == EMFILE || error == ENFILE) {
    return Status::FromErrno(Code::kOverloaded, call, error).Next("raise the limit of open files (ulimit -n)");
  }
  return Unseen(Status::FromErrno(Code::kRefused, call, error).cause());
}

Result<std::string> Read(int folder, const char* name) {
  const Fd file(openat(folder, name, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return UnseenFor("open in /proc", errno);
  std::string text(32 * 1024, '\0');  // status lists a user's groups, of which there may be thousands
  const ssize_t got = read(file.get(), text.data(), text.size());
  if (got < 0) return UnseenFor("read in /proc", errno);
  text.resize(static_cast<size_t>(got));
  return text;
}

struct Namespaces {
  ino_t user = 0, pid = 0;  // for as long as a process of the namespace lives
};

// The kernel tells those who may look into the process.
Result<Namespaces> NamespacesOf(int folder) {
  struct stat user = {}, pid = {};
  if (fstatat(folder, "ns/user", &user, 0) != 0 || fstatat(folder, "ns/pid", &pid, 0) != 0)
    return UnseenFor("stat of /proc/PID/ns", errno);
  return Namespaces{user.st_ino, pid.st_ino};
}

Result<uint64_t> StartOf(int folder) {
  const Result<std::string> text = Read(folder, "stat");
  if (!text.ok()) return text.status();
  // pid (name) state ppid ...: the name may contain anything.
  std::istringstream words(text.value().substr(text.value().find_last_of(')') + 1));
  std::string word;
  for (int field = 2; field < kStartField && words >> word; ++field) {
  }
  uint64_t start = 0;
  if (!(std::istringstream(word) >> start)) return Unseen("/proc/PID/stat has no start time");
  return start;
}

// Whether /proc counts processes as the kernel counts them for us. A container may have its host's.
Status CheckProc() {
  const Result<std::string> text = Read(AT_FDCWD, "/proc/self/status");
  if (!text.ok()) return text.status();
  std::istringstream lines(text.value());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("NSpid:", 0) != 0) continue;
    // Our number in each pid namespace, from that of /proc down to our own.
    std::istringstream numbers(line.substr(line.find(':') + 1));
    pid_t first = 0, second = 0;
    if (numbers >> first && !(numbers >> second)) return Status::Ok();
  }
  return Unseen("/proc is that of another pid namespace");
}

// Whether no user is shown to us under the number that stands for all users without one.
bool UsersHaveNumbers() {
  constexpr uint64_t kAllUsers = UINT32_MAX;
  std::ifstream file("/proc/self/uid_map");
  uint64_t inside = 0, outside = 0, count = 0;
  while (file >> inside >> outside >> count) {
    if (count == kAllUsers) return true;
  }
  return false;
}

uid_t NoNumber() {
  uid_t user = 65534;  // the kernel's default
  std::ifstream("/proc/sys/kernel/overflowuid") >> user;
  return user;
}

Status CheckUser(uid_t user) {
  if (user != geteuid()) {
    return Status::Refused("the process at the other end belongs to user " + std::to_string(user) +
                           ", and we to user " + std::to_string(geteuid()))
        .Next("run both tasks as one user; until then they use TCP");
  }
  if (user == NoNumber() && !UsersHaveNumbers()) {
    return Status::Refused("both processes belong to user " + std::to_string(user) +
                           ", which stands for every user without a number in this container")
        .Next("run both tasks as a user whom the container knows; until then they use TCP");
  }
  return Status::Ok();
}

// The start time of a process that is one of our own. Its folder leads to no other one, whoever has its number next.
Result<uint64_t> StartOfOwn(pid_t pid) {
  const Fd own(open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.valid()) return UnseenFor("open of /proc/self", errno);
  const Fd folder(open(("/proc/" + std::to_string(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return UnseenFor("open of /proc/PID", errno);
  const Result<Namespaces> ours = NamespacesOf(own.get()), theirs = NamespacesOf(folder.get());
  if (!ours.ok()) return ours.status();
  if (!theirs.ok()) return theirs.status();
  const bool same_users = ours.value().user == theirs.value().user, same_pids = ours.value().pid == theirs.value().pid;
  if (same_users && same_pids) return StartOf(folder.get());
  return Status::Refused(std::string("the process at the other end is in another ") + (same_users ? "pid" : "user") +
                         " namespace, and so in another container")
      .Next(kOneContainer);
}

}  // namespace

Result<PeerProcess> PeerProcess::Of(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  const int yes = 1;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) != 0)
    return Status::FromErrno(Code::kUnavailable, "getsockopt or setsockopt", errno);
  FUSEWIRE_TRY(CheckUser(peer.uid));
  if (peer.pid <= 0) {
    return Status::Refused("the process at the other end is in a pid namespace that we cannot see").Next(kOneContainer);
  }
  FUSEWIRE_TRY(CheckProc());
  const Result<uint64_t> start = StartOfOwn(peer.pid);
  if (!start.ok()) return start.status();
  PeerProcess process;
  process.pid_ = peer.pid;
  process.start_ = start.value();
  return process;
}

Status PeerProcess::CheckSender(pid_t sender) const {
  if (sender != pid_) {
    return Status::Refused("process " + std::to_string(pid_) + " began the meeting, and process " +
                           std::to_string(sender) + " answers")
        .Next("let the process that connects or listens go on itself; until then the tasks use TCP");
  }
  const Result<uint64_t> start = StartOfOwn(pid_);
  if (!start.ok() || start.value() == start_) return start.status();
  return Status::Refused("process " + std::to_string(pid_) + " has ended, and another one has its number")
      .Next("start the task again; until then the tasks use TCP");
}

}  // namespace fusewire::transport
