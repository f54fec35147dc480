// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Peers that greet like everybody else and then violate the protocol: frames that are malformed, cut off, too large,
// out of order, repeated or forged. Each costs them their connection at once, with a typed error and one log line.
#include "faults.h"
#include "fusewire/wire/hello.h"
#include "fusewire/wire/wire.h"
#include "raw_socket.h"

namespace fusewire::faults {
namespace {

using testing::HasSubstr;
using wire::FrameHeader;
using wire::FrameKind;

wire::Hello LiarsHello() {
  wire::Hello hello;
  hello.incarnation = 7;
  hello.chunk_bytes = 256 * 1024;
  hello.window_bytes = 256 * 1024;
  hello.service = rpc::kRpcService;
  hello.cluster = "default";
  return hello;
}

std::string Frame(FrameHeader header, const std::string& meta = "", const std::string& body = "") {
  header.meta_bytes = static_cast<uint32_t>(meta.size());
  std::string frame(wire::kHeaderBytes, '\0');
  wire::EncodeHeader(header, meta, Bytes(frame.data(), frame.size()));
  return frame + meta + body;
}

FrameHeader Header(FrameKind kind, uint32_t sequence, uint64_t call = 0) {
  FrameHeader header;
  header.kind = kind;
  header.sequence = sequence;
  header.call = call;
  return header;
}

// A call of echo in a slot of its own.
FrameHeader CallHeader(uint32_t sequence, uint32_t slot = 0, uint32_t generation = 1) {
  FrameHeader header = Header(FrameKind::kCall, sequence, wire::PackCallId({slot, generation}));
  header.method = kEcho;
  return header;
}

std::string WithBody(FrameHeader header, uint64_t body_bytes, const std::string& body = "") {
  header.segments = 1;
  header.body_bytes = body_bytes;
  return Frame(header, "", body);
}

// Changes one byte of a frame whose check is right.
std::string Mutated(std::string frame, size_t at, uint8_t to) {
  frame[at] = static_cast<char>(to);
  return frame;
}

struct Lie {
  std::string name;
  std::string frames;
  std::string words;  // in the error
};

class Liars : public Faults {};

// The bytes of the stream until its end, without the greeting; the end comes in time.
std::string RestOf(const RawSocket& socket) {
  bool ended = false;
  int64_t begin_ns = NowNs();
  std::string heard = socket.ReceiveAll(kPatienceNs, &ended);
  EXPECT_TRUE(ended);
  EXPECT_LE(NowNs() - begin_ns, kToldNs);
  return heard;
}

TEST_F(Liars, AClientThatBreaksTheLawLosesItsConnection) {
  const std::string good = Frame(CallHeader(0), "head");
  std::string huge_meta(wire::kHeaderBytes, '\0');
  wire::EncodeHeader(CallHeader(0), ConstBytes(), Bytes(huge_meta.data(), huge_meta.size()));
  const std::vector<Lie> lies = {
      {"another magic", Mutated(good, 0, 0x11), "magic"},
      {"an unknown kind", Mutated(good, 2, 99), "kind"},
      {"a flag", Mutated(good, 3, 1), "flags"},
      {"a wrong check", Mutated(good, 20, static_cast<uint8_t>(good[20] ^ 1)), "check"},
      {"a changed head", Mutated(good, 41, 'X'), "check"},
      {"meta over the limit", Mutated(huge_meta, 15, 0x7f), "meta_bytes"},
      {"a body over the limit", WithBody(CallHeader(0), uint64_t{1} << 50), "body_bytes"},
      {"a body beyond the credit", WithBody(CallHeader(0), uint64_t{1} << 30), "credit"},
      {"a frame that was lost", Frame(CallHeader(1)), "was due"},
      {"a frame that was replayed", good + good, "was due"},
      {"a call that came before", good + Frame(CallHeader(1), "head"), "twice"},
      {"a slot over the limit", Frame(CallHeader(0, 1 << 20)), "slot"},
      {"an answer to nobody", Frame(Header(FrameKind::kReply, 0, 5)), "reply"},
      {"a chunk of no body", WithBody(Header(FrameKind::kChunk, 0), 10, "0123456789"), ""},
      {"more credit than there is",
       Frame(Header(FrameKind::kCredit, 0, INT64_MAX)) + Frame(Header(FrameKind::kCredit, 1, INT64_MAX)), "credit"},
      {"a return of what it has not", Frame(Header(FrameKind::kReturn, 0, uint64_t{1} << 40)), ""},
      {"a greeting out of place", good + wire::EncodeHello(LiarsHello()), "magic"},
  };
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  rpc::Client& friendly = ClientOf(peer.address());
  TimedCall& held = calls_.Start(friendly, kHold);
  ASSERT_TRUE(InFlight(peer, 1));
  int64_t rss_before = peer.RssBytes();
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    RawSocket liar = RawSocket::Dial(peer.address());
    ASSERT_TRUE(liar.Send(wire::EncodeHello(LiarsHello())));
    std::string prefix = liar.Receive(wire::kGreetingPrefixBytes, kPatienceNs);
    ASSERT_EQ(prefix.size(), wire::kGreetingPrefixBytes);
    liar.Receive(wire::DecodeGreetingPrefix(prefix).value().body_bytes, kPatienceNs);
    ASSERT_TRUE(liar.Send(lie.frames));
    // The last frame is a goodbye with the code and the words.
    std::string heard = RestOf(liar);
    size_t goodbye = heard.find(std::string("FW") + static_cast<char>(FrameKind::kGoodbye));
    ASSERT_NE(goodbye, std::string::npos);
    ASSERT_GE(heard.size() - goodbye, wire::kHeaderBytes);
    Result<FrameHeader> header = wire::DecodeHeader(ConstBytes(heard.data() + goodbye, wire::kHeaderBytes), {});
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header.value().aux, static_cast<uint32_t>(Code::kCorrupt));
    EXPECT_THAT(heard.substr(goodbye + wire::kHeaderBytes), HasSubstr(lie.words));
    EXPECT_TRUE(Works(friendly));
  }
  // All from one host: one line in ten seconds.
  EXPECT_GE(peer.LogLines("is closed"), 1) << peer.Log();
  EXPECT_LE(peer.LogLines(""), 2) << peer.Log();
  EXPECT_EQ(held.dones, 0);
  EXPECT_EQ(friendly.Snapshot().connects, 1u);
  EXPECT_TRUE(Eventually([&] {
    Numbers stats = peer.AskNumbers("stats");
    return stats["open"] == 1 && stats["in_flight"] == 1;
  })) << peer.Ask("stats");
  ExpectGrowth(peer.RssBytes() - rss_before, 8 << 20);
}

// A frame that ends in the middle is not a violation: the connection broke.
TEST_F(Liars, AClientThatGoesInTheMiddleOfAFrame) {
  PeerProcess peer("name=ps:0");
  ASSERT_TRUE(peer.ready()) << peer.first_words();
  const std::string whole = WithBody(CallHeader(0), 200000, std::string(200000, 'b'));
  for (size_t bytes : {size_t{1}, size_t{39}, size_t{40}, size_t{41}, size_t{100000}, whole.size() - 1}) {
    RawSocket liar = RawSocket::Dial(peer.address());
    ASSERT_TRUE(liar.Send(wire::EncodeHello(LiarsHello()) + whole.substr(0, bytes)));
    ASSERT_EQ(liar.Receive(wire::kGreetingPrefixBytes, kPatienceNs).size(), wire::kGreetingPrefixBytes);
    if (bytes % 2 == 0) liar.Reset();
  }
  EXPECT_TRUE(Eventually([&] {
    Numbers stats = peer.AskNumbers("stats");
    return stats["accepted"] == 6 && stats["open"] == 0 && stats["in_flight"] == 0;
  })) << peer.Ask("stats");
  EXPECT_EQ(peer.AskNumbers("stats")["runs"], 0);
  EXPECT_TRUE(Works(ClientOf(peer.address())));
}

// The other way round: calls end with the words, and the next attempt is made in good faith.
TEST_F(Liars, AServerThatBreaksTheLaw) {
  using Answer = std::function<std::string(uint64_t call)>;
  struct LyingAnswer {
    std::string name;
    Answer answer;
    Code code;
  };
  auto reply = [](uint64_t call, uint32_t aux = 0, uint32_t sequence = 0) {
    FrameHeader header = Header(FrameKind::kReply, sequence, call);
    header.aux = aux;
    return header;
  };
  const std::vector<LyingAnswer> lies = {
      {"a forged id", [&](uint64_t call) { return Frame(reply(call + 1000)); }, Code::kCorrupt},
      {"a newer generation", [&](uint64_t call) { return Frame(reply(call + (uint64_t{1} << 32))); }, Code::kCorrupt},
      {"an unknown code", [&](uint64_t call) { return Frame(reply(call, 77)); }, Code::kCorrupt},
      {"an error without words", [&](uint64_t call) { return Frame(reply(call, 2), "?"); }, Code::kCorrupt},
      {"an error with a body", [&](uint64_t call) { return WithBody(reply(call, 2), 3, "abc"); }, Code::kCorrupt},
      {"a call", [&](uint64_t call) { return Frame(Header(FrameKind::kCall, 0, call)); }, Code::kCorrupt},
      {"out of order", [&](uint64_t call) { return Frame(reply(call, 0, 3)); }, Code::kCorrupt},
      {"a wrong check", [&](uint64_t call) { return Mutated(Frame(reply(call), "head"), 42, 'X'); }, Code::kCorrupt},
      {"far too long", [&](uint64_t call) { return WithBody(reply(call), uint64_t{1} << 60); }, Code::kCorrupt},
      {"beyond its credit", [&](uint64_t call) { return WithBody(reply(call), uint64_t{1} << 35); }, Code::kCorrupt},
      {"another protocol", [&](uint64_t) { return std::string("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n    "); },
       Code::kCorrupt},
      {"half an answer", [&](uint64_t call) { return WithBody(reply(call), 1000, "half"); }, Code::kUnavailable},
  };
  RawSocket listener = RawSocket::Listen(OwnHost());
  int64_t rss_before = OwnRssBytes();
  for (const LyingAnswer& lie : lies) {
    SCOPED_TRACE(lie.name);
    rpc::Client& client = ClientOf(listener.address());
    Calls calls;
    calls.Start(client, kEcho, "head");
    RawSocket liar = listener.Accept(kPatienceNs);
    ASSERT_TRUE(liar.valid());
    std::string prefix = liar.Receive(wire::kGreetingPrefixBytes, kPatienceNs);
    ASSERT_EQ(prefix.size(), wire::kGreetingPrefixBytes);
    liar.Receive(wire::DecodeGreetingPrefix(prefix).value().body_bytes, kPatienceNs);
    ASSERT_TRUE(liar.Send(wire::EncodeWelcome(LiarsHello(), nullptr)));
    std::string call = liar.Receive(wire::kHeaderBytes + 4, kPatienceNs);
    ASSERT_EQ(call.size(), wire::kHeaderBytes + 4);
    Result<FrameHeader> header = wire::DecodeHeader(ConstBytes(call.data(), wire::kHeaderBytes), {});
    ASSERT_TRUE(header.ok()) << header.status().ToString();
    int64_t begin_ns = NowNs();
    ASSERT_TRUE(liar.Send(lie.answer(header.value().call)));
    if (lie.code == Code::kUnavailable) liar.Close();
    calls.ExpectAll(lie.code, begin_ns, kToldNs);
    client.Close();
  }
  ExpectGrowth(OwnRssBytes() - rss_before, 8 << 20);
}

}  // namespace
}  // namespace fusewire::faults
