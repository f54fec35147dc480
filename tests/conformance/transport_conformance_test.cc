// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The contract of transport.h, over every transport.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "environment.h"
#include "fusewire/base/bytes.h"
#include "fusewire/base/random.h"
#include "fusewire/base/sanitizers.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/talker_test.h"

namespace fusewire {
namespace {

using testing::HasSubstr;
using transport::Address;
using transport::Connection;
using transport::Dialing;
using transport::Incoming;
using transport::Listener;
using transport::Talker;

// More than all buffers on the way hold.
constexpr uint64_t kMany = kSanitized ? 8 << 20 : 64 << 20;

using Dialled = Result<std::unique_ptr<Connection>>;

// Reads some of what comes in, and hands the rest over, from inside OnBytes.
class Porter final : public transport::ConnectionHandler {
 public:
  void Meet(std::unique_ptr<Connection> connection) {
    connection_ = std::move(connection);
    connection_->Start(this);
  }
  void Drop() { connection_.reset(); }
  size_t Landing(Bytes*, size_t) override { return 0; }
  void OnLanded(size_t) override {}
  size_t LookAhead() override { return 7; }
  void OnBytes(ConstBytes bytes) override {
    EXPECT_FALSE(handed) << "told of bytes of another home";
    for (size_t i = 0; i < bytes.size; ++i) EXPECT_EQ(bytes.data[i], transport::PatternAt(heard + i));
    heard += bytes.size;
    if (heard < kEnough) return;
    incoming = connection_->HandOver();
    handed = true;
  }
  void OnWritten(size_t) override {}
  void OnClosed(Status why) override { ADD_FAILURE() << why.ToString(); }

  std::unique_ptr<Incoming> incoming;
  uint64_t heard = 0;
  std::atomic<bool> handed{false};

 private:
  static constexpr uint64_t kEnough = 50;
  std::unique_ptr<Connection> connection_;
};

class TransportContract : public conformance::Suite {
 protected:
  void TearDown() override {
    if (IsSkipped()) return;
    AtA([this] {
      dialings_.clear();
      dialled_.clear();
      at_a_.clear();
    });
    AtB([this] {
      listener_.reset();
      incoming_.clear();
      at_b_.clear();
    });
    if (env().pool_b().size() > 1) {
      env().RunAtHome(env().pool_b().at(1), [this] { at_b2_.reset(); });
    }
  }

  void Listen() {
    AtB([this] {
      auto listening = env().transport_b().Listen(env().b(), env().listen_address(), [this](auto incoming) {
        EXPECT_TRUE(env().b().AtHome());
        EXPECT_NE(incoming->peer_address(), "");
        incoming_.push_back(std::move(incoming));
        ++arrived_;
        if (on_arrived_) on_arrived_();
      });
      ASSERT_TRUE(listening.ok()) << listening.status().ToString();
      listener_ = std::move(listening).value();
      EXPECT_NE(listener_->address().port, 0);
      where_ = env().At(listener_->address().port);
    });
  }

  // One connection more, whose ends are not started yet.
  bool Connect() {
    if (listener_ == nullptr) Listen();
    std::atomic<bool> dialled{false};
    int wanted = arrived_ + 1;
    AtA([&] {
      dialings_.push_back(env().transport_a().Dial(env().a(), where_, 20 * kSecondNs, [&](Dialled made) {
        EXPECT_TRUE(made.ok()) << made.status().ToString();
        if (made.ok()) dialled_.push_back(std::move(made).value());
        dialled = true;
      }));
    });
    return env().RunUntil([&] { return dialled && arrived_ >= wanted; });
  }

  // ... and with a talker at each end.
  bool ConnectTalkers(uint64_t seed, Talker::Manner manner) {
    if (!Connect()) return false;
    StartA(seed, manner);
    StartB(seed, manner);
    return true;
  }
  bool ConnectTalkers(uint64_t seed = 1) { return ConnectTalkers(seed, Talker::Manner()); }
  void StartA(uint64_t seed, Talker::Manner manner) {
    AtA([&] {
      at_a_.push_back(std::make_unique<Talker>(seed, manner));
      at_a_.back()->Meet(std::move(dialled_.back()));
      dialled_.pop_back();
    });
  }
  void StartB(uint64_t seed, Talker::Manner manner) {
    AtB([&] {
      at_b_.push_back(std::make_unique<Talker>(seed + 1, manner));
      at_b_.back()->Meet(incoming_.back()->Adopt(env().b()).value());
      incoming_.pop_back();
    });
  }
  Talker& a() { return *at_a_.back(); }
  Talker& b() { return *at_b_.back(); }

  void ExpectNoFault() {
    AtA([this] {
      for (auto& talker : at_a_) EXPECT_EQ(talker->fault(), "");
    });
    AtB([this] {
      for (auto& talker : at_b_) EXPECT_EQ(talker->fault(), "");
    });
  }
  // Long enough for what must not happen to happen: another connection is made and ended meanwhile.
  void LetThingsHappen() {
    ASSERT_TRUE(ConnectTalkers(99));
    Talker *other_a = at_a_.back().get(), *other_b = at_b_.back().get();
    AtA([&] { other_a->Close(); });
    ASSERT_TRUE(env().RunUntil([&] { return other_a->closed > 0 && other_b->closed > 0; }));
    AtA([&] { at_a_.pop_back(); });
    AtB([&] { at_b_.pop_back(); });
  }
  // Both ends have heard of the end, once.
  void ExpectBothClose() {
    EXPECT_TRUE(env().RunUntil([&] { return a().closed > 0 && b().closed > 0; }));
    LetThingsHappen();
    EXPECT_EQ(a().closed, 1);
    EXPECT_EQ(b().closed, 1);
    ExpectNoFault();
  }

  // The outcome of one Dial.
  Status DialOutcome(const Address& address, int64_t timeout_ns) {
    std::atomic<int> outcomes{0};
    std::atomic<bool> inside{true};
    Status status;
    AtA([&] {
      dialings_.push_back(env().transport_a().Dial(env().a(), address, timeout_ns, [&](Dialled made) {
        EXPECT_FALSE(inside) << "called from inside Dial";
        EXPECT_TRUE(env().a().AtHome());
        status = made.status();
        ++outcomes;
      }));
      inside = false;
    });
    EXPECT_TRUE(env().RunUntil([&] { return outcomes > 0; }));
    if (listener_ != nullptr) LetThingsHappen();
    EXPECT_EQ(outcomes, 1);
    return status;
  }

  Address where_;
  std::unique_ptr<Listener> listener_;
  std::atomic<int> arrived_{0};
  std::vector<std::unique_ptr<Incoming>> incoming_;  // at b
  std::function<void()> on_arrived_;
  std::atomic<size_t> heard_at_b_{0};
  std::vector<std::unique_ptr<Dialing>> dialings_;    // at a
  std::vector<std::unique_ptr<Connection>> dialled_;  // at a
  std::vector<std::unique_ptr<Talker>> at_a_, at_b_;
  std::unique_ptr<Talker> at_b2_;
};

// ---- bytes ----

TEST_P(TransportContract, CarriesBytesInOrder) {
  const uint64_t before = ReadCopyCounts().large_copies;
  std::vector<uint64_t> sizes = {1, 2, 100, 4095, 65537, 300 * 1000};
  if (!env().simulated()) sizes.push_back(kMany);
  for (uint64_t size : sizes) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(ConnectTalkers(size));
    AtA([&] { a().SayPattern(size); });
    // The last bytes may be read before the writer is notified that they are written.
    ASSERT_TRUE(env().RunUntil([&] { return b().heard == size && a().said == size; }));
    EXPECT_TRUE(b().as_pattern);
  }
  ExpectNoFault();
  EXPECT_TRUE(GetParam().copies || ReadCopyCounts().large_copies == before);
}

TEST_P(TransportContract, CarriesBothWaysAtOnce) {
  const uint64_t size = env().simulated() ? 200 * 1000 : kMany / 8;
  ASSERT_TRUE(ConnectTalkers(5));
  AtA([&] { a().SayPattern(size); });
  AtB([&] { b().SayPattern(size); });
  ASSERT_TRUE(env().RunUntil([&] { return a().heard == size && b().heard == size; }));
  EXPECT_TRUE(a().as_pattern);
  EXPECT_TRUE(b().as_pattern);
  ExpectNoFault();
}

TEST_P(TransportContract, GathersThousandsOfParts) {
  for (size_t parts : {1000, 5000}) {
    Talker::Manner manner;
    manner.parts_max = parts;
    manner.block_bytes_max = 100 * 1000;
    ASSERT_TRUE(ConnectTalkers(parts, manner));
    const uint64_t size = env().simulated() ? 50 * 1000 : 400 * 1000;
    AtA([&] { a().SayPattern(size); });
    ASSERT_TRUE(env().RunUntil([&] { return b().heard == size; }));
    EXPECT_TRUE(b().as_pattern);
  }
  ExpectNoFault();
}

TEST_P(TransportContract, ShowsEverythingToAHandlerThatLandsNothing) {
  Talker::Manner manner;
  manner.landing = false;
  for (size_t look_ahead_max : {1, 7, 4096, 1 << 20}) {
    manner.look_ahead_max = look_ahead_max;
    ASSERT_TRUE(ConnectTalkers(look_ahead_max, manner));
    const uint64_t size = std::min<uint64_t>(100 * 1000, 500 * look_ahead_max);
    AtA([&] { a().SayPattern(size); });
    ASSERT_TRUE(env().RunUntil([&] { return b().heard == size; }));
    EXPECT_TRUE(b().as_pattern);
  }
  ExpectNoFault();
}

TEST_P(TransportContract, ShortWordsGoBackAndForth) {
  ASSERT_TRUE(ConnectTalkers(6));
  const uint64_t rounds = 300;
  AtB([&] { b().on_heard = [this] { b().SayPattern(1); }; });
  AtA([&] {
    a().on_heard = [this] { a().SayPattern(1); };
    a().SayPattern(1);
  });
  ASSERT_TRUE(env().RunUntil([&] { return a().heard > rounds; }));
  EXPECT_TRUE(a().as_pattern);
  ExpectNoFault();
}

// Nobody reads at b: a is held up, with a bounded number of bytes on the way; then b reads, and all of them come.
TEST_P(TransportContract, ASlowReaderHoldsItsWriterUp) {
  ASSERT_TRUE(Connect());
  StartA(7, Talker::Manner());
  const uint64_t size = env().simulated() ? 2 << 20 : 32 << 20;  // the kernel keeps a few MiB
  AtA([&] { a().SayPattern(size); });
  // Until nothing has moved for a while.
  uint64_t said = 0;
  bool moves = true;
  while (moves) {
    moves = env().RunUntil([&] { return a().said > said; }, 200 * kMillisecondNs);
    said = a().said;
  }
  EXPECT_LT(said, size / 2);
  StartB(7, Talker::Manner());
  ASSERT_TRUE(env().RunUntil([&] { return b().heard == size; }));
  EXPECT_TRUE(b().as_pattern);
  ExpectNoFault();
}

// Before an answer is received, the request's write is reported as done: the answer may be the peer's last message.
TEST_P(TransportContract, AnAnswerComesAfterTheWordThatItsQuestionIsWritten) {
  constexpr uint64_t kBytes = 300 * 1000;
  const uint64_t rounds = env().simulated() ? 10 : kSanitized ? 25 : 100;
  ASSERT_TRUE(ConnectTalkers());
  std::atomic<uint64_t> unwritten{0};
  AtB([&] {
    b().on_heard = [&] {
      if (b().heard % kBytes == 0) b().SayPattern(1);
    };
  });
  AtA([&] {
    a().on_heard = [&] {
      if (a().said != a().heard * kBytes) ++unwritten;
      if (a().heard < rounds) a().SayPattern(kBytes);
    };
    a().SayPattern(kBytes);
  });
  ASSERT_TRUE(env().RunUntil([&] { return a().heard == rounds; }));
  EXPECT_EQ(unwritten, 0u);
  ExpectNoFault();
}

// The reader comes late: until then, not all has arrived over most transports.
TEST_P(TransportContract, TellsOnceWhenAllHasArrived) {
  for (uint64_t size : {1, 5000, 1 << 20}) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(Connect());
    StartA(size, Talker::Manner());
    AtA([&] {
      a().on_written = [this, size] {
        if (a().said == size) a().AwaitDelivered();
      };
      a().SayPattern(size);
    });
    (void)env().RunUntil([&] { return a().said == size; }, 20 * kMillisecondNs);
    StartB(size, Talker::Manner());
    ASSERT_TRUE(env().RunUntil([&] { return a().delivered > 0; }));
    EXPECT_EQ(a().said, size);
    ASSERT_TRUE(env().RunUntil([&] { return b().heard == size; }));
    LetThingsHappen();
    EXPECT_EQ(a().delivered, 1);
    AtA([&] { a().AwaitDelivered(); });
    EXPECT_TRUE(env().RunUntil([&] { return a().delivered == 2; })) << "it may be asked again";
  }
  ExpectNoFault();
}

TEST_P(TransportContract, TellsNothingOfDeliveryAfterTheEnd) {
  ASSERT_TRUE(Connect());
  StartA(3, Talker::Manner());
  AtA([&] {
    a().SayPattern(1 << 20);
    a().AwaitDelivered();
    a().Close();
  });
  ASSERT_TRUE(env().RunUntil([&] { return a().closed > 0; }));
  LetThingsHappen();
  ExpectNoFault();
}

// ---- the end ----

TEST_P(TransportContract, CloseDeliversWhatWasWritten) {
  for (uint64_t size : {1, 5000, 300 * 1000}) {
    ASSERT_TRUE(ConnectTalkers(size));
    AtA([&] {
      a().SayPattern(size);
      a().CloseWhenSaid();
    });
    ASSERT_TRUE(env().RunUntil([&] { return b().closed > 0; }));
    EXPECT_EQ(b().heard, size);
    EXPECT_TRUE(b().as_pattern);
    ExpectBothClose();
  }
}

TEST_P(TransportContract, BothEndsHearOfAClose) {
  ASSERT_TRUE(ConnectTalkers(8));
  AtA([&] {
    a().Close();
    EXPECT_EQ(a().closed, 0);  // later, not from inside
    a().connection()->Close(Status::Internal("a second time changes nothing"));
  });
  ExpectBothClose();
  AtA([&] {
    EXPECT_EQ(a().why().code(), Code::kCancelled);
    EXPECT_EQ(a().why().cause(), "enough");
  });
  AtB([&] {
    EXPECT_EQ(b().why().code(), Code::kUnavailable);
    EXPECT_NE(b().why().cause(), "");
    EXPECT_NE(b().why().next(), "");
  });
}

TEST_P(TransportContract, BothMayCloseAtOnce) {
  for (uint64_t round = 0; round < 20; ++round) {
    ASSERT_TRUE(ConnectTalkers(round));
    AtA([&] { a().SayPattern(1000); });
    AtB([&] {
      b().SayPattern(1000);
      b().Close();
    });
    AtA([&] { a().Close(); });
    ExpectBothClose();
  }
}

TEST_P(TransportContract, NothingIsCalledAfterADrop) {
  ASSERT_TRUE(ConnectTalkers(9));
  AtA([&] { a().SayPattern(100 * 1000); });
  AtB([&] { b().SayPattern(100 * 1000); });
  ASSERT_TRUE(env().RunUntil([&] { return a().heard > 0 && b().heard > 0; }));
  AtA([&] {
    a().Close();  // even if OnClosed was on its way
    a().Drop();
  });
  ASSERT_TRUE(env().RunUntil([&] { return b().closed > 0; }));
  LetThingsHappen();
  EXPECT_EQ(a().closed, 0);
  ExpectNoFault();
}

// A process that dies with input unread resets its connections.
TEST_P(TransportContract, ADropWithUnreadInputIsHeard) {
  ASSERT_TRUE(Connect());
  StartB(10, Talker::Manner());
  AtB([&] { b().SayPattern(1000); });
  ASSERT_TRUE(GetParam().shakes_hands || env().RunUntil([&] { return b().said == 1000; }));
  AtA([&] { dialled_.clear(); });
  ASSERT_TRUE(env().RunUntil([&] { return b().closed > 0; }));
  AtB([&] { EXPECT_EQ(b().why().code(), Code::kUnavailable); });
  LetThingsHappen();
  EXPECT_EQ(b().closed, 1);
  ExpectNoFault();
}

TEST_P(TransportContract, AHandlerMayCloseFromAnyCall) {
  ASSERT_TRUE(ConnectTalkers(11));
  AtB([&] { b().on_heard = [this] { b().Close(); }; });
  AtA([&] { a().SayPattern(100 * 1000); });
  ExpectBothClose();

  ASSERT_TRUE(ConnectTalkers(12));
  AtA([&] {
    a().on_written = [this] { a().Close(); };
    a().SayPattern(100 * 1000);
  });
  ExpectBothClose();
}

TEST_P(TransportContract, AHandlerMayDropFromOnClosed) {
  ASSERT_TRUE(ConnectTalkers(13));
  AtA([&] { a().on_closed = [this] { a().Drop(); }; });
  AtB([&] {
    b().on_closed = [this] { b().Drop(); };
    b().Close();
  });
  ExpectBothClose();
}

TEST_P(TransportContract, WritingToAClosedConnectionIsSilent) {
  ASSERT_TRUE(ConnectTalkers(14));
  AtB([&] { b().Close(); });
  AtA([&] { a().SayPattern(10 * 1000 * 1000); });
  ExpectBothClose();
  AtA([&] { a().SayPattern(1000); });
  LetThingsHappen();
  ExpectNoFault();
}

// ---- dialling ----

TEST_P(TransportContract, ARefusedDialSaysSo) {
  Status status = DialOutcome(env().Refusing(), 10 * kSecondNs);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.cause(), HasSubstr("refused"));
  EXPECT_EQ(status.peer(), env().Refusing().ToString());
  EXPECT_EQ(status.phase(), "connect");
  EXPECT_GE(status.age_ms(), 0);
  EXPECT_NE(status.next(), "");
}

TEST_P(TransportContract, AnUnansweredDialTimesOut) {
  Status status = DialOutcome(env().Silent(), 100 * kMillisecondNs);
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(status.peer(), env().Silent().ToString());
  EXPECT_GE(status.age_ms(), 100);
  EXPECT_NE(status.next(), "");
}

TEST_P(TransportContract, ACancelledDialIsNeverHeardOf) {
  Listen();
  Random random(15);
  std::atomic<int> outcomes{0};
  for (const Address& address : {where_, env().Refusing(), env().Silent()}) {
    for (int round = 0; round < 20; ++round) {
      std::unique_ptr<Dialing> dialing;
      AtA([&] {
        dialing = env().transport_a().Dial(env().a(), address, 10 * kSecondNs, [&](Dialled) { ++outcomes; });
        if (round == 0) dialing.reset();
      });
      if (round > 0) env().RunUntil([] { return false; }, static_cast<int64_t>(random.Below(kMillisecondNs)));
      int before = 0;
      AtA([&] {
        before = outcomes;
        dialing.reset();
      });
      LetThingsHappen();
      EXPECT_EQ(outcomes, before);
    }
  }
}

TEST_P(TransportContract, ADialThatWasTurnedAwayIsClosed) {
  ASSERT_TRUE(Connect());
  StartA(16, Talker::Manner());
  AtA([&] { a().SayPattern(10); });
  AtB([&] { incoming_.clear(); });
  ASSERT_TRUE(env().RunUntil([&] { return a().closed > 0; }));
  AtA([&] { EXPECT_EQ(a().why().code(), Code::kUnavailable); });
  ExpectNoFault();
}

TEST_P(TransportContract, SpeaksWhileTheOtherEndHasNoHomeYet) {
  ASSERT_TRUE(Connect());
  StartA(17, Talker::Manner());
  AtA([&] { a().Say("first words"); });
  ASSERT_TRUE(GetParam().shakes_hands || env().RunUntil([&] { return a().said == 11; }));
  reactor::Reactor& home = env().pool_b().Next();
  std::unique_ptr<Incoming> incoming;
  AtB([&] {
    incoming = std::move(incoming_.back());
    incoming_.pop_back();
  });
  bool other_home = &home != &env().b();
  env().RunAtHome(home, [&] {
    auto talker = std::make_unique<Talker>(18);
    talker->Meet(incoming->Adopt(home).value());
    (other_home ? at_b2_ : at_b_.emplace_back()) = std::move(talker);
  });
  Talker& heard_by = other_home ? *at_b2_ : b();
  ASSERT_TRUE(env().RunUntil([&] { return heard_by.heard == 11; }));
  env().RunAtHome(home, [&] {
    EXPECT_EQ(heard_by.text(), "first words");
    incoming.reset();
  });
}

// Its home reads the first bytes, and another home the rest; the dialler keeps sending, and receives the answer.
TEST_P(TransportContract, ChangesItsHomeBeforeItIsAnswered) {
  if (!env().transport_b().HandsOver()) GTEST_SKIP() << "it keeps its home";
  const uint64_t size = env().simulated() ? 20 * 1000 : 1 << 20;
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE(round);
    ASSERT_TRUE(Connect());
    Talker::Manner manner;
    manner.block_bytes_max = round % 2 == 0 ? 1000 : 256 * 1024;
    StartA(21, manner);
    AtA([&] { a().SayPattern(round == 0 ? 60 : size); });
    Porter porter;
    AtB([&] {
      porter.Meet(incoming_.back()->Adopt(env().b()).value());
      incoming_.pop_back();
    });
    ASSERT_TRUE(env().RunUntil([&] { return porter.handed.load(); }));
    reactor::Reactor& home = env().pool_b().at(env().pool_b().size() - 1);
    auto talker = std::make_unique<Talker>(22);
    Talker& heir = *talker;
    std::unique_ptr<Incoming> incoming;
    AtB([&] {
      incoming = std::move(porter.incoming);
      heir.heard = porter.heard;
      porter.Drop();
    });
    ASSERT_NE(incoming, nullptr);
    env().RunAtHome(home, [&] { heir.Meet(incoming->Adopt(home).value()); });
    if (round == 0) AtA([&] { a().SayPattern(size - 60); });
    EXPECT_TRUE(env().RunUntil([&] { return heir.heard == size; }));
    env().RunAtHome(home, [&] { heir.SayPattern(size); });
    EXPECT_TRUE(env().RunUntil([&] { return a().heard == size; }));
    EXPECT_TRUE(heir.as_pattern && a().as_pattern);
    AtA([&] { a().Close(); });
    EXPECT_TRUE(env().RunUntil([&] { return heir.closed > 0 && a().closed > 0; }));
    env().RunAtHome(home, [&] {
      EXPECT_EQ(heir.fault(), "");
      talker.reset();
    });
    ExpectNoFault();
  }
}

// One that has gone while it had no home is closed at the next; nothing that it had said is lost.
TEST_P(TransportContract, FindsTheEndOfAPeerThatWentBetweenTwoHomes) {
  if (!env().transport_b().HandsOver()) GTEST_SKIP() << "it keeps its home";
  ASSERT_TRUE(Connect());
  StartA(23, Talker::Manner());
  AtA([&] { a().SayPattern(1000); });
  Porter porter;
  AtB([&] {
    porter.Meet(incoming_.back()->Adopt(env().b()).value());
    incoming_.pop_back();
  });
  ASSERT_TRUE(env().RunUntil([&] { return porter.handed && a().said == 1000; }));
  AtA([&] { a().Close(); });
  ASSERT_TRUE(env().RunUntil([&] { return a().closed > 0; }));
  AtB([&] {
    at_b_.push_back(std::make_unique<Talker>(24));
    b().heard = porter.heard;
    b().Meet(porter.incoming->Adopt(env().b()).value());
    porter.Drop();
    porter.incoming.reset();
  });
  EXPECT_TRUE(env().RunUntil([&] { return b().closed > 0; }));
  EXPECT_EQ(b().heard, 1000u);
  EXPECT_TRUE(b().as_pattern);
  ExpectNoFault();
}

// ---- listening ----

TEST_P(TransportContract, ATakenPortSaysSo) {
  Listen();
  AtB([&] {
    Address same = env().listen_address();
    same.port = listener_->address().port;
    auto second = env().transport_b().Listen(env().b(), same, [](auto) {});
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), Code::kInvalid);
    EXPECT_THAT(second.status().cause(), HasSubstr("in use"));
    EXPECT_EQ(second.status().peer(), same.ToString());
    EXPECT_EQ(second.status().phase(), "listen");
    EXPECT_THAT(second.status().next(), HasSubstr("another port"));
  });
  ASSERT_TRUE(Connect());  // the first is none the worse for it
}

TEST_P(TransportContract, AnAddressOfAnotherHostSaysSo) {
  AtB([&] {
    auto listening = env().transport_b().Listen(env().b(), env().Foreign(), [](auto) {});
    ASSERT_FALSE(listening.ok());
    EXPECT_EQ(listening.status().code(), Code::kInvalid);
    EXPECT_EQ(listening.status().peer(), env().Foreign().ToString());
    EXPECT_EQ(listening.status().phase(), "listen");
    EXPECT_NE(listening.status().next(), "");
  });
}

TEST_P(TransportContract, AListenerThatIsGoneRefusesAndLeavesItsConnectionsAlone) {
  ASSERT_TRUE(ConnectTalkers(19));
  AtB([&] { listener_.reset(); });
  Status status = DialOutcome(where_, 10 * kSecondNs);
  EXPECT_THAT(status.cause(), HasSubstr("refused"));
  AtA([&] { a().SayPattern(1000); });
  ASSERT_TRUE(env().RunUntil([&] { return b().heard == 1000; }));
  // The port is free again.
  AtB([&] {
    Address same = env().listen_address();
    same.port = where_.port;
    auto again = env().transport_b().Listen(env().b(), same, [](auto) {});
    EXPECT_TRUE(again.ok()) << again.status().ToString();
  });
  ExpectNoFault();
}

TEST_P(TransportContract, ManyConnectionsAtOnce) {
  size_t many = kSanitized ? 256 : 1024;
  if (env().simulated()) many = 128;
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  many = std::min<size_t>(many, (files.rlim_cur - 100) / 2);
  Listen();
  std::atomic<size_t> dialled{0};
  AtA([&] {
    for (size_t i = 0; i < many; ++i) {
      dialings_.push_back(env().transport_a().Dial(env().a(), where_, 60 * kSecondNs, [&, i](Dialled made) {
        ASSERT_TRUE(made.ok()) << made.status().ToString();
        at_a_.push_back(std::make_unique<Talker>(i));
        at_a_.back()->Meet(std::move(made).value());
        at_a_.back()->SayPattern(1000);
        ++dialled;
      }));
    }
  });
  // More may arrive: Nearest dials over TCP what takes too long in shared memory, where it may have arrived all the
  // same.
  ASSERT_TRUE(env().RunUntil([&] { return dialled == many && arrived_ >= static_cast<int>(many); }));
  auto adopt = [this] {
    for (auto& incoming : incoming_) {
      Talker* talker = at_b_.emplace_back(std::make_unique<Talker>(1)).get();
      talker->on_heard = [this, talker] { heard_at_b_ += talker->heard == 1000u ? 1 : 0; };
      talker->Meet(incoming->Adopt(env().b()).value());
      talker->SayPattern(1000);
    }
    incoming_.clear();
  };
  AtB([&] {
    adopt();
    on_arrived_ = adopt;
  });
  ASSERT_TRUE(env().RunUntil([&] {
    return heard_at_b_ == many &&
           std::all_of(at_a_.begin(), at_a_.end(), [](const auto& talker) { return talker->heard == 1000u; });
  }));
  for (auto* talkers : {&at_a_, &at_b_}) {
    for (auto& talker : *talkers) EXPECT_TRUE(talker->as_pattern);
  }
  ExpectNoFault();
}

// Lands what comes in its memory until that is taken back; then it looks at what comes and drops it.
class Lender final : public transport::ConnectionHandler {
 public:
  explicit Lender(size_t bytes) : memory(bytes, '#') {}
  void TakeBack() {
    connection->TakeBackLanding();
    lends_ = false;
    memory.assign(memory.size(), '!');
  }
  std::string memory;
  std::atomic<size_t> came{0};
  std::unique_ptr<Connection> connection;

 private:
  size_t Landing(Bytes* parts, size_t) override {
    *parts = Bytes(memory.data(), memory.size());
    return lends_ ? 1 : 0;
  }
  void OnLanded(size_t bytes) override { came += bytes; }
  size_t LookAhead() override { return lends_ ? 0 : 4096; }
  void OnBytes(ConstBytes bytes) override { came += bytes.size; }
  void OnWritten(size_t) override {}
  void OnClosed(Status) override {}
  bool lends_ = true;
};

TEST_P(TransportContract, ALandingThatIsTakenBackIsNotTouchedAndNothingIsLost) {
  const size_t total = env().simulated() ? 200 * 1024 : 4 << 20;
  for (const double share : {0.0, 0.1, 0.5}) {
    SCOPED_TRACE(share);
    ASSERT_TRUE(Connect());
    auto lender = std::make_unique<Lender>(total);
    AtB([&] {
      lender->connection = incoming_.back()->Adopt(env().b()).value();
      incoming_.pop_back();
      lender->connection->Start(lender.get());
    });
    StartA(7, Talker::Manner());
    AtA([&] { a().SayPattern(total); });
    const auto wanted = static_cast<size_t>(static_cast<double>(total) * share);
    EXPECT_TRUE(env().RunUntil([&] { return lender->came >= wanted; }));
    AtB([&] { lender->TakeBack(); });
    EXPECT_TRUE(env().RunUntil([&] { return lender->came >= total; })) << lender->came;
    EXPECT_EQ(lender->came, total);
    EXPECT_TRUE(lender->memory == std::string(total, '!'));
    AtA([&] { at_a_.pop_back(); });
    AtB([&] { lender->connection.reset(); });
  }
}

FUSEWIRE_EVERYWHERE(TransportContract);

}  // namespace
}  // namespace fusewire
