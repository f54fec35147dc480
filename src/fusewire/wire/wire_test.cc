// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/wire/golden_test.h"

// The sanitizers bring an operator new of their own.
#define FUSEWIRE_COUNTS_ALLOCATIONS !(FUSEWIRE_ADDRESS_SANITIZER || FUSEWIRE_THREAD_SANITIZER)

namespace {

std::atomic<int> allocations{0};

}  // namespace

#if FUSEWIRE_COUNTS_ALLOCATIONS
// The whole test program counts its allocations, to show that a good frame needs none. Not inlined: the compiler would
// see a free() of what came from a new.
[[gnu::noinline]] void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace fusewire::wire {
namespace {

using testing::HasSubstr;

constexpr FrameKind kMessages[] = {FrameKind::kMessage, FrameKind::kCall, FrameKind::kReply, FrameKind::kReplyPart};
constexpr FrameKind kControls[] = {FrameKind::kChunk,  FrameKind::kCredit, FrameKind::kWant,
                                   FrameKind::kRecall, FrameKind::kReturn, FrameKind::kPing,
                                   FrameKind::kPong,   FrameKind::kCancel, FrameKind::kGoodbye};

FrameHeader Header(FrameKind kind) {
  FrameHeader header;
  header.kind = kind;
  if (kind == FrameKind::kChunk) header.body_bytes = 1;
  return header;
}

std::string Frame(FrameHeader header, const std::string& meta = "") {
  header.meta_bytes = static_cast<uint32_t>(meta.size());
  std::string bytes(kHeaderBytes, '\0');
  EncodeHeader(header, meta, Bytes(bytes.data(), bytes.size()));
  return bytes + meta;
}

// A header whose meta does not exist: for lengths that are never sent. Its check is wrong.
std::string HeaderOnly(const FrameHeader& header) {
  FrameHeader without_meta = header;
  without_meta.meta_bytes = 0;
  std::string bytes = Frame(without_meta);
  for (int i = 0; i < 4; ++i) bytes[static_cast<size_t>(12 + i)] = static_cast<char>(header.meta_bytes >> (8 * i));
  return bytes;
}

std::string Table(const std::vector<uint64_t>& segments) {
  std::string meta(segments.size() * 8, '\0');
  for (size_t i = 0; i < segments.size(); ++i) {
    EncodeSegmentBytes(segments[i], static_cast<uint16_t>(i), Bytes(meta.data(), meta.size()));
  }
  return meta;
}

Limits NoLimits() {
  Limits limits;
  limits.meta_bytes_max = UINT32_MAX;
  limits.body_bytes_max = UINT64_MAX;
  limits.chunk_bytes_max = UINT32_MAX;
  return limits;
}

std::string WhyNot(const FrameHeader& header, const Limits& limits = Limits()) {
  Result<FrameHeader> decoded = DecodeHeader(HeaderOnly(header), limits);
  EXPECT_TRUE(decoded.ok() || decoded.status().code() == Code::kCorrupt);
  return decoded.status().cause();
}

// Decodes and checks a frame that stands at the start of `bytes`.
Status Check(ConstBytes bytes, const Limits& limits = Limits()) {
  Result<FrameHeader> header = DecodeHeader(bytes, limits);
  if (!header.ok()) return header.status();
  if (bytes.size < kHeaderBytes + header.value().meta_bytes) return Status::Unavailable("meta is still on its way");
  return CheckMeta(bytes, header.value(), bytes.Sub(kHeaderBytes, header.value().meta_bytes));
}

bool SameHeader(const FrameHeader& left, const FrameHeader& right) {
  return left.kind == right.kind && left.flags == right.flags && left.method == right.method &&
         left.segments == right.segments && left.aux == right.aux && left.meta_bytes == right.meta_bytes &&
         left.sequence == right.sequence && left.call == right.call && left.body_bytes == right.body_bytes;
}

struct Golden {
  FrameHeader header;
  std::string meta;
  const char* bytes;
};

FrameHeader Fields(FrameKind kind, uint16_t method, uint16_t segments, uint32_t aux, uint32_t sequence, uint64_t call,
                   uint64_t body_bytes) {
  FrameHeader header;
  header.kind = kind;
  header.method = method;
  header.segments = segments;
  header.aux = aux;
  header.sequence = sequence;
  header.call = call;
  header.body_bytes = body_bytes;
  return header;
}

std::vector<Golden> Goldens() {
  const uint64_t call = PackCallId(CallId{5, 2});
  return {
      {Fields(FrameKind::kMessage, 3, 1, 0, 0, 9, 5), "hi",
       "46570100 03000100 00000000 02000000 00000000 4c415190 09000000 00000000 05000000 00000000\n"
       "6869"},
      {Fields(FrameKind::kCall, 258, 3, 1500, 1, call, 21), Table({16, 0, 5}) + "k",
       "46570200 02010300 dc050000 19000000 01000000 32c4d83c 05000000 02000000 15000000 00000000\n"
       "10000000 00000000 00000000 00000000 05000000 00000000 6b"},
      {Fields(FrameKind::kReply, 0, 0, static_cast<uint32_t>(Code::kCancelled), 0x01020304, call, 0), "",
       "46570300 00000000 05000000 00000000 04030201 77a61b72 05000000 02000000 00000000 00000000"},
      {Fields(FrameKind::kReplyPart, 0, 1, 0, 2, call, (uint64_t{1} << 32) + 1), "",
       "46570400 00000100 00000000 00000000 02000000 35db2824 05000000 02000000 01000000 01000000"},
      {Fields(FrameKind::kChunk, 0, 0, 0, 3, 0, 262144), "",
       "46571000 00000000 00000000 00000000 03000000 42546db4 00000000 00000000 00000400 00000000"},
      {Fields(FrameKind::kCredit, 0, 0, 0, 4, 1 << 20, 0), "",
       "46571100 00000000 00000000 00000000 04000000 f9ece43e 00001000 00000000 00000000 00000000"},
      {Fields(FrameKind::kWant, 0, 0, 0, 5, uint64_t{1} << 33, 0), "",
       "46571200 00000000 00000000 00000000 05000000 229ff070 00000000 02000000 00000000 00000000"},
      {Fields(FrameKind::kRecall, 0, 0, 0, 6, 0, 0), "",
       "46571300 00000000 00000000 00000000 06000000 01a6a09a 00000000 00000000 00000000 00000000"},
      {Fields(FrameKind::kReturn, 0, 0, 0, 7, 1 << 19, 0), "",
       "46571400 00000000 00000000 00000000 07000000 4c354f44 00000800 00000000 00000000 00000000"},
      {Fields(FrameKind::kPing, 0, 0, 0, 8, 0x1122334455667788, 0), "",
       "46571500 00000000 00000000 00000000 08000000 ac485b6b 88776655 44332211 00000000 00000000"},
      {Fields(FrameKind::kPong, 0, 0, 0, 9, 0x1122334455667788, 0), "",
       "46571600 00000000 00000000 00000000 09000000 426a8415 88776655 44332211 00000000 00000000"},
      {Fields(FrameKind::kCancel, 0, 0, 0, 10, call, 0), "",
       "46571700 00000000 00000000 00000000 0a000000 9a075de5 05000000 02000000 00000000 00000000"},
      {Fields(FrameKind::kGoodbye, 0, 0, static_cast<uint32_t>(Code::kRefused), UINT32_MAX, 0, 0), "wrong cluster",
       "46571800 00000000 07000000 0d000000 ffffffff b29f3389 00000000 00000000 00000000 00000000\n"
       "77726f6e 6720636c 75737465 72"},
  };
}

TEST(Frame, EveryKindHasTheBytesOfTheLaw) {
  for (Golden& golden : Goldens()) {
    SCOPED_TRACE(KindName(golden.header.kind));
    EXPECT_EQ(Draw(Frame(golden.header, golden.meta)), golden.bytes);
    EXPECT_TRUE(IsDrawnInTheLaw(golden.bytes)) << "not in docs/wire.md";

    const std::string bytes = Undraw(golden.bytes);
    EXPECT_TRUE(Check(bytes).ok()) << Check(bytes).ToString();
    golden.header.meta_bytes = static_cast<uint32_t>(golden.meta.size());
    EXPECT_TRUE(SameHeader(DecodeHeader(bytes, Limits()).value(), golden.header));
  }
  EXPECT_EQ(Goldens().size(), std::size(kMessages) + std::size(kControls));
}

TEST(Frame, KnowsItsKinds) {
  for (int kind = 0; kind < 256; ++kind) {
    const auto is = [kind](FrameKind other) { return static_cast<int>(other) == kind; };
    const bool message = std::any_of(std::begin(kMessages), std::end(kMessages), is);
    const bool control = std::any_of(std::begin(kControls), std::end(kControls), is);
    EXPECT_EQ(IsMessage(static_cast<FrameKind>(kind)), message) << kind;
    EXPECT_EQ(IsKnown(static_cast<uint8_t>(kind)), message || control) << kind;
    EXPECT_EQ(std::string(KindName(static_cast<FrameKind>(kind))) == "unknown", !message && !control) << kind;
    const std::string why = WhyNot(Header(static_cast<FrameKind>(kind)));
    EXPECT_EQ(why, message || control ? "" : "frame kind " + std::to_string(kind) + " is unknown");
  }
}

// A header that may be sent, with all its freedom used.
FrameHeader RandomHeader(Random* random, std::string* meta) {
  FrameHeader header;
  header.sequence = static_cast<uint32_t>(random->Next());
  if (random->Chance(0.5)) {
    header.kind = kControls[random->Below(std::size(kControls))];
    if (header.kind == FrameKind::kChunk) header.body_bytes = random->Between(1, Limits().chunk_bytes_max);
    if (header.kind == FrameKind::kGoodbye) header.aux = static_cast<uint32_t>(random->Below(kCodeMax + 1));
    const bool no_call =
        header.kind == FrameKind::kChunk || header.kind == FrameKind::kRecall || header.kind == FrameKind::kGoodbye;
    if (!no_call) header.call = random->Next() >> 1;
    *meta = header.kind == FrameKind::kGoodbye ? std::string(random->Below(kGoodbyeBytesMax + 1), 'w') : "";
  } else {
    header.kind = kMessages[random->Below(std::size(kMessages))];
    header.method = static_cast<uint16_t>(random->Next());
    if (header.kind == FrameKind::kReply) header.aux = static_cast<uint32_t>(random->Below(kCodeMax + 1));
    if (header.kind == FrameKind::kMessage) header.aux = static_cast<uint32_t>(random->Next());
    if (header.kind == FrameKind::kCall) header.aux = static_cast<uint32_t>(random->Next());
    header.call = random->Next();
    std::vector<uint64_t> segments(random->Chance(0.1) ? random->Below(5000) : random->Below(4));
    for (uint64_t& bytes : segments) bytes = random->Chance(0.2) ? 0 : random->Below(1 << 20);
    for (uint64_t bytes : segments) header.body_bytes += bytes;
    header.segments = static_cast<uint16_t>(segments.size());
    *meta = (segments.size() > 1 ? Table(segments) : "") + std::string(random->Below(200), 'h');
  }
  header.meta_bytes = static_cast<uint32_t>(meta->size());
  return header;
}

TEST(Frame, ComesBackAsItWasSent) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string meta;
    const FrameHeader header = RandomHeader(&random, &meta);
    const std::string bytes = Frame(header, meta);
    Result<FrameHeader> decoded = DecodeHeader(bytes, Limits());
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    ASSERT_TRUE(SameHeader(decoded.value(), header));
    ASSERT_TRUE(Check(bytes).ok()) << Check(bytes).ToString();
    EXPECT_EQ(Frame(decoded.value(), meta), bytes);
  }
}

TEST(Frame, HasSegmentsAndAHead) {
  FrameHeader header = Header(FrameKind::kCall);
  const std::string table = Table({7, 0, 13});
  header.segments = 3;
  header.meta_bytes = 28;
  EXPECT_EQ(SegmentBytes(header, table + "head", 0), 7u);
  EXPECT_EQ(SegmentBytes(header, table + "head", 1), 0u);
  EXPECT_EQ(SegmentBytes(header, table + "head", 2), 13u);
  EXPECT_EQ(HeadOf(header, table + "head").ToString(), "head");

  header.segments = 1;
  header.body_bytes = 99;
  EXPECT_EQ(SegmentBytes(header, std::string("head"), 0), 99u);
  EXPECT_EQ(HeadOf(header, std::string("head")).ToString(), "head");
  EXPECT_EQ(SegmentTableBytes(0), 0u);
  EXPECT_EQ(SegmentTableBytes(1), 0u);
  EXPECT_EQ(SegmentTableBytes(2), 16u);
  EXPECT_EQ(SegmentTableBytes(UINT16_MAX), 65535u * 8);
}

TEST(Frame, EveryTruncationIsNoticed) {
  for (const Golden& golden : Goldens()) {
    const std::string bytes = Undraw(golden.bytes);
    for (size_t size = 0; size < bytes.size(); ++size) {
      const Status status = Check(ConstBytes(bytes).Sub(0, size));
      EXPECT_EQ(status.code(), size < kHeaderBytes ? Code::kCorrupt : Code::kUnavailable);
    }
  }
  EXPECT_EQ(DecodeHeader(ConstBytes(), Limits()).status().cause(), "frame header: 0 of 40 bytes");
}

TEST(Frame, EveryFlippedBitIsNoticed) {
  // The bytes behind a frame on the stream, for a flipped meta_bytes that reaches into them.
  Random random(3);
  std::string behind(Limits().meta_bytes_max, '\0');
  for (char& byte : behind) byte = static_cast<char>(random.Next());
  for (const Golden& golden : Goldens()) {
    const std::string good = Undraw(golden.bytes);
    for (size_t bit = 0; bit < good.size() * 8; bit += kSanitized ? 7 : 1) {
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_EQ(Check(bytes + behind).code(), Code::kCorrupt) << KindName(golden.header.kind) << ", bit " << bit;
    }
  }
}

TEST(Frame, TheCheckSeesWhatTheLimitsCannot) {
  const std::string frame = Frame(Header(FrameKind::kPing));
  const Status status = Check(Frame(Header(FrameKind::kPong)).substr(0, 20) + frame.substr(20));
  EXPECT_THAT(status.cause(), HasSubstr("pong frame: check "));
}

TEST(DecodeHeader, LengthsAreHeldAgainstTheLimits) {
  const uint64_t lengths[] = {INT32_MAX, uint64_t{1} << 32, INT64_MAX, UINT64_MAX};
  for (FrameKind kind : kMessages) {
    for (uint64_t bytes : lengths) {
      FrameHeader header = Header(kind);
      header.segments = 1;
      header.body_bytes = bytes;
      Limits limits;
      limits.body_bytes_max = bytes;
      EXPECT_EQ(WhyNot(header, limits), "");
      limits.body_bytes_max = bytes - 1;
      EXPECT_EQ(WhyNot(header, limits), std::string(KindName(kind)) + " frame: body_bytes " + std::to_string(bytes) +
                                            ", limit " + std::to_string(bytes - 1));
    }
  }
  FrameHeader header = Header(FrameKind::kCall);
  for (uint32_t bytes : {uint32_t{INT32_MAX}, UINT32_MAX}) {
    header.meta_bytes = bytes;
    EXPECT_EQ(WhyNot(header), "call frame: meta_bytes " + std::to_string(bytes) + ", limit 1048576");
    EXPECT_EQ(WhyNot(header, NoLimits()), "");
  }
  header.meta_bytes = 8 * 100;
  header.segments = 100;
  Limits limits;
  limits.segments_max = 99;
  EXPECT_EQ(WhyNot(header), "");
  EXPECT_EQ(WhyNot(header, limits), "call frame: segments 100, limit 99");
}

TEST(DecodeHeader, AMessagesCountsAgreeWithEachOther) {
  for (FrameKind kind : kMessages) {
    FrameHeader header = Header(kind);
    header.body_bytes = 1;
    EXPECT_THAT(WhyNot(header), HasSubstr("body_bytes 1, but segments 0"));
    header.segments = 1;
    EXPECT_EQ(WhyNot(header), "");
    header.segments = 3;
    header.meta_bytes = 23;
    EXPECT_THAT(WhyNot(header), HasSubstr("meta_bytes 23, but the table of 3 segments needs 24"));
    header.meta_bytes = 24;
    EXPECT_EQ(WhyNot(header), "");
    header.body_bytes = 0;  // three segments of nothing
    EXPECT_EQ(WhyNot(header), "");
    header.segments = 0;
    EXPECT_EQ(WhyNot(header), "");
    header.segments = UINT16_MAX;
    EXPECT_THAT(WhyNot(header), HasSubstr("segments needs 524280"));
  }
}

TEST(DecodeHeader, FlagsAndForeignMagicAreNonsense) {
  for (FrameKind kind : {FrameKind::kCall, FrameKind::kPing}) {
    FrameHeader header = Header(kind);
    header.flags = 128;
    EXPECT_EQ(WhyNot(header), std::string(KindName(kind)) + " frame: flags 128, must be 0");
  }
  std::string bytes = Frame(Header(FrameKind::kCall));
  bytes[0] = 'X';
  EXPECT_EQ(DecodeHeader(bytes, Limits()).status().cause(), "frame magic 22360, must be 22342");
}

TEST(DecodeHeader, ACodeIsOneThatWeKnow) {
  for (FrameKind kind : {FrameKind::kReply, FrameKind::kGoodbye}) {
    FrameHeader header = Header(kind);
    header.aux = kCodeMax;
    EXPECT_EQ(WhyNot(header), "");
    header.aux = 256;  // would be ok if it were cut to a byte
    EXPECT_EQ(WhyNot(header), std::string(KindName(kind)) + " frame: aux 256, limit " + std::to_string(kCodeMax));
  }
}

TEST(DecodeHeader, APartIsNeverAnError) {
  FrameHeader header = Header(FrameKind::kReplyPart);
  header.aux = 1;
  EXPECT_EQ(WhyNot(header), "reply part frame: aux 1, must be 0");
}

TEST(DecodeHeader, AControlFrameCarriesNothingElse) {
  for (FrameKind kind : kControls) {
    const std::string name = std::string(KindName(kind)) + " frame: ";
    FrameHeader header = Header(kind);
    header.method = 1;
    EXPECT_EQ(WhyNot(header), name + "method 1, must be 0");
    header = Header(kind);
    header.segments = 1;
    EXPECT_EQ(WhyNot(header), name + "segments 1, must be 0");
    header = Header(kind);
    header.aux = 1;
    EXPECT_EQ(WhyNot(header), kind == FrameKind::kGoodbye ? "" : name + "aux 1, must be 0");
    header = Header(kind);
    header.meta_bytes = 1;
    EXPECT_EQ(WhyNot(header), kind == FrameKind::kGoodbye ? "" : name + "meta_bytes 1, must be 0");
    header = Header(kind);
    header.call = 1;
    const bool no_call = kind == FrameKind::kChunk || kind == FrameKind::kRecall || kind == FrameKind::kGoodbye;
    EXPECT_EQ(WhyNot(header), no_call ? name + "call 1, must be 0" : "");
    header = Header(kind);
    header.body_bytes = 1;
    EXPECT_EQ(WhyNot(header), kind == FrameKind::kChunk ? "" : name + "body_bytes 1, must be 0");
  }
}

TEST(DecodeHeader, CreditIsCountedIn63Bits) {
  for (FrameKind kind : {FrameKind::kCredit, FrameKind::kWant, FrameKind::kReturn}) {
    FrameHeader header = Header(kind);
    header.call = kWindowBytesMax;
    EXPECT_EQ(WhyNot(header), "");
    header.call = kWindowBytesMax + 1;
    EXPECT_EQ(WhyNot(header),
              std::string(KindName(kind)) + " frame: call 9223372036854775808, limit 9223372036854775807");
  }
}

TEST(DecodeHeader, AGoodbyeIsShort) {
  FrameHeader header = Header(FrameKind::kGoodbye);
  header.meta_bytes = kGoodbyeBytesMax;
  EXPECT_EQ(WhyNot(header), "");
  header.meta_bytes = kGoodbyeBytesMax + 1;
  EXPECT_EQ(WhyNot(header, NoLimits()), "goodbye frame: meta_bytes 4097, limit 4096");
}

TEST(DecodeHeader, AChunkHoldsFromOneByteToTheAgreedSize) {
  FrameHeader header = Header(FrameKind::kChunk);
  header.body_bytes = 0;
  EXPECT_EQ(WhyNot(header), "chunk frame: body_bytes 0");
  Limits limits;
  limits.chunk_bytes_max = 4096;
  header.body_bytes = 4096;
  EXPECT_EQ(WhyNot(header, limits), "");
  header.body_bytes = 4097;
  EXPECT_EQ(WhyNot(header, limits), "chunk frame: body_bytes 4097, limit 4096");
}

TEST(CheckMeta, SegmentsAddUpToTheBody) {
  FrameHeader header = Header(FrameKind::kReply);
  header.segments = 2;
  header.body_bytes = 10;
  EXPECT_TRUE(Check(Frame(header, Table({3, 7}))).ok());
  EXPECT_TRUE(Check(Frame(header, Table({0, 10}) + "head")).ok());
  EXPECT_EQ(Check(Frame(header, Table({3, 6}))).cause(), "reply frame: segments add up to 9, but body_bytes 10");
  EXPECT_EQ(Check(Frame(header, Table({3, 8}))).cause(), "reply frame: segments add up to 11, but body_bytes 10");
}

TEST(CheckMeta, ASumThatRunsOverIsNotTakenForASmallOne) {
  FrameHeader header = Header(FrameKind::kReply);
  header.segments = 3;
  header.body_bytes = 10;  // what the sum is, if it may wrap
  for (const auto& segments : {std::vector<uint64_t>{UINT64_MAX, 11, 0}, std::vector<uint64_t>{11, 0, UINT64_MAX},
                               std::vector<uint64_t>{uint64_t{1} << 63, uint64_t{1} << 63, 10}}) {
    EXPECT_EQ(Check(Frame(header, Table(segments))).cause(),
              "reply frame: segments add up to more than 64 bits, but body_bytes 10");
  }
  header.segments = 2;
  header.body_bytes = UINT64_MAX;
  EXPECT_TRUE(Check(Frame(header, Table({UINT64_MAX, 0})), NoLimits()).ok());
}

TEST(Frame, AGoodOneAllocatesNothing) {
  if (!FUSEWIRE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "counted only without a sanitizer";
  const FrameHeader header = Fields(FrameKind::kCall, 1, 3, 0, 1, 7, 21);
  const std::string frame = Frame(header, Table({16, 0, 5}) + "head");
  std::string out(kHeaderBytes, '\0');
  const Limits limits;
  const ConstBytes meta = ConstBytes(frame).From(kHeaderBytes);
  const int before = allocations;
  Result<FrameHeader> decoded = DecodeHeader(frame, limits);
  const bool good = decoded.ok() && CheckMeta(frame, decoded.value(), meta).ok();
  EncodeHeader(decoded.value(), meta, Bytes(out.data(), out.size()));
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(good);
  EXPECT_EQ(out, frame.substr(0, kHeaderBytes));
  EXPECT_FALSE(DecodeHeader(std::string(kHeaderBytes, 'x'), limits).ok());
  EXPECT_GT(allocations, before) << "the counter does not count";
}

TEST(CallId, IsPackedAndUnpacked) {
  EXPECT_EQ(PackCallId(CallId{5, 2}), (uint64_t{2} << 32) | 5);
  const CallId id = UnpackCallId(PackCallId(CallId{UINT32_MAX, 0x80000000}));
  EXPECT_EQ(id.slot, UINT32_MAX);
  EXPECT_EQ(id.generation, 0x80000000u);
}

TEST(FrameDeathTest, AWrongLengthOfOurOwnIsOurBug) {
  FrameHeader header = Header(FrameKind::kCall);
  header.meta_bytes = 3;
  std::string out(kHeaderBytes, '\0');
  EXPECT_DEATH(EncodeHeader(header, std::string("four"), Bytes(out.data(), out.size())), "meta.size");
  EXPECT_DEATH(EncodeHeader(header, std::string("abc"), Bytes(out.data(), out.size() - 1)), "out.size");
  EXPECT_DEATH((void)CheckMeta(out, header, std::string("four")), "meta.size");
}

}  // namespace
}  // namespace fusewire::wire
