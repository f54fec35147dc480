// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Line is the way to one incarnation of one peer's data port, and the place where receives gather: all that an
// executor starts in one go travel in one question, and their answers stream back.
<<<<<<< HEAD:src/fusewire/tf/peer/line.h
// Home: one reactor of its task. Owns: the Client; not the receives. Fails: with the pipe; it is then replaced.
#ifndef FUSEWIRE_TF_PEER_LINE_H_
#define FUSEWIRE_TF_PEER_LINE_H_
=======
// Home: one reactor of its task. Owns: the Client; not the receives. Fails: with the pipe; it is then replaced.
#ifndef FUSEWIRE_TF_DATA_LINE_H_
#define FUSEWIRE_TF_DATA_LINE_H_
>>>>>>> task18b:src/fusewire/tf/data/line.h

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/framework/rendezvous.h>
#include "fusewire/base/mailbox.h"
#include "fusewire/base/mutex.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/peer/keys.h"

namespace fusewire {
namespace tf {

class Line;
// shared_ptr: a line that broke is replaced at once, and what is under way on it ends in its own time.
using LinePtr = std::shared_ptr<Line>;

// One tensor that somebody waits for. Reference-counted: its question, and an abort under way, hold it.
class Recv : public Mail {
 public:
  Recv(LinePtr line, int64_t step, std::string key, TensorPlace place);
  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref();

  // Any thread, once.
  void Go();
  // Any thread, also before Go. OnEnd follows with `why`, unless the tensor was faster.
  void Abort(const TfStatus& why);

  const LinePtr& line() const { return line_; }
  const std::string& key() const { return key_; }
  int64_t step() const { return step_; }

 protected:
  // At home. Its content begins to come in; it may yet be lost.
  virtual void OnArrival() {}
  // At home or on a device's own thread; exactly once after Go. The tensor is valid during the call.
  virtual void OnEnd(const TfStatus& status, const tensorflow::Tensor& tensor, bool is_dead) = 0;
  ~Recv() override = default;

 private:
  friend class Line;
  friend class ReceiveCall;
  struct AbortMail final : Mail {
    explicit AbortMail(Recv* recv_in, TfStatus why_in) : recv(recv_in), why(std::move(why_in)) {}
    void Deliver() override;
    Recv* const recv;
    const TfStatus why;
  };
  void Deliver() override;  // the mail that brings it home

  const LinePtr line_;
  const int64_t step_;
  const std::string key_;
  const TensorPlace place_;
  std::atomic<int> refs_{1};
  // At home.
  bool ended_ = false;  // or about to: nobody else may end it
  bool asked_ = false;  // it is in a question
  TfStatus aborted_;    // before it came home
  int asked_again_ = 0;
  TensorLanding landing_;
};

// Receives that this thread begins during its life travel in one question for each line.
class RecvGroup {
 public:
  RecvGroup();
  ~RecvGroup();
  RecvGroup(const RecvGroup&) = delete;

 private:
  friend class Recv;
  static thread_local RecvGroup* current;
  RecvGroup* const outer_;
  std::vector<Recv*> recvs_;
};

class Line final : public std::enable_shared_from_this<Line>, private reactor::Flushable {
 public:
  struct Options {
    transport::Address address;
    uint64_t incarnation = 0;
    std::string target;  // "/job:ps/replica:0/task:0", for words
    int64_t patience_ns = 0;
  };
  // Made by Make alone, so that its end finds a thread that may wait.
  static LinePtr Make(task::Task& task, Options options);
  ~Line();

  rpc::Client& client() { return client_; }
  const std::string& target() const { return options_.target; }
  const transport::Address& address() const { return options_.address; }
  // Any thread. False once something was lost on it: ask for another.
  bool alive() const { return alive_.load(std::memory_order_relaxed); }
  // Any thread. Whoever sees an error of the wire says so.
  void Note(const Status& status);

  // Any thread. This step's rendezvous at the peer is no longer wanted; told with the next call, or soon.
  void CleanUp(int64_t step);
  // Any thread. Takes what is to be cleaned up, to travel with another call: cleanups:varint step:u64[cleanups]
  void TakeCleanups(std::string* head);
  // Any thread. The steps' producers at the peer need not go on.
  void AbortStep(int64_t step);

 private:
  friend class Recv;
  friend class RecvGroup;
  friend class ReceiveCall;
  Line(task::Task& task, Options options);

  // A mail that looks into the entrance.
  struct Doorman final : Mail {
    explicit Doorman(Line* line_in) : line(line_in) {}
    void Deliver() override { line->Gather(); }
    Line* const line;
  };

  // Any thread.
  void Enter(Recv* recv);
  void GoTogether(std::vector<Recv*> recvs);
  // At home.
  void Gather();
  void Collect(Recv* recv);
  void Flush() override;
  void Ask(std::vector<Recv*> recvs);
  void OnAborted(Recv* recv, const TfStatus& why);
  void End(Recv* recv, const TfStatus& status, const tensorflow::Tensor& tensor, bool is_dead);
  void SendCleanups();

  const Options options_;
  rpc::Client client_;
  reactor::Reactor& home_;
  std::atomic<bool> alive_{true};
  Mailbox entrance_;                    // receives on their way home
  std::atomic<bool> is_called_{false};  // the doorman is on his way
  Doorman doorman_{this};
  KeyNames names_;                // at home
  std::vector<Recv*> gathered_;   // at home
  reactor::Timer cleanup_timer_;  // at home
  Mutex cleanups_mutex_;
  std::vector<int64_t> cleanups_ FUSEWIRE_GUARDED_BY(cleanups_mutex_);
};

}  // namespace tf
}  // namespace fusewire

#endif  // FUSEWIRE_TF_PEER_LINE_H_
