// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task that tests of faults start, stop and kill. See peer.h.
#include "peer.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/rpc/rpc.h"
#include "fusewire/task/acceptor.h"

namespace fusewire::faults {
namespace {

class Settings {
 public:
  Settings(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      std::string word = argv[i];
      size_t equals = word.find('=');
      if (word.rfind("--", 0) == 0 && equals != std::string::npos)
        values_[word.substr(2, equals - 2)] = word.substr(equals + 1);
    }
  }
  std::string Text(const std::string& key) const {
    auto found = values_.find(key);
    return found == values_.end() ? std::string() : found->second;
  }
  int64_t Number(const std::string& key, int64_t otherwise) const {
    std::string text = Text(key);
    return text.empty() ? otherwise : std::atoll(text.c_str());
  }

 private:
  std::map<std::string, std::string> values_;
};

// Does things later, on a thread of its own; what is left is dropped at the end.
class Later {
 public:
  Later() : thread_([this] { Run(); }) {}
  ~Later() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void Do(int64_t delay_ns, UniqueFunction<void()> what) {
    std::lock_guard<std::mutex> lock(mutex_);
    work_.emplace(Clock::Real()->NowNs() + delay_ns, std::move(what));
    changed_.notify_all();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!closing_) {
      if (work_.empty()) {
        changed_.wait(lock);
        continue;
      }
      int64_t left_ns = work_.begin()->first - Clock::Real()->NowNs();
      if (left_ns > 0) {
        changed_.wait_for(lock, std::chrono::nanoseconds(left_ns));
        continue;
      }
      UniqueFunction<void()> what = std::move(work_.begin()->second);
      work_.erase(work_.begin());
      lock.unlock();
      what();
      what = nullptr;
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<int64_t, UniqueFunction<void()>> work_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses all of them
};

// A call that counts how it ended.
struct Tally {
  std::atomic<uint64_t> ended{0}, ok{0}, twice{0};
  uint64_t started = 0;
};

class TalliedCall final : public rpc::Call {
 public:
  TalliedCall(uint16_t method_in, std::string head_in, Tally* tally)
      : Call(method_in), head_(std::move(head_in)), tally_(tally) {
    head = head_;
  }

 private:
  void OnDone(Status status) override {
    if (dones_++ > 0) tally_->twice.fetch_add(1);
    if (status.ok()) tally_->ok.fetch_add(1);
    tally_->ended.fetch_add(1);
  }
  const std::string head_;
  Tally* const tally_;
  std::atomic<int> dones_{0};
};

class Peer {
 public:
  explicit Peer(const Settings& settings) : settings_(settings) {}
  Status Open();
  uint16_t port() const { return server_->address().port; }
  std::string Do(const std::string& command);
  std::string Close(int64_t grace_ns);

 private:
  std::vector<rpc::Method> Methods();
  std::string Stats();
  std::string Dones() const;
  Status Flood(std::istringstream* words);
  void Journal(const std::string& head);

  const Settings& settings_;
  int journal_ = -1;
  std::atomic<uint64_t> runs_{0};
  std::mutex mutex_;
  std::vector<rpc::Reply> held_;
  Tally tally_;
  std::deque<TalliedCall> calls_;
  std::unique_ptr<task::Task> task_;
  std::unique_ptr<Later> later_;
  std::unique_ptr<rpc::Server> server_;
  std::vector<std::unique_ptr<rpc::Client>> clients_;
};

Status Peer::Open() {
  task::TaskOptions options;
  options.wire = WireUnderTest();
  options.pipe.name = settings_.Text("name");
  if (!settings_.Text("cluster").empty()) options.pipe.cluster = settings_.Text("cluster");
  options.pipe.secret = settings_.Text("secret");
  options.pipe.silent_ns_max = settings_.Number("silent_ms", 20000) * kMillisecondNs;
  options.pipe.hello_ns_max = settings_.Number("hello_ms", 5000) * kMillisecondNs;
  options.pipe.window_bytes = static_cast<uint64_t>(settings_.Number("window_bytes", 256 * 1024));
  options.pipe.queued_bytes_max = static_cast<uint64_t>(settings_.Number("queued_bytes", 64 << 20));
  options.pool.reactors = static_cast<int>(settings_.Number("reactors", 0));
  if (const std::string folder = settings_.Text("tls"); !folder.empty()) {
    options.protection.tls.certificate = folder + "/task.crt";
    options.protection.tls.key = folder + "/task.key";
    options.protection.tls.authorities = folder + "/ca.crt";
  }
  if (const int64_t fds = settings_.Number("fds", 0); fds > 0) {
    const rlimit limit = {static_cast<rlim_t>(fds) / 4, static_cast<rlim_t>(fds)};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return Status::FromErrno(Code::kInvalid, "limit descriptors", errno);
  }
  if (!settings_.Text("wire").empty())
    FUSEWIRE_CHECK(task::TransportChoiceOf(settings_.Text("wire").c_str(), &options.wire));
  if (!settings_.Text("journal").empty()) {
    journal_ = open(settings_.Text("journal").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (journal_ < 0) return Status::FromErrno(Code::kInvalid, "open the journal", errno);
  }
  auto task = task::Task::Start(std::move(options));
  if (!task.ok()) return task.status();
  task_ = std::move(task).value();
  later_ = std::make_unique<Later>();
  std::string host = settings_.Text("host").empty() ? "127.0.0.1" : settings_.Text("host");
  auto server = rpc::Server::Open(*task_, {host, static_cast<uint16_t>(settings_.Number("port", 0))}, Methods());
  if (!server.ok()) return server.status();
  server_ = std::move(server).value();
  return Status::Ok();
}

rpc::Method MakeMethod(uint16_t number, const char* name, UniqueFunction<void(rpc::Request, rpc::Reply)> handle) {
  rpc::Method method;
  method.number = number;
  method.name = name;
  method.handle = std::move(handle);
  return method;
}

// One write for each line: lines of two incarnations do not mix.
void Peer::Journal(const std::string& head) {
  std::string line = std::to_string(getpid()) + " " + head + "\n";
  ssize_t written = write(journal_, line.data(), line.size());
  (void)written;
}

std::vector<rpc::Method> Peer::Methods() {
  std::vector<rpc::Method> methods;
  methods.push_back(MakeMethod(kEcho, "echo", [this](rpc::Request request, rpc::Reply reply) {
    runs_.fetch_add(1);
    reply.Send(Status::Ok(), request.head, std::move(request.body));
  }));
  methods.push_back(MakeMethod(kSink, "sink", [](rpc::Request request, rpc::Reply reply) {
    reply.Send(Status::Ok(), std::to_string(TotalBytes(request.body)));
  }));
  methods.push_back(MakeMethod(kSlow, "slow", [this](rpc::Request request, rpc::Reply reply) {
    int64_t delay_ns = std::atoll(request.head.ToString().c_str()) * kMillisecondNs;
    later_->Do(delay_ns, [reply = std::move(reply)]() mutable { reply.Send(Status::Ok()); });
  }));
  methods.push_back(MakeMethod(kProduce, "produce", [](rpc::Request request, rpc::Reply reply) {
    Buffers body;
    body.push_back(Buffer::TryAllocate(static_cast<size_t>(std::atoll(request.head.ToString().c_str()))));
    std::fill_n(body[0].bytes().data, body[0].size(), uint8_t{0x5a});
    reply.Send(Status::Ok(), ConstBytes(), std::move(body));
  }));
  methods.push_back(MakeMethod(kHold, "hold", [this](rpc::Request, rpc::Reply reply) {
    runs_.fetch_add(1);
    std::lock_guard<std::mutex> lock(mutex_);
    held_.push_back(std::move(reply));
  }));
  methods.push_back(MakeMethod(kJournal, "journal", [this](rpc::Request request, rpc::Reply reply) {
    Journal(request.head.ToString());
    later_->Do(kMillisecondNs, [reply = std::move(reply)]() mutable { reply.Send(Status::Ok()); });
  }));
  return methods;
}

std::string Peer::Stats() {
  task::AcceptorStats stats = task_->acceptor().Snapshot();
  std::ostringstream out;
  out << "accepted " << stats.accepted << " greeted " << stats.greeted << " turned_away " << stats.turned_away
      << " superseded " << stats.superseded << " open " << stats.open << " in_flight " << server_->calls_in_flight()
      << " runs " << runs_.load();
  return out.str();
}

std::string Peer::Dones() const {
  std::ostringstream out;
  out << "started " << tally_.started << " ended " << tally_.ended.load() << " ok " << tally_.ok.load() << " twice "
      << tally_.twice.load();
  return out.str();
}

Status Peer::Flood(std::istringstream* words) {
  std::string to, head;
  int links = 0, count = 0;
  uint16_t method = 0;
  *words >> to >> links >> method >> count >> head;
  Result<transport::Address> address = transport::Address::Parse(to);
  if (!address.ok()) return address.status();
  for (int i = 0; i < links; ++i) {
    clients_.push_back(std::make_unique<rpc::Client>(*task_, address.value()));
    for (int j = 0; j < count; ++j) {
      calls_.emplace_back(method, head, &tally_);
      ++tally_.started;
      clients_.back()->Start(&calls_.back());
    }
  }
  return Status::Ok();
}

std::string Peer::Do(const std::string& command) {
  std::istringstream words(command);
  std::string verb;
  words >> verb;
  if (verb == "stats") return Stats();
  if (verb == "dones") return Dones();
  if (verb == "flood") {
    Status status = Flood(&words);
    return status.ok() ? "flooding" : status.ToString();
  }
  return "no such command: " + command;
}

std::string Peer::Close(int64_t grace_ns) {
  clients_.clear();
  server_->Close(grace_ns);
  server_.reset();
  later_.reset();
  held_.clear();
  task_.reset();
  if (journal_ >= 0) close(journal_);
  return Dones();
}

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// The rest of the program runs in a child, which is the first process of the new namespace.
Status BeginPidNamespace() {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return Status::FromErrno(Code::kInvalid, "unshare", errno);
  const pid_t child = fork();
  if (child < 0) return Status::FromErrno(Code::kInvalid, "fork", errno);
  if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || mount("proc", "/proc", "proc", 0, nullptr) != 0)
    return Status::FromErrno(Code::kInvalid, "mount", errno);
  return Status::Ok();
}

Status StandApart(const std::string& how) {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (how == "pid") return BeginPidNamespace();
  if (how != "user" && how != "strangers") return how.empty() ? Status::Ok() : Status::Invalid("no such way: " + how);
  if (unshare(CLONE_NEWUSER) != 0) return Status::FromErrno(Code::kInvalid, "unshare", errno);
  if (how == "strangers") return Status::Ok();
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/gid_map") << group << " " << group << " 1";
  std::ofstream("/proc/self/uid_map") << user << " " << user << " 1";
  return std::to_string(geteuid()) == user ? Status::Ok() : Status::Invalid("the user has no number there");
}

int Main(const Settings& settings) {
  // Ends with the test, also if the test crashes.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (settings.Number("parent", getppid()) != getppid()) return 4;
  const Status apart = StandApart(settings.Text("apart"));
  if (!apart.ok()) {
    Say("failed: apart: " + apart.ToString());
    return 3;
  }
  Peer peer(settings);
  Status opened = peer.Open();
  if (!opened.ok()) {
    Say("failed: " + opened.ToString());
    return 3;
  }
  Say("ready " + std::to_string(peer.port()));
  int64_t grace_ms = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.rfind("quit", 0) == 0) {
      grace_ms = std::atoll(line.c_str() + 4);
      break;
    }
    Say(peer.Do(line));
  }
  Say(peer.Close(grace_ms * kMillisecondNs));
  return 0;
}

}  // namespace
}  // namespace fusewire::faults

int main(int argc, char** argv) {
  fusewire::faults::Settings settings(argc, argv);
  return fusewire::faults::Main(settings);
}
