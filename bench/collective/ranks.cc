// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/collective/ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <sstream>
#include <thread>
#include <vector>

#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kMeetingMax(20);
// All sizes of eight ranks on two processors take a minute or two.
constexpr seconds kLifeMax(900);

template <typename Ready>
void AwaitOnBoard(const char* what, const Ready& ready) {
  const Clock::time_point deadline = Clock::now() + kMeetingMax;
  while (!ready()) {
    if (Clock::now() > deadline) Die(std::string(what) + ": not within 20 s");
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void EndAll(const std::vector<pid_t>& children) {
  for (const pid_t child : children) kill(child, SIGKILL);
}

}  // namespace

Board* Board::Make() {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) DieOfErrno("mmap of the ranks' board");
  return ::new (memory) Board();
}

uint32_t Board::Await(int rank) const {
  AwaitOnBoard("a rank's number", [&] { return numbers_[rank].load() != 0; });
  return numbers_[rank].load();
}

void Board::Leave(int ranks) {
  left_.fetch_add(1);
  AwaitOnBoard("the last rank", [&] { return left_.load() >= ranks; });
}

int ForkRanks(int ranks, const std::function<void(int rank)>& life) {
  if (ranks < 1 || ranks > kRanksMax) Die("--ranks is 1 to " + std::to_string(kRanksMax));
  // We wait for a child's end with a deadline: SIGCHLD is blocked and received by sigtimedwait.
  sigset_t ended, before;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, &before);
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) {
      EndAll(children);
      DieOfErrno("fork");
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) std::_Exit(1);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      life(rank);
      std::exit(0);
    }
    children.push_back(child);
  }
  const Clock::time_point deadline = Clock::now() + kLifeMax;
  while (!children.empty()) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WNOHANG);
    if (child > 0) {
      std::erase(children, child);
      if (status == 0) continue;
      EndAll(children);
      return 1;
    }
    if (Clock::now() > deadline) {
      EndAll(children);
      Die("the ranks have not ended");
    }
    const timespec second{1, 0};
    sigtimedwait(&ended, nullptr, &second);
  }
  return 0;
}

std::vector<std::string> EnterHost(const std::string& hosts, int rank, int ranks) {
  if (hosts.empty()) return std::vector<std::string>(static_cast<size_t>(ranks), "127.0.0.1");
  std::vector<std::string> addresses;
  std::stringstream list(hosts);
  for (std::string host; std::getline(list, host, ',');) {
    const size_t at = host.find('@');
    if (at == std::string::npos) Die("--hosts: " + host + " is not FILE@ADDRESS");
    if (static_cast<int>(addresses.size()) == rank) {
      const int network = open(host.substr(0, at).c_str(), O_RDONLY | O_CLOEXEC);
      if (network < 0 || setns(network, CLONE_NEWNET) != 0) DieOfErrno("entering the network of " + host);
      close(network);
    }
    addresses.push_back(host.substr(at + 1));
  }
  if (static_cast<int>(addresses.size()) != ranks) Die("--hosts names " + std::to_string(addresses.size()) + " hosts");
  return addresses;
}

bool BindRank(int rank, int ranks) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < ranks) return false;
  int before = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || before++ < rank) continue;
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    return sched_setaffinity(0, sizeof(mine), &mine) == 0;
  }
  return false;
}

}  // namespace fusewire::bench
