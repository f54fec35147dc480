// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/regions.h"

#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"

namespace fusewire::p2p {
namespace {

Status Outside(uint64_t region, uint64_t offset, uint64_t bytes, uint64_t room) {
  return Status::Invalid(std::to_string(bytes) + " bytes at offset " + std::to_string(offset) + " of region " +
                         std::to_string(region) + ", which has " + std::to_string(room))
      .Next("stay inside the region");
}

Status WrongSize(const char* field, uint64_t size, const GetOp& op) {
  return Status::Corrupt(std::string("got: ") + field + " " + std::to_string(size) + ", where " +
                         std::to_string(TotalOf(op.segments)) + " were asked for");
}

bool Fits(uint64_t offset, uint64_t bytes, uint64_t room) { return offset <= room && bytes <= room - offset; }

// Destroys the region once it is not used any more.
void Drop(RegionState* state) {
  FUSEWIRE_CHECK(state->uses > 0);
  if (--state->uses > 0) return;
  std::unique_ptr<RegionState> last(state);
}

}  // namespace

Regions::Regions(const Self& self, const wire::Limits& wire_limits, Peers& peers, OpTable& table, Verbs& verbs)
    : self_(self),
      wire_limits_(wire_limits),
      peers_(peers),
      table_(table),
      verbs_(verbs),
      // Ids of regions are hard to guess, and those of an earlier incarnation are invalid.
      regions_(self.limits.regions_max, static_cast<uint32_t>(Random(self.incarnation).Next())),
      signals_(self.limits.regions_max, static_cast<uint32_t>(Random(~self.incarnation).Next())) {}

// The endpoint outlives its regions and signals.
Regions::~Regions() {
  FUSEWIRE_DCHECK(regions_.in_use() == 0);
  FUSEWIRE_DCHECK(signals_.in_use() == 0);
}

// ---- ours ----

Result<RegionRef> Regions::Open(Buffer memory, Access access) {
  auto state = std::make_unique<RegionState>();
  state->memory = std::move(memory);
  state->access = access;
  RegionRef ref{regions_.Take(state.get()), state->memory.size()};
  if (ref.id == 0) {
    return Status::Overloaded("regions_max (" + std::to_string(self_.limits.regions_max) + ") is reached")
        .Phase("opening a region")
        .Next("destroy regions that are not used, or put several things into one");
  }
  static_cast<void>(state.release());  // the last of its users drops it: the Region, and peers that read it
  return ref;
}

void Regions::Close(RegionRef ref) {
  RegionState* state = regions_.Find(ref.id);
  FUSEWIRE_CHECK(state != nullptr);  // it was closed before, or is another endpoint's
  regions_.Release(ref.id);
  peers_.AbandonRegion(ref.id, Status::Invalid("region " + std::to_string(ref.id) + " was destroyed meanwhile")
                                   .Next("ask the peer for a new one"));
  Drop(state);
}

void Regions::CloseSignal(SignalState* state) {
  FUSEWIRE_CHECK(signals_.Find(state->name) == state);
  signals_.Release(state->name);
  while (Op* op = state->waiting.front())
    table_.End(op, Status::Cancelled("signal " + std::to_string(state->name) + " was destroyed"));
}

Status Regions::CheckAdd(uint64_t name, uint64_t amount) const {
  const SignalState* state = signals_.Find(name);
  const uint64_t value = state == nullptr ? 0 : state->value.load(std::memory_order_relaxed);
  if (amount <= UINT64_MAX - value) return Status::Ok();
  return Status::Invalid("signal " + std::to_string(name) + ": adding " + std::to_string(amount) + " to " +
                         std::to_string(value) + " is over its limit of " + std::to_string(UINT64_MAX))
      .Next("add less, or use a new signal");
}

void Regions::AddToSignal(uint64_t name, uint64_t amount) {
  SignalState* state = signals_.Find(name);
  if (state == nullptr) return;
  uint64_t value = state->value.load(std::memory_order_relaxed);
  FUSEWIRE_CHECK(amount <= UINT64_MAX - value);
  value += amount;
  state->value.store(value, std::memory_order_release);
  auto reached = [value](const Op* op) { return static_cast<const AwaitOp*>(op)->at_least <= value; };
  while (Op* op = state->waiting.Find(reached)) {
    table_.End(op, Status::Ok());
    // The owner of the operation may destroy the signal as soon as it is told of the end.
    if (signals_.Find(name) != state) return;
  }
}

// The memory that the peer names, or why it may not access it. Id, access and bounds are all checked.
Result<Bytes> Regions::PartOf(uint64_t region, uint64_t offset, uint64_t bytes, Access access) {
  RegionState* state = regions_.Find(region);
  if (state == nullptr) {
    return Status::Invalid("there is no such region: " + std::to_string(region))
        .Next("it was destroyed, or was another incarnation's: ask the peer for a new one");
  }
  if ((static_cast<int>(state->access) & static_cast<int>(access)) == 0) {
    return Status::Refused("region " + std::to_string(region) + " may not be " +
                           (access == Access::kWrite ? "written" : "read"))
        .Next("open it with that access");
  }
  if (!Fits(offset, bytes, state->memory.size())) return Outside(region, offset, bytes, state->memory.size());
  return state->memory.bytes().Sub(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

Result<Bytes> Regions::PartOfPut(const wire::P2pMessage& message, uint64_t bytes) {
  uint64_t signal = message.numbers[2];
  if (signal != 0 && signals_.Find(signal) == nullptr) {
    return Status::Invalid("there is no such signal: " + std::to_string(signal))
        .Next("it was destroyed, or was another incarnation's: ask the peer for a new one");
  }
  FUSEWIRE_TRY(CheckAdd(signal, message.numbers[3]));
  if (bytes == 0 && message.numbers[0] == 0) return Bytes();
  return PartOf(message.numbers[0], message.numbers[1], bytes, Access::kWrite);
}

// ---- await ----

void Regions::Begin(AwaitOp* op) {
  SignalState* signal = op->signal;
  if (signal->value.load(std::memory_order_relaxed) >= op->at_least) {
    table_.End(op, Status::Ok());
    return;
  }
  table_.Posted(op);
  signal->waiting.PushBack(op);
}

// ---- put ----

bool Regions::Dispatch(PutOp* op) {
  PeerLink* peer = op->peer();
  uint64_t bytes = TotalOf(op->segments);
  bool signals_only = bytes == 0 && op->region.id == 0;
  if (!signals_only && !Fits(op->offset, bytes, op->region.bytes)) {
    table_.End(op, Outside(op->region.id, op->offset, bytes, op->region.bytes));
    return true;
  }
  op->run.wants_result = op->confirm;
  if (!table_.Send(
          op, peer->lane(),
          verbs_.Payload(wire::P2pVerb::kPut, op->id() | wire::kP2pMine, op->confirm ? wire::kP2pConfirmPut : 0,
                         {op->region.id, op->offset, op->signal, op->add}, ConstBytes(), op->segments,
                         bytes <= peer->flow.eager_bytes_max))) {
    return true;
  }
  if (op->run.in_pipe > 0) return true;
  table_.Sent(op);
  if (!op->confirm) table_.End(op, Status::Ok());
  return true;
}

Result<pipe::Landing> Regions::OnPutHeader(Lane& lane, const wire::FrameHeader& header,
                                           const wire::P2pMessage& message) {
  Result<Bytes> part = PartOfPut(message, header.body_bytes);
  if (!part.ok()) return lane.LandNowhere(header.call, part.status());
  Result<Arriving*> taken = lane.Take(header.call);
  if (!taken.ok()) return taken.status();
  Arriving* arriving = taken.value();
  arriving->region = message.numbers[0];
  arriving->part = part.value();
  return pipe::Landing::Into(&arriving->part, 1);
}

Status Regions::OnPut(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  Status status;
  if (header.body_bytes > 0) {
    status = lane.Landed(header.call).refusal;
    // Others may have added to the signal meanwhile.
    if (status.ok()) status = CheckAdd(message.numbers[2], message.numbers[3]);
  } else {
    Result<Bytes> part = PartOfPut(message, message.payload.size);
    status = part.status();
    if (part.ok()) CopyBytes(part.value(), message.payload);
  }
  if ((message.aux & wire::kP2pConfirmPut) != 0 || !status.ok()) verbs_.SendResult(peer.lane(), message.id, status);
  if (status.ok() && message.numbers[2] != 0) AddToSignal(message.numbers[2], message.numbers[3]);
  return Status::Ok();
}

// ---- get ----

bool Regions::Dispatch(GetOp* op) {
  uint64_t bytes = TotalOf(op->segments);
  if (!Fits(op->offset, bytes, op->region.bytes)) {
    table_.End(op, Outside(op->region.id, op->offset, bytes, op->region.bytes));
    return true;
  }
  if (bytes > wire_limits_.body_bytes_max) {
    table_.End(op, Status::Invalid("a get of " + std::to_string(bytes) + " bytes, body_bytes_max is " +
                                   std::to_string(wire_limits_.body_bytes_max))
                       .Next("get it in several operations, or raise body_bytes_max on both sides"));
    return true;
  }
  TakeFront(op->segments, bytes, &op->run.landing);
  table_.Requested(op);
  verbs_.Send(op->peer()->lane(), wire::P2pVerb::kGet, op->id() | wire::kP2pMine, 0,
              {op->region.id, op->offset, bytes});
  return true;
}

Status Regions::OnGet(Lane& lane, PeerLink& peer, const wire::P2pMessage& message) {
  Result<Bytes> part = PartOf(message.numbers[0], message.numbers[1], message.numbers[2], Access::kRead);
  if (!part.ok()) {
    verbs_.SendStatus(&lane, wire::P2pVerb::kGot, message.id, part.status());
  } else if (part.value().size <= kInlineBytes) {
    verbs_.Send(&lane, wire::P2pVerb::kGot, message.id, 0, {}, part.value());
  } else {
    Answer(lane, peer, message, part.value());
  }
  return Status::Ok();
}

// Sends from the region's own memory, which stays until the network has it.
void Regions::Answer(Lane& lane, PeerLink& peer, const wire::P2pMessage& message, ConstBytes bytes) {
  pipe::Pipe* pipe = lane.pipe();
  if (pipe == nullptr) return;
  if (!pipe->HasRoom(0)) {
    pipe->Close(Status::Overloaded("get: the peer asks faster than it takes answers").Next("ask for less at a time"));
    return;
  }
  RegionState* state = regions_.Find(message.numbers[0]);
  FUSEWIRE_CHECK(state != nullptr);
  ++state->uses;
  pipe::Message answer;
  answer.method = static_cast<uint16_t>(wire::P2pVerb::kGot);
  answer.call = message.id;
  answer.express = bytes.size <= peer.flow.eager_bytes_max;
  answer.body.push_back(
      Buffer::WrapReadOnly(bytes, state, [](void* owner, Bytes) { Drop(static_cast<RegionState*>(owner)); }));
  pipe->Send(std::move(answer));
}

// Null: it has ended, or its answer has begun to arrive.
GetOp* Regions::FindAsked(const PeerLink& peer, const wire::P2pMessage& message) {
  Op* op = table_.FindOf(message.id, OpKind::kGet, peer);
  return op != nullptr && op->run.state == OpRun::State::kRequested ? static_cast<GetOp*>(op) : nullptr;
}

Result<pipe::Landing> Regions::OnGotHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                           const wire::P2pMessage& message) {
  GetOp* op = FindAsked(peer, message);
  if (op == nullptr) return lane.LandNowhere(header.call, Status::Ok());
  if (header.body_bytes != TotalOf(op->segments)) return WrongSize("body_bytes", header.body_bytes, *op);
  return table_.LandInto(lane, header, op);
}

Status Regions::OnGot(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message) {
  if (header.body_bytes > 0) {
    const uint64_t name = lane.Landed(header.call).op;
    Op* landed = name == 0 ? nullptr : table_.Find(name);
    if (landed != nullptr) table_.End(landed, Status::Ok());
    return Status::Ok();
  }
  Status status;
  if (message.aux != 0) FUSEWIRE_TRY(wire::DecodeStatus(static_cast<Code>(message.aux), message.payload, &status));
  GetOp* op = FindAsked(peer, message);
  if (op == nullptr) return Status::Ok();
  if (status.ok()) {
    if (message.payload.size != TotalOf(op->segments))
      return WrongSize("bytes of the payload", message.payload.size, *op);
    Scatter(message.payload, op->segments);
  }
  table_.End(op, status);
  return Status::Ok();
}

}  // namespace fusewire::p2p
