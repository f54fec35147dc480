// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/pending_connections.h"

#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::task {

// One pipe that came in, and the receiver that serves it once it is greeted.
class PendingConnections::Served final : private pipe::PipeHandler, private pipe::OtherHomes {
 public:
  enum class Stage { kGreeting, kTurnedAway, kHandedOver, kOpen };

  Served(PendingConnections* pending, uint64_t id, std::unique_ptr<transport::Connection> connection)
      : pending_(pending),
        id_(id),
        pipe_(pending->context_, pending->home_, std::move(connection), pipe::Role::kAcceptor, pending->service_, this),
        gone_([this] { pending_->served_.erase(this->id()); }) {}
  // A Done may need the receiver, and the receiver the pipe.
  ~Served() { pipe_.Abort(Status::Cancelled("the acceptor has gone")); }

  void Start(const pipe::HandedOver* handed) {
    if (handed != nullptr) {
      pipe_.GoOn(*handed);
    } else {
      pipe_.Start(pending_->others_ == nullptr ? nullptr : this);
    }
  }

  pipe::Pipe& pipe() { return pipe_; }
  uint64_t id() const { return id_; }
  Stage stage = Stage::kGreeting;

 private:
  pipe::FrameHandler* OnOpen(const pipe::PeerInfo& peer) override {
    receiver_ = pending_->owner_->NewReceiverFor(pipe_);
    FUSEWIRE_CHECK(receiver_ != nullptr);
    pending_->OnOpen(this);
    return receiver_->OnOpen(peer);
  }
  void OnClosed(Status why) override {
    if (receiver_ != nullptr) receiver_->OnClosed(why);
    pending_->OnClosed(this, why);  // destroys us
  }
  void OnHandedOver(pipe::HandedOver handed) override {
    pending_->OnHandedOver(this);
    pending_->others_->OnHandedOver(std::move(handed));
    pending_->home_.Arm(&gone_, 0);  // the pipe is still at work
  }

  PendingConnections* const pending_;
  const uint64_t id_;
  pipe::Pipe pipe_;
  reactor::Timer gone_;
  std::unique_ptr<pipe::Receiver> receiver_;  // behind the pipe: it goes first
};

PendingConnections::PendingConnections(PendingOwner* owner, size_t index, pipe::PipeContext& context,
                                       reactor::Reactor& home, uint16_t service, size_t greetings_max,
                                       pipe::OtherHomes* others)
    : owner_(owner),
      index_(index),
      context_(context),
      home_(home),
      service_(service),
      greetings_max_(greetings_max),
      others_(others) {}

PendingConnections::~PendingConnections() { FUSEWIRE_AT_HOME(home_); }

void PendingConnections::Take(std::unique_ptr<transport::Connection> connection, const pipe::HandedOver* handed) {
  FUSEWIRE_AT_HOME(home_);
  if (greetings_ >= greetings_max_) MakeRoom();
  FUSEWIRE_DCHECK(greetings_ <= served_.size());
  uint64_t id = next_id_++;
  auto served = std::make_unique<Served>(this, id, std::move(connection));
  Served& taken = *served;
  served_[id] = std::move(served);
  ++greetings_;
  taken.Start(handed);
}

// The one that has been silent for longest goes: a flood of strangers does not keep friends out.
void PendingConnections::MakeRoom() {
  for (auto& [id, served] : served_) {
    if (served->stage != Served::Stage::kGreeting) continue;
    FUSEWIRE_CHECK(greetings_ > 0);
    served->stage = Served::Stage::kTurnedAway;
    --greetings_;
    served->pipe().Close(Status::Overloaded("too many connections that have not said hello").Phase("greeting"));
    return;
  }
}

void PendingConnections::OnOpen(Served* served) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(served->stage == Served::Stage::kGreeting);
  FUSEWIRE_CHECK(greetings_ > 0);
  served->stage = Served::Stage::kOpen;
  --greetings_;
  owner_->OnGreeted(index_, served->id(), served->pipe().peer());
}

void PendingConnections::OnClosed(Served* served, const Status& why) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(served->stage != Served::Stage::kHandedOver);
  FUSEWIRE_CHECK(served_.count(served->id()) == 1);
  FUSEWIRE_CHECK(served->stage != Served::Stage::kGreeting || greetings_ > 0);
  if (served->stage == Served::Stage::kGreeting) --greetings_;
  if (served->stage == Served::Stage::kOpen) {
    owner_->OnGone(index_, served->id(), served->pipe().peer());
  } else {
    owner_->OnTurnedAway(served->pipe().peer(), why, home_.now_ns());
  }
  served_.erase(served->id());
}

void PendingConnections::OnHandedOver(Served* served) {
  FUSEWIRE_CHECK(served->stage == Served::Stage::kGreeting);
  FUSEWIRE_CHECK(greetings_ > 0);
  served->stage = Served::Stage::kHandedOver;
  --greetings_;
}

void PendingConnections::ClosePipe(uint64_t id, const Status& why) {
  FUSEWIRE_AT_HOME(home_);
  auto found = served_.find(id);
  if (found != served_.end()) found->second->pipe().Close(why);
}

std::pair<size_t, size_t> PendingConnections::Count() const {
  FUSEWIRE_AT_HOME(home_);
  size_t seated = 0, open = 0;
  for (const auto& [id, served] : served_) {
    if (served->stage != Served::Stage::kHandedOver) ++seated;
    if (served->stage == Served::Stage::kOpen) ++open;
  }
  return {seated, open};
}

void PendingConnections::CloseAll(const Status& why) {
  FUSEWIRE_AT_HOME(home_);
  for (auto& [id, served] : served_) served->pipe().Close(why);
}

}  // namespace fusewire::task
