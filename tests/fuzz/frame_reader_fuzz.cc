// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := how:u8 seed:u8 stream
//   how: bits 0-1 the size of a chunk; bit 2: the stream is read as headers with what follows them, and repaired
//   (magic, sequence, check, lengths) so that it gets past the first checks.
// Read twice, in one piece and in random ones: the events, and why it ends, must be the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"
#include "fusewire/pipe/frame_reader.h"
#include "fusewire/pipe/script_test.h"
#include "fusewire/wire/wire.h"

namespace fusewire::pipe {
namespace {

constexpr uint32_t kChunks[] = {16, 64, 4096, 65536};

wire::Limits SomeLimits() {
  wire::Limits limits;
  limits.meta_bytes_max = 4096;
  limits.body_bytes_max = 65536;
  limits.segments_max = 64;
  return limits;
}

// Sums up the messages, and checks the reader's contract.
class Listener final : public FrameSink {
 public:
  FrameReader* reader = nullptr;
  uint64_t sum = 0;

  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes meta) override {
    FUSEWIRE_CHECK(header.body_bytes <= SomeLimits().body_bytes_max);
    FUSEWIRE_CHECK(header.meta_bytes == meta.size);
    FUSEWIRE_CHECK(places_.size() < 2);  // a long one, and a short one inside it
    if (header.method % 16 == 15) return Status::Overloaded("enough");
    Place& place = places_[header.sequence];
    if (header.kind == wire::FrameKind::kCall) calls_[header.sequence] = header.call;
    switch (header.call % 4) {
      case 0:
        if (header.body_bytes <= kViewBytesMax) return Landing::View();
        [[fallthrough]];
      case 1: return Landing::Discard();
      default: break;
    }
    place.memory.resize(header.body_bytes);
    size_t step = header.call % 4 == 2 ? std::max<size_t>(place.memory.size(), 1) : 7;
    for (size_t at = 0; at < place.memory.size(); at += step) {
      place.parts.emplace_back(place.memory.data() + at, std::min(step, place.memory.size() - at));
    }
    return Landing::Into(place.parts.data(), place.parts.size());
  }

  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override {
    auto place = places_.find(header.sequence);
    FUSEWIRE_CHECK(place != places_.end());
    Add(static_cast<uint64_t>(header.kind));
    Add(header.call);
    Add(wire::HeadOf(header, meta));
    Add(view);
    Add(ConstBytes(place->second.memory.data(), place->second.memory.size()));
    places_.erase(place);
    calls_.erase(header.sequence);
    return header.method % 16 == 14 ? Status::Corrupt("the receiver does not like it") : Status::Ok();
  }

  Status OnControl(const wire::FrameHeader& header, ConstBytes meta) override {
    FUSEWIRE_CHECK(!wire::IsMessage(header.kind));
    Add(static_cast<uint64_t>(header.kind));
    Add(header.call);
    Add(meta);
    if (header.kind == wire::FrameKind::kCancel) {
      reader->Abandon(wire::FrameKind::kCall, header.call);
      Forget(header.call);
    }
    return Status::Ok();
  }

 private:
  struct Place {
    std::vector<uint8_t> memory;
    std::vector<Bytes> parts;
  };
  void Add(uint64_t value) { sum = (sum ^ value) * 0x100000001b3ULL; }
  void Add(ConstBytes bytes) {
    Add(bytes.size);
    for (size_t i = 0; i < bytes.size; ++i) Add(bytes.data[i]);
  }
  // The memory of abandoned calls is freed at once: the sanitizer reports any access. Other kinds keep theirs.
  void Forget(uint64_t call) {
    for (auto& [sequence, place] : places_) {
      if (calls_.count(sequence) > 0 && calls_[sequence] == call) place = Place();
    }
  }
  std::map<uint32_t, Place> places_;    // by sequence
  std::map<uint32_t, uint64_t> calls_;  // of kind call
};

struct Outcome {
  uint64_t sum;
  std::string why;
};

template <class Next>
Outcome Read(uint32_t chunk_bytes, ConstBytes stream, Next next) {
  Listener listener;
  FrameReader reader(SomeLimits(), &listener);
  reader.SetChunkBytes(chunk_bytes);
  listener.reader = &reader;
  Status status = FeedAsConnection(&reader, stream, next);
  return {listener.sum, status.ToString()};
}

// Repairs what any sender gets right: magic, sequence, check and lengths.
std::string Repair(ConstBytes in, uint32_t chunk_bytes) {
  FrameScript script(chunk_bytes);
  std::string stream;
  uint64_t long_left = 0;
  auto take = [&in](uint64_t wanted) {
    ConstBytes taken = in.Sub(0, static_cast<size_t>(std::min<uint64_t>(wanted, in.size)));
    in = in.From(taken.size);
    return taken.ToString();
  };
  while (in.size >= 12) {
    wire::FrameHeader header;
    header.kind = static_cast<wire::FrameKind>(in.data[0] % 26);
    header.method = in.data[1];
    header.call = in.data[2];
    header.aux = in.data[3] % 16;
    header.segments = in.data[4] % 8;
    uint64_t meta_bytes = in.data[5];
    uint64_t body_bytes = in.data[6] | static_cast<uint64_t>(in.data[7] % 64) << 8;
    in = in.From(8);
    if (header.kind == wire::FrameKind::kChunk) {
      header = wire::FrameHeader();
      header.kind = wire::FrameKind::kChunk;
      header.body_bytes = 1 + body_bytes % chunk_bytes;
      if (body_bytes % 8 != 0 && long_left > 0) header.body_bytes = std::min(header.body_bytes, long_left);
      long_left -= std::min(long_left, header.body_bytes);
      stream += script.Frame(header) + take(header.body_bytes);
      continue;
    }
    bool is_message = wire::IsMessage(header.kind);
    std::string meta = is_message || header.kind == wire::FrameKind::kGoodbye ? take(meta_bytes) : "";
    if (!is_message) header.segments = 0;
    if (header.segments == 1) header.body_bytes = body_bytes;
    if (header.segments > 1) {
      std::string table(wire::SegmentTableBytes(header.segments), 0);
      for (uint16_t i = 0; i < header.segments; ++i) {
        wire::EncodeSegmentBytes(body_bytes * i % 200, i, Bytes(table.data(), table.size()));
        header.body_bytes += body_bytes * i % 200;
      }
      meta = table + meta;
    }
    stream += script.Frame(header, meta) + take(std::min<uint64_t>(header.body_bytes, chunk_bytes));
    if (header.body_bytes > chunk_bytes) long_left = header.body_bytes - chunk_bytes;
  }
  return stream + in.ToString();
}

}  // namespace
}  // namespace fusewire::pipe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fusewire::pipe::Read;
  if (size < 2) return 0;
  uint32_t chunk_bytes = fusewire::pipe::kChunks[data[0] % 4];
  fusewire::ConstBytes raw(data + 2, size - 2);
  std::string stream = (data[0] & 4) != 0 ? fusewire::pipe::Repair(raw, chunk_bytes) : raw.ToString();
  fusewire::Random random(data[1]);
  uint64_t most = uint64_t{1} << (data[1] % 10);
  auto whole = Read(chunk_bytes, stream, [](size_t left) { return left; });
  auto cut = Read(chunk_bytes, stream, [&random, most](size_t) { return random.Between(1, most); });
  FUSEWIRE_CHECK(whole.sum == cut.sum);
  FUSEWIRE_CHECK(whole.why == cut.why);
  return 0;
}
