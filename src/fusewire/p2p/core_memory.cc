// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Memory that peers write and read, and the signals that their writes add to.
#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"
#include "fusewire/wire/meta.h"

namespace fusewire {
namespace p2p {
namespace {

Status Outside(uint64_t offset, uint64_t bytes, uint64_t room) {
  return Status::Invalid(std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + " of a region of " +
                         std::to_string(room))
      .Next("stay inside the region");
}

bool Fits(uint64_t offset, uint64_t bytes, uint64_t room) { return offset <= room && bytes <= room - offset; }

}  // namespace

// ---- regions and signals of ours ----

Result<RegionRef> Core::AddRegion(Buffer memory, Access access) {
  FUSEWIRE_AT_HOME(home_);
  auto state = std::make_unique<RegionState>();
  state->core = this;
  state->memory = std::move(memory);
  state->access = access;
  RegionRef ref{regions_.Take(state.get()), state->memory.size()};
  if (ref.id == 0) {
    return Status::Overloaded("regions_max (" + std::to_string(limits_.regions_max) + ") is reached")
        .Phase("open a region")
        .Next("destroy regions that are not used, or put several things into one");
  }
  static_cast<void>(state.release());  // its region's, and those who still read it: the last one drops it
  return ref;
}

void Core::RemoveRegion(RegionRef ref) {
  FUSEWIRE_AT_HOME(home_);
  RegionState* state = regions_.Find(ref.id);
  regions_.Release(ref.id);
  Status why = Status::Invalid("the region is gone").Next("ask the peer for its present one");
  for (auto& [name, peer] : peers_) {
    for (Lane* lane : peer->Lanes()) lane->AbandonRegion(ref.id, why);
  }
  Drop(state);
}

void Core::Drop(RegionState* state) {
  if (--state->uses > 0) return;
  std::unique_ptr<RegionState> last(state);
}

void Core::RemoveSignal(SignalState* state) {
  FUSEWIRE_AT_HOME(home_);
  signals_.Release(state->name);
  while (Op* op = state->waiting.front()) End(op, Status::Cancelled("the signal was destroyed"));
}

void Core::AddToSignal(uint64_t name, uint64_t amount) {
  SignalState* state = signals_.Find(name);
  if (state == nullptr) return;
  uint64_t value = state->value.load(std::memory_order_relaxed) + amount;
  state->value.store(value, std::memory_order_release);
  auto reached = [value](const Op* op) { return static_cast<const AwaitOp*>(op)->at_least <= value; };
  while (Op* op = state->waiting.Find(reached)) {
    End(op, Status::Ok());
    // Its end may have destroyed the signal.
    if (signals_.Find(name) != state) return;
  }
}

void Core::BeginAwait(AwaitOp* op) {
  SignalState* state = op->state_;
  if (state->value.load(std::memory_order_relaxed) >= op->at_least) {
    End(op, Status::Ok());
    return;
  }
  static_cast<Op*>(op)->state_ = Op::State::kPosted;
  state->waiting.PushBack(op);
}

// ---- put ----

bool Core::DispatchPut(PutOp* op) {
  PeerLink* peer = op->peer_;
  uint64_t bytes = TotalOf(op->parts);
  bool signals_only = bytes == 0 && op->region.id == 0;
  if (!signals_only && !Fits(op->offset, bytes, op->region.bytes)) {
    End(op, Outside(op->offset, bytes, op->region.bytes));
    return true;
  }
  op->wants_word_ = op->confirm;
  uint64_t call = op->id_.load(std::memory_order_relaxed) | wire::kP2pMine;
  uint32_t aux = op->confirm ? wire::kP2pConfirmPut : 0;
  if (!SendBody(op, peer->lane(), wire::P2pVerb::kPut, call, aux, {op->region.id, op->offset, op->signal, op->add},
                ConstBytes(), op->parts, bytes <= peer->eager_bytes_max)) {
    return true;
  }
  if (op->in_pipe_ > 0) return true;
  static_cast<Op*>(op)->state_ = Op::State::kSent;
  if (!op->confirm) End(op, Status::Ok());
  return true;
}

// What the peer names, or why it may not have it. Nothing is believed: not the name, not the bounds.
Result<Bytes> Core::PartOf(uint64_t region, uint64_t offset, uint64_t bytes, Access access) {
  RegionState* state = regions_.Find(region);
  if (state == nullptr) {
    return Status::Invalid("there is no such region")
        .Next("it is gone, or was another incarnation's: ask for a new one");
  }
  if ((static_cast<int>(state->access) & static_cast<int>(access)) == 0) {
    return Status::Refused(access == Access::kWrite ? "the region may not be written" : "the region may not be read")
        .Next("open it with that access");
  }
  if (!Fits(offset, bytes, state->memory.size())) return Outside(offset, bytes, state->memory.size());
  return state->memory.bytes().Sub(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

Result<Bytes> Core::PartOfPut(const wire::P2pMessage& message, uint64_t bytes) {
  uint64_t signal = message.numbers[2];
  if (signal != 0 && signals_.Find(signal) == nullptr) {
    return Status::Invalid("there is no such signal")
        .Next("it is gone, or was another incarnation's: ask for a new one");
  }
  if (bytes == 0 && message.numbers[0] == 0) return Bytes();
  return PartOf(message.numbers[0], message.numbers[1], bytes, Access::kWrite);
}

Result<pipe::Landing> Core::OnPutHeader(Lane& lane, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  Result<Bytes> part = PartOfPut(message, header.body_bytes);
  if (!part.ok()) return LandNowhere(lane, header, part.status());
  Arriving* arriving = lane.Take(header.call);
  if (arriving == nullptr) return Status::Corrupt("a third body inside two others");
  arriving->region = message.numbers[0];
  arriving->part = part.value();
  return pipe::Landing::Into(&arriving->part, 1);
}

Status Core::OnPut(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  Status status;
  if (header.body_bytes > 0) {
    Arriving* arriving = lane.Find(header.call);
    FUSEWIRE_CHECK(arriving != nullptr);
    arriving->used = false;
    status = arriving->refusal;
  } else {
    Result<Bytes> part = PartOfPut(message, message.payload.size);
    status = part.status();
    if (part.ok()) CopyBytes(part.value(), message.payload);
  }
  if ((message.aux & wire::kP2pConfirmPut) != 0 || !status.ok()) SayTaken(&peer, message.id, status);
  if (status.ok() && message.numbers[2] != 0) AddToSignal(message.numbers[2], message.numbers[3]);
  return Status::Ok();
}

// ---- get ----

bool Core::DispatchGet(GetOp* op) {
  uint64_t bytes = TotalOf(op->parts);
  if (!Fits(op->offset, bytes, op->region.bytes) || bytes > shared_.options().limits.body_bytes_max) {
    End(op, Outside(op->offset, bytes, op->region.bytes));
    return true;
  }
  MakeLanding(op, op->parts, bytes);
  static_cast<Op*>(op)->state_ = Op::State::kPulling;
  Say(op->peer_->lane(), wire::P2pVerb::kGet, op->id_.load(std::memory_order_relaxed) | wire::kP2pMine, 0,
      {op->region.id, op->offset, bytes});
  return true;
}

Status Core::OnGet(Lane& lane, PeerLink& peer, const wire::P2pMessage& message) {
  uint64_t region = message.numbers[0];
  Result<Bytes> part = PartOf(region, message.numbers[1], message.numbers[2], Access::kRead);
  if (!part.ok()) {
    std::string words;
    wire::AppendStatus(part.status(), &words);
    Say(&lane, wire::P2pVerb::kGot, message.id, static_cast<uint32_t>(part.status().code()), {}, words);
    return Status::Ok();
  }
  ConstBytes bytes = part.value();
  if (bytes.size <= kInlineBytes) {
    Say(&lane, wire::P2pVerb::kGot, message.id, 0, {}, bytes);
    return Status::Ok();
  }
  pipe::Pipe* pipe = lane.pipe();
  if (pipe == nullptr) return Status::Ok();
  if (!pipe->HasRoom(0)) {
    pipe->Close(Status::Overloaded("the peer asks faster than it takes answers").Next("ask less at a time"));
    return Status::Ok();
  }
  RegionState* state = regions_.Find(region);
  ++state->uses;
  pipe::Message answer;
  answer.method = static_cast<uint16_t>(wire::P2pVerb::kGot);
  answer.call = message.id;
  answer.express = bytes.size <= peer.eager_bytes_max;
  answer.body.push_back(Buffer::WrapReadOnly(bytes, state, [](void* owner, Bytes) {
    auto* used = static_cast<RegionState*>(owner);
    used->core->Drop(used);
  }));
  pipe->Send(std::move(answer));
  return Status::Ok();
}

Result<pipe::Landing> Core::OnGotHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                        const wire::P2pMessage& message) {
  auto* op = static_cast<GetOp*>(FindOp(message.id, Op::Kind::kGet, peer));
  if (op == nullptr || static_cast<Op*>(op)->state_ != Op::State::kPulling) {
    return LandNowhere(lane, header, Status::Ok());
  }
  if (header.body_bytes != TotalOf(op->parts)) {
    return Status::Corrupt("got: " + std::to_string(header.body_bytes) + " bytes where " +
                           std::to_string(TotalOf(op->parts)) + " were asked for");
  }
  return LandInto(lane, header, op);
}

Status Core::OnGot(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  if (header.body_bytes > 0) {
    Arriving* arriving = lane.Find(header.call);
    FUSEWIRE_CHECK(arriving != nullptr);
    arriving->used = false;
    Op* landed = arriving->op == 0 ? nullptr : ops_.Find(arriving->op);
    if (landed != nullptr) End(landed, Status::Ok());
    return Status::Ok();
  }
  Status status;
  if (message.aux != 0) FUSEWIRE_TRY(wire::DecodeStatus(static_cast<Code>(message.aux), message.payload, &status));
  auto* op = static_cast<GetOp*>(FindOp(message.id, Op::Kind::kGet, peer));
  if (op == nullptr || static_cast<Op*>(op)->state_ != Op::State::kPulling) return Status::Ok();  // it has ended
  if (status.ok()) {
    if (message.payload.size != TotalOf(op->parts)) {
      return Status::Corrupt("got: " + std::to_string(message.payload.size) + " bytes where " +
                             std::to_string(TotalOf(op->parts)) + " were asked for");
    }
    Scatter(message.payload, op->parts);
  }
  End(op, status);
  return Status::Ok();
}

}  // namespace p2p
}  // namespace fusewire
