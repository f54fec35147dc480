// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Channel leads to one incarnation of one peer's data port, and collects receives: all that an executor starts in
// close succession become one request, and their answers stream back.
// Home: one reactor of its task. Owns: the Client; not the receives. Fails: with the pipe; it is then replaced.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tensorflow/core/distributed_runtime/worker_env.h>
#include <tensorflow/core/framework/rendezvous.h>
#include "fusewire/base/mailbox.h"
#include "fusewire/base/mutex.h"
#include "fusewire/observe/event.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/rpc.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/bridge/tensor.h"
#include "fusewire/tf/heads/calls.h"
#include "fusewire/tf/peer/keys.h"

namespace fusewire::tf {

class Channel;
// shared_ptr: a broken channel is replaced at once, while calls over it are still ending.
using ChannelPtr = std::shared_ptr<Channel>;

// The numbers of one client's runs at one parameter server: a run that comes twice is applied once. Home: any thread.
class TicketBook {
 public:
  TicketBook();
  Ticket Take();
  // Its run has ended, well or not.
  void GiveBack(const Ticket& ticket);

 private:
  const uint64_t client_;
  Mutex mutex_;
  uint64_t last_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> open_ FUSEWIRE_GUARDED_BY(mutex_);  // in order
};
// shared_ptr: a call may end after its peer's end.
using TicketBookPtr = std::shared_ptr<TicketBook>;

// One tensor that a caller waits for. Reference-counted: its request, and an abort under way, hold it.
class Recv : public Mail {
 public:
  Recv(ChannelPtr channel, int64_t step, std::string key, TensorPlace place);
  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref();

  // Any thread, once.
  void Go();
  // Any thread, also before Go. OnEnd follows with `why`, unless the tensor was faster.
  void Abort(const TfStatus& why);

  const ChannelPtr& channel() const { return channel_; }
  const std::string& key() const { return key_; }
  int64_t step() const { return step_; }

 protected:
  // At home. Its content begins to arrive; the receive may still fail.
  virtual void OnArrival() {}
  // At home or on a device's own thread; exactly once after Go. The tensor is valid during the call.
  virtual void OnEnd(const TfStatus& status, const tensorflow::Tensor& tensor, bool is_dead) = 0;
  ~Recv() override = default;

 private:
  friend class Channel;
  friend class ReceiveCall;
  struct AbortMail final : Mail {
    explicit AbortMail(Recv* recv_in, TfStatus why_in) : recv(recv_in), why(std::move(why_in)) {}
    void Deliver() override;
    Recv* const recv;
    const TfStatus why;
  };
  void Deliver() override;  // the mail that brings it home

  const ChannelPtr channel_;
  const int64_t step_;
  const std::string key_;
  const TensorPlace place_;
  std::atomic<int> refs_{1};
  // At home.
  bool ended_ = false;  // it has ended, or its one end is decided
  bool asked_ = false;  // it is in a request
  TfStatus aborted_;    // before it came home
  int asked_again_ = 0;
  TensorLanding landing_;
  observe::Event event_;  // from its request until its end
};

// The receives that this thread begins during the group's life become one request for each channel.
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

class Channel final : public std::enable_shared_from_this<Channel>, private reactor::Flushable {
 public:
  struct Options {
    transport::Address address;
    uint64_t incarnation = 0;
    std::string target;    // "/job:ps/replica:0/task:0", for words
    std::string protocol;  // of this task, for logs; empty: it logs nothing
    int64_t patience_ns = 0;
    // For how long a call may be made again, from the last sign of life of a peer whose connection is lost.
    int64_t recovery_ns = 0;
    TicketBookPtr tickets;  // of the peer; null: of this channel alone
    uint64_t state = 0;     // of the peer's variables, see DataPort; likewise the epoch
    uint64_t epoch = 0;
    // At home: its connection is lost. May be null.
    std::function<void()> on_lost;
  };
  // Only Make makes one, so that it is destroyed on a thread that may wait.
  static ChannelPtr Make(task::Task& task, Options options);
  ~Channel();

  rpc::Client& client() { return client_; }
  const std::string& target() const { return options_.target; }
  const transport::Address& address() const { return options_.address; }
  // Any thread. False while a call over it, or its idle connection, is lost: get another channel.
  bool alive() const { return alive_.load(std::memory_order_relaxed); }
  // Any thread may read all.
  struct Losses {
    std::atomic<uint64_t> count{0};             // of connections that were lost or not made
    std::atomic<int64_t> recovers_until_ns{0};  // calls are made again until then, by the last sign of life
    std::atomic<bool> is_superseded{false};
  };
  const Losses& losses() const { return losses_; }
  // Any thread. Another process has the task: calls are not made again over this channel, even if its peer lives.
  void Supersede();
  bool recovers() const { return options_.recovery_ns > 0; }
  const Options& options() const { return options_; }
  int64_t NowNs() const { return home_.clock()->NowNs(); }
  const TicketBookPtr& tickets() const { return options_.tickets; }
  // Any thread. For the status of each call over this channel: a lost connection makes it no longer alive.
  void ReportStatus(const Status& status);

  // Any thread. Drops the step's rendezvous at the peer: sent with the next call, or soon.
  void CleanUp(int64_t step);
  // Any thread. Takes the pending cleanups, for the head of another call: cleanups:varint step:u64[cleanups]
  void TakeCleanups(std::string* head);
  // Any thread. Aborts the step's producers at the peer.
  void AbortStep(int64_t step);
  // Any thread. A call of this method begins.
  void BeginCall(uint16_t method, const char* name, observe::Event* call);

 private:
  friend class Recv;
  friend class RecvGroup;
  friend class ReceiveCall;
  Channel(task::Task& task, Options options);
  rpc::ClientOptions ClientOptions();
  void OnUp(const char* wire);
  void OnDown(const Status& why, bool was_up);

  // A mail that takes the receives out of the inbox.
  struct GatherMail final : Mail {
    explicit GatherMail(Channel* channel_in) : channel(channel_in) {}
    void Deliver() override { channel->Gather(); }
    Channel* const channel;
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
  const std::string own_task_;  // "worker:0"
  // Before the client, which writes them.
  std::atomic<bool> alive_{true};
  Losses losses_;
  rpc::Client client_;
  reactor::Reactor& home_;
  Mailbox inbox_;                       // receives on their way home
  std::atomic<bool> is_called_{false};  // gather_mail_ is posted
  GatherMail gather_mail_{this};
  KeyNames names_;                                              // at home
  std::vector<Recv*> gathered_;                                 // at home
  reactor::Timer cleanup_timer_;                                // at home
  std::array<std::atomic<uint32_t>, kMethodsEnd> call_tags_{};  // by method; 0: not looked up yet
  Mutex cleanups_mutex_;
  std::vector<int64_t> cleanups_ FUSEWIRE_GUARDED_BY(cleanups_mutex_);
};

// Whether a call without a time limit has failed for want of a way to the peer.
bool HasLost(const Channel& channel, const Status& status);

// Of one call: whether it is made again, over the same channel, which then dials anew. It goes on for as long as the
// channel allows, counted from the lost peer's last sign of life. Another process at that address, or none, ends it.
// Home: the call's. Owns: plain values.
class Repeats {
 public:
  // Before each attempt.
  void Begin(const Channel& channel);
  // The attempt has ended with `status`. If not again, the error of the first attempt is the one to report.
  bool IsAgain(const Channel& channel, Status* status);

 private:
  uint64_t losses_ = 0;      // of the channel, when the attempt began
  int64_t deadline_ns_ = 0;  // 0: no connection has been lost yet
  Status first_;
};

}  // namespace fusewire::tf
