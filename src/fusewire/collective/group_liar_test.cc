// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A member that says what no member would say costs its group an error that names it, and nobody a crash.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"
#include "fusewire/collective/fingerprint.h"
#include "fusewire/collective/group_notes.h"
#include "fusewire/collective/party_test.h"

namespace fusewire {
namespace collective {
namespace {

constexpr uint64_t kOpMask = (uint64_t{1} << 40) - 1;

std::string Noise(Random* random, size_t bytes) {
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random->Next());
  return noise;
}

// One real rank, and an endpoint that is in its group and has none.
class Liar {
 public:
  Liar() {
    GroupOptions options;
    options.name = "trusting";
    options.timeout_ns = 5 * kSecondNs;
    for (const char* name : {"honest", "liar"}) {
      p2p::EndpointOptions endpoint;
      endpoint.pipe.name = name;
      auto started = p2p::Endpoint::Start(std::move(endpoint), {"127.0.0.1", 0});
      EXPECT_TRUE(started.ok()) << started.status().ToString();
      endpoints.push_back(std::move(started).value());
      options.members.push_back({name, endpoints.back()->address()});
    }
    endpoints[1]->HandleOffers(0, UINT64_MAX, [this](const p2p::Offer& offer) {
      if ((offer.tag & kOpMask) != kOpMask) {
        head = offer.head.ToString();
        tag.store(offer.tag, std::memory_order_release);
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
    std::vector<int64_t> array(100);
    Wanted wanted;
    wanted.kind = Kind::kAllReduce;
    wanted.reduction.type = Type::kI64;
    wanted.counts = {array.size()};
    wanted.to = Pieces(array.data(), array.size() * sizeof(int64_t));
    auto ticket = group->StartTicket(std::move(wanted));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (tag.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    EXPECT_NE(tag.load(), 0U);
    p2p::Peer& honest = *endpoints[1]->Connect("honest", endpoints[0]->address()).value();
    lie(honest);
    EXPECT_TRUE(ticket->Wait(20 * kSecondNs));
    return ticket->status();
  }
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
};

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

TEST(GroupLiar, NonsenseInPlaceOfANoteBreaksTheGroupAndNamesTheLiar) {
  Random random(6);
  Note huge;
  huge.verb = NoteVerb::kVote;
  std::string seats = EncodeNote(huge);
  seats.replace(seats.size() - 4, 4, "\xff\xff\xff\xff");
  for (const std::string& note : {Noise(&random, 100), std::string("\1"), std::string(), seats, Noise(&random, 9000)}) {
    Liar world;
    const Status status = world.RunAgainst([&](p2p::Peer& to) { world.Send(to, world.tag | kOpMask, "", note); });
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.ToString().find("rank 1 (liar)"), std::string::npos) << status.ToString();
  }
}

TEST(GroupLiar, NotesAndFingerprintsSurviveTheWireAndNoiseDoesNotSurviveThem) {
  Random random(7);
  Note note;
  note.verb = NoteVerb::kDecided;
  note.epoch = 3;
  note.round = 9;
  note.print.key = 77;
  note.print.amount = 12;
  note.status = Status::Unavailable("gone").Peer("rank 2").Next("shrink");
  note.seats = {true, false, false, true, false, false, false, false, true};
  const std::string text = EncodeNote(note);
  const Result<Note> back = DecodeNote(ConstBytes(text));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back.value().seats, note.seats);
  EXPECT_TRUE(back.value().print == note.print);
  EXPECT_EQ(back.value().status.ToString(), note.status.ToString());
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(DecodeNote(ConstBytes(text.data(), size)).ok());
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bent = text;
    for (uint64_t j = 0; j <= random.Below(4); ++j) bent[random.Below(bent.size())] = static_cast<char>(random.Next());
    const Result<Note> decoded = DecodeNote(ConstBytes(bent));
    refused += decoded.ok() ? 0 : 1;
    const std::string words = decoded.ok() ? decoded.value().print.Describe() : decoded.status().ToString();
    EXPECT_FALSE(words.empty());
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace collective
}  // namespace fusewire
