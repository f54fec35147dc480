// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/frame_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/pipe/script_test.h"

namespace fusewire::pipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using wire::FrameKind;

constexpr uint32_t kChunk = 64;

// Lands each message according to its call number, and records the events.
class Recorder final : public FrameSink {
 public:
  enum How { kView = 0, kInto = 1, kDiscard = 2, kInManyParts = 3 };
  static How HowOf(uint64_t call) { return static_cast<How>(call % 4); }

  Result<Landing> OnHeader(const wire::FrameHeader& header, ConstBytes) override {
    if (!refuse_header.ok()) return refuse_header;
    ++headers;
    if (HowOf(header.call) == kView) return Landing::View();
    if (HowOf(header.call) == kDiscard) return Landing::Discard();
    Place& place = places[header.call];
    place.memory = std::make_unique<std::string>(header.body_bytes, '#');
    size_t step = HowOf(header.call) == kInto ? std::max<size_t>(1, place.memory->size()) : 3;
    for (size_t at = 0; at < place.memory->size(); at += step) {
      place.parts.emplace_back(place.memory->data() + at, std::min(step, place.memory->size() - at));
      if (HowOf(header.call) == kInManyParts)
        place.parts.emplace_back(place.memory->data() + at, 0);  // an empty segment
    }
    return Landing::Into(place.parts.data(), place.parts.size());
  }

  Status OnMessage(const wire::FrameHeader& header, ConstBytes meta, ConstBytes view) override {
    std::string body = view.ToString();
    if (places.count(header.call) > 0) body = *places[header.call].memory;
    places.erase(header.call);
    events.push_back(std::string(wire::KindName(header.kind)) + " " + std::to_string(header.call) + " " +
                     wire::HeadOf(header, meta).ToString() + " " + body);
    if (on_message) on_message();
    return refuse_message;
  }

  Status OnControl(const wire::FrameHeader& header, ConstBytes meta) override {
    events.push_back(std::string(wire::KindName(header.kind)) + " " + std::to_string(header.call) + " " +
                     meta.ToString());
    return Status::Ok();
  }

  struct Place {
    std::unique_ptr<std::string> memory;
    std::vector<Bytes> parts;
  };
  std::map<uint64_t, Place> places;
  std::vector<std::string> events;
  std::function<void()> on_message;
  Status refuse_header, refuse_message;
  int headers = 0;
};

struct Reading {
  explicit Reading(uint32_t chunk_bytes = kChunk) : reader(wire::Limits(), &sink) { reader.SetChunkBytes(chunk_bytes); }

  // `next` returns how many bytes the network has now, given the number that is left.
  Status Feed(const std::string& stream, const std::function<size_t(size_t)>& next) {
    return FeedAsConnection(&reader, stream, next);
  }
  Status Feed(const std::string& stream) {
    return Feed(stream, [](size_t left) { return left; });
  }

  Recorder sink;
  FrameReader reader;
};

std::vector<std::string> Repeat(const std::string& text, size_t count) { return std::vector<std::string>(count, text); }

// One of everything: each way of landing, empty and long bodies, and frames between chunks.
struct Recording {
  Recording() {
    Add(script.Control(FrameKind::kPing, 7), "ping 7 ");
    Message(FrameKind::kMessage, 4, "", {});
    Message(FrameKind::kCall, 5, "head", {});
    Message(FrameKind::kCall, 8, "view", {Payload(30, 1)});
    Message(FrameKind::kReply, 9, "into", {Payload(30, 2)});
    Message(FrameKind::kReplyPart, 11, "parts", {Payload(10, 3), "", Payload(21, 4)});
    Message(FrameKind::kMessage, 10, "gone", {Payload(40, 5)});
    Message(FrameKind::kMessage, 6, "exactly a chunk", {Payload(kChunk, 6)});
    Between(FrameKind::kCall, 13, "long", {Payload(3 * kChunk, 7), Payload(17, 8)});
    Between(FrameKind::kCall, 12, "long view", {Payload(2 * kChunk + 1, 9)});
    Between(FrameKind::kCall, 14, "long gone", {Payload(2 * kChunk, 10)});
    Between(FrameKind::kCall, 15, "many parts", Repeat(Payload(5, 11), 60));
    Add(script.Control(FrameKind::kCredit, 1 << 20), "credit 1048576 ");
    Add(script.Control(FrameKind::kGoodbye, 0, 5, "words"), "goodbye 0 words");
  }

  void Add(const std::string& frame, const std::string& event) {
    bytes += frame;
    events.push_back(event);
  }

  static std::string Event(FrameKind kind, uint64_t call, const std::string& head,
                           const std::vector<std::string>& segments) {
    std::string body;
    for (const std::string& segment : segments) body += segment;
    if (Recorder::HowOf(call) == Recorder::kDiscard) body.clear();
    return std::string(wire::KindName(kind)) + " " + std::to_string(call) + " " + head + " " + body;
  }

  void Message(FrameKind kind, uint64_t call, const std::string& head, const std::vector<std::string>& segments) {
    Add(script.Message(kind, call, head, segments), Event(kind, call, head, segments));
  }

  // With a control frame and a short message in each gap.
  void Between(FrameKind kind, uint64_t call, const std::string& head, const std::vector<std::string>& segments) {
    uint64_t gap = 0;
    bytes += script.Message(kind, call, head, segments, [this, &gap, call] {
      ++gap;
      uint64_t other = 100 * call + gap;
      events.push_back("want " + std::to_string(gap) + " ");
      events.push_back(Event(FrameKind::kReply, other, "short", {Payload(kChunk - 1, 99)}));
      return Join({script.Control(FrameKind::kWant, gap),
                   script.Message(FrameKind::kReply, other, "short", {Payload(kChunk - 1, 99)})});
    });
    events.push_back(Event(kind, call, head, segments));
  }

  FrameScript script{kChunk};
  std::string bytes;
  std::vector<std::string> events;
};

TEST(FrameReader, ReadsAStreamCutAtAnyByte) {
  const Recording recording;
  for (size_t cut = 0; cut <= recording.bytes.size(); ++cut) {
    Reading reading;
    bool first = true;
    Status status = reading.Feed(
        recording.bytes, [&first, cut](size_t left) { return std::exchange(first, false) && cut > 0 ? cut : left; });
    ASSERT_TRUE(status.ok()) << "cut at " << cut << ": " << status.ToString();
    ASSERT_EQ(reading.sink.events, recording.events) << "cut at " << cut;
  }
}

TEST(FrameReader, ReadsAStreamThatComesByteByByte) {
  const Recording recording;
  Reading reading;
  ASSERT_TRUE(reading.Feed(recording.bytes, [](size_t) { return 1; }).ok());
  EXPECT_EQ(reading.sink.events, recording.events);
}

TEST(FrameReader, ReadsAStreamInRandomPieces) {
  const Recording recording;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    uint64_t most = uint64_t{1} << random.Below(10);
    Reading reading;
    Status status = reading.Feed(recording.bytes, [&random, most](size_t) { return random.Between(1, most); });
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.ToString();
    ASSERT_EQ(reading.sink.events, recording.events) << "seed " << seed;
  }
}

// A body that is longer than a chunk was once shown with the headers of its chunks in it.
TEST(FrameReader, AViewOfSeveralChunksIsPutTogether) {
  FrameScript script(kChunk);
  std::string body = Payload(5 * kChunk, 1);
  Reading reading;
  ASSERT_TRUE(reading.Feed(script.Message(FrameKind::kCall, 4, "", {body})).ok());
  EXPECT_THAT(reading.sink.events, ElementsAre("call 4  " + body));
}

// ---- memory ----

TEST(FrameReader, LargeBodiesAreNotCopied) {
  constexpr uint32_t kUsualChunk = 256 << 10;
  constexpr size_t kBody = 8 << 20;
  FrameScript script(kUsualChunk);
  std::string body = Payload(kBody, 1);
  std::string stream = script.Message(FrameKind::kCall, 1, "head", {body}, [&script] {
    return Join({script.Control(FrameKind::kPing, 1), script.Message(FrameKind::kReply, 4, "", {"short"})});
  });
  Reading reading(kUsualChunk);
  CopyCounts before = ReadCopyCounts();
  Random random(3);
  ASSERT_TRUE(reading.Feed(stream, [&random](size_t) { return random.Between(1, 1 << 20); }).ok());
  CopyCounts after = ReadCopyCounts();
  EXPECT_EQ(reading.sink.events.back(), "call 1 head " + body);
  EXPECT_EQ(after.large_copies, before.large_copies);
  EXPECT_LT(after.small_bytes - before.small_bytes, kBody / 100);
}

TEST(FrameReader, ALargeMetaIsNotCopiedInOnePiece) {
  FrameScript script(kChunk);
  std::string head = Payload(300 << 10, 1);
  for (const char* body : {"", "body"}) {
    Reading reading;
    script.sequence = 0;
    std::string stream = script.Message(FrameKind::kCall, 4, head, {body});
    CopyCounts before = ReadCopyCounts();
    ASSERT_TRUE(reading.Feed(stream).ok());
    EXPECT_EQ(ReadCopyCounts().large_copies, before.large_copies);
    EXPECT_THAT(reading.sink.events, ElementsAre("call 4 " + head + " " + body));
  }
}

TEST(FrameReader, NothingTouchesTheMemoryOfAnAbandonedBody) {
  FrameScript script(kChunk);
  std::string stream = script.Message(FrameKind::kCall, 1, "", {Payload(5 * kChunk, 1)});
  for (size_t cut = 0; cut < stream.size(); ++cut) {
    Reading reading;
    ASSERT_TRUE(reading.Feed(stream.substr(0, cut), [](size_t left) { return left; }).ok());
    if (reading.sink.places.empty()) continue;     // it has not begun
    reading.reader.Abandon(FrameKind::kReply, 1);  // another message
    reading.reader.Abandon(FrameKind::kCall, 2);
    Bytes part;
    reading.reader.Abandon(FrameKind::kCall, 1);
    EXPECT_EQ(reading.reader.Landing(&part, 1), 0u);
    reading.sink.places.clear();  // frees it: the address sanitizer watches
    ASSERT_TRUE(reading.Feed(stream.substr(cut)).ok());
    EXPECT_THAT(reading.sink.events, ElementsAre("call 1  "));
  }
}

TEST(FrameReader, WhatLandedBeforeAnAbandonMayBeToldAfterwards) {
  FrameScript script(kChunk);
  std::string stream = script.Message(FrameKind::kCall, 1, "", {Payload(2 * kChunk, 1)});
  Reading reading;
  const size_t begun = wire::kHeaderBytes + 10;
  ASSERT_TRUE(reading.Feed(stream.substr(0, begun)).ok());
  Bytes part;
  ASSERT_EQ(reading.reader.Landing(&part, 1), 1u);
  ASSERT_TRUE(reading.reader.IsFilling(FrameKind::kCall, 1));
  EXPECT_FALSE(reading.reader.IsFilling(FrameKind::kReply, 1));
  reading.reader.Abandon(FrameKind::kCall, 1);
  reading.sink.places.clear();  // frees it: the address sanitizer watches
  ASSERT_TRUE(reading.reader.OnLanded(20).ok());
  ASSERT_TRUE(reading.Feed(stream.substr(begun + 20)).ok());
  EXPECT_THAT(reading.sink.events, ElementsAre("call 1  "));
  EXPECT_FALSE(reading.reader.IsFilling(FrameKind::kCall, 1));
}

TEST(FrameReader, AnAbandonedViewShowsNothing) {
  FrameScript script(kChunk);
  std::string stream = script.Message(FrameKind::kCall, 4, "", {Payload(3 * kChunk, 1)});
  Reading reading;
  ASSERT_TRUE(reading.Feed(stream.substr(0, 100)).ok());
  reading.reader.Abandon(FrameKind::kCall, 4);
  ASSERT_TRUE(reading.Feed(stream.substr(100)).ok());
  EXPECT_THAT(reading.sink.events, ElementsAre("call 4  "));
}

TEST(FrameReader, AShortBodyIsAbandonedWithoutTheLongOneAroundIt) {
  FrameScript script(kChunk);
  std::string long_body = Payload(2 * kChunk, 1);
  std::string stream = script.Message(FrameKind::kCall, 1, "", {long_body},
                                      [&script] { return script.Message(FrameKind::kReply, 5, "", {Payload(40, 2)}); });
  Reading reading;
  size_t in_the_short_one = wire::kHeaderBytes + kChunk + wire::kHeaderBytes + 20;
  ASSERT_TRUE(reading.Feed(stream.substr(0, in_the_short_one)).ok());
  reading.reader.Abandon(FrameKind::kReply, 5);
  reading.sink.places.erase(5);
  ASSERT_TRUE(reading.Feed(stream.substr(in_the_short_one)).ok());
  EXPECT_THAT(reading.sink.events, ElementsAre("reply 5  ", "call 1  " + long_body));
}

// ---- how far to look ahead ----

TEST(FrameReader, LooksFurtherAheadWhileThereIsMoreAndLittleBehindALargeBody) {
  Reading reading(256 << 10);
  FrameScript script(256 << 10);
  size_t first = reading.reader.LookAhead();
  std::string pings;
  for (int i = 0; i < 2000; ++i) pings += script.Control(FrameKind::kPing, 1);
  ASSERT_TRUE(reading.Feed(pings).ok());
  EXPECT_GT(reading.reader.LookAhead(), first);
  EXPECT_LT(reading.reader.LookAhead(), kCopyBytesMax);
  std::string stream = script.Message(FrameKind::kCall, 1, "", {Payload(100 << 10, 1)});
  ASSERT_TRUE(reading.Feed(stream.substr(0, 500)).ok());
  EXPECT_LE(reading.reader.LookAhead(), 512u);
  ASSERT_TRUE(reading.Feed(stream.substr(500)).ok());
  EXPECT_LE(reading.reader.LookAhead(), 512u);  // another large one is likely
}

// ---- violations of the protocol ----

std::string CauseOf(const Status& status) {
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.ToString();
  return status.cause();
}

TEST(FrameReader, AFrameThatIsLostDoubledOrReplayedIsCorrupt) {
  FrameScript script(kChunk);
  std::string first = script.Control(FrameKind::kPing, 1), second = script.Control(FrameKind::kPing, 2),
              third = script.Control(FrameKind::kPing, 3);
  EXPECT_THAT(CauseOf(Reading().Feed(first + third)), HasSubstr("frame 2 came where frame 1 was due"));
  EXPECT_THAT(CauseOf(Reading().Feed(first + first)), HasSubstr("frame 0 came where frame 1 was due"));
  EXPECT_THAT(CauseOf(Reading().Feed(first + second + third + second)),
              HasSubstr("frame 1 came where frame 3 was due"));
  EXPECT_THAT(CauseOf(Reading().Feed(second)), HasSubstr("frame 1 came where frame 0 was due"));
}

TEST(FrameReader, ASecondLongBodyInsideTheFirstIsCorrupt) {
  FrameScript script(kChunk);
  std::string stream = Join({script.Begin(FrameKind::kCall, 1, "", {3 * kChunk}), Payload(kChunk, 1),
                             script.Begin(FrameKind::kCall, 5, "", {kChunk + 1})});
  Reading reading;
  EXPECT_THAT(CauseOf(reading.Feed(stream)), HasSubstr("second long message"));
  EXPECT_EQ(reading.sink.headers, 1);  // no memory was allocated for it
}

TEST(FrameReader, AChunkWithoutALongBodyIsCorrupt) {
  FrameScript script(kChunk);
  EXPECT_THAT(CauseOf(Reading().Feed(script.Chunk(5) + "12345")), HasSubstr("chunk without a message"));
  script.sequence = 0;
  // Nor has it one when it is complete.
  std::string stream = Join({script.Message(FrameKind::kCall, 1, "", {Payload(2 * kChunk, 1)}), script.Chunk(1), "1"});
  EXPECT_THAT(CauseOf(Reading().Feed(stream)), HasSubstr("chunk without a message"));
}

TEST(FrameReader, AChunkBeyondTheEndOfItsBodyOrOverTheLimitIsCorrupt) {
  FrameScript script(kChunk);
  std::string begin = script.Begin(FrameKind::kCall, 1, "", {kChunk + 10}) + Payload(kChunk, 1);
  EXPECT_THAT(CauseOf(Reading().Feed(begin + script.Chunk(11))), HasSubstr("a chunk of 11 bytes where 10 were left"));
  script.sequence = 0;
  begin = script.Begin(FrameKind::kCall, 1, "", {5 * kChunk}) + Payload(kChunk, 1);
  EXPECT_THAT(CauseOf(Reading().Feed(begin + script.Chunk(kChunk + 1))), HasSubstr("body_bytes 65, limit 64"));
  script.sequence = 1;
  EXPECT_THAT(CauseOf(Reading().Feed(begin + script.Chunk(0))), HasSubstr("body_bytes 0"));
}

TEST(FrameReader, ChunksMayBeSmallerThanAgreed) {
  FrameScript script(kChunk);
  std::string body = Payload(kChunk + 3, 1);
  std::string stream = script.Begin(FrameKind::kCall, 1, "", {body.size()}) + body.substr(0, kChunk);
  for (size_t at = kChunk; at < body.size(); ++at) stream += script.Chunk(1) + body.substr(at, 1);
  Reading reading;
  ASSERT_TRUE(reading.Feed(stream).ok());
  EXPECT_THAT(reading.sink.events, ElementsAre("call 1  " + body));
}

// Every bit of a header and its meta matters: none may be flipped unnoticed.
TEST(FrameReader, ATurnedBitInHeaderOrMetaIsCorrupt) {
  FrameScript script(kChunk);
  std::string before = script.Message(FrameKind::kCall, 5, "before", {});
  std::string frame = script.Begin(FrameKind::kCall, 9, "the head", {7, 0, 8});
  std::string body = Payload(15, 1), behind = Join({script.Control(FrameKind::kPing, 1), Payload(4096, 2)});
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    std::string mutated = frame;
    mutated[bit / 8] = static_cast<char>(static_cast<uint8_t>(mutated[bit / 8]) ^ 1U << bit % 8);
    Reading reading;
    Status status = reading.Feed(before + mutated + body + behind, [](size_t) { return 50; });
    // With a larger length within its limit, the reader waits for bytes that never come: the CRC is checked once all
    // are there.
    bool waits = status.ok();
    EXPECT_EQ(status.code(), waits ? Code::kOk : Code::kCorrupt);
    EXPECT_THAT(reading.sink.events, ElementsAre("call 5 before ")) << "bit " << bit;
    EXPECT_EQ(reading.sink.headers, 1) << "bit " << bit;
    EXPECT_TRUE(!waits || (bit / 8 >= 12 && bit / 8 < 16)) << "bit " << bit;  // meta_bytes
  }
}

TEST(FrameReader, ALengthOverItsLimitIsCorruptBeforeAnythingIsAwaited) {
  wire::Limits limits;
  limits.meta_bytes_max = 100;
  limits.body_bytes_max = 1000;
  limits.segments_max = 3;
  auto feed = [&limits](const std::string& stream) {
    Recorder sink;
    FrameReader reader(limits, &sink);
    Status status = reader.OnBytes(stream);
    EXPECT_TRUE(status.ok() || sink.headers == 0);
    return status;
  };
  FrameScript script(kChunk);
  auto begin = [&script](const std::string& head, const std::vector<uint64_t>& segments) {
    script.sequence = 0;
    return script.Begin(FrameKind::kCall, 2, head, segments);
  };
  EXPECT_TRUE(feed(begin(Payload(100, 1), {1000})).ok());
  EXPECT_THAT(CauseOf(feed(begin(Payload(101, 1), {}).substr(0, wire::kHeaderBytes))),
              HasSubstr("meta_bytes 101, limit 100"));
  EXPECT_THAT(CauseOf(feed(begin("", {1001}).substr(0, wire::kHeaderBytes))), HasSubstr("body_bytes 1001, limit 1000"));
  EXPECT_THAT(CauseOf(feed(begin("", {1, 1, 1, 1}).substr(0, wire::kHeaderBytes))), HasSubstr("segments 4, limit 3"));
}

TEST(FrameReader, TheReceiversRefusalEndsTheReading) {
  FrameScript script(kChunk);
  std::string stream = Join({script.Message(FrameKind::kCall, 9, "", {"body"}), script.Control(FrameKind::kPing, 1)});
  Reading refused_header;
  refused_header.sink.refuse_header = Status::Overloaded("no room");
  EXPECT_EQ(refused_header.Feed(stream).code(), Code::kOverloaded);
  EXPECT_TRUE(refused_header.sink.events.empty());
  for (uint64_t call : {8, 9}) {
    script.sequence = 0;
    Reading refused_message;
    refused_message.sink.refuse_message = Status::Corrupt("nonsense");
    stream = Join({script.Message(FrameKind::kCall, call, "", {"body"}), script.Control(FrameKind::kPing, 1)});
    EXPECT_EQ(refused_message.Feed(stream).code(), Code::kCorrupt);
    EXPECT_EQ(refused_message.sink.events.size(), 1u);
  }
}

// ---- bodies by themselves ----

TEST(Body, CountsBeyondFourGigabytes) {
  wire::FrameHeader header;
  header.body_bytes = (uint64_t{5} << 30) + 7;
  // Nobody touches these: only their sizes matter.
  Bytes parts[] = {Bytes(reinterpret_cast<void*>(4096), size_t{3} << 30), Bytes(reinterpret_cast<void*>(4096), 0),
                   Bytes(reinterpret_cast<void*>(8192), (size_t{2} << 30) + 7)};
  Body body;
  ASSERT_TRUE(body.Begin(header, Buffer(), Landing::Into(parts, 3)).ok());
  Bytes where[4];
  ASSERT_EQ(body.Where(where, 4, UINT64_MAX), 2u);
  EXPECT_EQ(where[1].size, (size_t{2} << 30) + 7);
  body.Advance((uint64_t{4} << 30) + 1);
  EXPECT_EQ(body.left(), (uint64_t{1} << 30) + 6);
  ASSERT_EQ(body.Where(where, 4, 10), 1u);
  EXPECT_EQ(where[0].data, reinterpret_cast<uint8_t*>(8192) + (size_t{1} << 30) + 1);
  EXPECT_EQ(where[0].size, 10u);
  body.Advance(body.left());
  EXPECT_EQ(body.left(), 0u);
  EXPECT_EQ(body.Where(where, 4, 10), 0u);
  body.End();
  EXPECT_FALSE(body.active());
}

}  // namespace
}  // namespace fusewire::pipe
