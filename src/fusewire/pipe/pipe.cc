// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/pipe.h"

#include <utility>

#include "fusewire/pipe/pipe_core.h"

namespace fusewire::pipe {

Pipe::Pipe(PipeContext& context, reactor::Reactor& home, std::unique_ptr<transport::Connection> connection, Role role,
           uint16_t service, PipeHandler* handler)
    : core_(std::make_unique<PipeCore>(context, home, std::move(connection), role, service, handler)) {}

Pipe::~Pipe() = default;

// ---- its life ----

void Pipe::Start(bool hands_over) { core_->Start(hands_over); }
void Pipe::GoOn(const HandedOver& handed) { core_->GoOn(handed); }
void Pipe::Close(Status why) { core_->Close(std::move(why)); }
void Pipe::Leave(Status why) { core_->Leave(std::move(why)); }
void Pipe::Abort(const Status& why) { core_->Abort(why); }
bool Pipe::open() const { return core_->open(); }
const PeerInfo& Pipe::peer() const { return core_->peer(); }
const PipeStats& Pipe::stats() const { return core_->stats(); }
reactor::Reactor& Pipe::home() { return core_->home(); }

// ---- sending ----

void Pipe::Send(Message message, Done done) { core_->sender().Send(std::move(message), std::move(done)); }
bool Pipe::HasRoom(size_t head_bytes) const { return core_->sender().HasRoom(head_bytes); }
Status Pipe::CheckSize(size_t head_bytes, const Buffers& body) const {
  return core_->sender().CheckSize(head_bytes, body);
}
void Pipe::Cancel(uint64_t call) { core_->sender().Cancel(call); }
bool Pipe::GoesAtOnce(uint64_t cost) const { return core_->sender().GoesAtOnce(cost); }

// ---- receiving ----

void Pipe::Consume(const wire::FrameHeader& header) { core_->intake().Consume(header); }
void Pipe::Abandon(wire::FrameKind kind, uint64_t call) { core_->Abandon(kind, call); }
const ReceiveWindow& Pipe::receive_window() const { return core_->grants().window(); }

}  // namespace fusewire::pipe
