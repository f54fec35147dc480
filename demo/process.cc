// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace fusewire {
namespace demo {

Result<ChildProcess> ChildProcess::Start(const Serve& serve, uint16_t port) {
  int ends[2];
  if (pipe(ends) != 0) return Status::FromErrno(Code::kOverloaded, "pipe", errno).Phase("start a process");
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0) return Status::FromErrno(Code::kOverloaded, "fork", errno).Phase("start a process");
  if (pid == 0) {
    close(ends[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    serve(port, [&ends](uint16_t taken) {
      ssize_t written = write(ends[1], &taken, sizeof(taken));
      (void)written;
    });
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

}  // namespace demo
}  // namespace fusewire
