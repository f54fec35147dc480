// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The life of an operation: placed, matched with a machine, ended once.
#include "fusewire/collective/group/group_core.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"

namespace fusewire {
namespace collective {
namespace {

constexpr int kOpBits = 40;
constexpr uint64_t kOpMask = (uint64_t{1} << kOpBits) - 1;
constexpr uint64_t kKeyedBit = uint64_t{1} << (kOpBits - 1);
// Bounds of what is remembered of failures, and of machines for the next time.
constexpr size_t kFailuresMax = 64 * 1024;
constexpr size_t kIdleNodesMax = 64 * 1024;

uint64_t Mix(uint64_t a, uint64_t b) { return Random(Random(a).Next() ^ b).Next(); }

std::string PlanOf(uint32_t epoch, const Request& request, size_t element_bytes) {
  std::string plan;
  auto add = [&plan](uint64_t number) { plan.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  add(epoch);
  add(static_cast<uint64_t>(request.kind) << 24 | static_cast<uint64_t>(request.algorithm) << 16 |
      (request.in_place ? 1U << 8 : 0U) | element_bytes);
  add(static_cast<uint64_t>(request.root));
  add(request.segment_count);
  for (const size_t count : request.counts) add(count);
  for (const size_t count : request.receives) add(count);
  return plan;
}

}  // namespace

void GroupOperation::Deliver() {
  std::unique_ptr<GroupOperation> self(this);
  // The Group may have gone since Start.
  const std::shared_ptr<GroupCore> home = std::move(core);
  if (ended) {
    home->TakeEnded(std::move(self));
  } else {
    home->Begin(std::move(self));
  }
}

GroupCore::GroupCore(p2p::Endpoint& endpoint, GroupOptions options)
    : endpoint_(endpoint),
      home_(endpoint.home()),
      options_(std::move(options)),
      seats_(options_.members.size()),
      seat_(options_.rank),
      ended_mail_(this, &GroupCore::RunEnded),
      work_mail_(this, &GroupCore::RunWork) {
  const size_t ranks = options_.members.size();
  const bool fits = options_.places.one_host() && ranks > 1 && ranks <= kArenaRanksMax;
  // All of it is the same at all ranks. Where time is turned by hand nobody can wait for an arena.
  if (options_.arena && fits && home_.clock() == Clock::Real()) lane_ = std::make_unique<ArenaLane>(this);
}

GroupCore::~GroupCore() = default;

uint64_t GroupCore::TagBase(uint32_t epoch) const {
  uint64_t hash = epoch;
  for (const char letter : options_.name) hash = Mix(hash, static_cast<uint8_t>(letter));
  return uint64_t{1} << 63 | (hash >> 41) << kOpBits;
}

uint64_t GroupCore::ControlTag() const { return TagBase(0) | kOpMask; }

std::string GroupCore::NameOf(int rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= seats_of_ranks_.size()) return "";
  return seats_[static_cast<size_t>(SeatOfRank(rank))].name;
}

std::string GroupCore::RankWords(int rank) const {
  return "rank " + std::to_string(rank) + " (" + seats_[static_cast<size_t>(SeatOfRank(rank))].name + ")";
}

// ---- begin ----

void GroupCore::Begin(std::unique_ptr<GroupOperation> operation) {
  FUSEWIRE_AT_HOME(home_);
  operation->began_ns = home_.now_ns();
  Status refusal = closed_ ? Status::Cancelled("the group is closed") : broken_;
  if (operation->given_turn.has_value() && operation->given_epoch != epoch_ && refusal.ok())
    refusal = Status::Unavailable("the group has shrunk since it was called").Next("call it again");
  if (!refusal.ok()) {
    operation->status = refusal;
    ended_.push_back(std::move(operation));
    ended_mail_.Post();
    return;
  }
  GroupOperation* raw = operation.get();
  const int64_t timeout_ns = raw->wanted.timeout_ns == 0 ? options_.timeout_ns : raw->wanted.timeout_ns;
  raw->doubt = Status::Ok();
  raw->deadline_ns = timeout_ns == kForeverNs ? kForeverNs : AddNs(raw->began_ns, std::max<int64_t>(timeout_ns, 0));
  if (timeout_ns != kForeverNs) ArmDeadline(raw, std::max<int64_t>(timeout_ns, 0));
  Place(raw);
  if (running_.count(raw->tag) > 0) {
    behind_[raw->tag].push_back(std::move(operation));
  } else {
    Launch(std::move(operation));
  }
}

// Which operations of other ranks it meets.
void GroupCore::Place(GroupOperation* operation) {
  Fingerprint& print = operation->print;
  print.kind = static_cast<uint8_t>(operation->wanted.kind);
  print.epoch = static_cast<uint16_t>(epoch_);
  print.key = operation->wanted.key;
  print.keyed = print.key != 0 ? 1 : 0;
  if (print.keyed != 0) {
    const auto failed = failures_.find(print.key);
    print.turn = failed == failures_.end() ? 0 : failed->second;
  } else {
    print.turn = operation->given_turn.value_or(turn_);
    PlaceGiven(print.turn);
  }
  operation->tag = TagOf(print);
}

// Turns are given on many threads, and come home nearly in order. Those in between were the arena's, or will come.
void GroupCore::PlaceGiven(uint64_t turn) {
  skipped_.erase(turn);
  for (uint64_t between = turn; between > turn_ && lane_->OverWires(between - 1); --between)
    skipped_.insert(between - 1);
  turn_ = std::max(turn_, turn + 1);
}

uint64_t GroupCore::TagOf(const Fingerprint& place) const {
  if (place.keyed == 0) return TagBase(epoch_) | (place.turn & (kKeyedBit - 1));
  return TagBase(epoch_) | kKeyedBit | ((Mix(place.key, place.turn) & kOpMask) >> 1);
}

// Finds a machine for it, and what the others must want too.
Status GroupCore::Prepare(GroupOperation* operation) {
  const Wanted& wanted = operation->wanted;
  Machine::Run& run = operation->run;
  if (operation->machine != nullptr && operation->prepared_epoch == epoch_) {
    run.tag = operation->tag;
    run.print = operation->print;
    operation->machine->Prepare(run);
    return Status::Ok();
  }
  operation->machine.reset();
  bool in_place = false;
  FUSEWIRE_TRY(CheckArrays(wanted, &run, &in_place));
  const size_t element_bytes = SizeOf(wanted.reduction.type);
  Request request = RequestOf(wanted);
  request.in_place = in_place;
  // Of an all-to-all each rank knows its own counts only, so none of them may sway the choice.
  const size_t bytes = wanted.kind == Kind::kAllToAll ? 0 : SumOf(request.counts) * element_bytes;
  const Choice choice =
      Choose(wanted.kind, ranks(), bytes, options_.wire, options_.table, options_.reproducible, places_);
  request.algorithm = choice.algorithm;
  if (choice.algorithm == Algorithm::kTwoLevel) {
    request.hosts = places_.hosts;
    request.between = choice.between;
  }
  request.segment_count = std::max<size_t>(choice.segment_bytes / element_bytes, 1);
  const Fingerprint place = operation->print;
  operation->print = FingerprintOf(request, wanted.reduction);
  operation->print.keyed = place.keyed;
  operation->print.key = place.key;
  operation->print.turn = place.turn;
  operation->print.epoch = place.epoch;
  Result<std::unique_ptr<Machine>> machine = TakeMachine(request, operation);
  if (!machine.ok()) return machine.status();
  operation->machine = std::move(machine).value();
  operation->machine->operation = operation;
  operation->prepared_epoch = epoch_;
  run.reduction = wanted.reduction;
  run.tag = operation->tag;
  run.print = operation->print;
  run.confirm = wanted.confirm;
  operation->machine->Prepare(run);
  return Status::Ok();
}

Result<std::unique_ptr<Machine>> GroupCore::TakeMachine(const Request& request, GroupOperation* operation) {
  const size_t element_bytes = SizeOf(operation->wanted.reduction.type);
  operation->plan = PlanOf(epoch_, request, element_bytes);
  auto found = idle_machines_.find(operation->plan);
  if (found != idle_machines_.end() && !found->second.empty()) {
    std::unique_ptr<Machine> machine = std::move(found->second.back());
    found->second.pop_back();
    idle_nodes_ -= machine->nodes() + 1;
    return machine;
  }
  std::vector<p2p::Peer*> peers;
  for (const int seat : seats_of_ranks_) peers.push_back(seats_[static_cast<size_t>(seat)].peer);
  return Machine::Make(request, element_bytes, &endpoint_, peers, this);
}

void GroupCore::GiveMachine(const std::string& plan, std::unique_ptr<Machine> machine) {
  if (idle_nodes_ + machine->nodes() + 1 > kIdleNodesMax) {
    idle_machines_.clear();
    idle_nodes_ = 0;
  }
  if (machine->nodes() + 1 > kIdleNodesMax) return;
  idle_nodes_ += machine->nodes() + 1;
  idle_machines_[plan].push_back(std::move(machine));
}

void GroupCore::Launch(std::unique_ptr<GroupOperation> operation) {
  GroupOperation* raw = operation.get();
  Status status = Prepare(raw);
  bool tell = true;
  running_[raw->tag] = std::move(operation);
  if (auto failed = failed_.find(raw->tag); status.ok() && failed != failed_.end()) {
    status = failed->second;
    tell = false;
  }
  failed_.erase(raw->tag);
  auto early = early_.find(raw->tag);
  if (early != early_.end()) {
    std::vector<Early> later;
    for (const Early& one : early->second) {
      const int rank = seats_[static_cast<size_t>(one.seat)].rank;
      // Of one key, a later operation may be meant: then it is looked at when that begins.
      const bool meant = raw->machine != nullptr && rank >= 0 && !raw->machine->met(rank) &&
                         (raw->print.keyed == 0 || raw->machine->HearsFrom(rank));
      if (meant) raw->machine->SetMet(rank);
      if (!meant) later.push_back(one);
      if (meant && status.ok() && !(one.print == raw->print)) status = MismatchOf(raw->print, rank, one.print);
    }
    early_count_ -= early->second.size() - later.size();
    if (later.empty() || raw->print.keyed == 0) {
      early_count_ -= later.size();
      early_.erase(early);
    } else {
      early->second = std::move(later);
    }
  }
  if (!status.ok()) {
    FailOperation(raw, status, tell);
    return;
  }
  Hurry();
  raw->machine->Begin();
}

// ---- end ----

void GroupCore::FailOperation(GroupOperation* operation, const Status& why, bool tell) {
  if (!operation->status.ok()) return;
  operation->status =
      why.Phase(operation->print.Describe()).AgeMs((home_.now_ns() - operation->began_ns) / kMillisecondNs);
  if (operation->print.keyed != 0) {
    if (failures_.size() >= kFailuresMax) failures_.erase(failures_.begin());
    failures_[operation->print.key] = operation->print.turn + 1;
  }
  if (tell && broken_.ok()) {
    Note note;
    note.verb = NoteVerb::kFailed;
    note.epoch = epoch_;
    note.print = operation->print;
    note.status = operation->status;
    TellAll(note);
  }
  RememberDead(operation->tag, operation->status);
  Machine* machine = operation->machine.get();
  if (machine == nullptr || !machine->running()) {
    EndOperation(operation, operation->status);
    return;
  }
  std::vector<Gated> gated;
  for (Seat& seat : seats_) {
    for (size_t i = 0; i < seat.gated.size();) {
      if (seat.gated[i].machine != machine) {
        ++i;
        continue;
      }
      gated.push_back(seat.gated[i]);
      seat.gated.erase(seat.gated.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  machine->Fail(operation->status);
  for (const Gated& one : gated) one.machine->PostSend(one.node);
}

void GroupCore::OnMachineEnded(Machine* machine) {
  machine->work_queued = false;
  working_.erase(std::remove(working_.begin(), working_.end(), machine), working_.end());
  GroupOperation* operation = machine->operation;
  EndOperation(operation, operation->status.ok() ? machine->status() : operation->status);
}

// It is no longer under way; `done` follows with the mail.
void GroupCore::EndOperation(GroupOperation* operation, const Status& status) {
  operation->status = status;
  if (operation->deadline != nullptr) reactor::Reactor::Disarm(operation->deadline.get());
  const auto found = running_.find(operation->tag);
  FUSEWIRE_CHECK(found != running_.end());
  FUSEWIRE_CHECK(found->second.get() == operation);
  ended_.push_back(std::move(found->second));
  running_.erase(found);
  ended_mail_.Post();
}

void GroupCore::RunEnded() {
  std::vector<std::unique_ptr<GroupOperation>> ended = std::move(ended_);
  ended_.clear();
  for (std::unique_ptr<GroupOperation>& operation : ended) {
    if (operation->machine != nullptr && operation->home_plan == nullptr)
      GiveMachine(operation->plan, std::move(operation->machine));
    auto behind = behind_.find(operation->tag);
    if (behind != behind_.end()) {
      std::deque<std::unique_ptr<GroupOperation>> waiting = std::move(behind->second);
      behind_.erase(behind);
      for (std::unique_ptr<GroupOperation>& next : waiting) {
        Place(next.get());  // after a failure the key has another tag
        if (running_.count(next->tag) > 0) {
          behind_[next->tag].push_back(std::move(next));
        } else {
          Launch(std::move(next));
        }
      }
    }
  }
  Hurry();
  for (std::unique_ptr<GroupOperation>& operation : ended) {
    Done done = std::move(operation->done);
    const Status status = std::exchange(operation->status, Status::Ok());
    // To its plan, which may start it again inside `done`; or to nobody.
    const std::shared_ptr<PlanState> plan = std::move(operation->home_plan);
    if (plan != nullptr) plan->operation = std::move(operation);
    operation.reset();
    done(status);
  }
}

void GroupCore::ArmDeadline(GroupOperation* operation, int64_t delay_ns) {
  if (operation->deadline == nullptr) {
    operation->deadline = std::make_unique<reactor::Timer>([this, operation] { OnDeadline(operation); });
  }
  home_.Arm(operation->deadline.get(), delay_ns);
}

// For whom it waits; empty: for nobody.
std::string GroupCore::LateWords(const GroupOperation& operation) const {
  if (operation.machine == nullptr) return "";
  std::string words;
  const std::vector<int> ranks = operation.machine->WaitsFor();
  for (size_t i = 0; i < ranks.size() && i < 8; ++i) words += (i == 0 ? "" : ", ") + RankWords(ranks[i]);
  return words.empty() ? "" : words + " had not done its part at " + RankWords(rank_);
}

// Of one that has not begun, behind others of its key.
std::string GroupCore::LateBefore(const GroupOperation& operation) const {
  const auto running = running_.find(operation.tag);
  if (running != running_.end()) return LateWords(*running->second);
  for (const std::unique_ptr<GroupOperation>& before : ended_) {
    if (before->tag == operation.tag) return before->status.cause();
  }
  return "";
}

void GroupCore::OnDeadline(GroupOperation* operation) {
  if (!operation->doubt.ok()) {
    FailOperation(operation, operation->doubt, true);
    return;
  }
  std::string late = LateWords(*operation);
  if (late.empty()) late = LateBefore(*operation);
  const Status why = Status::Timeout("it has not ended in time" + (late.empty() ? "" : ": " + late))
                         .Next("look at those ranks, or allow more time");
  auto behind = behind_.find(operation->tag);
  const auto running = running_.find(operation->tag);
  if (running != running_.end() && running->second.get() == operation) {
    FailOperation(operation, why, true);
    return;
  }
  if (behind == behind_.end()) return;
  for (auto it = behind->second.begin(); it != behind->second.end(); ++it) {
    if (it->get() != operation) continue;
    // It has not begun, and those before it are late too: the others find their deadline themselves.
    operation->status = why;
    ended_.push_back(std::move(*it));
    behind->second.erase(it);
    if (behind->second.empty()) behind_.erase(behind);
    ended_mail_.Post();
    return;
  }
}

// The lane has run it.
void GroupCore::TakeEnded(std::unique_ptr<GroupOperation> operation) {
  operation->ended = false;
  operation->tag = 0;
  ended_.push_back(std::move(operation));
  ended_mail_.Post();
}

void GroupCore::TellFailed(uint32_t epoch, uint64_t turn, const Status& why) {
  if (epoch != epoch_ || !broken_.ok() || closed_) return;
  Note note;
  note.verb = NoteVerb::kFailed;
  note.epoch = epoch_;
  note.print.epoch = static_cast<uint16_t>(epoch_);
  note.print.turn = turn;
  note.status = why;
  TellAll(note);
}

void GroupCore::Cancel(uint64_t number, const Status& why) {
  const Status said = why.ok() ? Status::Cancelled("the caller cancelled it") : why;
  if (lane_ != nullptr && lane_->Cancel(number, said.Peer(RankWords(rank_)))) return;
  for (auto& [tag, operation] : running_) {
    if (operation->number != number) continue;
    FailOperation(operation.get(), said.Peer(RankWords(rank_)), true);
    return;
  }
  for (auto& [tag, waiting] : behind_) {
    for (auto it = waiting.begin(); it != waiting.end(); ++it) {
      if ((*it)->number != number) continue;
      (*it)->status = said;
      ended_.push_back(std::move(*it));
      waiting.erase(it);
      if (waiting.empty()) behind_.erase(tag);
      ended_mail_.Post();
      return;
    }
  }
}

void GroupCore::Break(const Status& why, bool tell) {
  if (!broken_.ok() || closed_) return;
  broken_ = why;
  if (lane_ != nullptr) lane_->Shut(why);
  if (tell) {
    Note note;
    note.verb = NoteVerb::kBroken;
    note.epoch = epoch_;
    note.status = why;
    TellAll(note);
  }
  std::vector<GroupOperation*> all;
  for (auto& [tag, operation] : running_) all.push_back(operation.get());
  for (GroupOperation* operation : all) FailOperation(operation, why, false);
  for (auto& [tag, waiting] : behind_) {
    for (std::unique_ptr<GroupOperation>& operation : waiting) {
      operation->status = why;
      ended_.push_back(std::move(operation));
    }
  }
  behind_.clear();
  if (!ended_.empty()) ended_mail_.Post();
}

}  // namespace collective
}  // namespace fusewire
