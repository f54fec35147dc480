// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/others_memory.h"

#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "fusewire/base/log.h"
#include "fusewire/base/random.h"

namespace fusewire::transport {
namespace {

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
