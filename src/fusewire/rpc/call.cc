// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/rpc/call.h"

#include "fusewire/base/check.h"
#include "fusewire/wire/wire.h"

namespace fusewire::rpc {

size_t SegmentSizes::count() const { return header_.segments; }
uint64_t SegmentSizes::at(size_t index) const {
  return wire::SegmentBytes(header_, meta_, static_cast<uint16_t>(index));
}
uint64_t SegmentSizes::total() const { return header_.body_bytes; }

Status AllocateSegments(const SegmentSizes& sizes, Buffers* body, std::vector<Bytes>* parts) {
  body->clear();
  parts->clear();
  bool have;
  if (sizes.count() == 1) {
    body->push_back(Buffer::TryAllocate(static_cast<size_t>(sizes.at(0))));
    have = body->front().size() == sizes.at(0);
  } else {
    std::vector<size_t> bytes(sizes.count());
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<size_t>(sizes.at(i));
    have = Buffer::TryAllocateAll(bytes, body);
  }
  if (!have) {
    body->clear();
    return Status::Overloaded("no memory for a body of " + std::to_string(sizes.total()) + " bytes in " +
                              std::to_string(sizes.count()) + " segments")
        .Phase("landing")
        .Next("free memory, or lower the message sizes");
  }
  parts->reserve(body->size());
  for (const Buffer& segment : *body) parts->push_back(segment.bytes());
  return Status::Ok();
}

Status CheckLanding(const pipe::Landing& landing, uint64_t body_bytes) {
  if (landing.mode == pipe::Landing::Mode::kDiscard) return Status::Ok();
  uint64_t sum = 0;
  for (size_t i = 0; i < landing.count; ++i) sum += landing.parts[i].size;
  if (landing.mode == pipe::Landing::Mode::kInto && sum == body_bytes) return Status::Ok();
  return Status::Invalid("a place of " + std::to_string(sum) + " bytes for a body of " + std::to_string(body_bytes))
      .Phase("landing")
      .Next("land Into memory of exactly that size, or Discard");
}

Call::~Call() { FUSEWIRE_CHECK(state_ == State::kIdle); }

Result<pipe::Landing> Call::Land(ConstBytes, const SegmentSizes& sizes) {
  FUSEWIRE_TRY(AllocateSegments(sizes, &reply_body, &parts_));
  return pipe::Landing::Into(parts_.data(), parts_.size());
}

Result<pipe::Landing> Call::LandPart(ConstBytes, const SegmentSizes& sizes) {
  FUSEWIRE_TRY(AllocateSegments(sizes, &part_body_, &parts_));
  return pipe::Landing::Into(parts_.data(), parts_.size());
}

void Call::OnPart(ConstBytes, Buffers) {}

}  // namespace fusewire::rpc
