// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Peers that break the rules lose their pipe, and nothing else happens.
#include "fusewire/p2p/liar_test.h"

#include <gmock/gmock.h>

#include "fusewire/p2p/world_test.h"

namespace fusewire::p2p {
namespace {

using testing::HasSubstr;
using wire::kP2pMine;
using wire::P2pVerb;

constexpr uint64_t kSome = uint64_t{1} << 32;  // the first id that a table gives out

struct Scene {
  explicit Scene(const transport::LoopbackFaults& faults = {})
      : world(1, faults), b(world.Add("b")), liar(std::make_unique<Liar>(world.world, "liar", "b")) {
    // "b" sorts before "liar": b sends use.
    EXPECT_TRUE(world.RunUntil([&] { return liar->Find(P2pVerb::kUse) != nullptr; }));
    peer = b.Expect("liar").value();
  }
  ~Scene() { liar.reset(); }
  // Waits until the liar has lost its pipe. Returns the reason that it got.
  std::string Ended() {
    EXPECT_TRUE(world.RunUntil([&] { return !liar->up; }));
    return liar->why.ToString();
  }
  P2pWorld world;
  Endpoint& b;
  std::unique_ptr<Liar> liar;
  Peer* peer;
};

TEST(Liar, NonsenseCostsThePipe) {
  struct Lie {
    const char* words;
    void (*say)(Liar&);
  };
  const Lie lies[] = {
      {"verb 14", [](Liar& liar) { liar.SendRaw(14, 1, 0, "", 0); }},
      {"names nothing",
       [](Liar& liar) {
         liar.Send(P2pVerb::kEager, kSome, 0, {1, 0}, "x");
       }},
      {"cut off", [](Liar& liar) { liar.SendRaw(3, kSome | kP2pMine, 0, "short", 0); }},
      {"head_bytes",
       [](Liar& liar) {
         liar.Send(P2pVerb::kEager, kSome | kP2pMine, 4097, {1, 0}, "x");
       }},
      {"bytes after", [](Liar& liar) { liar.Send(P2pVerb::kRequest, kSome, 0, {1}, "more"); }},
      {"body_bytes",
       [](Liar& liar) {
         liar.Send(P2pVerb::kGet, kSome | kP2pMine, 0, {1, 0, 5}, "", 10);
       }},
      {"aux", [](Liar& liar) { liar.Send(P2pVerb::kResult, kSome, 10, {}); }},
      {"limit 32768",
       [](Liar& liar) {
         liar.Send(P2pVerb::kEager, kSome | kP2pMine, 0, {1, 0}, "", 40000);
       }},
      {"offer: body_bytes 100000, where 90000 were offered",
       [](Liar& liar) {
         liar.Send(P2pVerb::kOffer, kSome | kP2pMine, 0, {1, 0, 90000}, "", 100000);
       }},
      {"aux 2", [](Liar& liar) { liar.Send(P2pVerb::kRequest, kSome, 2, {1}); }},
      {"open: for the second time", [](Liar& liar) { liar.SendOpen(); }},
      {"sorts second", [](Liar& liar) { liar.Send(P2pVerb::kUse, 5, 0, {}); }},
      {"credit: 9223372036854775807 bytes on top of 65536, limit 9223372036854775807",
       [](Liar& liar) { liar.Send(P2pVerb::kCredit, INT64_MAX, 0, {}); }},
      {"seen 1 messages, more than the 0 that were sent",
       [](Liar& liar) {
         liar.Send(P2pVerb::kPosted, kSome | kP2pMine, 0, {1, 1, 1});
       }},
      {"credit",
       [](Liar& liar) {
         for (uint64_t i = 0; i < 40; ++i) liar.Send(P2pVerb::kEager, (kSome + i) | kP2pMine, 0, {1, 0}, "", 8000);
       }},
      {"offer: 1024 wait already, offers_max 1024",
       [](Liar& liar) {
         for (uint64_t i = 0; i < 1100; ++i) liar.Send(P2pVerb::kOffer, (kSome + i) | kP2pMine, 0, {1, 0, 9000});
       }},
      {"offers_max 1024",
       [](Liar& liar) {
         for (uint64_t i = 0; i < 1100; ++i)
           liar.Send(P2pVerb::kOffer, (kSome + i) | kP2pMine, 0, {1, 0, 9000}, "", 9000);
       }},
  };
  for (const Lie& lie : lies) {
    Scene scene;
    lie.say(*scene.liar);
    EXPECT_THAT(scene.Ended(), HasSubstr(lie.words));
  }
}

TEST(Liar, WordsAboutWhatIsNotThereAreIgnored) {
  Scene scene;
  scene.liar->Send(P2pVerb::kRequest, kSome, 0, {kSome});
  scene.liar->Send(P2pVerb::kResult, kSome, 0, {});
  scene.liar->Send(P2pVerb::kData, kSome, 0, {kSome}, "", 100000);
  scene.liar->Send(P2pVerb::kGot, kSome, 0, {}, "bytes");
  scene.liar->Send(P2pVerb::kGot, kSome, 0, {}, "", 100000);
  scene.liar->Send(P2pVerb::kWithdraw, kSome | kP2pMine, 0, {5});
  scene.world.world.RunFor(kSecondNs);
  EXPECT_TRUE(scene.liar->up) << scene.liar->why.ToString();
}

TEST(Liar, BeforeUseNothingButOpenIsHeard) {
  P2pWorld world;
  world.Add("b");
  Liar liar(world.world, "liar", "b");
  liar.open_itself = false;
  ASSERT_TRUE(world.RunUntil([&] { return liar.up; }));
  liar.Send(P2pVerb::kEager, kSome | kP2pMine, 0, {1, 0}, "x");
  ASSERT_TRUE(world.RunUntil([&] { return !liar.up; }));
  EXPECT_THAT(liar.why.ToString(), HasSubstr("before use"));
}

TEST(Liar, CannotPromiseMoreCreditThanFramesCanSay) {
  P2pWorld world;
  world.Add("b");
  Liar liar(world.world, "liar", "b");
  liar.open_itself = false;
  ASSERT_TRUE(world.RunUntil([&] { return liar.up; }));
  liar.Send(P2pVerb::kOpen, 0, wire::kP2pVersion, {77, 0, 8192, uint64_t{1} << 63, 8});
  ASSERT_TRUE(world.RunUntil([&] { return !liar.up; }));
  EXPECT_THAT(liar.why.ToString(), HasSubstr("open: credit 9223372036854775808, limit 9223372036854775807"));
}

TEST(Liar, CannotUseAPipeTwice) {
  P2pWorld world;
  world.Add("b");
  Liar liar(world.world, "a", "b");  // it decides
  ASSERT_TRUE(world.RunUntil([&] { return liar.Find(P2pVerb::kOpen) != nullptr; }));
  liar.Send(P2pVerb::kUse, 1, 0, {});
  world.world.RunFor(kSecondNs);
  ASSERT_TRUE(liar.up) << liar.why.ToString();
  liar.Send(P2pVerb::kUse, 2, 0, {});
  ASSERT_TRUE(world.RunUntil([&] { return !liar.up; }));
  EXPECT_THAT(liar.why.ToString(), HasSubstr("use: 2 of the pipe that is in use"));
}

TEST(Liar, CannotMakeASignalWrap) {
  Scene scene;
  auto signal = Signal::Open(scene.b).value();
  AwaitOp await(scene.b, *signal, UINT64_MAX);
  await.Post();
  scene.liar->Send(P2pVerb::kPut, kSome | kP2pMine, wire::kP2pConfirmPut, {0, 0, signal->ref(), UINT64_MAX - 5});
  ASSERT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kResult) != nullptr; }));
  EXPECT_EQ(scene.liar->Find(P2pVerb::kResult)->aux, 0u);
  scene.liar->heard.clear();
  scene.liar->Send(P2pVerb::kPut, kSome | kP2pMine, wire::kP2pConfirmPut, {0, 0, signal->ref(), 6});
  ASSERT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kResult) != nullptr; }));
  const Liar::Heard result = *scene.liar->Find(P2pVerb::kResult);
  EXPECT_EQ(static_cast<Code>(result.aux), Code::kInvalid);
  EXPECT_THAT(result.head, HasSubstr("adding 6 to 18446744073709551610 is over its limit"));
  signal->Add(6);  // nor can we
  scene.world.world.RunFor(kSecondNs);
  EXPECT_EQ(signal->value(), UINT64_MAX - 5);
  EXPECT_FALSE(await.Test());
  signal->Add(5);
  EXPECT_TRUE(scene.world.Ends(await));
  EXPECT_TRUE(scene.liar->up) << scene.liar->why.ToString();
}

// The sum is looked at again when the bytes have come: others may have added meanwhile.
TEST(Liar, CannotMakeASignalWrapWhileItsBytesAreOnTheirWay) {
  transport::LoopbackFaults slow;
  slow.bytes_per_second = 10 << 20;
  Scene scene(slow);
  auto signal = Signal::Open(scene.b).value();
  std::string memory(1 << 20, '.');
  auto region = Region::Open(scene.b, Buffer::Wrap(BytesOf(memory), nullptr, nullptr)).value();
  scene.liar->Send(P2pVerb::kPut, kSome | kP2pMine, wire::kP2pConfirmPut,
                   {region->ref().id, 0, signal->ref(), UINT64_MAX}, "", memory.size());
  ASSERT_TRUE(scene.world.RunUntil([&] { return memory[1 << 18] != '.'; }));
  signal->Add(7);
  ASSERT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kResult) != nullptr; }));
  EXPECT_EQ(static_cast<Code>(scene.liar->Find(P2pVerb::kResult)->aux), Code::kInvalid);
  EXPECT_EQ(signal->value(), 7u);
  EXPECT_TRUE(scene.liar->up) << scene.liar->why.ToString();
}

TEST(Liar, CannotLandInWhatIsAnothersReceive) {
  Scene scene;
  Endpoint& c = scene.world.Add("c");
  Peer& b_of_c = scene.world.Connect("c", "b");
  std::string got(100000, '#'), sent = Pattern(100000, 1);
  ReceiveOp receive(scene.b, &scene.world.Expect("b", "c"), 5, BytesOf(got));
  receive.Post();
  scene.liar->Send(P2pVerb::kData, kSome, 0, {kSome}, "", 100000);
  scene.liar->Send(P2pVerb::kEager, kSome | kP2pMine, 0, {5, kSome}, "mine");
  scene.world.world.RunFor(kSecondNs);
  EXPECT_FALSE(receive.Test());
  EXPECT_EQ(got, std::string(100000, '#'));
  SendOp send(c, b_of_c, 5, sent);
  send.Post();
  ASSERT_TRUE(scene.world.Ends(receive));
  ASSERT_TRUE(scene.world.Ends(send));
  EXPECT_TRUE(got == sent);
}

TEST(Liar, DataOfAnotherSizeThanWasOfferedCostsThePipe) {
  Scene scene;
  std::string got(100000, '#');
  ReceiveOp receive(scene.b, scene.peer, 5, BytesOf(got));
  receive.Post();
  scene.liar->Send(P2pVerb::kOffer, (kSome + 7) | kP2pMine, 0, {5, 0, 50000});
  ASSERT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kRequest) != nullptr; }));
  scene.liar->Send(P2pVerb::kData, kSome, 0, {kSome + 7}, "", 100000);
  EXPECT_THAT(scene.Ended(), HasSubstr("where 50000 were offered"));
  ASSERT_TRUE(scene.world.Finish({&receive}));
  EXPECT_FALSE(receive.status().ok());
  EXPECT_EQ(got, std::string(100000, '#'));
}

// The liar answers each message that it gets, and its answers decide how the next one is sent.
TEST(Liar, IsSentBodiesBeforeItAsksForThemAsLongAsItsReceivesWait) {
  Scene scene;
  std::string large = Pattern(100000, 1);
  SendOp send(scene.b, *scene.peer, 5, large);
  uint64_t body_bytes = 0;
  // The liar requests nothing; or requests the body for a receive that was posted before, or after.
  enum class Answer { kNone, kWaited, kLate };
  auto next = [&](Answer answer) {
    send.Post();
    EXPECT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kOffer) != nullptr; }));
    const uint64_t name = scene.liar->TakeOffer(&body_bytes);
    if (answer != Answer::kNone) {
      scene.liar->Send(P2pVerb::kRequest, name, answer == Answer::kWaited ? wire::kP2pWaited : 0, {kSome});
      EXPECT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kData) != nullptr; }));
      scene.liar->heard.clear();
    }
    scene.liar->Send(P2pVerb::kResult, name, 0, {});
    EXPECT_TRUE(scene.world.Ends(send));
    return body_bytes;
  };
  EXPECT_EQ(next(Answer::kLate), 0u);
  EXPECT_EQ(next(Answer::kWaited), 0u);
  EXPECT_EQ(next(Answer::kNone), 100000u);
  EXPECT_EQ(next(Answer::kNone), 100000u);
  EXPECT_EQ(next(Answer::kLate), 100000u) << "it was sent twice";
  EXPECT_EQ(next(Answer::kWaited), 0u);
  EXPECT_EQ(next(Answer::kWaited), 0u);
  EXPECT_EQ(next(Answer::kNone), 100000u) << "trusted again";
}

TEST(Liar, RequestingForAReceiveWithoutANameCostsThePipe) {
  for (uint64_t receive : {uint64_t{0}, kSome | kP2pMine}) {
    Scene scene;
    std::string large = Pattern(10 << 20, 1);
    SendOp send(scene.b, *scene.peer, 5, large);
    send.Post();
    ASSERT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kOffer) != nullptr; }));
    const uint64_t name = scene.liar->Find(P2pVerb::kOffer)->call & ~kP2pMine;
    scene.liar->Send(P2pVerb::kRequest, name, 0, {receive});
    EXPECT_THAT(scene.Ended(), HasSubstr("request: receive " + std::to_string(receive) + " names nothing"));
    EXPECT_TRUE(scene.world.Finish({&send}));
  }
}

TEST(Liar, RequestingAgainAndAgainCostsThePipe) {
  Scene scene;
  std::string large = Pattern(10 << 20, 1);
  SendOp send(scene.b, *scene.peer, 5, large);
  send.Post();
  ASSERT_TRUE(scene.world.RunUntil([&] { return scene.liar->Find(P2pVerb::kOffer) != nullptr; }));
  uint64_t name = scene.liar->Find(P2pVerb::kOffer)->call & ~kP2pMine;
  for (int i = 0; i < 10; ++i) scene.liar->Send(P2pVerb::kRequest, name, 0, {kSome});
  EXPECT_THAT(scene.Ended(), HasSubstr("request: of send " + std::to_string(name) + " for the third time"));
  ASSERT_TRUE(scene.world.Finish({&send}));
  EXPECT_FALSE(send.status().ok());
}

}  // namespace
}  // namespace fusewire::p2p
