// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task of the same cluster, which has greeted, and lies in one field of one frame at a time: each kind, each field,
// none, one off, the most, and any number; over each wire, to calls and to an endpoint. It loses its connection with a
// typed error, or is ignored; its neighbour's work goes on, and nothing of it is left.
#include <functional>

#include "faults.h"
#include "fusewire/base/random.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/wire/p2p.h"
#include "fusewire/wire/wire.h"
#include "lying_wire.h"

namespace fusewire::faults {
namespace {

using wire::FrameHeader;
using wire::FrameKind;

// How long a lie may go unanswered: it is ignored, or waits for bytes that do not come.
constexpr int64_t kLookNs = 2 * kMillisecondNs;

std::string Hello(uint16_t service, const std::string& name) {
  wire::Hello hello;
  hello.incarnation = 7;
  hello.chunk_bytes = 64 * 1024;
  hello.window_bytes = 64 * 1024;
  hello.service = service;
  hello.cluster = "default";
  hello.name = name;
  return wire::EncodeHello(hello);
}

// The check is right for any header; the meta has its real length.
std::string LyingFrame(const FrameHeader& header, const std::string& meta, const std::string& body) {
  std::string frame(wire::kHeaderBytes, '\0');
  FrameHeader honest = header;
  honest.meta_bytes = static_cast<uint32_t>(meta.size());
  wire::EncodeHeader(honest, meta, Bytes(frame.data(), frame.size()));
  if (header.meta_bytes == honest.meta_bytes) return frame + meta + body;
  // A wrong length, with a check that fits it.
  const auto put = [&frame](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) frame[at + i] = static_cast<char>(value >> 8 * i);
  };
  put(12, header.meta_bytes);
  put(20, 0);
  put(20, wire::Crc32c(ConstBytes(meta), wire::Crc32c(ConstBytes(frame))));
  return frame + meta + body;
}

struct Honest {
  std::string name;
  FrameHeader header;
  std::string meta, body;
};

Honest Of(FrameKind kind, uint64_t call, uint16_t method, const std::string& meta = "", const std::string& body = "") {
  Honest frame;
  frame.name = wire::KindName(kind);
  frame.header.kind = kind;
  frame.header.call = call;
  frame.header.method = method;
  frame.header.segments = body.empty() ? 0 : 1;
  frame.header.body_bytes = body.size();
  frame.header.meta_bytes = static_cast<uint32_t>(meta.size());
  frame.meta = meta;
  frame.body = body;
  return frame;
}

// One field of a frame, or of the numbers that its head begins with.
struct Field {
  const char* name;
  std::function<uint64_t(const Honest&)> get;
  std::function<void(Honest*, uint64_t)> set;
};

template <class Member>
Field HeaderField(const char* name, Member FrameHeader::*member) {
  return {name, [member](const Honest& frame) { return static_cast<uint64_t>(frame.header.*member); },
          [member](Honest* frame, uint64_t value) { frame->header.*member = static_cast<Member>(value); }};
}

std::vector<Field> HeaderFields() {
  return {
      HeaderField("kind", &FrameHeader::kind),
      HeaderField("flags", &FrameHeader::flags),
      HeaderField("method", &FrameHeader::method),
      HeaderField("segments", &FrameHeader::segments),
      HeaderField("aux", &FrameHeader::aux),
      HeaderField("meta_bytes", &FrameHeader::meta_bytes),
      HeaderField("sequence", &FrameHeader::sequence),
      HeaderField("call", &FrameHeader::call),
      HeaderField("body_bytes", &FrameHeader::body_bytes),
      {"generation", [](const Honest& frame) { return frame.header.call >> 32; },
       [](Honest* frame, uint64_t value) { frame->header.call = (frame->header.call & UINT32_MAX) | value << 32; }}};
}

// Those that an endpoint reads; the others are the pipe's.
std::vector<Field> OwnFields() {
  std::vector<Field> fields = HeaderFields();
  std::erase_if(fields, [](const Field& field) {
    const std::string name = field.name;
    return name == "kind" || name == "flags" || name == "segments" || name == "sequence";
  });
  return fields;
}

Field NumberField(size_t index) {
  return {"number",
          [index](const Honest& frame) {
            uint64_t value = 0;
            for (size_t i = 8; i-- > 0;) value = value << 8 | static_cast<uint8_t>(frame.meta[index * 8 + i]);
            return value;
          },
          [index](Honest* frame, uint64_t value) {
            for (size_t i = 0; i < 8; ++i) frame->meta[index * 8 + i] = static_cast<char>(value >> 8 * i);
          }};
}

class Lies : public Faults {
 protected:
  Lies() : random_(SystemRandom64()) {}

  // `before` makes the peer known, or is what the frame belongs to. The frame is sent with each wrong value, on a
  // connection of its own.
  void LieIn(const transport::Address& to, const std::string& before, uint32_t sequence, Honest honest,
             const std::vector<Field>& fields) {
    honest.header.sequence = sequence;
    for (const Field& field : fields) {
      const uint64_t right = field.get(honest);
      for (const uint64_t value :
           {uint64_t{0}, right - 1, right + 1, uint64_t{INT32_MAX}, UINT64_MAX, random_.Next()}) {
        SCOPED_TRACE(honest.name + ", " + field.name + " " + std::to_string(value));
        Honest lie = honest;
        field.set(&lie, value);
        LyingWire liar(task(), to);
        liar.Send(before + LyingFrame(lie.header, lie.meta, lie.body));
        // The following bytes are not a frame: a pipe that still reads closes here.
        if (!Eventually([&] { return liar.closed() || liar.GoodbyeAt() != std::string::npos; }, kLookNs))
          liar.Send(std::string(200, '\0'));
        ++lies_;
        ExpectTyped(&liar);
      }
    }
  }
  int lies_ = 0, told_ = 0;

 private:
  void ExpectTyped(LyingWire* liar) {
    (void)Eventually([&] { return liar->closed() || liar->GoodbyeAt() != std::string::npos; }, kLookNs);
    const size_t at = liar->GoodbyeAt();
    const std::string heard = liar->heard();
    if (at == std::string::npos || heard.size() < at + wire::kHeaderBytes) return;
    ++told_;
    Result<FrameHeader> goodbye = wire::DecodeHeader(ConstBytes(heard.data() + at, wire::kHeaderBytes), {});
    ASSERT_TRUE(goodbye.ok()) << goodbye.status().ToString();
    const auto code = static_cast<Code>(goodbye.value().aux);
    EXPECT_TRUE(code == Code::kCorrupt || code == Code::kOverloaded || code == Code::kInvalid)
        << heard.substr(at + wire::kHeaderBytes);
    EXPECT_GT(goodbye.value().meta_bytes, 0u);
  }
  Random random_;
};

TEST_F(Lies, OfACallerInEachField) {
  // For its first near connection, a reactor opens its doorbell (3 descriptors), and over UCX a worker (5).
  constexpr int64_t kReactors = 4, kFdsOfReactor = 8;
  PeerProcess peer("name=ps:0 reactors=" + std::to_string(kReactors));
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& friendly = ClientOf(peer.address());
  TimedCall& held = calls_.Start(friendly, kHold);
  ASSERT_TRUE(InFlight(peer, 1));
  const int64_t fds = peer.Fds() + (kReactors - 1) * kFdsOfReactor, threads = peer.Threads(), rss = peer.RssBytes();
  const std::string body(1000, 'b');
  const uint64_t id = wire::PackCallId({1, 5});
  // A call that is still coming in, whose chunks, cancel and credit are lied about.
  Honest begun = Of(FrameKind::kCall, wire::PackCallId({0, 5}), kSink, "head");
  begun.header.segments = 1;
  begun.header.body_bytes = 100000;
  const std::string before =
      Hello(rpc::kRpcService, "worker:7") + LyingFrame(begun.header, begun.meta, std::string(64 * 1024, 'b'));
  Honest chunk = Of(FrameKind::kChunk, 0, 0, "", std::string(100000 - 64 * 1024, 'c'));
  chunk.header.segments = 0;
  const std::vector<Honest> frames = {Of(FrameKind::kCall, id, kEcho, "head", body),
                                      Of(FrameKind::kMessage, 0, 1, "head", body),
                                      Of(FrameKind::kReply, id, kEcho, "head", body),
                                      Of(FrameKind::kReplyPart, id, kEcho, "head", body),
                                      chunk,
                                      Of(FrameKind::kCredit, 1000, 0),
                                      Of(FrameKind::kWant, 1 << 20, 0),
                                      Of(FrameKind::kRecall, 0, 0),
                                      Of(FrameKind::kReturn, 1000, 0),
                                      Of(FrameKind::kPing, 1, 0),
                                      Of(FrameKind::kPong, 1, 0),
                                      Of(FrameKind::kCancel, wire::PackCallId({0, 5}), 0),
                                      Of(FrameKind::kGoodbye, 0, 0, "words")};
  for (const Honest& frame : frames) {
    LieIn(peer.address(), before, 1, frame, HeaderFields());
    EXPECT_TRUE(Works(friendly)) << frame.name;
  }
  EXPECT_EQ(lies_, 13 * 10 * 6);
  EXPECT_GT(told_, lies_ / 2);  // most are told why, the others are ignored, or heard of when the connection has gone
  EXPECT_EQ(held.dones, 0);
  EXPECT_EQ(friendly.Snapshot().connects, 1u);
  EXPECT_TRUE(Eventually([&] {
    Numbers stats = peer.AskNumbers("stats");
    return stats["open"] == 1 && stats["in_flight"] == 1 && peer.Fds() <= fds && peer.Threads() == threads;
  })) << peer.Ask("stats")
      << ", descriptors " << peer.Fds() << " of " << fds << ", threads " << peer.Threads() << " of " << threads;
  EXPECT_LE(peer.LogLines(""), 10) << peer.Log();
  ExpectGrowth(peer.RssBytes() - rss, 16 << 20);
}

// An endpoint of this process, a peer that is honest, and one that is not.
TEST_F(Lies, OfAPeerInEachField) {
  const auto start = [this](const char* name) {
    p2p::EndpointOptions options;
    options.wire = options_.wire;
    options.pipe.name = name;
    return std::move(p2p::Endpoint::Start(std::move(options), {OwnHost(), 0})).value();
  };
  auto endpoint = start("m"), friendly = start("friend");
  p2p::Peer& to = *friendly->Connect("m", endpoint->address()).value();
  std::string memory(100000, 'm'), landing(100000, ' ');
  auto region =
      p2p::Region::Open(*endpoint, Buffer::Wrap(Bytes(memory.data(), memory.size()), nullptr, nullptr)).value();
  auto signal = p2p::Signal::Open(*endpoint).value();
  const auto works = [&] {
    p2p::ReceiveOp receive(*endpoint, endpoint->Expect("friend").value(), 5, Bytes(landing.data(), landing.size()));
    p2p::SendOp send(*friendly, to, 5, ConstBytes(memory));
    receive.Post();
    send.timeout_ns = receive.timeout_ns = kPatienceNs;
    return send.PostAndWait().ok() && receive.Wait(kPatienceNs) && receive.status().ok();
  };
  ASSERT_TRUE(works());
  const auto say = [](wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
                      const std::string& behind = "", const std::string& body = "") {
    std::string head(wire::kP2pNumbersMax * sizeof(uint64_t), '\0');
    head.resize(wire::EncodeP2p(verb, numbers.begin(), Bytes(head.data(), head.size())));
    Honest frame = Of(FrameKind::kMessage, call, static_cast<uint16_t>(verb), head + behind, body);
    frame.name = wire::P2pVerbName(verb);
    frame.header.aux = aux;
    return frame;
  };
  using Verb = wire::P2pVerb;
  constexpr uint64_t kMine = wire::kP2pMine;
  const std::string small(100, 's'), large(5000, 'l');
  Honest open = say(Verb::kOpen, 0, wire::kP2pVersion, {7, 0, 8192, 65536, 8});
  Honest use = say(Verb::kUse, 1, 0, {});
  use.header.sequence = 1;
  const std::string before =
      Hello(wire::kP2pService, "liar") + LyingFrame(open.header, open.meta, "") + LyingFrame(use.header, use.meta, "");
  const uint64_t ref = region->ref().id;
  const std::vector<Honest> messages = {
      say(Verb::kEager, kMine | 9, 0, {5, 0}, small),
      say(Verb::kEager, kMine | 9, wire::kP2pConfirmEager, {5, 0}, "", large),
      say(Verb::kOffer, kMine | 9, 0, {5, 0, 50000}),
      say(Verb::kOffer, kMine | 9, 0, {5, 0, 5000}, "", large),
      say(Verb::kRequest, uint64_t{1} << 32, 0, {kMine | 3}),
      say(Verb::kData, uint64_t{1} << 32, 0, {9}, "", large),
      say(Verb::kResult, uint64_t{1} << 32, 0, {}),
      say(Verb::kWithdraw, kMine | 9, 0, {5}),
      say(Verb::kPosted, kMine | 9, 0, {5, 50000, 0}),
      say(Verb::kCredit, 1000, 0, {}),
      say(Verb::kPut, kMine | 9, wire::kP2pConfirmPut, {ref, 0, signal->ref(), 1}, small),
      say(Verb::kPut, kMine | 9, 0, {ref, 95000, 0, 0}, "", large),
      say(Verb::kGet, kMine | 9, 0, {ref, 0, 100000}),
      say(Verb::kGot, uint64_t{1} << 32, 0, {}, "", large),
      say(Verb::kUse, 1, 0, {}),
      open,
  };
  for (const Honest& message : messages) {
    std::vector<Field> fields = OwnFields();
    const size_t numbers = wire::P2pNumbers(static_cast<Verb>(message.header.method));
    for (size_t i = 0; i < numbers; ++i) fields.push_back(NumberField(i));
    LieIn(endpoint->address(), before, 2, message, fields);
    EXPECT_TRUE(works()) << message.name;
    if (HasFailure()) break;
  }
  EXPECT_GT(lies_, 16 * 6 * 6);
  EXPECT_GT(told_, lies_ / 2);
  // A liar may write the region, and no more.
  EXPECT_EQ(memory.size(), 100000u);
  region.reset();
  signal.reset();
  friendly.reset();
  endpoint.reset();
}

}  // namespace
}  // namespace fusewire::faults
