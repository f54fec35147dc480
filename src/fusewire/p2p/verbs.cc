// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/p2p/verbs.h"

#include <string>
#include <utility>

#include "fusewire/buffer/buffer.h"
#include "fusewire/wire/wire.h"

namespace fusewire::p2p {

void Verbs::Send(Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
                 ConstBytes behind) {
  pipe::Pipe* pipe = lane->pipe();
  if (pipe == nullptr) return;
  pipe::Message message = Payload(verb, call, aux, numbers, behind, {}, /*express=*/true);
  if (!pipe->HasRoom(message.head.size)) {
    pipe->Close(Status::Overloaded(std::string(wire::P2pVerbName(verb)) +
                                   ": the peer does not take messages as fast as they come")
                    .Next("send less at a time"));
    return;
  }
  pipe->Send(std::move(message));
}

void Verbs::SendStatus(Lane* lane, wire::P2pVerb verb, uint64_t call, const Status& status) {
  FUSEWIRE_DCHECK(verb == wire::P2pVerb::kResult || verb == wire::P2pVerb::kGot);
  if (lane == nullptr) return;
  std::string words;
  if (!status.ok()) wire::AppendStatus(status, &words);
  Send(lane, verb, call, static_cast<uint32_t>(status.code()), {}, words);
}

pipe::Message Verbs::Payload(wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
                             ConstBytes head, const std::vector<ConstBytes>& segments, bool express) {
  pipe::Message message;
  message.method = static_cast<uint16_t>(verb);
  message.call = call;
  message.aux = aux;
  message.express = express;
  if (express && TotalOf(segments) <= kInlineBytes) {
    message.head = Encode(verb, numbers, head, segments);
    return message;
  }
  message.head = Encode(verb, numbers, head, {});
  message.body.reserve(segments.size());
  for (const ConstBytes& segment : segments) {
    if (!segment.empty()) message.body.push_back(Buffer::WrapReadOnly(segment, nullptr, nullptr));
  }
  return message;
}

Status Verbs::Fits(const pipe::Pipe& pipe, const pipe::Message& message) {
  Status fits = pipe.CheckSize(message.head.size, message.body);
  if (!fits.ok() || pipe.HasRoom(message.head.size)) return fits;
  return Status::Overloaded("the peer does not take messages as fast as they come")
      .Next("wait for operations before you post more");
}

ConstBytes Verbs::Encode(wire::P2pVerb verb, std::initializer_list<uint64_t> numbers, ConstBytes one,
                         const std::vector<ConstBytes>& segments) {
  FUSEWIRE_DCHECK(numbers.size() == wire::P2pNumbers(verb));
  size_t size = numbers.size() * sizeof(uint64_t) + one.size + static_cast<size_t>(TotalOf(segments));
  if (scratch_.size() < size) scratch_.resize(std::max<size_t>(size, 4096));
  Bytes room(scratch_.data(), size);
  room = room.From(wire::EncodeP2p(verb, numbers.begin(), room));
  CopyBytes(room, one);
  room = room.From(one.size);
  for (const ConstBytes& segment : segments) {
    CopyBytes(room, segment);
    room = room.From(segment.size);
  }
  return ConstBytes(scratch_.data(), size);
}

}  // namespace fusewire::p2p
