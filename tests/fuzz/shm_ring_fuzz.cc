// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := op[...]      op := what:u8 argument:u8[...]
// A neighbour that writes arbitrary bytes into the shared memory, between any two reads: records with any words,
// positions, counts and flags; loans of its memory, or of addresses that do not exist. We read its ring and write ours.
// For all its bytes: nothing is read or written outside the rings and the parts, and its ring is never written to.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/transport/shm/ring.h"
#include "fusewire/transport/transport.h"
#include "op_bytes.h"

namespace fusewire::transport {
namespace {

constexpr uint32_t kRingBytes = 4096;
constexpr size_t kOpsMax = 60;
constexpr size_t kSizes[] = {1, 7, 8, 100, 511, 512, 4000, 9000};
constexpr uint32_t kKinds[] = {0, 1, 2, 3, 4, 1 | 8U << 8, 1 | 7U << 8, 1 | 5000U << 8, 2 | 8U << 8, UINT32_MAX};

class Neighbours {
 public:
  explicit Neighbours(OpBytes* in) : in_(*in), lent_(20000, 'l') {
    Fd file;
    own_ = std::move(Segment::Make(kRingBytes, &file)).value();
    liars_ = std::move(Segment::Attach(file, kRingBytes)).value();
    reader_ = std::make_unique<RingReader>(own_.get());
    writer_ = std::make_unique<RingWriter>(own_.get());
    if (in_.Next() % 4 != 0) reader_->SetLender(getpid());
  }

  void Run() {
    for (size_t ops = 0; !in_.empty() && ops < kOpsMax; ++ops) {
      const uint8_t what = in_.Next();
      const std::string before(reinterpret_cast<const char*>(liars_->own_ring()), kRingBytes);
      switch (what % 8) {
        case 0:
        case 1:
        case 2: PutRecord(what); continue;
        case 3: SetWord(what / 8); continue;
        case 4:
        case 5: Read(); break;
        case 6: Write(); break;
        default: reader_->Release(); break;
      }
      FUSEWIRE_CHECK(std::memcmp(before.data(), liars_->own_ring(), kRingBytes) == 0);
    }
    if (!broken_) reader_->Freeze();
    for (int i = 0; i < 1000 && !broken_; ++i) {
      if (Read() == 0) break;
    }
  }

 private:
  uint8_t* Ring() { return liars_->own_ring(); }

  // At the liar's place in its ring, shown or not.
  void PutRecord(uint8_t what) {
    const uint64_t at = filled_ % kRingBytes & ~uint64_t{7};
    const uint32_t kind = (what & 8) != 0 ? in_.OneOf(kKinds) : 1 + what / 16 % 3;
    uint32_t size = static_cast<uint32_t>(in_.OneOf(kSizes));
    if (kind == 3 && (what & 64) == 0) size = static_cast<uint32_t>(kRingBytes - at - 8);
    if (kind == 2 && (what & 64) == 0) size = 16;
    const uint64_t word = kind * (uint64_t{1} << 32) | size;
    std::memcpy(Ring() + at, &word, sizeof(word));
    if (kind == 2 && at + 24 <= kRingBytes) {
      const uint64_t address = (what & 128) == 0 ? reinterpret_cast<uint64_t>(lent_.data()) : in_.Word();
      const uint64_t loan[2] = {address, (what & 32) == 0 ? in_.OneOf(kSizes) : in_.Word()};
      std::memcpy(Ring() + at + 8, loan, sizeof(loan));
    }
    if ((what & 16) != 0) filled_ += in_.Next();
    filled_ += 8 + (size + uint64_t{7}) / 8 * 8;
    liars_->own().filled.store(filled_);
  }
  void SetWord(uint8_t which) {
    const uint64_t word = (which & 16) != 0 ? in_.Word() : in_.Next();
    Half& half = liars_->own();
    switch (which % 8) {
      case 0: half.filled.store(filled_ = word); break;
      case 1: half.loans.store(word); break;
      case 2: half.wants_room.store(static_cast<uint32_t>(word)); break;
      case 3: half.revoked.store(static_cast<uint32_t>(word) & 1); break;
      case 4: half.taken.store(word); break;
      case 5: half.taken.store(liars_->peer().filled.load()); break;  // an honest one
      case 6: half.loans_read.store(word); break;
      default: half.ring_costs_less.store(static_cast<uint32_t>(word)); break;
    }
  }
  // Into memory of its own each time, which a sanitizer guards.
  size_t Read() {
    std::vector<std::vector<uint8_t>> memory;
    std::vector<Bytes> parts;
    for (size_t left = 1 + in_.Next() % kLandingPartsMax; left > 0; --left) memory.emplace_back(in_.OneOf(kSizes));
    size_t room = 0;
    for (std::vector<uint8_t>& one : memory) {
      parts.emplace_back(one.data(), one.size());
      room += one.size();
    }
    if (broken_) return 0;  // its connection is closed
    Result<size_t> read = reader_->Read(parts.data(), parts.size());
    broken_ = !read.ok();
    if (broken_) return 0;
    FUSEWIRE_CHECK(read.value() <= room);
    (void)reader_->HasNews();
    return read.value();
  }
  void Write() {
    const std::string text(in_.OneOf(kSizes), 'w');
    const uint8_t how = in_.Next();
    if (how % 4 == 0) {
      (void)writer_->Lend(text);
    } else {
      FUSEWIRE_CHECK(writer_->Put(text) <= text.size());
    }
    if (how % 2 == 0) writer_->Publish();
    (void)writer_->HasRoom();
    (void)writer_->ShouldLend();
    (void)writer_->LoansRead();
  }

  OpBytes& in_;
  const std::string lent_;
  std::unique_ptr<Segment> own_, liars_;
  std::unique_ptr<RingReader> reader_;
  std::unique_ptr<RingWriter> writer_;
  uint64_t filled_ = 0;
  bool broken_ = false;
};

}  // namespace
}  // namespace fusewire::transport

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2000) return 0;
  fusewire::OpBytes in(data, size);
  fusewire::transport::Neighbours(&in).Run();
  return 0;
}
