// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an endpoint says to its peers, and who hears what they say.
#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/p2p/core.h"
#include "fusewire/wire/meta.h"

namespace fusewire {
namespace p2p {
void Scatter(ConstBytes from, const std::vector<Bytes>& parts) {
  for (const Bytes& part : parts) {
    size_t size = std::min(part.size, from.size);
    if (size == 0) continue;
    CopyBytes(part, from.Sub(0, size));
    from = from.From(size);
  }
}

// ---- what is said ----

ConstBytes Core::Scratch(wire::P2pVerb verb, std::initializer_list<uint64_t> numbers, ConstBytes one,
                         const std::vector<ConstBytes>& parts) {
  size_t size = numbers.size() * sizeof(uint64_t) + one.size + static_cast<size_t>(TotalOf(parts));
  if (scratch_.size() < size) scratch_.resize(std::max<size_t>(size, 4096));
  Bytes room(scratch_.data(), size);
  room = room.From(wire::EncodeP2p(verb, numbers.begin(), room));
  CopyBytes(room, one);
  room = room.From(one.size);
  for (const ConstBytes& part : parts) {
    CopyBytes(room, part);
    room = room.From(part.size);
  }
  return ConstBytes(scratch_.data(), size);
}

void Core::Say(Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
               ConstBytes behind) {
  pipe::Pipe* pipe = lane->pipe();
  if (pipe == nullptr) return;
  pipe::Message message;
  message.method = static_cast<uint16_t>(verb);
  message.call = call;
  message.aux = aux;
  message.head = Scratch(verb, numbers, behind, {});
  message.express = true;
  if (!pipe->HasRoom(message.head.size)) {
    pipe->Close(Status::Overloaded("the peer does not take messages as fast as they come").Next("send less at a time"));
    return;
  }
  pipe->Send(std::move(message));
}

void Core::SayTaken(PeerLink* peer, uint64_t send, const Status& status) {
  if (peer->lane() == nullptr) return;
  std::string words;
  if (!status.ok()) wire::AppendStatus(status, &words);
  Say(peer->lane(), wire::P2pVerb::kTaken, send, static_cast<uint32_t>(status.code()), {}, words);
}

// Small: copied, and with the network as far as the caller can tell. Else the pipe holds the memory, and OnPiped
// follows. False: `op` has ended, because it can not be sent.
bool Core::SendBody(Op* op, Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux,
                    std::initializer_list<uint64_t> numbers, ConstBytes head, const std::vector<ConstBytes>& parts,
                    bool express) {
  pipe::Pipe* pipe = lane->pipe();
  pipe::Message message;
  message.method = static_cast<uint16_t>(verb);
  message.call = call;
  message.aux = aux;
  message.express = express;
  if (express && TotalOf(parts) <= kInlineBytes) {
    message.head = Scratch(verb, numbers, head, parts);
  } else {
    message.head = Scratch(verb, numbers, head, {});
    message.body.reserve(parts.size());
    for (const ConstBytes& part : parts) {
      if (!part.empty()) message.body.push_back(Buffer::WrapReadOnly(part, nullptr, nullptr));
    }
  }
  Status fits = pipe->CheckSize(message.head.size, message.body);
  if (fits.ok() && !pipe->HasRoom(message.head.size)) {
    fits = Status::Overloaded("the peer does not take messages as fast as they come")
               .Next("wait for operations before you post more");
  }
  if (!fits.ok()) {
    EndOnceReleased(op, fits);
    return false;
  }
  if (message.body.empty()) {
    pipe->Send(std::move(message));
    return true;
  }
  ++op->in_pipe_;
  op->lane_ = lane;
  op->state_ = Op::State::kSending;
  uint64_t name = op->id_.load(std::memory_order_relaxed);
  pipe->Send(std::move(message), [this, name](Status status) { OnPiped(name, status); });
  return true;
}

void Core::OnPiped(uint64_t name, const Status& status) {
  Op* op = ops_.Find(name);
  FUSEWIRE_CHECK(op != nullptr);
  if (--op->in_pipe_ > 0) return;
  if (op->state_ == Op::State::kEnding) {
    Status why = std::move(op->status_);
    End(op, why);
  } else if (!status.ok()) {
    End(op, status);
  } else if (op->taken_ || !op->wants_word_) {
    End(op, Status::Ok());
  } else {
    op->state_ = Op::State::kSent;
  }
}

// ---- what comes ----

Op* Core::FindOp(uint64_t name, Op::Kind kind, const PeerLink& peer) {
  Op* op = ops_.Find(name);
  return op != nullptr && op->kind_ == kind && op->with_ == &peer && op->state_ != Op::State::kEnding ? op : nullptr;
}

void Core::MakeLanding(Op* op, const std::vector<Bytes>& parts, uint64_t bytes) {
  op->landing_.clear();
  for (const Bytes& part : parts) {
    if (bytes == 0) break;
    if (part.size == 0) continue;
    auto size = static_cast<size_t>(std::min<uint64_t>(part.size, bytes));
    op->landing_.push_back(part.Sub(0, size));
    bytes -= size;
  }
}

Result<pipe::Landing> Core::LandInto(Lane& lane, const wire::FrameHeader& header, Op* op) {
  Arriving* arriving = lane.Take(header.call);
  if (arriving == nullptr) return Status::Corrupt("a third body inside two others");
  arriving->op = op->id_.load(std::memory_order_relaxed);
  op->state_ = Op::State::kLanding;
  op->lane_ = &lane;
  return pipe::Landing::Into(op->landing_.data(), op->landing_.size());
}

Result<pipe::Landing> Core::LandNowhere(Lane& lane, const wire::FrameHeader& header, Status why) {
  Arriving* arriving = lane.Take(header.call);
  if (arriving == nullptr) return Status::Corrupt("a third body inside two others");
  arriving->refusal = std::move(why);
  return pipe::Landing::Discard();
}

Result<pipe::Landing> Core::OnHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta) {
  if (header.body_bytes == 0) return pipe::Landing::View();
  Result<wire::P2pMessage> decoded = wire::DecodeP2p(header, meta);
  if (!decoded.ok()) return decoded.status();
  const wire::P2pMessage& message = decoded.value();
  if (peer.lane() != &lane) return Status::Corrupt(std::string(wire::P2pVerbName(message.verb)) + ": before use");
  if (lane.Find(header.call) != nullptr) return Status::Corrupt("two bodies of one name");
  switch (message.verb) {
    case wire::P2pVerb::kEager: return OnEagerHeader(lane, peer, header, message);
    case wire::P2pVerb::kOffer: return OnPushedHeader(lane, peer, header, message);
    case wire::P2pVerb::kData: return OnDataHeader(lane, peer, header, message);
    case wire::P2pVerb::kPut: return OnPutHeader(lane, header, message);
    default: return OnGotHeader(lane, peer, header, message);
  }
}

Status Core::OnMessage(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta) {
  Result<wire::P2pMessage> decoded = wire::DecodeP2p(header, meta);
  if (!decoded.ok()) return decoded.status();
  // Nothing here waits for the application: what is kept has bounds of its own.
  if (pipe::Pipe* pipe = lane.pipe()) pipe->Consume(header);
  const wire::P2pMessage& message = decoded.value();
  if (message.verb == wire::P2pVerb::kOpen) return peer.OnOpenSaid(&lane, message);
  if (message.verb == wire::P2pVerb::kUse) return peer.OnUseSaid(&lane, message.id);
  if (peer.lane() != &lane) {
    if (lane.pipe() == nullptr) return Status::Ok();
    return Status::Corrupt(std::string(wire::P2pVerbName(message.verb)) + ": before use");
  }
  return OnVerb(lane, peer, header, message);
}

Status Core::OnVerb(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  switch (message.verb) {
    case wire::P2pVerb::kEager: return OnEager(lane, peer, header, message);
    case wire::P2pVerb::kOffer:
      return header.body_bytes > 0 ? OnLanded(lane, peer, header.call, message.id) : OnOffered(peer, message);
    case wire::P2pVerb::kPull: return OnPull(peer, message);
    case wire::P2pVerb::kData: return OnData(lane, peer, header, message);
    case wire::P2pVerb::kTaken: return OnTaken(peer, message);
    case wire::P2pVerb::kWithdraw: return OnWithdraw(peer, message);
    case wire::P2pVerb::kAhead: return OnAhead(peer, message);
    case wire::P2pVerb::kCredit: peer.credit += message.id; return Status::Ok();
    case wire::P2pVerb::kPut: return OnPut(lane, peer, header, message);
    case wire::P2pVerb::kGet: return OnGet(lane, peer, message);
    default: return OnGot(lane, peer, header, message);
  }
}

Status Core::OnTaken(PeerLink& peer, const wire::P2pMessage& message) {
  Status status;
  if (message.aux != 0) FUSEWIRE_TRY(wire::DecodeStatus(static_cast<Code>(message.aux), message.payload, &status));
  Op* op = FindOp(message.id, Op::Kind::kSend, peer);
  if (op == nullptr) op = FindOp(message.id, Op::Kind::kPut, peer);
  using State = Op::State;
  bool waits =
      op != nullptr && (op->state_ == State::kOffered || op->state_ == State::kSending || op->state_ == State::kSent);
  if (!waits) {
    if (!status.ok()) Tell(&peer, PeerEvent::kRefused, status.Peer(peer.Words()));
    return Status::Ok();  // it has ended, or did not want to know
  }
  if (status.ok() && op->pushed_ > 0) peer.pushes.Waited(true);
  if (!status.ok()) {
    EndOnceReleased(op, status);
  } else if (op->state_ == State::kOffered) {
    return Status::Corrupt("taken: a message that was not sent");
  } else if (op->in_pipe_ > 0) {
    op->taken_ = true;  // the network has not yet said that it is done
  } else {
    End(op, Status::Ok());
  }
  return Status::Ok();
}

}  // namespace p2p
}  // namespace fusewire
