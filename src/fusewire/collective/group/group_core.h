// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What a Group does at home: its operations from Start to done, and what its members say of each other.
// Home: the endpoint's reactor. Owns: operations, machines that wait to be used again, what it hears its members with.
// Fails: each operation on its own; a death or an abort breaks the epoch, and with it all operations.
//
// group_core.cc: the life of an operation. group_arrays.cc: its arrays. group_running.cc: what it asks for meanwhile.
// group_members.cc: who is there, what they say. group_shrink.cc: who is left.
#ifndef FUSEWIRE_COLLECTIVE_GROUP_GROUP_CORE_H_
#define FUSEWIRE_COLLECTIVE_GROUP_GROUP_CORE_H_

#include <atomic>
#include <climits>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fusewire/base/mailbox.h"
#include "fusewire/collective/group/arena_lane.h"
#include "fusewire/collective/group/group.h"
#include "fusewire/collective/group/group_notes.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/collective/run/machine.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/reactor/reactor.h"

namespace fusewire {
namespace collective {

struct PlanState;

// From Start to done; that of a plan again and again.
struct GroupOperation : Mail {
  void Deliver() override;

  // Until it has come home: the Group may go meanwhile.
  std::shared_ptr<GroupCore> core;
  Wanted wanted;
  Done done;
  uint64_t number = 0;
  uint64_t tag = 0;
  Fingerprint print;
  Status status;
  Status doubt;  // a message of ours has failed at a peer, who is about to say why
  int64_t began_ns = 0;
  int64_t deadline_ns = kForeverNs;
  std::unique_ptr<Machine> machine;
  std::unique_ptr<reactor::Timer> deadline;
  std::string plan;  // what its machine was made for
  Machine::Run run;
  uint32_t prepared_epoch = 0;  // of a plan's machine
  // Of those that the lane has seen: their place, and that it has run them.
  std::optional<uint64_t> given_turn;
  uint32_t given_epoch = 0;
  bool ended = false;
  // Of one who waits: whether he still wants to.
  const std::function<bool()>* called_off = nullptr;
  // Of its arrays: when they were last looked at, and what came of it.
  std::optional<uint32_t> checked_epoch;
  bool in_place = false;
  // Of a plan, while it is under way: where it goes back to, though the plan may be gone.
  std::shared_ptr<PlanState> home_plan;
};

// Where a plan's operation lies between two runs.
struct PlanState {
  std::unique_ptr<GroupOperation> operation;
};

class GroupCore final : public MachineOwner, public std::enable_shared_from_this<GroupCore> {
 public:
  GroupCore(p2p::Endpoint& endpoint, GroupOptions options);
  ~GroupCore();

  // At home.
  Status Open();
  void Begin(std::unique_ptr<GroupOperation> operation);
  void Cancel(uint64_t number, const Status& why);
  void Break(const Status& why, bool tell);
  void Close();
  bool idle() const;
  // The operation of that turn has failed here, in the arena.
  void TellFailed(uint32_t epoch, uint64_t turn, const Status& why);
  void TakeEnded(std::unique_ptr<GroupOperation> operation);
  void BeginShrink(int64_t timeout_ns, Done done);

  // Any thread.
  reactor::Reactor& home() { return home_; }
  int rank() const { return rank_shown_.load(std::memory_order_acquire); }
  int ranks() const { return ranks_shown_.load(std::memory_order_acquire); }
  uint32_t epoch() const { return epoch_shown_.load(std::memory_order_acquire); }
  // How who waits for an operation waits.
  reactor::Idling idling() const { return idling_.load(std::memory_order_relaxed); }
  uint64_t NextNumber() { return next_number_.fetch_add(1, std::memory_order_relaxed) + 1; }
  const GroupOptions& options() const { return options_; }
  p2p::Endpoint& endpoint() { return endpoint_; }
  std::string NameOf(int rank);
  // Null: none of the group's operations may go through an arena.
  ArenaLane* lane() const { return lane_.get(); }
  Status CheckArrays(const Wanted& wanted, Machine::Run* run, bool* in_place) const;
  // Any thread but a home: over the wires. Its own deadline ends it.
  Status RunAndWait(std::unique_ptr<GroupOperation> operation);

  // From machines.
  void OnSendReady(Machine* machine, int rank, size_t node) override;
  void OnWorkReady(Machine* machine) override;
  Status CheckHead(Machine* machine, int rank, const std::string& head) override;
  bool HasLeft(int rank) const override;
  void OnMessageFailed(Machine* machine, int rank, bool sent, const Status& why) override;
  void OnMachineEnded(Machine* machine) override;

 private:
  struct Gated {
    Machine* machine;
    size_t node;
  };
  // A member has a seat for good; its rank changes when others go.
  struct Seat {
    std::string name;
    p2p::Peer* peer = nullptr;  // null: ourselves
    int rank = -1;              // -1: dead, and shrunk away
    bool left = false;          // it said goodbye
    Status dead;                // why
    std::unique_ptr<p2p::ReceiveOp> ear;
    std::vector<uint8_t> heard;
    std::unique_ptr<p2p::AwaitPeerOp> awaits;
    std::unique_ptr<reactor::Timer> again;
    bool awaiting = false;
    std::vector<Gated> gated;
  };
  struct SentNote {
    std::unique_ptr<p2p::SendOp> op;
    std::string text;
    int answers = -1;  // whose vote
    bool ended = false;
  };
  // The first message of an operation that we have not begun.
  struct Early {
    int seat;
    Fingerprint print;
  };
  struct Shrinking {
    uint64_t round = 0;
    std::vector<bool> dead;  // by seat
    Done done;
    std::unique_ptr<reactor::Timer> deadline;
  };
  class MailTo final : public Mail {
   public:
    MailTo(GroupCore* core, void (GroupCore::*run)()) : core_(core), run_(run) {}
    void Deliver() override {
      posted_ = false;
      // Until it has run: the Group may go meanwhile.
      const std::shared_ptr<GroupCore> alive = std::move(alive_);
      (core_->*run_)();
    }
    void Post() {
      if (posted_) return;
      posted_ = true;
      alive_ = core_->shared_from_this();
      core_->home().Post(this);
    }

   private:
    GroupCore* const core_;
    void (GroupCore::*const run_)();
    // The Group may go before the mail has come.
    std::shared_ptr<GroupCore> alive_;
    bool posted_ = false;
  };

  // ---- group_core.cc, group_running.cc ----
  static constexpr size_t kFailedMax = 4096;
  uint64_t TagBase(uint32_t epoch) const;
  uint64_t TagOf(const Fingerprint& place) const;
  void Place(GroupOperation* operation);
  void PlaceGiven(uint64_t turn);
  // Of those without a key.
  bool HasEnded(uint64_t turn) const { return turn < turn_ && skipped_.count(turn) == 0; }
  Status Prepare(GroupOperation* operation);
  // As it was wanted: neither where its arrays stand nor its algorithm is in it yet.
  Request RequestOf(const Wanted& wanted) const;
  Result<std::unique_ptr<Machine>> TakeMachine(const Request& request, GroupOperation* operation);
  void GiveMachine(const std::string& plan, std::unique_ptr<Machine> machine);
  void Launch(std::unique_ptr<GroupOperation> operation);
  void FailOperation(GroupOperation* operation, const Status& why, bool tell);
  void EndOperation(GroupOperation* operation, const Status& status);
  void RunEnded();
  void RunWork();
  void Hurry();
  std::string LateWords(const GroupOperation& operation) const;
  std::string LateBefore(const GroupOperation& operation) const;
  void OnDeadline(GroupOperation* operation);
  void ArmDeadline(GroupOperation* operation, int64_t delay_ns);
  Status MismatchOf(const Fingerprint& mine, int rank, const Fingerprint& other) const;
  p2p::OfferAnswer OnOffer(const p2p::Offer& offer, uint32_t epoch);
  void RememberDead(uint64_t tag, const Status& why);
  void FailByNumber(uint64_t number, const Status& why);
  uint64_t ControlTag() const;
  std::string RankWords(int rank) const;

  // ---- group_members.cc ----
  int SeatOf(const p2p::Peer& peer) const;
  int SeatOfRank(int rank) const { return seats_of_ranks_[static_cast<size_t>(rank)]; }
  std::string SeatWords(int seat) const;
  void Listen(int index);
  void OnHeard(int index);
  void OnNote(int index, const Note& note);
  Status AsSaid(int index, const Status& said) const;
  void OnFailureNote(int index, const Note& note);
  void OnLost(int index, const Status& why);
  void OpenGate(int index);
  void OnAwaited(int index);
  void TellAll(const Note& note);
  SentNote* Tell(int index, const Note& note);
  void Renumber();
  void RegisterEpoch();

  // ---- group_shrink.cc ----
  void Vote();
  void TryDecide();
  void OnVote(int index, const Note& note);
  void AnswerVote(int index, const Note& decision);
  void OnDecided(int index, const Note& note);
  void EnterEpoch(uint32_t epoch, const Note& decision);
  void EndShrink(const Status& status);
  Note NoteOfDead(NoteVerb verb, const std::vector<bool>& dead) const;

  p2p::Endpoint& endpoint_;
  reactor::Reactor& home_;
  const GroupOptions options_;
  std::vector<Seat> seats_;
  const int seat_;
  uint32_t epoch_ = 0;
  std::vector<int> seats_of_ranks_;
  Places places_;  // of the ranks there are now
  int rank_ = 0;
  Status broken_;
  bool closed_ = false;
  uint64_t turn_ = 0;
  std::set<uint64_t> skipped_;  // turns below it that will come yet

  std::unordered_map<uint64_t, std::unique_ptr<GroupOperation>> running_;             // by tag
  std::unordered_map<uint64_t, std::deque<std::unique_ptr<GroupOperation>>> behind_;  // those of the same key
  std::vector<std::unique_ptr<GroupOperation>> ended_;
  std::vector<Machine*> working_;
  std::unordered_map<uint64_t, std::vector<Early>> early_;
  size_t early_count_ = 0;
  std::unordered_map<uint64_t, Status> failed_;      // by tag: others failed before we have begun
  std::unordered_map<uint64_t, uint64_t> failures_;  // of keys
  std::unordered_map<uint64_t, Status> dead_tags_;
  std::deque<uint64_t> dead_tags_order_;
  std::unordered_map<std::string, std::vector<std::unique_ptr<Machine>>> idle_machines_;
  size_t idle_nodes_ = 0;
  std::list<SentNote> notes_;
  std::list<std::unique_ptr<p2p::ReceiveOp>> drains_;
  uint32_t endpoint_ops_ = 0;  // ears and gates under way
  std::unique_ptr<Shrinking> shrinking_;
  // Decisions of earlier epochs, for those who have not heard them yet.
  std::map<uint32_t, Note> decided_;
  std::map<std::pair<int, uint64_t>, Note> votes_;  // of this epoch, by seat and round
  std::unique_ptr<ArenaLane> lane_;
  MailTo ended_mail_;
  MailTo work_mail_;

  std::atomic<int> rank_shown_{0};
  std::atomic<int> ranks_shown_{0};
  std::atomic<uint32_t> epoch_shown_{0};
  std::atomic<reactor::Idling> idling_{reactor::Idling::kLearned};
  std::atomic<uint64_t> next_number_{0};
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_GROUP_GROUP_CORE_H_
