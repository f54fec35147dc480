// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/group/operations.h"

#include <algorithm>

#include "fusewire/collective/schedule/choice.h"

namespace fusewire::collective {
namespace {

constexpr size_t kIdleNodesMax = 64 * 1024;

std::string KeyOf(uint32_t epoch, const Request& request, size_t element_bytes) {
  std::string key;
  auto add = [&key](uint64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  add(epoch);
  add(static_cast<uint64_t>(request.kind) << 24 | static_cast<uint64_t>(request.algorithm) << 16 |
      (request.in_place ? 1U << 8 : 0U) | element_bytes);
  add(static_cast<uint64_t>(request.root));
  add(request.segment_count);
  for (const size_t count : request.counts) add(count);
  for (const size_t count : request.receives) add(count);
  return key;
}

// The work of one turn of the loop: some hundred microseconds. Less than the second is done immediately.
constexpr size_t kWorkBytesMax = 1024 * 1024;
constexpr size_t kSmallWorkBytesMax = 64 * 1024;

// How long an operation waits for the reason of a failure at a peer.
constexpr int64_t kDoubtNs = 1 * kSecondNs;
constexpr size_t kLateRanksMax = 8;

Status MismatchOf(const Seats& seats, const Fingerprint& mine, int rank, const Fingerprint& other) {
  const std::string where =
      mine.keyed != 0 ? "under key " + std::to_string(mine.key) : "in call " + std::to_string(mine.turn);
  return Status::Invalid("the ranks disagree " + where + ": " + seats.RankText(seats.rank()) + " " + mine.Describe() +
                         ", " + seats.RankText(rank) + " " + other.Describe())
      .Next("make the same calls with the same counts at all ranks");
}

// Names the ranks for which it waits; empty if there are none.
std::string LateText(const Seats& seats, const GroupOperation& operation) {
  if (operation.runner == nullptr) return "";
  std::string text;
  const std::vector<int> ranks = operation.runner->WaitsFor();
  for (size_t i = 0; i < ranks.size() && i < kLateRanksMax; ++i)
    text += (i == 0 ? "" : ", ") + seats.RankText(ranks[i]);
  return text.empty() ? "" : text + " had not done its part at " + seats.RankText(seats.rank());
}

// The same for an operation that is behind another one of its key.
std::string LateBeforeText(const Seats& seats, const OperationTable& table, const GroupOperation& operation) {
  if (const GroupOperation* const running = table.Running(operation.tag)) return LateText(seats, *running);
  const GroupOperation* const before = table.Ended(operation.tag);
  return before == nullptr ? "" : before->status.cause();
}

// Whether a first message from that rank belongs to this operation, and not to a later one of its key.
bool Expects(const GroupOperation& operation, int rank) {
  return operation.runner != nullptr && rank >= 0 && !operation.runner->met(rank) &&
         (operation.print.keyed == 0 || operation.runner->ReceivesFrom(rank));
}

}  // namespace

Status Runners::Prepare(GroupOperation* operation) {
  ScheduleRunner::Run& run = operation->run;
  if (operation->runner == nullptr || operation->prepared_epoch != seats_->epoch()) {
    operation->runner.reset();
    Request request;
    FUSEWIRE_TRY(Choose(operation, &request));
    operation->runner = FUSEWIRE_TRY(Find(request, operation));
    operation->runner->context = operation;
    operation->prepared_epoch = seats_->epoch();
    run.reduction = operation->spec.reduction;
    run.confirm = operation->spec.confirm;
  }
  run.tag = operation->tag;
  run.print = operation->print;
  operation->runner->Prepare(run);
  return Status::Ok();
}

// Completes its request with the algorithm, and its fingerprint.
Status Runners::Choose(GroupOperation* operation, Request* request) {
  const CollectiveSpec& spec = operation->spec;
  const int ranks = seats_->ranks(), rank = seats_->rank();
  FUSEWIRE_TRY(CheckSpec(spec, ranks, rank, &operation->run.arrays));
  const size_t element_bytes = SizeOf(spec.reduction.type);
  request->kind = spec.kind;
  request->ranks = ranks;
  request->rank = rank;
  request->root = spec.root;
  request->counts = spec.counts;
  request->receives = spec.receives;
  request->in_place = operation->run.arrays.in_place;
  // With counts of its own, a rank of an all-to-all doesn't know the others': the choice must not depend on them.
  size_t bytes = spec.receives.empty() ? SumOf(request->counts) * element_bytes : 0;
  if (IsEven(spec)) bytes *= static_cast<size_t>(ranks);
  const Choice choice = collective::Choose(spec.kind, ranks, bytes, options_.link_cost, options_.table,
                                           options_.reproducible, seats_->places());
  request->algorithm = choice.algorithm;
  if (choice.algorithm == Algorithm::kTwoLevel) {
    request->hosts = seats_->places().hosts;
    request->between = choice.between;
  }
  request->segment_count = std::max<size_t>(choice.segment_bytes / element_bytes, 1);
  const Fingerprint place = operation->print;
  operation->print = FingerprintOf(*request, spec.reduction);
  operation->print.keyed = place.keyed;
  operation->print.key = place.key;
  operation->print.turn = place.turn;
  operation->print.epoch = place.epoch;
  return Status::Ok();
}

Result<std::unique_ptr<ScheduleRunner>> Runners::Find(const Request& request, GroupOperation* operation) {
  const size_t element_bytes = SizeOf(operation->spec.reduction.type);
  operation->runner_key = KeyOf(seats_->epoch(), request, element_bytes);
  const auto found = idle_.find(operation->runner_key);
  if (found == idle_.end() || found->second.empty())
    return ScheduleRunner::Make(request, element_bytes, &endpoint_, seats_->PeersOfRanks(), owner_);
  std::unique_ptr<ScheduleRunner> runner = std::move(found->second.back());
  found->second.pop_back();
  FUSEWIRE_CHECK(idle_nodes_ > runner->nodes());
  idle_nodes_ -= runner->nodes() + 1;
  return runner;
}

void Runners::TakeBack(GroupOperation* operation) {
  std::unique_ptr<ScheduleRunner> runner = std::move(operation->runner);
  FUSEWIRE_CHECK(!runner->running());
  FUSEWIRE_DCHECK(operation->prepared_epoch <= seats_->epoch());
  if (idle_nodes_ + runner->nodes() + 1 > kIdleNodesMax) Clear();
  if (runner->nodes() + 1 > kIdleNodesMax) return;
  idle_nodes_ += runner->nodes() + 1;
  idle_[operation->runner_key].push_back(std::move(runner));
}

void Runners::Clear() {
  idle_.clear();
  idle_nodes_ = 0;
}

void WorkQueue::Add(GroupOperation* operation) {
  FUSEWIRE_DCHECK(operation->runner != nullptr);
  if (operation->work_queued || !operation->runner->Work(kSmallWorkBytesMax)) return;
  FUSEWIRE_DCHECK(operation->state == GroupOperation::State::kRunning);
  operation->work_queued = true;
  operations_.push_back(operation);
}

GroupOperation* WorkQueue::RunTurn() {
  FUSEWIRE_CHECK(!empty());
  GroupOperation* operation = operations_.front();
  FUSEWIRE_DCHECK(operation->work_queued);
  operations_.pop_front();
  operation->work_queued = operation->runner->Work(kWorkBytesMax);
  if (operation->work_queued) operations_.push_back(operation);
  return operation;
}

void WorkQueue::Remove(GroupOperation* operation) {
  if (!operation->work_queued) return;
  operation->work_queued = false;
  const auto found = std::find(operations_.begin(), operations_.end(), operation);
  FUSEWIRE_CHECK(found != operations_.end());
  operations_.erase(found);
}

void Operations::TurnMail::Deliver() {
  // Keeps the owner until this has returned: the Group may be destroyed meanwhile.
  const std::shared_ptr<void> alive = std::move(alive_);
  operations_->TellEnded();
  operations_->RunWork();
}

void Operations::TurnMail::Post() {
  if (alive_ != nullptr) return;
  alive_ = operations_->owner_.lock();
  FUSEWIRE_CHECK(alive_ != nullptr);
  operations_->home_.Post(this);
}

Operations::Operations(p2p::Endpoint& endpoint, const GroupOptions& options, const Seats* seats, Members* members,
                       reactor::Drain* under_way, std::function<bool(uint64_t turn)> over_messages,
                       GroupMonitor* monitor)
    : home_(endpoint.home()),
      seats_(seats),
      members_(members),
      under_way_(under_way),
      order_(options.name, std::move(over_messages)),
      runners_(endpoint, options, seats, this),
      table_(home_, [this](GroupOperation* operation) { OnDeadline(operation); }),
      recorder_(home_, monitor, &table_),
      failed_tags_(endpoint, under_way) {}

// ---- begin ----

void Operations::Begin(std::unique_ptr<GroupOperation> operation) {
  FUSEWIRE_AT_HOME(home_);
  under_way_->Open();
  operation->began_ns = home_.now_ns();
  const int64_t timeout_ns = std::exchange(operation->left_ns, 0);
  Status refusal = closed_ ? Status::Cancelled("the group is closed") : broken_;
  if (operation->given_turn.has_value() && operation->given_epoch != seats_->epoch() && refusal.ok())
    refusal = Status::Unavailable("the group has shrunk since it was called").Next("call it again");
  if (!refusal.ok()) {
    table_.EndIdle(std::move(operation), refusal);
    mail_.Post();
    return;
  }
  GroupOperation* const raw = operation.get();
  raw->doubt = Status::Ok();
  raw->deadline_ns = timeout_ns == kForeverNs ? kForeverNs : AddNs(raw->began_ns, std::max<int64_t>(timeout_ns, 0));
  if (timeout_ns != kForeverNs) table_.ArmDeadline(raw, std::max<int64_t>(timeout_ns, 0));
  order_.Place(raw);
  recorder_.Begin(raw);
  if (table_.Running(raw->tag) != nullptr) {
    table_.Queue(std::move(operation));
    if (raw->cancel != nullptr && raw->cancel->cancelled()) Cancel(raw->number, GivenUp());
  } else {
    Launch(std::move(operation));
  }
}

void Operations::Launch(std::unique_ptr<GroupOperation> operation) {
  Status status = runners_.Prepare(operation.get());
  GroupOperation* const raw = table_.Run(std::move(operation));
  bool tell = true;
  const EarlyNews::News early = early_.Take(raw->tag);
  if (status.ok() && !early.failure.ok()) {
    status = early.failure;
    tell = false;
  }
  const Status compared = Compare(raw, early.messages);
  if (status.ok()) status = compared;
  // It has sent nothing yet: it fails in its place, and the other ranks are notified.
  if (status.ok() && raw->cancel != nullptr && raw->cancel->cancelled())
    status = GivenUp().Peer(seats_->RankText(seats_->rank()));
  if (!status.ok()) return Fail(raw, status, tell);
  raw->runner->Begin();
  Attend(raw);
}

// Compares its fingerprint with those of first messages that arrived before it began.
Status Operations::Compare(GroupOperation* operation, const std::vector<EarlyNews::Message>& early) {
  Status status;
  for (const EarlyNews::Message& message : early) {
    const int rank = seats_->at(message.seat).rank;
    if (!Expects(*operation, rank)) {
      // With a key, it may belong to a later operation: it is compared again when that begins.
      if (operation->print.keyed != 0) early_.Add(operation->tag, message);
      continue;
    }
    operation->runner->SetMet(rank);
    if (status.ok() && !(message.print == operation->print))
      status = MismatchOf(*seats_, operation->print, rank, message.print);
  }
  return status;
}

// ---- while it runs ----

void Operations::OnMessageEnded(ScheduleRunner* runner) {
  auto* const operation = static_cast<GroupOperation*>(runner->context);
  FUSEWIRE_CHECK(operation->state == GroupOperation::State::kRunning);
  FUSEWIRE_CHECK(operation->runner.get() == runner);
  Attend(operation);
}

void Operations::Attend(GroupOperation* operation) {
  ScheduleRunner* const runner = operation->runner.get();
  if (const std::optional<MessageFailure> failure = runner->TakeFailure()) OnMessageFailed(operation, *failure);
  if (operation->state == GroupOperation::State::kRunning && runner->has_work()) {
    work_.Add(operation);
    if (!work_.empty()) mail_.Post();
  }
  for (const int rank : runner->TakeUnreached()) {
    if (HasLeft(rank))
      return Fail(operation, Status::Unavailable(seats_->RankText(rank) + " has left the group"), true);
    members_->AwaitPeer(seats_->SeatOfRank(rank));
  }
  if (operation->state == GroupOperation::State::kRunning && !runner->running())
    End(operation, operation->status.ok() ? runner->status() : operation->status);
}

void Operations::OnMessageFailed(GroupOperation* operation, const MessageFailure& failure) {
  const int rank = failure.rank;
  if (failure.differs.has_value()) {
    const Status why = MismatchOf(*seats_, operation->print, rank, *failure.differs);
    return Fail(operation, why.Peer(seats_->RankText(rank)), true);
  }
  const Status& why = failure.why;
  const bool left = HasLeft(rank);
  const bool not_coming = left && why.code() == Code::kCancelled;
  const bool gone = not_coming || why.code() == Code::kUnavailable || why.code() == Code::kCorrupt;
  if (gone && !left) {
    members_->Lose(seats_->SeatOfRank(rank), why);  // which fails all operations
    return Fail(operation, broken_.ok() ? why : broken_, false);
  }
  // The receiver's operation has failed, and the rank that failed first sends a more precise reason to all others,
  // unless it is this rank's own endpoint that was closed.
  const bool ours = why.cause().rfind("the endpoint", 0) == 0;
  if (failure.sent && !gone && !ours && why.code() != Code::kRefused) {
    if (!operation->doubt.ok()) return;
    operation->doubt = why.Peer(seats_->RankText(rank));
    return table_.ArmDeadline(operation, std::clamp<int64_t>(operation->deadline_ns - home_.now_ns(), 0, kDoubtNs));
  }
  const Status said = gone ? Status::Unavailable(seats_->RankText(rank) + " has left the group") : why;
  Fail(operation, said.Peer(seats_->RankText(rank)), gone || why.code() != Code::kCancelled);
}

void Operations::RunWork() {
  if (work_.empty()) return;
  GroupOperation* const operation = work_.RunTurn();
  Attend(operation);
  if (!work_.empty()) mail_.Post();
}

void Operations::OnReached(int seat) {
  const int rank = seats_->at(seat).rank;
  if (rank < 0) return;
  for (GroupOperation* const operation : table_.AllRunning()) {
    if (operation->runner == nullptr || !operation->runner->WaitsToReach(rank)) continue;
    operation->runner->OnReached(rank);
    Attend(operation);
  }
}

bool Operations::WaitsToReach(int seat) const {
  const int rank = seats_->at(seat).rank;
  bool waits = false;
  table_.ForRunning([rank, &waits](const GroupOperation* operation) {
    waits = waits || (rank >= 0 && operation->runner != nullptr && operation->runner->WaitsToReach(rank));
  });
  return waits;
}

void Operations::OnLeft(int seat) {
  const int rank = seats_->at(seat).rank;
  if (rank < 0) return;
  table_.ForRunning([rank](const GroupOperation* operation) {
    if (operation->runner != nullptr) operation->runner->ExpectNoMoreOf(rank);
  });
}

void Operations::OnGoneAfterLeaving(int seat) {
  const int rank = seats_->at(seat).rank;
  for (GroupOperation* const operation : table_.AllRunning()) {
    if (operation->runner == nullptr || !operation->runner->WaitsToReach(rank)) continue;
    Fail(operation, Status::Unavailable(seats_->Text(seat) + " has left the group"), true);
  }
}

// ---- unexpected messages ----

p2p::OfferAnswer Operations::OnOffer(const p2p::Offer& offer) {
  using p2p::OfferAnswer;
  const int seat = seats_->SeatOf(offer.peer);
  if (seat < 0)
    return OfferAnswer::Refuse(Status::Refused("\"" + offer.peer.name() + "\" is not a member of the group"));
  // With the reason: the rank that failed first may have sent it to this rank only.
  if (const Status* const failed = failed_tags_.Find(offer.tag))
    return OfferAnswer::Refuse(Status::Cancelled("this operation has failed here: " + failed->ToString()));
  if (offer.head.empty()) return OfferAnswer::Defer();
  Result<Fingerprint> decoded = DecodeFingerprint(offer.head);
  if (!decoded.ok()) return OfferAnswer::Refuse(decoded.status());
  const Fingerprint& print = decoded.value();
  const int rank = seats_->at(seat).rank;
  GroupOperation* const operation = table_.Running(offer.tag);
  if (operation == nullptr || operation->runner == nullptr) {
    if (print.keyed == 0 && order_.HasEnded(print))
      return OfferAnswer::Refuse(Status::Invalid(seats_->RankText(seats_->rank()) + " has ended that call already"));
    early_.Add(offer.tag, {seat, print});
    return OfferAnswer::Defer();
  }
  if (!Expects(*operation, rank)) {
    if (print.keyed != 0) early_.Add(offer.tag, {seat, print});
    return OfferAnswer::Defer();
  }
  operation->runner->SetMet(rank);
  if (print == operation->print) return OfferAnswer::Defer();
  // By mail: not inside a call of the pipe that received it.
  home_.Post([this, alive = owner_.lock(), number = operation->number,
              why = MismatchOf(*seats_, operation->print, rank, print)] {
    if (GroupOperation* const differing = table_.RunningByNumber(number)) Fail(differing, why, true);
  });
  return OfferAnswer::Defer();
}

// ---- end ----

void Operations::OnFailedElsewhere(const Fingerprint& place, Status why) {
  const uint64_t tag = order_.TagOf(place);
  GroupOperation* const running = table_.Running(tag);
  if (running != nullptr && running->print.SamePlace(place)) {
    // The rank that was waited for there may have waited here, for another one.
    const std::string late = why.code() == Code::kTimeout ? LateText(*seats_, *running) : "";
    if (!late.empty()) why = Status::Timeout(why.cause() + "; " + late).Peer(why.peer()).Next(why.next());
    return Fail(running, why, false);
  }
  if (order_.HasEnded(place)) return;
  early_.AddFailure(tag, why);
}

void Operations::Fail(GroupOperation* operation, const Status& why, bool tell) {
  FUSEWIRE_DCHECK(!why.ok());
  if (!operation->status.ok()) return;
  operation->status =
      why.Phase(operation->print.Describe()).AgeMs((home_.now_ns() - operation->began_ns) / kMillisecondNs);
  order_.OnFailed(operation->print);
  if (tell && broken_.ok())
    members_->SendToAll({.verb = ControlVerb::kFailed,
                         .epoch = seats_->epoch(),
                         .print = operation->print,
                         .status = operation->status});
  failed_tags_.Add(operation->tag, operation->status);
  (void)early_.Take(operation->tag);
  ScheduleRunner* const runner = operation->runner.get();
  if (runner != nullptr) runner->Fail(operation->status);
  if (runner == nullptr || !runner->running()) End(operation, operation->status);
}

// It is no longer under way; `done` follows with the mail.
void Operations::End(GroupOperation* operation, const Status& status) {
  work_.Remove(operation);
  table_.End(operation, status);
  mail_.Post();
}

void Operations::OnDeadline(GroupOperation* operation) {
  if (!operation->doubt.ok()) return Fail(operation, operation->doubt, true);
  std::string late = LateText(*seats_, *operation);
  if (late.empty()) late = LateBeforeText(*seats_, table_, *operation);
  const Status why = Status::Timeout("it has not ended in time" + (late.empty() ? "" : ": " + late))
                         .Next("look at those ranks, or allow more time");
  if (operation->state == GroupOperation::State::kRunning) return Fail(operation, why, true);
  // It has not begun, and those before it are late too: the others find their deadline themselves.
  if (table_.EndBehind(*operation, why)) mail_.Post();
}

void Operations::Cancel(uint64_t number, const Status& why) {
  if (GroupOperation* const running = table_.RunningByNumber(number))
    return Fail(running, why.Peer(seats_->RankText(seats_->rank())), true);
  const GroupOperation* const behind = table_.BehindByNumber(number);
  if (behind != nullptr && table_.EndBehind(*behind, why)) mail_.Post();
}

void Operations::TakeServed(std::unique_ptr<GroupOperation> operation) {
  FUSEWIRE_AT_HOME(home_);
  under_way_->Open();
  operation->tag = 0;
  table_.EndServed(std::move(operation));
  mail_.Post();
}

void Operations::Break(const Status& why) {
  FUSEWIRE_DCHECK(!why.ok());
  if (!broken_.ok() || closed_) return;
  broken_ = why;
  for (GroupOperation* const operation : table_.AllRunning()) Fail(operation, why, false);
  table_.EndAllBehind(why);
  if (table_.has_ended()) mail_.Post();
}

void Operations::Close() {
  FUSEWIRE_DCHECK(!broken_.ok());
  closed_ = true;
  recorder_.Close();
}

void Operations::EnterEpoch() {
  broken_ = Status::Ok();
  order_.EnterEpoch(seats_->epoch());
  early_.Clear();
  failed_tags_.Clear();
  runners_.Clear();
}

// ---- tell ----

void Operations::TellEnded() {
  std::vector<std::unique_ptr<GroupOperation>> ended = table_.TakeEnded();
  for (const std::unique_ptr<GroupOperation>& operation : ended) {
    if (operation->runner != nullptr && operation->home_plan == nullptr) runners_.TakeBack(operation.get());
    recorder_.End(operation.get(), operation->status);
    LaunchBehind(operation->tag);
  }
  for (std::unique_ptr<GroupOperation>& operation : ended) {
    Done done = std::move(operation->done);
    const Status status = std::exchange(operation->status, Status::Ok());
    // It returns to its plan, if any, which may start it again inside `done`.
    const std::shared_ptr<PlanState> plan = std::move(operation->home_plan);
    if (plan != nullptr) {
      plan->operation = std::move(operation);
      plan->under_way.store(false, std::memory_order_release);
    }
    operation.reset();
    done(status);
    under_way_->Close();
  }
}

void Operations::LaunchBehind(uint64_t tag) {
  for (std::unique_ptr<GroupOperation>& next : table_.TakeBehind(tag)) {
    order_.Place(next.get());  // after a failure the key has another tag
    if (table_.Running(next->tag) != nullptr) {
      table_.Queue(std::move(next));
    } else {
      Launch(std::move(next));
    }
  }
}

}  // namespace fusewire::collective
