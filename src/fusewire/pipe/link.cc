// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/link.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::pipe {
namespace {

// A pipe that lived this long, or that brought a message, was a real one: the next failure starts again with the
// shortest pause.
constexpr int64_t kSteadyNs = 5 * kSecondNs;

}  // namespace

int64_t Backoff::NextNs(const Options& options) {
  longest_ns_ = std::clamp(longest_ns_ * 2, options.backoff_ns_min, options.backoff_ns_max);
  FUSEWIRE_DCHECK(longest_ns_ > 0);
  return longest_ns_ / 2 + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(longest_ns_ / 2 + 1)));
}

Link::Link(PipeContext& context, reactor::Reactor& home, transport::Transport& transport, transport::Address address,
           uint16_t service, LinkHandler* handler)
    : context_(context),
      home_(home),
      transport_(transport),
      address_(std::move(address)),
      service_(service),
      handler_(handler),
      // Different in each task and for each peer, and yet reproducible in a test that sets the incarnation.
      backoff_(context.options().incarnation ^ std::hash<std::string>()(address_.ToString())),
      retry_([this] {
        if (wanted_) Dial();
      }) {}

Link::~Link() = default;

void Link::Want() {
  FUSEWIRE_AT_HOME(home_);
  if (pipe() != nullptr) return;
  wanted_ = true;
  if (!idle() || retry_.armed()) return;
  if (home_.now_ns() < next_try_ns_) {
    home_.ArmAt(&retry_, next_try_ns_);
  } else {
    Dial();
  }
}

void Link::Dial() {
  FUSEWIRE_CHECK(idle());
  dialing_ = transport_.Dial(home_, address_, context_.options().connect_ns_max,
                             [this](Result<std::unique_ptr<transport::Connection>> connection) {
                               std::unique_ptr<transport::Dialing> done = std::move(dialing_);
                               if (!connection.ok()) {
                                 Failed(connection.status(), false);
                                 return;
                               }
                               FUSEWIRE_CHECK(pipe_ == nullptr);
                               up_ns_.reset();
                               pipe_ = std::make_unique<Pipe>(context_, home_, std::move(connection).value(),
                                                              Role::kDialer, service_, static_cast<PipeHandler*>(this));
                               pipe_->Start();
                             });
}

FrameHandler* Link::OnOpen(const PeerInfo& peer) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(pipe_ != nullptr);
  FUSEWIRE_CHECK(!up_ns_.has_value());
  wanted_ = false;
  up_ns_ = home_.now_ns();
  ++connects_;
  bool restarted = incarnation_ != 0 && incarnation_ != peer.incarnation;
  incarnation_ = peer.incarnation;
  handler_->OnUp(peer, restarted);
  return handler_;
}

void Link::OnClosed(Status why) {
  FUSEWIRE_CHECK(pipe_ != nullptr);
  std::unique_ptr<Pipe> done = std::move(pipe_);
  if (done->stats().messages_in.Read() > 0) backoff_.Restart();
  Failed(why, up_ns_.has_value());
}

void Link::Failed(Status why, bool was_up) {
  FUSEWIRE_CHECK(idle());
  FUSEWIRE_CHECK(!why.ok());
  int64_t now_ns = home_.now_ns();
  if (was_up && now_ns - *up_ns_ >= kSteadyNs) backoff_.Restart();
  next_try_ns_ = now_ns + backoff_.NextNs(context_.options());
  // After a failed attempt, a caller that still waits calls Want() again: a link that is not needed does not try for
  // ever.
  bool again = std::exchange(wanted_, false) && was_up;
  handler_->OnDown(why, was_up);
  if (again) Want();
}

void Link::Close(Status why) {
  StopDialing();
  if (pipe_ != nullptr) pipe_->Close(std::move(why));
}

void Link::Leave(Status why) {
  StopDialing();
  if (pipe_ != nullptr) pipe_->Leave(std::move(why));
}

void Link::StopDialing() {
  FUSEWIRE_AT_HOME(home_);
  wanted_ = false;
  reactor::Reactor::Disarm(&retry_);
  dialing_.reset();
}

}  // namespace fusewire::pipe
