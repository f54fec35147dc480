// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Rings, and the memory that they stand in.
#include "fusewire/transport/shm/ring.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "fusewire/base/random.h"
#include "fusewire/transport/shm/segment.h"

namespace fusewire::transport {
namespace {

using testing::HasSubstr;

constexpr uint32_t kTestRing = 4096;

class Rings : public testing::Test {
 protected:
  Rings() { MakeRings(kTestRing); }
  void MakeRings(uint32_t ring_bytes) {
    file_ = Fd();
    a_ = std::move(Segment::Make(ring_bytes, &file_)).value();
    b_ = std::move(Segment::Attach(file_, ring_bytes)).value();
    writer_ = std::make_unique<RingWriter>(a_.get());
    reader_ = std::make_unique<RingReader>(b_.get());
    reader_->SetLender(getpid());
  }
  std::string Read(size_t size) {
    std::string text(size, '?');
    Bytes part(text.data(), text.size());
    Result<size_t> read = reader_->Read(&part, 1);
    EXPECT_TRUE(read.ok()) << read.status().ToString();
    if (!read.ok()) return read.status().cause();
    text.resize(read.value());
    reader_->Release();
    return text;
  }
  Status ReadStatus() {
    char byte;
    Bytes part(&byte, 1);
    return reader_->Read(&part, 1).status();
  }
  // Writes as a liar does.
  void Forge(const void* words, size_t size, uint64_t filled) {
    if (size > 0) std::memcpy(a_->own_ring(), words, size);
    a_->own().filled.store(filled, std::memory_order_release);
  }

  Fd file_;
  std::unique_ptr<Segment> a_, b_;
  std::unique_ptr<RingWriter> writer_;
  std::unique_ptr<RingReader> reader_;
};

TEST_F(Rings, CarryAnyMixtureOfBytesAndLoans) {
  const uint64_t seed = SystemRandom64();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  std::string lent(300, 'l');
  std::string expected, heard;
  for (int i = 0; i < 20000; ++i) {
    if (random.Chance(0.1)) {
      ConstBytes loan(lent.data(), 1 + random.Below(lent.size()));
      if (writer_->Lend(loan)) expected += loan.ToString();
    } else {
      std::string text(1 + random.Below(random.Chance(0.1) ? 3000 : 60), static_cast<char>('a' + random.Below(26)));
      expected += text.substr(0, writer_->Put(text));
    }
    writer_->Publish();
    while (random.Chance(0.6)) heard += Read(1 + random.Below(random.Chance(0.2) ? 5000 : 100));
  }
  for (std::string more; !(more = Read(4096)).empty();) heard += more;
  EXPECT_EQ(heard.size(), expected.size());
  EXPECT_TRUE(heard == expected);
  EXPECT_EQ(writer_->LoansRead(), writer_->loans());
}

TEST_F(Rings, LittleTrafficStaysInFewPages) {
  MakeRings(256 * 1024);
  for (int i = 0; i < 10000; ++i) {
    ASSERT_EQ(writer_->Put(std::string(100, 'x')), 100u);
    writer_->Publish();
    ASSERT_EQ(Read(200).size(), 100u);
  }
  struct stat is = {};
  ASSERT_EQ(fstat(file_.get(), &is), 0);
  EXPECT_LE(is.st_blocks * 512, 32 * 1024);
}

TEST_F(Rings, SayWhatIsWrongWithARecord) {
  struct Bad {
    const char* what;
    std::vector<uint32_t> words;
    uint64_t filled;
  };
  const std::vector<Bad> all = {
      {"beyond its size", {}, kTestRing + 8},
      {"beyond its size", {}, UINT64_MAX},
      {"part of a record", {}, 4},
      {"beyond what it holds", {1000, 1}, 16},
      {"beyond what it holds", {UINT32_MAX, 1}, kTestRing},
      {"kind 0", {0, 0}, 8},
      {"kind 1", {0, 1}, 8},
      {"kind 2", {8, 2, 0, 0}, 16},
      {"kind 3", {8, 3, 0, 0}, 16},
      {"kind 77", {8, 77, 0, 0}, 16},
      {"size of a loan", {16, 2, 1, 0, 0, 0}, 24},
  };
  for (const Bad& bad : all) {
    RingReader reader(b_.get());
    reader.SetLender(getpid());
    Forge(bad.words.data(), bad.words.size() * sizeof(uint32_t), bad.filled);
    char byte;
    Bytes part(&byte, 1);
    Result<size_t> read = reader.Read(&part, 1);
    ASSERT_FALSE(read.ok()) << bad.what;
    EXPECT_EQ(read.status().code(), Code::kCorrupt);
    EXPECT_THAT(read.status().cause(), HasSubstr(bad.what));
  }
}

TEST_F(Rings, AnEndlessRunOfSkipsIsRefused) {
  const uint32_t skip[] = {kTestRing - 8, 3};
  Forge(skip, sizeof(skip), kTestRing);
  EXPECT_TRUE(ReadStatus().ok());
  a_->own().filled.store(2 * kTestRing);
  RingReader reader(b_.get());
  reader.SetLender(getpid());
  a_->own().filled.store(kTestRing);
  char byte;
  Bytes part(&byte, 1);
  EXPECT_TRUE(reader.Read(&part, 1).ok());
  // The second comes while the first is looked at: a writer never skips twice in a row.
  a_->own().filled.store(kTestRing + 16);
  const uint32_t again[] = {8, 3};
  std::memcpy(a_->own_ring(), again, sizeof(again));
  EXPECT_FALSE(reader.Read(&part, 1).ok());
}

// A large record's bytes begin at a cache line, for any record before it.
TEST_F(Rings, LargeRecordsBeginWithALine) {
  MakeRings(256 * 1024);
  for (size_t before = 1; before < 80; ++before) {
    ASSERT_EQ(writer_->Put(std::string(before, 'b')), before);
    ASSERT_EQ(writer_->Put(std::string(600, 'l')), 600u);
    writer_->Publish();
    const std::string ring(reinterpret_cast<const char*>(a_->own_ring()), 64 * 1024);
    const size_t at = ring.find(std::string(600, 'l'));
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(at % 64, 0u) << before;
    EXPECT_EQ(Read(before + 600), std::string(before, 'b') + std::string(600, 'l'));
    std::memset(a_->own_ring(), 0, 64 * 1024);
  }
}

TEST_F(Rings, ALeadBeyondTheEndIsAnError) {
  const uint32_t words[] = {8, 1 | 4000U << 8};
  Forge(words, sizeof(words), 24);
  EXPECT_EQ(ReadStatus().code(), Code::kCorrupt);
}

TEST_F(Rings, ALoanThatLeadsNowhereIsAnError) {
  writer_->Lend(ConstBytes(reinterpret_cast<void*>(uint64_t{4096}), 100));
  writer_->Publish();
  EXPECT_EQ(ReadStatus().code(), Code::kUnavailable);
}

TEST_F(Rings, WhatWasTakenBackIsNotRead) {
  std::string lent = "secret";
  writer_->Lend(lent);
  writer_->Publish();
  a_->own().revoked.store(1);
  EXPECT_THAT(ReadStatus().cause(), HasSubstr("closed"));
}

// A peer that closes its end and lives on could lend without end, and keep the reader from all other connections.
TEST_F(Rings, ALoanEndsWithItsConnectionInItsMiddle) {
  const std::string lent(1000, 'l');
  writer_->Lend(lent);
  writer_->Publish();
  EXPECT_EQ(Read(100), std::string(100, 'l'));
  reader_->Freeze();
  EXPECT_EQ(ReadStatus().code(), Code::kUnavailable);
}

// Records that were shown before are read to their end, and nothing behind them.
TEST_F(Rings, AWriterThatShowsLessThanBeforeIsNotBelieved) {
  ASSERT_EQ(writer_->Put(std::string(1000, 'x')), 1000u);
  writer_->Publish();
  EXPECT_EQ(Read(100), std::string(100, 'x'));
  Forge(nullptr, 0, 200);
  reader_->Freeze();
  EXPECT_EQ(Read(2000), std::string(900, 'x'));
  EXPECT_EQ(Read(2000), "");
}

TEST_F(Rings, AReaderThatLiesGivesNoRoom) {
  ASSERT_GT(writer_->Put(std::string(kTestRing, 'x')), 0u);
  for (uint64_t lie : {uint64_t{kTestRing} * 2, UINT64_MAX, uint64_t{1} << 63}) {
    const_cast<Half&>(a_->peer()).taken.store(lie);
    EXPECT_EQ(writer_->Put(std::string("more")), 0u);
    EXPECT_FALSE(writer_->HasRoom());
  }
}

TEST(CostsTest, ALoanIsGivenUpForAGoodPartOfItsCostOnly) {
  Costs costs;
  auto ring = [&](int64_t ns) {
    for (int i = 0; i < 100; ++i) costs.OnRing(8192, ns);
  };
  costs.OnRing(8192, 1);
  for (int i = 0; i < 100; ++i) costs.OnLoan(8192, 1000);
  EXPECT_FALSE(costs.RingCostsLess());  // once is not enough to know
  ring(800);
  EXPECT_FALSE(costs.RingCostsLess());
  ring(600);
  EXPECT_TRUE(costs.RingCostsLess());
  ring(800);
  EXPECT_TRUE(costs.RingCostsLess());  // nor is that enough to go back
  costs.OnRing(8192, 1'000'000'000);   // somebody else had the processor
  EXPECT_TRUE(costs.RingCostsLess());
  ring(950);
  EXPECT_FALSE(costs.RingCostsLess());
}

// The writer follows the reader's word, and does the other thing now and then.
TEST_F(Rings, LargePartsGoAsTheReaderSays) {
  for (const uint32_t ring_costs_less : {0u, 1u}) {
    b_->own().ring_costs_less.store(ring_costs_less);
    int lent = 0;
    for (int i = 0; i < 640; ++i) lent += writer_->ShouldLend() ? 1 : 0;
    EXPECT_EQ(lent, ring_costs_less == 0 ? 630 : 10);
  }
}

TEST(Segments, AreNotTakenUnsealedOrOfAnotherSize) {
  Fd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096 + 2 * kTestRing), 0);
  EXPECT_THAT(Segment::Attach(unsealed, kTestRing).status().cause(), HasSubstr("sealed"));
  Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(Segment::Attach(null, kTestRing).status().code(), Code::kCorrupt);
  Fd file;
  auto made = Segment::Make(kTestRing, &file);
  ASSERT_TRUE(made.ok());
  EXPECT_NE(ftruncate(file.get(), 4096), 0);
  for (uint32_t ring_bytes : {0u, 1u, 4095u, 4097u, 2 * kTestRing, 1u << 31})
    EXPECT_EQ(Segment::Attach(file, ring_bytes).status().code(), Code::kCorrupt) << ring_bytes;
}

}  // namespace
}  // namespace fusewire::transport
