// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A member that sends invalid messages causes an error in its group that names it, and no crash.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/groups_test.h"
#include "fusewire/collective/run/fingerprint.h"

namespace fusewire::collective {
namespace {

constexpr uint64_t kOpMask = (uint64_t{1} << 40) - 1;
constexpr uint64_t kUnexpectedBytes = 4096;  // of what nobody has asked the liar for

std::string Noise(Random* random, size_t bytes) {
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random->Next());
  return noise;
}

// One real rank, and an endpoint that is in its group and has none.
class Liar {
 public:
  explicit Liar(task::TransportChoice wire = task::TransportChoice::kAuto) {
    GroupOptions options;
    options.name = "trusting";
    options.timeout_ns = 5 * kSecondNs;
    for (const char* name : {"honest", "liar"}) {
      p2p::EndpointOptions endpoint;
      endpoint.pipe.name = name;
      endpoint.wire = wire;
      endpoint.limits.unexpected_bytes_max = kUnexpectedBytes;
      auto started = p2p::Endpoint::Start(std::move(endpoint), {"127.0.0.1", 0});
      EXPECT_TRUE(started.ok()) << started.status().ToString();
      endpoints.push_back(std::move(started).value());
      options.members.push_back({name, endpoints.back()->address()});
    }
    endpoints[1]->HandleOffers(0, UINT64_MAX, [this](const p2p::Offer& offer) {
      if ((offer.tag & kOpMask) != kOpMask) {
        head = offer.head.ToString();
        tag.store(offer.tag, std::memory_order_release);
      } else {
        messages.fetch_add(1);
      }
      return p2p::OfferAnswer::Defer();
    });
    auto made = Group::Make(*endpoints[0], options);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    group = std::move(made).value();
  }
  ~Liar() {
    group.reset();
    endpoints.clear();
  }

  // An all-reduce at the honest rank, and what the liar does once it has heard of it.
  Status RunAgainst(const std::function<void(p2p::Peer& honest)>& lie) {
    tag.store(0);
    Array array(100);
    auto ticket = group->StartTicket(Want(CollectiveKind::kAllReduce, {array.size()}, Pieces(), Of(array)));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (tag.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    EXPECT_NE(tag.load(), 0U);
    lie(ToHonest());
    EXPECT_TRUE(ticket->Wait(20 * kSecondNs));
    return ticket->status();
  }
  p2p::Peer& ToHonest() { return *endpoints[1]->Connect("honest", endpoints[0]->address()).value(); }
  void Tell(const ControlMessage& message) { Send(ToHonest(), ControlTag(), "", EncodeControl(message)); }
  static ControlMessage MessageOf(ControlVerb verb, std::vector<bool> dead = {}, uint64_t round = 0) {
    ControlMessage message;
    message.verb = verb;
    message.seats = std::move(dead);
    message.round = round;
    return message;
  }
  // Takes part once, and learns the tags of the group.
  void Learn() {
    const Status status =
        RunAgainst([this](p2p::Peer& to) { Send(to, tag, head, std::string(100 * sizeof(int64_t), '!')); });
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  uint64_t ControlTag() const { return tag.load() | kOpMask; }
  void Send(p2p::Peer& honest, uint64_t to, const std::string& with, const std::string& body) {
    p2p::SendOp op(*endpoints[1], honest, to, ConstBytes(body));
    op.head = ConstBytes(with);
    op.timeout_ns = 5 * kSecondNs;
    const Status sent = op.PostAndWait();
    EXPECT_NE(sent.code(), Code::kInternal) << sent.ToString();
  }

  std::vector<std::unique_ptr<p2p::Endpoint>> endpoints;
  std::unique_ptr<Group> group;
  std::string head;
  std::atomic<uint64_t> tag{0};
  std::atomic<int> messages{0};
};

void ExpectNamed(const Status& status) {
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.ToString().find("rank 1 (liar)"), std::string::npos) << status.ToString();
}

class GroupLiarOver : public task::OverWires {};

TEST_P(GroupLiarOver, AFingerprintThatDiffersInAnyFieldNamesTheLiar) {
  Liar world(wire());
  for (const size_t at : {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 40}) {
    const auto began = std::chrono::steady_clock::now();
    const Status status = world.RunAgainst([&](p2p::Peer& to) {
      std::string other = world.head;
      ASSERT_EQ(other.size(), kFingerprintBytes);
      other[at] = static_cast<char>(other[at] ^ 1);
      world.Send(to, world.tag, other, std::string(100 * sizeof(int64_t), '!'));
    });
    EXPECT_EQ(status.code(), Code::kInvalid) << "byte " << at << ": " << status.ToString();
    ExpectNamed(status);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(4)) << "byte " << at;
  }
}

TEST_P(GroupLiarOver, ControlMessagesOutOfOrderFailOnlyTheirOwnOperations) {
  Liar world(wire());
  world.Learn();
  ControlMessage late = Liar::MessageOf(ControlVerb::kBroken);
  late.epoch = 7;
  late.status = Status::Unavailable("of an epoch that nobody has seen");
  ControlMessage done = Liar::MessageOf(ControlVerb::kFailed);
  done.status = Status::Unavailable("of a call that has ended");
  ControlMessage key = done;
  key.print.keyed = 1;
  key.print.key = 12345;
  const Status status = world.RunAgainst([&](p2p::Peer& to) {
    for (int turn = 0; turn < 2; ++turn) {
      for (const ControlMessage& message :
           {Liar::MessageOf(ControlVerb::kDecided, {false, true}), Liar::MessageOf(ControlVerb::kVote, {}, 99),
            Liar::MessageOf(ControlVerb::kVote, {true}, 3), late, done, key})
        world.Tell(message);
    }
    world.Send(to, world.tag, world.head, std::string(100 * sizeof(int64_t), '!'));
  });
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(world.group->epoch(), 0U);
}

TEST_P(GroupLiarOver, RepeatedAndMisplacedMessagesAreRefused) {
  Liar world(wire());
  const std::string body(100 * sizeof(int64_t), '!');
  for (int turn = 0; turn < 3; ++turn) {
    // One for this call, one that is left, one for a call that has ended, and one for a call that is far away.
    const Status status = world.RunAgainst([&](p2p::Peer& to) {
      world.Send(to, world.tag + 1000, world.head, body);
      world.Send(to, world.tag, world.head, body);
      world.Send(to, world.tag, world.head, body);
      world.Send(to, world.tag - 1, world.head, body);
    });
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

FUSEWIRE_OVER_WIRES(GroupLiarOver);

TEST(GroupLiar, TheReporterOfAFailureIsNamedToo) {
  Liar world;
  ControlMessage message = Liar::MessageOf(ControlVerb::kFailed);
  message.status = Status::Unavailable("it was not me").Peer("rank 0 (honest)");
  const Status status = world.RunAgainst([&](p2p::Peer&) {
    const Result<Fingerprint> print = DecodeFingerprint(world.head);
    message.print = print.value();
    world.Tell(message);
  });
  ExpectNamed(status);
  EXPECT_EQ(status.peer(), "rank 0 (honest)");
}

TEST(GroupLiar, ARankThatReportsUsDeadIsNamed) {
  Liar world;
  world.Learn();
  world.Tell(Liar::MessageOf(ControlVerb::kVote, {true, false}));
  ExpectNamed(world.group->Shrink(5 * kSecondNs));
}

TEST(GroupLiar, AFloodOfVotesIsAnsweredRarely) {
  Liar world;
  world.Learn();
  world.Tell(Liar::MessageOf(ControlVerb::kVote, {false, false}));
  const Status shrunk = world.group->Shrink(5 * kSecondNs);
  ASSERT_TRUE(shrunk.ok()) << shrunk.ToString();
  ASSERT_EQ(world.group->epoch(), 1U);
  for (int vote = 0; vote < 500; ++vote) world.Tell(Liar::MessageOf(ControlVerb::kVote, {false, false}));
  // Unexpected messages fill the space for them; then answers wait for the liar, and only a few of them.
  const size_t bytes = EncodeControl(Liar::MessageOf(ControlVerb::kDecided, {false, false})).size();
  EXPECT_LE(world.messages.load(), static_cast<int>(kUnexpectedBytes / bytes) + 20);
}

TEST(GroupLiar, MessagesOfARemovedRankAreIgnored) {
  Liar world;
  world.Learn();
  for (const uint64_t round : {0, 1}) world.Tell(Liar::MessageOf(ControlVerb::kVote, {false, true}, round));
  const Status shrunk = world.group->Shrink(5 * kSecondNs);
  ASSERT_TRUE(shrunk.ok()) << shrunk.ToString();
  ASSERT_EQ(world.group->ranks(), 1);
  ControlMessage broken = Liar::MessageOf(ControlVerb::kBroken);
  broken.epoch = 1;
  broken.status = Status::Unavailable("names a rank that has gone");
  world.Tell(broken);
  // Another message follows it: when that has been received, so has this one.
  const int before = world.messages.load();
  world.Tell(Liar::MessageOf(ControlVerb::kVote, {false, true}));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (world.messages.load() == before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_GT(world.messages.load(), before);
  Array array(10, 1);
  const Status alone = world.group->Run(Want(CollectiveKind::kAllReduce, {array.size()}, Pieces(), Of(array)));
  EXPECT_TRUE(alone.ok()) << alone.ToString();
}

TEST(GroupLiar, NonsenseInPlaceOfAMessageFailsThatOperation) {
  Random random(5);
  const auto expect = [](const Status& status) {
    EXPECT_TRUE(status.code() == Code::kInvalid || status.code() == Code::kCorrupt) << status.ToString();
    EXPECT_NE(status.ToString().find("liar"), std::string::npos) << status.ToString();
  };
  {
    Liar world;  // a head of noise
    expect(
        world.RunAgainst([&](p2p::Peer& to) { world.Send(to, world.tag, Noise(&random, 48), Noise(&random, 800)); }));
  }
  {
    Liar world;  // no head
    expect(world.RunAgainst([&](p2p::Peer& to) { world.Send(to, world.tag, "", Noise(&random, 800)); }));
  }
  {
    Liar world;  // too large, and too small
    expect(world.RunAgainst([&](p2p::Peer& to) { world.Send(to, world.tag, world.head, Noise(&random, 5000)); }));
    expect(world.RunAgainst([&](p2p::Peer& to) { world.Send(to, world.tag, world.head, Noise(&random, 7)); }));
  }
}

TEST(GroupLiar, NonsenseInPlaceOfAControlMessageBreaksTheGroupAndNamesTheLiar) {
  Random random(6);
  ControlMessage huge;
  huge.verb = ControlVerb::kVote;
  std::string seats = EncodeControl(huge);
  seats.replace(seats.size() - 4, 4, "\xff\xff\xff\xff");
  // A rank keeps a decision, and sends it to those that come late.
  ControlMessage decided = Liar::MessageOf(ControlVerb::kDecided, {false, false});
  decided.status = Status::Unavailable("a reason that no decision has");
  const std::string failed = EncodeControl(Liar::MessageOf(ControlVerb::kFailed));  // without a reason
  for (const std::string& message : {Noise(&random, 100), std::string("\1"), std::string(), seats, Noise(&random, 9000),
                                     EncodeControl(decided), failed}) {
    Liar world;
    const Status status = world.RunAgainst([&](p2p::Peer& to) { world.Send(to, world.tag | kOpMask, "", message); });
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.ToString().find("rank 1 (liar)"), std::string::npos) << status.ToString();
  }
}

TEST(GroupLiar, ControlMessagesAndFingerprintsRoundTripAndRejectNoise) {
  Random random(7);
  ControlMessage message;
  message.verb = ControlVerb::kBroken;
  message.epoch = 3;
  message.round = 9;
  message.print.key = 77;
  message.print.amount = 12;
  message.status = Status::Unavailable("gone").Peer("rank 2").Next("shrink");
  message.seats = {true, false, false, true, false, false, false, false, true};
  const std::string text = EncodeControl(message);
  const Result<ControlMessage> back = DecodeControl(ConstBytes(text));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value().seats, message.seats);
  EXPECT_TRUE(back.value().print == message.print);
  EXPECT_EQ(back.value().status.ToString(), message.status.ToString());
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(DecodeControl(ConstBytes(text.data(), size)).ok());
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string corrupted = text;
    for (uint64_t j = 0; j <= random.Below(4); ++j) {
      corrupted[random.Below(corrupted.size())] = static_cast<char>(random.Next());
    }
    const Result<ControlMessage> decoded = DecodeControl(ConstBytes(corrupted));
    refused += decoded.ok() ? 0 : 1;
    const std::string words = decoded.ok() ? decoded.value().print.Describe() : decoded.status().ToString();
    EXPECT_FALSE(words.empty());
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace fusewire::collective
