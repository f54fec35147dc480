// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Runs a compiled schedule over an endpoint, again and again, with an operation of the endpoint for each message. A
// step begins as soon as its sources are complete and its destination is free; messages of later stages travel while
// earlier ones are reduced. Home: the endpoint's reactor. Owns: its operations and scratch memory; not the arrays, and
// not the peers. Fails: ends with the first error, as soon as no operation is under way and nothing touches the arrays
// any more.
// Its owner calls it; it calls its owner when a message has ended, but never from inside a call of its owner. After
// each call in either direction, the owner checks its state: running, has_work, TakeUnreached, TakeFailure. While it
// runs, under_way_ is the number of messages that are posted and have not ended, plus that of sends that wait for their
// peer. No node begins before its needs are met. When a run has ended, under_way_ is 0 and no work is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/kernels/spec.h"
#include "fusewire/collective/run/compiled_schedule.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/collective/schedule/schedule.h"
#include "fusewire/p2p/endpoint.h"

namespace fusewire::collective {

// Maps the spans of a schedule to memory in one run: to the input, the output, or scratch memory.
// Every span lies within its array: CheckSpec has checked the arrays against the counts.
class RunMemory {
 public:
  RunMemory(size_t element_bytes, size_t scratch_count)
      : element_bytes_(element_bytes), scratch_bytes_(scratch_count * element_bytes) {}

  // The arrays of the run that begins.
  Status Begin(const Pieces& input, const Pieces& output);
  // The address of byte `from` of the span; returns how many bytes of the span are contiguous there.
  size_t At(const Span& span, size_t from, uint8_t** data) const;
  // Bytes or ConstBytes, one for each piece.
  template <class View>
  void ViewInto(const Span& span, std::vector<View>* views) const {
    views->clear();
    const size_t bytes = BytesOf(span);
    for (size_t from = 0; from < bytes;) {
      uint8_t* data = nullptr;
      const size_t run = At(span, from, &data);
      views->push_back(View(data, run));
      from += run;
    }
  }
  size_t BytesOf(const Span& span) const { return span.count * element_bytes_; }
  size_t element_bytes() const { return element_bytes_; }

 private:
  const size_t element_bytes_;
  const size_t scratch_bytes_;
  Buffer scratch_;
  Pieces input_, output_;
  std::vector<size_t> input_starts_, output_starts_;  // of pieces, where there are several
};

// The reductions and copies of a run whose sources are complete, one after the other, a piece at a time.
// Home: the endpoint's reactor. Fails: never.
class StepWork {
 public:
  // Both outlive it.
  StepWork(const CompiledSchedule& compiled, const RunMemory& memory) : compiled_(compiled), memory_(memory) {}

  void Begin(const Reduction& reduction);
  void Add(size_t node) { nodes_.Push(node); }
  bool empty() const { return nodes_.empty(); }
  // Does about `bytes_max` of the first node's work, and adds to *spent the bytes that it read. Returns the node if
  // that was all of its work.
  std::optional<size_t> DoFirst(size_t bytes_max, size_t* spent);

 private:
  const CompiledSchedule& compiled_;
  const RunMemory& memory_;
  std::optional<Reducer> reducer_;
  NodeQueue nodes_;
  size_t done_ = 0;  // bytes of the first node
  std::vector<const void*> sources_;
};

class ScheduleRunner;

class RunnerOwner {
 public:
  // Whether a send to that rank may be posted. Otherwise it waits for ScheduleRunner::OnReached.
  virtual bool IsUp(int rank) const = 0;
  // The rank has left the group; all that it sent before has arrived.
  virtual bool HasLeft(int rank) const = 0;
  // A message has ended, and the runner's state has changed for its owner.
  virtual void OnMessageEnded(ScheduleRunner* runner) = 0;

 protected:
  ~RunnerOwner() = default;
};

// The failure of a message from `rank`, or, if `sent`, of one to it.
struct MessageFailure {
  int rank = 0;
  bool sent = false;
  Status why;
  // The fingerprint of that rank's first message, if it differs from this rank's: then `why` is ok.
  std::optional<Fingerprint> differs;
};

class ScheduleRunner {
 public:
  // `peers` by rank, null for this rank.
  static Result<std::unique_ptr<ScheduleRunner>> Make(const Request& request, size_t element_bytes,
                                                      p2p::Endpoint* endpoint, const std::vector<p2p::Peer*>& peers,
                                                      RunnerOwner* owner);

  // The parameters that change from run to run.
  struct Run {
    Reduction reduction;
    Arrays arrays;
    uint64_t tag = 0;
    Fingerprint print;
    bool confirm = false;  // a send ends only when its receive has the data
  };
  void Prepare(const Run& run);
  void Begin();
  // Posts the sends that waited for that rank.
  void OnReached(int rank);
  // Reduces and copies about `bytes_max`. Returns whether more work is ready.
  bool Work(size_t bytes_max);
  // Ends the run with `why` as soon as nothing is under way any more.
  void Fail(const Status& why);
  // Receives from that rank that have no message yet fail with kCancelled.
  void ExpectNoMoreOf(int rank);

  // ---- its state ----
  bool running() const { return under_way_ > 0 || (status_.ok() && !order_.all_ended()); }
  bool has_work() const { return !work_.empty() && status_.ok(); }
  // The ranks for which sends have begun to wait.
  std::vector<int> TakeUnreached();
  std::optional<MessageFailure> TakeFailure();
  bool WaitsToReach(int rank) const;
  // The ranks for whose messages it waits.
  std::vector<int> WaitsFor() const;
  const Status& status() const { return status_; }

  size_t nodes() const { return runs_.size(); }
  int ranks() const { return compiled_.request().ranks; }
  bool ReceivesFrom(int rank) const { return compiled_.ReceivesFrom(rank); }
  // Whether the first message of that rank has a receive: then an unexpected message can't be its first.
  bool met(int rank) const {
    FUSEWIRE_DCHECK(static_cast<size_t>(rank) < met_.size());
    return met_[static_cast<size_t>(rank)];
  }
  void SetMet(int rank) { met_[static_cast<size_t>(rank)] = true; }

  // For the owner's use.
  void* context = nullptr;

 private:
  using Node = CompiledSchedule::Node;
  // The state of a node in this run.
  struct NodeRun {
    bool posted = false;
    std::unique_ptr<p2p::SendOp> send;
    std::unique_ptr<p2p::ReceiveOp> receive;

    // Its message, if it has been posted and has not ended.
    p2p::Op* under_way() const {
      FUSEWIRE_DCHECK(send == nullptr || receive == nullptr);
      p2p::Op* const op = send != nullptr ? static_cast<p2p::Op*>(send.get()) : receive.get();
      return posted && !op->Test() ? op : nullptr;
    }
  };
  struct WaitingSend {
    int rank;
    size_t node;
    bool is_taken = false;  // by TakeUnreached; those that are not are the last
  };

  ScheduleRunner(CompiledSchedule compiled, size_t element_bytes, RunnerOwner* owner);
  void MakeOps(p2p::Endpoint* endpoint, const std::vector<p2p::Peer*>& peers);
  void BeginReady();
  void BeginNode(size_t index);
  void PostSend(size_t index);
  void OnReceiveEnded(size_t index);
  Status CheckReceived(size_t index, std::optional<Fingerprint>* differs) const;
  void OnEnded(size_t index, const Status& status, const std::optional<Fingerprint>& differs);
  bool has_unreached() const { return !waiting_sends_.empty() && !waiting_sends_.back().is_taken; }

  const CompiledSchedule compiled_;
  RunnerOwner* const owner_;
  StepOrder order_;
  RunMemory memory_;
  std::vector<NodeRun> runs_;  // of each node
  uint8_t print_bytes_[kFingerprintBytes] = {};

  Run run_;
  StepWork work_;
  std::vector<bool> met_;
  std::vector<WaitingSend> waiting_sends_;
  std::optional<MessageFailure> failure_;
  size_t under_way_ = 0;
  Status status_;
};

}  // namespace fusewire::collective
