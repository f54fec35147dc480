// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "peer_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/reactor/home_test.h"
#include "fusewire/reactor/reactor.h"

extern char** environ;

namespace fusewire::faults {
namespace {

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string OwnHost(int which) {
  int pid = getpid();
  return "127." + std::to_string(16 * (which + 1) + (pid >> 16) % 16) + "." + std::to_string((pid >> 8) & 255) + "." +
         std::to_string(pid & 255);
}

PeerProcess::PeerProcess(const std::string& arguments) : host_(OwnHost()) {
  std::istringstream words(arguments);
  for (std::string word; words >> word;) {
    if (word.rfind("host=", 0) == 0) host_ = word.substr(5);
  }
  Spawn("host=" + host_ + " " + arguments);
  first_words_ = Listen(kPatienceNs);
  if (first_words_.rfind("ready ", 0) == 0) port_ = static_cast<uint16_t>(std::atoi(first_words_.c_str() + 6));
}

PeerProcess::~PeerProcess() {
  Kill();
  for (int fd : {to_, from_, log_}) close(fd);
}

void PeerProcess::Spawn(const std::string& arguments) {
  std::vector<std::string> words = {FUSEWIRE_FAULTS_PEER, "--parent=" + std::to_string(getpid())};
  std::istringstream given(arguments);
  for (std::string word; given >> word;) words.push_back("--" + word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int in[2], out[2];
  FUSEWIRE_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) == 0);  // for MSG_NOSIGNAL
  FUSEWIRE_CHECK(pipe2(out, O_CLOEXEC) == 0);
  log_ = memfd_create("log", MFD_CLOEXEC);
  FUSEWIRE_CHECK(log_ >= 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, log_, STDERR_FILENO);
  FUSEWIRE_CHECK(posix_spawn(&pid_, FUSEWIRE_FAULTS_PEER, &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

std::string PeerProcess::Listen(int64_t limit_ns) {
  int64_t end_ns = Clock::Real()->NowNs() + limit_ns;
  for (;;) {
    size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    int64_t left_ms = (end_ns - Clock::Real()->NowNs()) / kMillisecondNs;
    pollfd readable = {from_, POLLIN, 0};
    if (left_ms <= 0 || poll(&readable, 1, static_cast<int>(left_ms)) <= 0) return std::string();
    char bytes[4096];
    ssize_t got = read(from_, bytes, sizeof(bytes));
    if (got <= 0) return std::string();
    unread_.append(bytes, static_cast<size_t>(got));
  }
}

bool PeerProcess::Tell(const std::string& command) const {
  std::string line = command + "\n";
  return send(to_, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
}

std::string PeerProcess::Ask(const std::string& command, int64_t limit_ns) {
  return Tell(command) ? Listen(limit_ns) : std::string();
}

Numbers PeerProcess::AskNumbers(const std::string& command, int64_t limit_ns) {
  std::istringstream words(Ask(command, limit_ns));
  Numbers numbers;
  std::string name;
  int64_t value = 0;
  while (words >> name >> value) numbers[name] = value;
  EXPECT_FALSE(numbers.empty()) << "no answer to " << command << "; its log:\n" << Log();
  return numbers;
}

void PeerProcess::Signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

void PeerProcess::Kill() {
  if (pid_ <= 0) return;
  Signal(SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void PeerProcess::Stop() const {
  Signal(SIGSTOP);
  int status = 0;
  FUSEWIRE_CHECK(waitpid(pid_, &status, WUNTRACED) == pid_);
  FUSEWIRE_CHECK(WIFSTOPPED(status));
}

void PeerProcess::Continue() const { Signal(SIGCONT); }

int PeerProcess::WaitForExit(int64_t limit_ns) {
  int status = 0;
  bool ended = reactor::Eventually([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, limit_ns);
  if (!ended) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string PeerProcess::Log() const {
  std::string text;
  char bytes[4096];
  for (;;) {
    ssize_t got = pread(log_, bytes, sizeof(bytes), static_cast<off_t>(text.size()));
    if (got <= 0) return text;
    text.append(bytes, static_cast<size_t>(got));
  }
}

int PeerProcess::LogLines(const std::string& containing) const {
  std::istringstream lines(Log());
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find(containing) != std::string::npos) ++count;
  }
  return count;
}

int64_t PeerProcess::RssBytes() const {
  std::istringstream words(ReadWhole("/proc/" + std::to_string(pid_) + "/statm"));
  int64_t total = 0, resident = 0;
  words >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t PeerProcess::CpuNs() const {
  clockid_t clock;
  timespec used = {};
  FUSEWIRE_CHECK(clock_getcpuclockid(pid_, &clock) == 0);
  FUSEWIRE_CHECK(clock_gettime(clock, &used) == 0);
  return used.tv_sec * kSecondNs + used.tv_nsec;
}

int64_t PeerProcess::Threads() const {
  std::filesystem::directory_iterator all("/proc/" + std::to_string(pid_) + "/task");
  return std::distance(begin(all), end(all));
}

int64_t PeerProcess::Fds() const {
  std::filesystem::directory_iterator all("/proc/" + std::to_string(pid_) + "/fd");
  return std::distance(begin(all), end(all));
}

void PeerProcess::LimitFds(uint64_t fds_max) const {
  rlimit limit = {fds_max, fds_max};
  rlimit old;
  FUSEWIRE_CHECK(prlimit(pid_, RLIMIT_NOFILE, nullptr, &old) == 0);
  limit.rlim_max = old.rlim_max;
  FUSEWIRE_CHECK(prlimit(pid_, RLIMIT_NOFILE, &limit, nullptr) == 0);
}

}  // namespace fusewire::faults
