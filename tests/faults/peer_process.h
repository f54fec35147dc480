// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A peer in a process of its own, which ends with the test at the latest.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusewire/base/clock.h"
#include "fusewire/transport/transport.h"

namespace fusewire::faults {

// A limit of time in a build that is slower.
constexpr int64_t Within(int64_t limit_ns) { return limit_ns * FUSEWIRE_TEST_SLOWDOWN; }
// For what is not measured, but must end.
constexpr int64_t kPatienceNs = Within(20 * kSecondNs);
// The time in which a call must end if the kernel knows that the peer is dead.
constexpr int64_t kToldNs = Within(1 * kSecondNs);

using Numbers = std::map<std::string, int64_t>;

class PeerProcess {
 public:
  // Starts it and waits until it is ready or has failed. `arguments` of peer.h: "name=ps:0 silent_ms=500". By default
  // it listens where no other test does.
  explicit PeerProcess(const std::string& arguments = "");
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  bool ready() const { return port_ != 0; }
  const std::string& first_words() const { return first_words_; }
  transport::Address address() const { return {host_, port_}; }
  pid_t pid() const { return pid_; }

  void Signal(int number) const;
  // SIGKILL: it can't send a goodbye. Returns when it has ended.
  void Kill();
  // Stopped when this returns.
  void Stop() const;
  void Continue() const;
  // The code, or -1 if it has not ended by itself in time.
  int WaitForExit(int64_t limit_ns);

  // One command and the line that answers it; empty if none comes in time.
  bool Tell(const std::string& command) const;
  std::string Listen(int64_t limit_ns);
  // One command and its answer.
  std::string Ask(const std::string& command, int64_t limit_ns = kPatienceNs);
  // The answer as numbers by their names.
  Numbers AskNumbers(const std::string& command, int64_t limit_ns = kPatienceNs);
  // The text of its log.
  std::string Log() const;
  int LogLines(const std::string& containing) const;

  // Its state in /proc.
  int64_t RssBytes() const;
  int64_t CpuNs() const;
  int64_t Threads() const;
  int64_t Fds() const;
  // How many descriptors it may have from now on.
  void LimitFds(uint64_t fds_max) const;

 private:
  void Spawn(const std::string& arguments);

  std::string host_;
  uint16_t port_ = 0;
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1, log_ = -1;
  std::string unread_;
  std::string first_words_;
};

// An address of this machine on which no other process listens: `which` of a few.
std::string OwnHost(int which = 0);

}  // namespace fusewire::faults
