// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/porch.h"

#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace pipe {

// One pipe that came in, and the receiver that serves it once it is greeted.
class Porch::Served final : public Receiver {
 public:
  enum class Stage { kGreeting, kTurnedAway, kOpen };

  Served(Porch* porch, uint64_t id, std::unique_ptr<transport::Connection> connection)
      : porch_(porch),
        id_(id),
        pipe_(porch->shared_, porch->home_, std::move(connection), Role::kAcceptor, porch->service_, this) {}
  // A Done may need the receiver, and the receiver the pipe.
  ~Served() override { pipe_.Abort(Status::Cancelled("the acceptor has gone")); }

  void OnOpen(const PeerInfo& peer) override {
    receiver_ = porch_->owner_->NewReceiverFor(pipe_);
    FUSEWIRE_CHECK(receiver_ != nullptr);
    porch_->OnOpen(this);
    receiver_->OnOpen(peer);
  }
  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override {
    return receiver_->OnHeader(header, meta);
  }
  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override {
    return receiver_->OnMessage(header, meta, view);
  }
  void OnCancel(uint64_t call) override { receiver_->OnCancel(call); }
  void OnClosed(Status why) override {
    if (receiver_ != nullptr) receiver_->OnClosed(why);
    porch_->OnClosed(this, why);  // destroys us
  }

  Pipe& pipe() { return pipe_; }
  uint64_t id() const { return id_; }
  Stage stage = Stage::kGreeting;

 private:
  Porch* const porch_;
  const uint64_t id_;
  Pipe pipe_;
  std::unique_ptr<Receiver> receiver_;  // behind the pipe: it goes first
};

Porch::Porch(PorchOwner* owner, size_t index, Shared& shared, reactor::Reactor& home, uint16_t service,
             size_t greetings_max)
    : owner_(owner), index_(index), shared_(shared), home_(home), service_(service), greetings_max_(greetings_max) {}

Porch::~Porch() = default;

void Porch::Take(std::unique_ptr<transport::Connection> connection) {
  FUSEWIRE_AT_HOME(home_);
  if (greetings_ >= greetings_max_) MakeRoom();
  uint64_t id = next_id_++;
  auto served = std::make_unique<Served>(this, id, std::move(connection));
  Pipe& pipe = served->pipe();
  served_[id] = std::move(served);
  ++greetings_;
  pipe.Start();
}

// The one that has been silent for longest goes: a flood of strangers does not keep friends out.
void Porch::MakeRoom() {
  for (auto& [id, served] : served_) {
    if (served->stage != Served::Stage::kGreeting) continue;
    served->stage = Served::Stage::kTurnedAway;
    --greetings_;
    served->pipe().Close(Status::Overloaded("too many connections that have not said hello").Phase("greeting"));
    return;
  }
}

void Porch::OnOpen(Served* served) {
  served->stage = Served::Stage::kOpen;
  --greetings_;
  owner_->OnGreeted(index_, served->id(), served->pipe().peer());
}

void Porch::OnClosed(Served* served, const Status& why) {
  if (served->stage == Served::Stage::kGreeting) --greetings_;
  if (served->stage == Served::Stage::kOpen) {
    owner_->OnGone(index_, served->id(), served->pipe().peer());
  } else {
    owner_->OnTurnedAway(served->pipe().peer(), why, home_.now_ns());
  }
  served_.erase(served->id());
}

void Porch::ClosePipe(uint64_t id, const Status& why) {
  auto found = served_.find(id);
  if (found != served_.end()) found->second->pipe().Close(why);
}

void Porch::CloseAll(const Status& why) {
  for (auto& [id, served] : served_) served->pipe().Close(why);
}

}  // namespace pipe
}  // namespace fusewire
