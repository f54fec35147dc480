// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/peer_process.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "fusewire/base/log.h"
#include "fusewire/base/parse.h"
#include "fusewire/base/random.h"
#include "fusewire/transport/socket_address.h"

namespace fusewire::transport {
namespace {

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

// A file of /proc. On the stack: freed memory of this size would be left between what each connection keeps.
class ProcText {
 public:
  Status Read(int folder, const char* name) {
    const Fd file(openat(folder, name, O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return UnseenFor("open in /proc", errno);
    const ssize_t got = read(file.get(), text_, sizeof(text_) - 1);
    if (got < 0) return UnseenFor("read in /proc", errno);
    text_[got] = '\0';
    return Status::Ok();
  }
  const char* get() const { return text_; }

 private:
  char text_[32 * 1024];  // status lists a user's groups, of which there may be thousands
};

// Reads the number at *at, and moves *at past it. False: this line has no further number.
bool TakeNumber(const char** at, uint64_t* number) {
  while (**at == ' ' || **at == '\t') ++*at;
  if (**at < '0' || **at > '9') return false;
  char* end = nullptr;
  *number = std::strtoull(*at, &end, 10);
  *at = end;
  return true;
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
  ProcText text;
  FUSEWIRE_TRY(text.Read(folder, "stat"));
  uint64_t start = 0;
  if (!ParseStart(text.get(), &start)) return Unseen("/proc/PID/stat has no start time");
  return start;
}

// Whether /proc counts processes as the kernel counts them for us. A container may have its host's.
Status CheckProc() {
  constexpr char kOurs[] = "\nNSpid:";
  ProcText text;
  FUSEWIRE_TRY(text.Read(AT_FDCWD, "/proc/self/status"));
  // Our number in each pid namespace, from that of /proc down to our own.
  const char* at = std::strstr(text.get(), kOurs);
  uint64_t first = 0, second = 0;
  if (at != nullptr) at += std::strlen(kOurs);
  if (at != nullptr && TakeNumber(&at, &first) && !TakeNumber(&at, &second)) return Status::Ok();
  return Unseen("/proc is that of another pid namespace");
}

// Whether no user is shown to us under the number that stands for all users without one.
bool UsersHaveNumbers() {
  constexpr uint64_t kAllUsers = UINT32_MAX;
  ProcText text;
  if (!text.Read(AT_FDCWD, "/proc/self/uid_map").ok()) return false;
  uint64_t inside = 0, outside = 0, count = 0;
  for (const char* at = text.get(); TakeNumber(&at, &inside) && TakeNumber(&at, &outside) && TakeNumber(&at, &count);
       ++at) {
    if (count == kAllUsers) return true;
    if (*at == '\0') break;
  }
  return false;
}

uid_t NoNumber() {
  constexpr uid_t kKernelsDefault = 65534;
  ProcText text;
  if (!text.Read(AT_FDCWD, "/proc/sys/kernel/overflowuid").ok()) return kKernelsDefault;
  const char* at = text.get();
  uint64_t user = 0;
  return TakeNumber(&at, &user) ? static_cast<uid_t>(user) : kKernelsDefault;
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

// The start time of a process that is one of our own. Its folder never leads to another process, even if that gets its
// number.
Result<uint64_t> StartOfOwn(pid_t pid) {
  const Fd own(open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.valid()) return UnseenFor("open of /proc/self", errno);
  const Fd folder(open(("/proc/" + std::to_string(pid)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return UnseenFor("open of /proc/PID", errno);
  const Namespaces ours = FUSEWIRE_TRY(NamespacesOf(own.get()));
  const Namespaces theirs = FUSEWIRE_TRY(NamespacesOf(folder.get()));
  const bool same_users = ours.user == theirs.user, same_pids = ours.pid == theirs.pid;
  if (same_users && same_pids) return StartOf(folder.get());
  return Status::Refused(std::string("the process at the other end is in another ") + (same_users ? "pid" : "user") +
                         " namespace, and so in another container")
      .Next(kOneContainer);
}

const uint64_t* Probe() {
  static const uint64_t word = SystemRandom64();
  return &word;
}

// What process_vm_readv returns.
ssize_t Read(pid_t pid, uint64_t address, Bytes to) {
  const iovec into = {to.data, to.size};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the other process's address
  const iovec from = {reinterpret_cast<void*>(address), to.size};
  return process_vm_readv(pid, &into, 1, &from, 1, 0);
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
  PeerProcess process;
  process.pid_ = peer.pid;
  process.start_ = FUSEWIRE_TRY(StartOfOwn(peer.pid));
  return process;
}

Status PeerProcess::CheckSender(pid_t sender) const {
  if (sender != pid_) {
    return Status::Refused("process " + std::to_string(pid_) + " began the meeting, and process " +
                           std::to_string(sender) + " answers")
        .Next("let the process that connects or listens also finish the meeting; until then the tasks use TCP");
  }
  const Result<uint64_t> start = StartOfOwn(pid_);
  if (!start.ok() || start.value() == start_) return start.status();
  return Status::Refused("process " + std::to_string(pid_) + " has ended, and another one has its number")
      .Next("start the task again; until then the tasks use TCP");
}

// ---- its memory ----

uint64_t ProbeAddress() { return reinterpret_cast<uint64_t>(Probe()); }
uint64_t ProbeWord() { return *Probe(); }

bool CanRead(pid_t pid, uint64_t address, uint64_t word) {
  if (pid <= 0) return false;
  uint64_t found = 0;
  return Read(pid, address, Bytes(&found, sizeof(found))) == static_cast<ssize_t>(sizeof(found)) && found == word;
}

bool CanReadOrLog(pid_t pid, uint64_t address, uint64_t word) {
  if (CanRead(pid, address, word)) return true;
  const int error = errno;
  if (pid > 0 && error == ESRCH) return false;  // it has ended
  static std::atomic<bool> logged{false};
  if (logged.exchange(true, std::memory_order_relaxed)) return false;
  FUSEWIRE_LOG(
      kWarn,
      "large tensors between processes of this machine are copied twice instead of once: this process may not read "
      "the memory of process %d (process_vm_readv: %s)",
      static_cast<int>(pid), pid <= 0 ? "it is in a pid namespace that we cannot see" : std::strerror(error));
  return false;
}

Status ReadOthers(pid_t pid, uint64_t address, Bytes to) {
  for (size_t done = 0; done < to.size;) {
    const ssize_t got = Read(pid, address + done, Bytes(to.data + done, to.size - done));
    if (got < 0) return Status::FromErrno(Code::kUnavailable, "process_vm_readv", errno);
    if (got == 0) return Status::Unavailable("the address is not in that process's memory");
    done += static_cast<size_t>(got);
  }
  return Status::Ok();
}

pid_t ProcessOf(int pidfd) {
  std::ifstream lines("/proc/self/fdinfo/" + std::to_string(pidfd));
  std::string word;
  while (lines >> word) {
    pid_t pid = 0;
    if (word == "Pid:" && lines >> pid && pid > 0) return pid;
  }
  return 0;
}

}  // namespace fusewire::transport
