// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace fusewire::demo {

namespace {

constexpr int kReadyFd = 3;

}  // namespace

Result<ChildProcess> ChildProcess::Start(const char* what, uint16_t port) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status::FromErrno(Code::kOverloaded, "pipe2", errno).Phase("start a process");
  pid_t parent = getpid();
  std::string number = std::to_string(port);
  pid_t pid = fork();
  if (pid < 0) return Status::FromErrno(Code::kOverloaded, "fork", errno).Phase("start a process");
  if (pid == 0) {
    // Only async-signal-safe calls between fork and exec: other threads may have been stopped while holding locks.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    if (ends[1] == kReadyFd) {
      fcntl(kReadyFd, F_SETFD, 0);
    } else {
      dup2(ends[1], kReadyFd);
    }
    execl("/proc/self/exe", "fusewire_demo", "--serve", what, number.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  pollfd ready = {ends[0], POLLIN, 0};
  uint16_t taken = 0;
  bool heard = poll(&ready, 1, 10000) == 1 && read(ends[0], &taken, sizeof(taken)) == sizeof(taken);
  close(ends[0]);
  ChildProcess child(pid, taken);
  if (!heard) return Status::Timeout("the child process did not start to serve within 10 s").Phase("start a process");
  return child;
}

void ChildProcess::Ready(uint16_t port) {
  ssize_t written = write(kReadyFd, &port, sizeof(port));
  (void)written;
  close(kReadyFd);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)), port_(other.port_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    Kill();
    pid_ = std::exchange(other.pid_, -1);
    port_ = other.port_;
  }
  return *this;
}

void ChildProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace fusewire::demo
