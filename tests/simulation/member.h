// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One member of the cluster over all of its incarnations: its task, its server, its clients, the answers that it owes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "run.h"

namespace fusewire::simulation {

class Task;

// Bytes of a request that a task holds, as long as its peer waits for the answer.
class Held {
 public:
  Held(Task* task, uint64_t bytes);
  ~Held() { LetGo(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  void LetGo();

 private:
  Task* const task_;
  uint64_t bytes_;
};

// An answer that a handler owes.
struct Owed {
  const Question* question = nullptr;
  rpc::Reply reply;
  Buffers body;  // of the request, as long as the handler works on it
  std::unique_ptr<rpc::RequestSink> sink;
  std::unique_ptr<reactor::Timer> timer;
  std::unique_ptr<Held> held;
  size_t next_part = 0;
};

// One incarnation of a member.
class Task {
 public:
  Task(Run* run, int index, const std::string& host, reactor::Reactor* home, uint64_t incarnation);
  ~Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void OpenServer();
  void CloseServer();
  // Made when it is first wanted.
  rpc::Client& ClientOf(int peer, int lane, std::shared_ptr<ClientLife>* life);
  void CloseClients();
  // All that this task holds of other tasks' messages: counted, and compared with what docs/buffers.md promises.
  void Hold(uint64_t bytes);
  void LetGo(uint64_t bytes);
  // Reads all counters.
  void Look();
  // At the end of a quiet time: nothing is left of any call.
  void CheckIdle();

  Owed* Owe(const Question& question, rpc::Request request, rpc::Reply reply);
  Owed* FindOwed(int number);
  // The answer has been sent, or will never be.
  void Forget(Owed* gone);

  Run& run;
  const int index;
  const std::string host;
  const uint64_t incarnation;
  reactor::Reactor* const home;
  bool paused = false;
  std::unique_ptr<task::Task> task;
  std::unique_ptr<rpc::Server> server;
  std::list<Owed> owed;

 private:
  struct Link {
    std::shared_ptr<ClientLife> life;
    std::unique_ptr<rpc::Client> client;
  };
  uint64_t HoldMax() const;

  std::map<std::pair<int, int>, Link> links_;
  bool closing_clients_ = false;
  uint64_t held_bytes_ = 0;
};

class Member {
 public:
  Member(Run* run, int index);
  ~Member();

  // The incarnation that bears the name; null while there is none.
  Task* task() { return task_.get(); }
  // Null if that one is gone.
  Task* TaskOf(uint64_t incarnation);
  bool runs() const { return task_ != nullptr && !task_->paused; }
  bool has_zombie() const { return zombie_ != nullptr; }
  // Its place in the network at the moment.
  const std::string& host() const { return host_; }
  static std::string AliasOf(int index) { return "n" + std::to_string(index); }

  void Kill(transport::LoopbackDeath death);
  void Restart(bool elsewhere);
  void Pause();
  void Resume();
  // The present incarnation is stopped, and another one takes its name.
  void BeReplaced();
  void ResumeZombie();
  void KillZombie();
  // An orderly end.
  void End();
  // When it last stood still.
  int64_t paused_until_ns() const { return paused_until_ns_; }

 private:
  void Begin(reactor::Reactor* home);
  void TakeDown(std::unique_ptr<Task> task);

  Run& run_;
  const int index_;
  uint64_t incarnations_ = 0;
  int moves_ = 0;
  std::string host_;
  int64_t paused_until_ns_ = 0;
  std::unique_ptr<Task> task_, zombie_;
  Task* dying_ = nullptr;
};

}  // namespace fusewire::simulation
