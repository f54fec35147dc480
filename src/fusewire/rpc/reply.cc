// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A Reply on any thread: at home it replies at once; elsewhere it posts the call home, with the reply in it.
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/rpc/peer_calls.h"
#include "fusewire/rpc/server.h"

namespace fusewire::rpc {

Reply& Reply::operator=(Reply&& other) noexcept {
  if (this != &other) {
    Reply dropped(std::move(*this));
    call_ = std::exchange(other.call_, nullptr);
  }
  return *this;
}

Reply::~Reply() {
  if (call_ != nullptr)
    Send(Status::Internal("the handler dropped the call").Next("report this to the author of the handler"));
}

void Reply::Send(Status status, ConstBytes head, Buffers body) {
  FUSEWIRE_CHECK(call_ != nullptr);  // a Reply is sent once
  ServerCall* call = std::exchange(call_, nullptr);
  if (call->home.AtHome()) {
    if (call->peer != nullptr) {
      call->peer->Answer(call, status, head, std::move(body));
    } else {
      delete call;
    }
    return;
  }
  call->status = std::move(status);
  call->head = Buffer::CopyOf(head);
  if (call->head.size() != head.size) call->status = Status::Overloaded("no memory for the answer's head");
  call->body = std::move(body);
  reactor::Task deliver = [call] { call->Deliver(); };
  if (!call->home.TryRunHere(deliver)) call->home.Post(static_cast<Mail*>(call));
}

void Reply::SendPart(ConstBytes head, Buffers body, Done done) {
  FUSEWIRE_CHECK(call_ != nullptr);
  auto send = [call = call_](ConstBytes part_head, Buffers part_body, Done part_done) {
    if (call->peer != nullptr) {
      call->peer->SendPart(call, part_head, std::move(part_body), std::move(part_done));
    } else if (part_done) {
      part_body.clear();
      call->home.Post(
          [part_done = std::move(part_done)]() mutable { part_done(Status::Unavailable("the caller is gone")); });
    }
  };
  if (call_->home.AtHome()) {
    send(head, std::move(body), std::move(done));
    return;
  }
  call_->home.Post(
      [send, part_head = Buffer::CopyOf(head), part_body = std::move(body), part_done = std::move(done)]() mutable {
        send(part_head.bytes(), std::move(part_body), std::move(part_done));
      });
}

reactor::Reactor& Reply::home() const {
  FUSEWIRE_CHECK(call_ != nullptr);
  return call_->home;
}

bool Reply::unwanted() const { return call_ == nullptr || call_->unwanted.load(std::memory_order_acquire); }

void Reply::OnUnwanted(UniqueFunction<void()> told) {
  FUSEWIRE_CHECK(call_ != nullptr);
  FUSEWIRE_AT_HOME(call_->home);
  call_->told = std::move(told);
}

}  // namespace fusewire::rpc
