// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What this process shows of itself: its recorder, its tasks, and the status port that serves both. One for a process,
// from its first server until its end; a child of fork() has none until it starts its own.
// Home: any thread. Owns: the recorder, the port, and the file that names the port. Fails: Start, with the reason; the
// process then goes on, recorded but without a port.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/mutex.h"
#include "fusewire/base/status.h"
#include "fusewire/observe/history.h"
#include "fusewire/observe/port.h"
#include "fusewire/observe/process.h"
#include "fusewire/observe/recorder.h"
#include "fusewire/observe/status_page.h"

namespace fusewire::observe {

// Where a status port is. "off", "loopback", "address:port" (port 0: any), or "[address]:port".
struct Place {
  bool is_off = false;
  bool is_loopback = true;
  std::string host = "127.0.0.1";
  uint16_t port = 0;
};
// kInvalid: `place` is not valid. kRefused: beyond loopback, anyone could query it, and there is no secret that
// a client could prove to know.
Result<Place> ReadPlace(const std::string& text, const std::string& secret);

// Starts the watch of the process at this place, unless it is off or has begun already. kOk: it answers, or is off;
// with another status it has no port, or is found only by its port. runtime_folder: XDG_RUNTIME_DIR. `numbers`: any
// thread, without waiting.
Status StartWatch(const Place& place, const std::string& secret, const std::string& runtime_folder,
                  std::function<std::vector<Number>()> numbers);

class Watch {
 public:
  struct Options {
    std::string version;
    std::string host = "127.0.0.1";
    uint16_t port = 0;
    std::string secret;              // asked for beyond loopback
    std::string runtime, temporary;  // where the file is: folder.h
    // Any thread, without waiting.
    std::function<std::vector<Number>()> numbers;

    // `runtime_folder`: XDG_RUNTIME_DIR.
    Options(const Place& place, const std::string& secret_in, const std::string& runtime_folder);
    Options() = default;
  };
  // Any thread, as all below. The first call makes it; if `failed` is not ok, without a port.
  static Watch& Start(Options options, Status* failed);
  // Null: not started.
  static Watch* Get();

  // A task has begun to serve, perhaps again. Its file is written again.
  void AddTask(TaskFacts task);
  bool HasTask(const std::string& task);
  // It no longer serves. Without any task, there is no file.
  void RemoveTask(const std::string& task);
  // The task's cluster has changed.
  void SetMembers(const std::string& task, Members members);
  // The process is about to end.
  void Leave();
  // 0: none.
  uint16_t port() const { return port_ == nullptr ? 0 : port_->port(); }
  Answer AnswerTo(const Request& request);

 private:
  explicit Watch(Options options);
  Status OpenPort();
  std::vector<std::string> OwnHosts();
  Facts ReadFacts();
  void WriteFile();
  std::string Entry();
  void Forget(const std::string& task) FUSEWIRE_REQUIRES(mutex_);
  // shared_ptr: as in TaskFacts.
  std::shared_ptr<const Members> Shared(std::shared_ptr<const Members> members) const FUSEWIRE_REQUIRES(mutex_);
  static void AfterFork();

  const Options options_;
  const pid_t pid_;
  const uint64_t start_;
  const std::string machine_, pid_space_;
  const int64_t begun_ns_;
  Recorder recorder_;
  std::string folder_;  // empty: none
  int number_ = 0;      // of the file: a process has one for each library that shows it
  History history_;     // of the port's thread
  std::unique_ptr<Port> port_;
  Mutex file_mutex_;  // one thread writes the file; never held by the port's
  Mutex mutex_;
  std::vector<TaskFacts> tasks_ FUSEWIRE_GUARDED_BY(mutex_);
};

}  // namespace fusewire::observe
