// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Runs a compiled schedule over an endpoint, again and again, with an operation of the endpoint for each message. Steps
// begin as soon as what they read is there and what they write is free; messages of later stages travel while earlier
// ones are reduced.
// Home: the endpoint's reactor. Owns: its operations and scratch memory; not the arrays, and not the peers.
// Fails: ends with the first error, once no operation is under way and so nothing touches the arrays any more.
//
// Its owner calls it; it calls its owner when a message has ended, and never from inside a call of its owner. After
// each of either the owner looks at what has come of it: running, has_work, TakeUnreached, TakeFailure.
// While it runs: under_way_ is the number of messages that are posted and have not ended, and of sends that wait for
// their peer; no node begins before all that it needs; a run that has ended has neither, and no work.
#ifndef FUSEWIRE_COLLECTIVE_RUN_SCHEDULE_RUNNER_H_
#define FUSEWIRE_COLLECTIVE_RUN_SCHEDULE_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/run/compiled_schedule.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/collective/run/run_memory.h"
#include "fusewire/collective/run/step_order.h"
#include "fusewire/p2p/endpoint.h"

namespace fusewire {
namespace collective {

class ScheduleRunner;

class RunnerOwner {
 public:
  // A send to that rank may be posted. Else it waits for ScheduleRunner::OnReached.
  virtual bool IsUp(int rank) const = 0;
  // It has said that it sends nothing more; what it sent before has come.
  virtual bool HasLeft(int rank) const = 0;
  // A message has ended, and something has come of it for the owner.
  virtual void OnMessageEnded(ScheduleRunner* runner) = 0;

 protected:
  ~RunnerOwner() = default;
};

// Of a message from that rank, or one to it (`sent`).
struct MessageFailure {
  int rank = 0;
  bool sent = false;
  Status why;
  // The message was the first from that rank, and not what this rank wants: `why` is ok.
  std::optional<Fingerprint> differs;
};

class ScheduleRunner {
 public:
  // `peers` by rank, null for this one.
  static Result<std::unique_ptr<ScheduleRunner>> Make(const Request& request, size_t element_bytes,
                                                      p2p::Endpoint* endpoint, const std::vector<p2p::Peer*>& peers,
                                                      RunnerOwner* owner);

  // What changes from run to run.
  struct Run {
    Reduction reduction;
    Pieces input;
    Pieces output;
    uint64_t tag = 0;
    Fingerprint print;
    bool confirm = false;  // its sends end when a receive has them
    bool hurried = false;  // something more urgent is under way: hold back
  };
  void Prepare(const Run& run);
  void Begin();
  // Sends that waited for that rank are posted.
  void OnReached(int rank);
  // Reduces and copies about `bytes_max`. True: there is more to do now.
  bool Work(size_t bytes_max);
  // It ends, with `why`, as soon as it can; at once if nothing is under way.
  void Fail(const Status& why);
  // Receives that would wait for that rank fail, with kCancelled.
  void ExpectNoMoreOf(int rank);
  void SetHurried(bool hurried) { order_.SetHurried(run_.hurried = hurried); }

  // ---- what has come of it ----
  bool running() const { return running_; }
  bool has_work() const { return work_at_ < work_.size() && status_.ok(); }
  // A rank that a send has begun to wait for.
  std::optional<int> TakeUnreached();
  std::optional<MessageFailure> TakeFailure();
  bool WaitsToReach(int rank) const;
  // Ranks whose messages it waits for.
  std::vector<int> WaitsFor() const;
  const Status& status() const { return status_; }

  size_t nodes() const { return runs_.size(); }
  bool ReceivesFrom(int rank) const { return compiled_.ReceivesFrom(rank); }
  // Whether a message of that rank that nobody has asked for can no longer be its first: the first has a receive.
  bool met(int rank) const { return met_[static_cast<size_t>(rank)]; }
  void SetMet(int rank) { met_[static_cast<size_t>(rank)] = true; }

  // Its owner's.
  void* context = nullptr;

 private:
  using Node = CompiledSchedule::Node;
  // Of a node, in this run.
  struct NodeRun {
    bool posted = false;
    size_t done = 0;  // bytes, of a reduction or a copy
    std::unique_ptr<p2p::SendOp> send;
    std::unique_ptr<p2p::ReceiveOp> receive;

    // Its message, if that has been posted and has not ended.
    p2p::Op* under_way() const {
      p2p::Op* const op = send != nullptr ? static_cast<p2p::Op*>(send.get()) : receive.get();
      return posted && !op->Test() ? op : nullptr;
    }
  };
  struct WaitingSend {
    int rank;
    size_t node;
  };

  ScheduleRunner(CompiledSchedule compiled, size_t element_bytes, RunnerOwner* owner);
  void MakeOps(p2p::Endpoint* endpoint, const std::vector<p2p::Peer*>& peers);
  void BeginReady();
  void BeginNode(size_t index);
  void PostSend(size_t index);
  void OnReceiveEnded(size_t index);
  Status CheckReceived(size_t index, std::optional<Fingerprint>* differs) const;
  void OnEnded(size_t index, const Status& status, const std::optional<Fingerprint>& differs);
  void EndIfIdle();
  size_t WorkOn(size_t index, size_t bytes_max);

  const CompiledSchedule compiled_;
  RunnerOwner* const owner_;
  StepOrder order_;
  RunMemory memory_;
  std::vector<NodeRun> runs_;  // of each node
  uint8_t print_bytes_[kFingerprintBytes] = {};

  Run run_;
  std::optional<Reducer> reducer_;
  std::vector<uint32_t> work_;
  size_t work_at_ = 0;
  std::vector<const void*> sources_;
  std::vector<bool> met_;
  std::vector<WaitingSend> waiting_sends_;
  std::vector<int> unreached_;
  std::optional<MessageFailure> failure_;
  size_t under_way_ = 0;
  bool running_ = false;
  Status status_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_RUN_SCHEDULE_RUNNER_H_
