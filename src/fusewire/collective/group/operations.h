// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The life of an operation that goes over messages: it gets its place among those of the other ranks and a runner,
// runs, ends once, and its `done` is called. A failure here is sent to all members, and a failure that they send ends
// it here. Home: the endpoint's. Owns: the operations, and the records of messages that arrived too early or too late.
// Fails: each operation on its own; Break fails all current and later ones, until the next epoch.
// `done` is never called inside a function of this class: ended operations are collected, and a mail calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/mailbox.h"
#include "fusewire/base/status.h"
#include "fusewire/collective/group/call_order.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/group_operation.h"
#include "fusewire/collective/group/members.h"
#include "fusewire/collective/group/operation_table.h"
#include "fusewire/collective/group/recording.h"
#include "fusewire/collective/group/seats.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/collective/run/schedule_runner.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/completion.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire::collective {

// Finds a runner for an operation: chooses its algorithm, and takes an idle runner for the same parameters, or makes
// one.
// An idle runner is not running, and belongs to the epoch of its key.
class Runners {
 public:
  Runners(p2p::Endpoint& endpoint, const GroupOptions& options, const Seats* seats, RunnerOwner* owner)
      : endpoint_(endpoint), options_(options), seats_(seats), owner_(owner) {}

  // Gives it a runner that may begin, and completes its fingerprint. A plan keeps its runner.
  Status Prepare(GroupOperation* operation);
  // Makes its runner idle, after its end.
  void TakeBack(GroupOperation* operation);
  void Clear();

 private:
  Status Choose(GroupOperation* operation, Request* request);
  Result<std::unique_ptr<ScheduleRunner>> Find(const Request& request, GroupOperation* operation);

  p2p::Endpoint& endpoint_;
  const GroupOptions& options_;
  const Seats* const seats_;
  RunnerOwner* const owner_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<ScheduleRunner>>> idle_;
  size_t idle_nodes_ = 0;  // the nodes of all idle runners, plus one for each runner
};

// The operations that have data to reduce or to copy. A little is done immediately, the rest in turns of the loop, one
// operation after the other, so that small ones pass the large.
// An operation is in the queue at most once: exactly if its `work_queued` is set.
class WorkQueue {
 public:
  bool empty() const { return operations_.empty(); }
  // Does a little of its work, and queues it if there is more.
  void Add(GroupOperation* operation);
  // Does one turn's work of the next operation, and returns it.
  GroupOperation* RunTurn();
  void Remove(GroupOperation* operation);

 private:
  std::deque<GroupOperation*> operations_;
};

// What other ranks have sent for operations that this rank has not begun: the fingerprints of their first messages,
// which are compared when it does, and failures. Home: the endpoint's. Owns: these, within bounds: a fingerprint beyond
// them is compared by its receive.
class EarlyNews {
 public:
  struct Message {
    int seat;
    Fingerprint print;
  };
  struct News {
    std::vector<Message> messages;
    Status failure;  // ok: none
  };

  void Add(uint64_t tag, const Message& message) {
    if (messages_ >= kMessagesMax) return;
    ++messages_;
    by_tag_[tag].messages.push_back(message);
  }
  void AddFailure(uint64_t tag, const Status& why) {
    if (failures_ >= kFailuresMax) return;
    Status& failure = by_tag_[tag].failure;
    if (failure.ok()) ++failures_;
    failure = why;
  }
  News Take(uint64_t tag) {
    const auto found = by_tag_.find(tag);
    if (found == by_tag_.end()) return {};
    News news = std::move(found->second);
    by_tag_.erase(found);
    FUSEWIRE_CHECK(messages_ >= news.messages.size());
    messages_ -= news.messages.size();
    if (!news.failure.ok()) --failures_;
    return news;
  }
  void Clear() {
    by_tag_.clear();
    messages_ = failures_ = 0;
  }

 private:
  static constexpr size_t kMessagesMax = 64 * 1024;
  static constexpr size_t kFailuresMax = 4096;
  std::unordered_map<uint64_t, News> by_tag_;
  size_t messages_ = 0, failures_ = 0;  // of all tags
};

class Operations final : private RunnerOwner {
 public:
  // `over_messages` as in call_order.h.
  // `under_way` counts operations from Begin until their `done` has returned.
  Operations(p2p::Endpoint& endpoint, const GroupOptions& options, const Seats* seats, Members* members,
             reactor::Drain* under_way, std::function<bool(uint64_t turn)> over_messages, GroupMonitor* monitor);
  // Mail keeps the owner alive until it is delivered.
  void SetOwner(std::weak_ptr<void> owner) { owner_ = std::move(owner); }

  // Its timeout is what is left of it.
  void Begin(std::unique_ptr<GroupOperation> operation);
  void Cancel(uint64_t number, const Status& why);
  // Ends an operation that the lane has run.
  void TakeServed(std::unique_ptr<GroupOperation> operation);
  // Fails all current and later operations, until the next epoch.
  void Break(const Status& why);
  void Close();
  void EnterEpoch();
  const Status& broken() const { return broken_; }
  const GroupTags& tags() const { return order_.tags(); }

  // For an unexpected message.
  p2p::OfferAnswer OnOffer(const p2p::Offer& offer);
  // The operation of that place has failed at another rank.
  void OnFailedElsewhere(const Fingerprint& place, Status why);
  void OnReached(int seat);
  // The member has left the group; all that it sent has arrived.
  void OnLeft(int seat);
  // A member that had left is gone now: only operations that still need it fail.
  void OnGoneAfterLeaving(int seat);
  bool WaitsToReach(int seat) const;

 private:
  // Carries what must not happen inside another call: the end of operations, and the next turn of work.
  class TurnMail final : public Mail {
   public:
    explicit TurnMail(Operations* operations) : operations_(operations) {}
    void Deliver() override;
    void Post();

   private:
    Operations* const operations_;
    // The Group may be destroyed before the mail is delivered.
    std::shared_ptr<void> alive_;
  };

  // From runners.
  bool IsUp(int rank) const override { return seats_->OfRank(rank).peer->up(); }
  bool HasLeft(int rank) const override { return seats_->OfRank(rank).left; }
  void OnMessageEnded(ScheduleRunner* runner) override;

  void Launch(std::unique_ptr<GroupOperation> operation);
  Status Compare(GroupOperation* operation, const std::vector<EarlyNews::Message>& early);
  // Acts on the state of its runner.
  void Attend(GroupOperation* operation);
  void OnMessageFailed(GroupOperation* operation, const MessageFailure& failure);
  void Fail(GroupOperation* operation, const Status& why, bool tell);
  void End(GroupOperation* operation, const Status& status);
  void OnDeadline(GroupOperation* operation);
  void TellEnded();
  void LaunchBehind(uint64_t tag);
  void RunWork();

  reactor::Reactor& home_;
  const Seats* const seats_;
  Members* const members_;
  reactor::Drain* const under_way_;
  std::weak_ptr<void> owner_;
  Status broken_;
  bool closed_ = false;

  CallOrder order_;
  Runners runners_;
  OperationTable table_;
  MessageRecorder recorder_;
  WorkQueue work_;
  EarlyNews early_;
  FailedTags failed_tags_;
  TurnMail mail_{this};
};

}  // namespace fusewire::collective
