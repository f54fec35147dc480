// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/random.h"

namespace fusewire::pipe {
namespace {

using testing::HasSubstr;

constexpr uint16_t kService = 1;

Options OptionsOf(const std::string& name, const std::string& secret = std::string(),
                  const std::string& cluster = "prod") {
  Options options;
  options.cluster = cluster;
  options.name = name;
  options.secret = secret;
  options.incarnation = name == "worker:3" ? 33 : 77;
  return options;
}

// One side of a greeting, and what came of it.
struct Side {
  Side(Role role, Options options_in, uint16_t service = kService,
       std::optional<uint64_t> window_bytes = Options().window_bytes)
      : options(std::move(options_in)),
        handshake(role, options, service, window_bytes, nullptr, [this] { return binding; }) {
    out = handshake.Begin();
  }

  // Hears all of it, in pieces of at most `most` bytes. What is not part of the greeting is left.
  void Hear(const std::string& bytes, size_t most = SIZE_MAX) {
    for (size_t at = 0; at < bytes.size() && status.ok();) {
      size_t size = std::min(most, bytes.size() - at);
      ConstBytes in = ConstBytes(bytes).Sub(at, size);
      status = handshake.Feed(&in, &out);
      at += size;
      if (handshake.done()) {
        left += in.ToString() + bytes.substr(at);
        return;
      }
    }
  }

  std::string Say() { return std::exchange(out, std::string()); }

  const Options options;
  std::string binding;  // of its connection
  Handshake handshake;
  std::string out, left;
  Status status;
};

struct Pair {
  Pair(Options dialer_options, Options acceptor_options, uint16_t dialer_service = kService)
      : dialer(Role::kDialer, std::move(dialer_options), dialer_service),
        acceptor(Role::kAcceptor, std::move(acceptor_options)) {}

  void Talk(size_t most = SIZE_MAX) {
    for (int turn = 0; turn < 4; ++turn) {
      acceptor.Hear(dialer.Say(), most);
      dialer.Hear(acceptor.Say(), most);
    }
  }
  bool both_done() const { return dialer.handshake.done() && acceptor.handshake.done(); }

  Side dialer, acceptor;
};

// ---- two honest peers ----

TEST(Handshake, MakesPeersKnownToEachOtherHoweverTheirWordsAreCut) {
  for (const std::string& secret : {std::string(), std::string("open sesame")}) {
    for (size_t most : {SIZE_MAX, size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{100}}) {
      Pair pair(OptionsOf("worker:3", secret), OptionsOf("ps:0", secret));
      pair.Talk(most);
      ASSERT_TRUE(pair.both_done()) << pair.dialer.status.ToString() << " / " << pair.acceptor.status.ToString();
      const wire::Hello& seen = pair.acceptor.handshake.peer();
      EXPECT_EQ(seen.name, "worker:3");
      EXPECT_EQ(seen.cluster, "prod");
      EXPECT_EQ(seen.incarnation, 33u);
      EXPECT_EQ(seen.window_bytes, Options().window_bytes);
      EXPECT_EQ(seen.chunk_bytes, Options().limits.chunk_bytes_max);
      EXPECT_EQ(pair.dialer.handshake.peer().name, "ps:0");
      EXPECT_EQ(pair.dialer.handshake.peer().incarnation, 77u);
      EXPECT_TRUE(pair.dialer.left.empty());
      EXPECT_TRUE(pair.acceptor.left.empty());
    }
  }
}

TEST(Handshake, LeavesTheFramesBehindTheGreetingAlone) {
  for (const std::string& secret : {std::string(), std::string("open sesame")}) {
    Pair pair(OptionsOf("worker:3", secret), OptionsOf("ps:0", secret));
    pair.acceptor.Hear(pair.dialer.Say());
    if (!secret.empty()) {
      pair.dialer.Hear(pair.acceptor.Say());
      pair.acceptor.Hear(pair.dialer.Say());
    }
    pair.dialer.Hear(pair.acceptor.Say() + "frames");
    ASSERT_TRUE(pair.both_done());
    EXPECT_EQ(pair.dialer.left, "frames");
  }
}

TEST(Handshake, SaysWhatItWaitsFor) {
  Pair pair(OptionsOf("worker:3", "s"), OptionsOf("ps:0", "s"));
  EXPECT_THAT(pair.dialer.handshake.phase(), HasSubstr("challenge"));
  EXPECT_THAT(pair.acceptor.handshake.phase(), HasSubstr("hello"));
  pair.acceptor.Hear(pair.dialer.Say());
  EXPECT_THAT(pair.acceptor.handshake.phase(), HasSubstr("proof"));
  pair.dialer.Hear(pair.acceptor.Say());
  EXPECT_THAT(pair.dialer.handshake.phase(), HasSubstr("welcome"));
}

TEST(Handshake, NoncesAreNeverTheSame) {
  Side one(Role::kDialer, OptionsOf("worker:3")), other(Role::kDialer, OptionsOf("worker:3"));
  EXPECT_NE(one.Say(), other.Say());
}

// ---- peers whose settings differ ----

struct Difference {
  const char* what;
  Options dialer, acceptor;
  uint16_t dialer_service;
  const char* cause;  // the error of the side that detects it
};

std::vector<Difference> Differences() {
  return {
      {"cluster", OptionsOf("worker:3", "", "test"), OptionsOf("ps:0"), kService, "cluster \"test\""},
      {"cluster, with a secret", OptionsOf("worker:3", "s", "test"), OptionsOf("ps:0", "s"), kService, "cluster"},
      {"service", OptionsOf("worker:3"), OptionsOf("ps:0"), 2, "service 2 (endpoints) is not offered here"},
      {"secret of the dialer", OptionsOf("worker:3", "s"), OptionsOf("ps:0"), kService,
       "the peer has a shared secret and we"},
      {"secret of the acceptor", OptionsOf("worker:3"), OptionsOf("ps:0", "s"), kService,
       "the peer has no shared secret"},
      {"another secret", OptionsOf("worker:3", "one"), OptionsOf("ps:0", "other"), kService, "differs from ours"},
      {"a longer secret", OptionsOf("worker:3", "one"), OptionsOf("ps:0", "one "), kService, "differs from ours"},
  };
}

TEST(Handshake, PeersWithOtherSettingsAreTurnedAwayAndBothAreTold) {
  for (const Difference& difference : Differences()) {
    SCOPED_TRACE(difference.what);
    Pair pair(difference.dialer, difference.acceptor, difference.dialer_service);
    pair.Talk();
    EXPECT_FALSE(pair.dialer.handshake.done());
    EXPECT_FALSE(pair.acceptor.handshake.done());
    EXPECT_EQ(pair.dialer.status.code(), Code::kRefused);
    EXPECT_EQ(pair.acceptor.status.code(), Code::kRefused);
    bool dialer_was_told = pair.dialer.status.cause().find("the peer turned us away: ") == 0;
    bool acceptor_was_told = pair.acceptor.status.cause().find("the peer turned us away: ") == 0;
    EXPECT_NE(dialer_was_told, acceptor_was_told);
    for (const Status* status : {&pair.dialer.status, &pair.acceptor.status}) {
      EXPECT_THAT(status->cause(), HasSubstr(difference.cause));
      EXPECT_FALSE(status->phase().empty());
      EXPECT_FALSE(status->next().empty());
    }
  }
}

TEST(Handshake, ARefusalDoesNotRevealTheClustersName) {
  for (const std::string& secret : {std::string(), std::string("s")}) {
    Pair pair(OptionsOf("worker:3", secret, "guess"), OptionsOf("ps:0", secret, "hidden"));
    pair.Talk();
    EXPECT_EQ(pair.acceptor.status.cause(), "cluster \"guess\" meets cluster \"hidden\"");
    EXPECT_EQ(pair.dialer.status.cause(), "the peer turned us away: cluster \"guess\" is not ours");
  }
}

TEST(Handshake, AsksForAWindowOnlyOnceThePeerHasProvedItself) {
  for (const std::string& secret : {std::string(), std::string("s")}) {
    Side dialer(Role::kDialer, OptionsOf("worker:3", secret));
    const Options options = OptionsOf("ps:0", secret);
    int asked = 0;
    Handshake acceptor(Role::kAcceptor, options, kService, std::nullopt, [&asked] {
      ++asked;
      return std::optional<uint64_t>(4711);
    });
    const auto answer = [&] {
      const std::string said = dialer.Say();
      ConstBytes in(said);
      std::string out;
      EXPECT_TRUE(acceptor.Feed(&in, &out).ok());
      return out;
    };
    if (!secret.empty()) {
      const std::string challenge = answer();
      EXPECT_EQ(challenge.size(), wire::kGreetingPrefixBytes + sizeof(wire::Nonce));
      EXPECT_EQ(asked, 0);
      dialer.Hear(challenge);
    }
    dialer.Hear(answer());
    EXPECT_EQ(asked, 1);
    ASSERT_TRUE(dialer.handshake.done());
    EXPECT_EQ(dialer.handshake.peer().window_bytes, 4711u);
  }
}

TEST(Handshake, WithoutAWindowThePeerIsToldSo) {
  Side dialer(Role::kDialer, OptionsOf("worker:3")),
      acceptor(Role::kAcceptor, OptionsOf("ps:0"), kService, std::nullopt);
  acceptor.Hear(dialer.Say());
  EXPECT_EQ(acceptor.status.code(), Code::kOverloaded);
  dialer.Hear(acceptor.Say());
  EXPECT_EQ(dialer.status.code(), Code::kOverloaded);
  EXPECT_THAT(dialer.status.cause(), HasSubstr("window_budget_bytes"));
}

void SetNumber(std::string* greeting, size_t at, uint16_t value) {
  (*greeting)[at] = static_cast<char>(value & 255);
  (*greeting)[at + 1] = static_cast<char>(value >> 8);
}

TEST(Handshake, AVersionThatIsNotSharedIsRefusedWithBothRanges) {
  Side old(Role::kDialer, OptionsOf("worker:3"));
  std::string hello = old.Say();
  SetNumber(&hello, 8, wire::kVersion + 2);
  SetNumber(&hello, 10, wire::kVersion + 1);
  Side acceptor(Role::kAcceptor, OptionsOf("ps:0"));
  acceptor.Hear(hello);
  EXPECT_EQ(acceptor.status.code(), Code::kRefused);
  EXPECT_THAT(acceptor.status.cause(), HasSubstr("versions 3 to 4"));
  old.Hear(acceptor.Say());
  EXPECT_EQ(old.status.code(), Code::kRefused);
  EXPECT_THAT(old.status.cause(),
              HasSubstr("turned us away: peer speaks versions 3 to 4 of the protocol, we speak version 2"));
}

TEST(Handshake, ANewerPeerThatStillSpeaksOursIsWelcome) {
  Side dialer(Role::kDialer, OptionsOf("worker:3"));
  std::string hello = dialer.Say();
  SetNumber(&hello, 8, wire::kVersion + 5);
  Side acceptor(Role::kAcceptor, OptionsOf("ps:0"));
  acceptor.Hear(hello);
  EXPECT_TRUE(acceptor.handshake.done()) << acceptor.status.ToString();
}

// ---- greetings that are cut off, corrupted, or out of order ----

// All that is said when two peers with this secret meet: hello and welcome, or hello, challenge, proof and welcome.
std::vector<std::string> Protocol(Pair* pair) {
  std::vector<std::string> said;
  for (Side *from = &pair->dialer, *to = &pair->acceptor; !from->out.empty(); std::swap(from, to)) {
    said.push_back(from->Say());
    to->Hear(said.back());
  }
  EXPECT_TRUE(pair->both_done());
  return said;
}

TEST(Handshake, WaitsForTheRestOfAGreeting) {
  Side dialer(Role::kDialer, OptionsOf("worker:3", "s"));
  std::string hello = dialer.Say();
  for (size_t size = 0; size < hello.size(); ++size) {
    Side acceptor(Role::kAcceptor, OptionsOf("ps:0", "s"));
    acceptor.Hear(hello.substr(0, size));
    ASSERT_TRUE(acceptor.status.ok());
    ASSERT_FALSE(acceptor.handshake.done());
    ASSERT_TRUE(acceptor.out.empty());
    Status cut_off = acceptor.handshake.CutOff(Status::Timeout("no greeting"));
    ASSERT_EQ(cut_off.code(), Code::kTimeout);
    ASSERT_EQ(cut_off.cause(), "no greeting");
    ASSERT_EQ(cut_off.phase(), "waiting for the peer's hello");
  }
}

TEST(Handshake, AStrangerOfFewWordsIsNamedAtOnce) {
  const std::pair<std::string, const char*> strangers[] = {
      {"GET / HT", "an HTTP request"}, {"SSH-2.0-", "an SSH peer"}, {"FUSEWIR?", "starts with"}};
  for (const auto& [words, name] : strangers) {
    Side side(Role::kAcceptor, OptionsOf("ps:0"));
    side.Hear(words, 1);
    EXPECT_EQ(side.status.code(), Code::kCorrupt) << words;
    EXPECT_THAT(side.status.cause(), HasSubstr(name));
    EXPECT_TRUE(side.out.empty());
  }
}

TEST(Handshake, AStrangerOfOneWordIsNamedOnceItFallsSilent) {
  const std::pair<std::string, const char*> strangers[] = {{"\r\n\r\n", "starts with"}, {"?", "starts with 3f"}};
  for (const auto& [words, name] : strangers) {
    Side side(Role::kAcceptor, OptionsOf("ps:0"));
    side.Hear(words);
    ASSERT_TRUE(side.status.ok());
    Status cut_off = side.handshake.CutOff(Status::Unavailable("the peer closed the connection"));
    EXPECT_EQ(cut_off.code(), Code::kCorrupt);
    EXPECT_THAT(cut_off.cause(), HasSubstr(name));
    EXPECT_FALSE(cut_off.next().empty());
  }
}

// With a secret, no bit of a greeting can be flipped without one of the two noticing.
TEST(Handshake, ATurnedBitIsNoticedWhereThereIsASecret) {
  Options dialer_options = OptionsOf("worker:3", "s"), acceptor_options = OptionsOf("ps:0", "s");
  for (int which = 0; which < 4; ++which) {
    size_t bits = 1;
    for (size_t bit = 0; bit < bits; ++bit) {
      Pair pair(dialer_options, acceptor_options);
      for (int turn = 0; turn < 4; ++turn) {
        std::string said = turn % 2 == 1 ? pair.acceptor.Say() : pair.dialer.Say();
        if (turn == which) {
          bits = said.size() * 8;
          said[bit / 8] = static_cast<char>(static_cast<uint8_t>(said[bit / 8]) ^ 1U << bit % 8);
        }
        (turn % 2 == 1 ? pair.dialer : pair.acceptor).Hear(said);
      }
      ASSERT_FALSE(pair.dialer.handshake.done()) << "greeting " << which << " bit " << bit;
    }
  }
}

TEST(Handshake, AGreetingOutOfOrderIsCorruptAndNotAnswered) {
  for (const std::string& secret : {std::string(), std::string("s")}) {
    Pair honest(OptionsOf("worker:3", secret), OptionsOf("ps:0", secret));
    std::vector<std::string> said = Protocol(&honest);
    auto expect_corrupt = [](Side* side, const std::string& greeting, const char* what) {
      side->out.clear();
      side->Hear(greeting);
      EXPECT_EQ(side->status.code(), Code::kCorrupt) << what;
      EXPECT_THAT(side->status.cause(), HasSubstr("out of order")) << what;
      EXPECT_TRUE(side->out.empty()) << what;
    };
    Side acceptor(Role::kAcceptor, honest.acceptor.options);
    expect_corrupt(&acceptor, said.back(), "a welcome to an acceptor");
    Side dialer(Role::kDialer, honest.dialer.options);
    expect_corrupt(&dialer, said[0], "a hello to a dialer");
    if (secret.empty()) continue;
    Side challenged(Role::kAcceptor, honest.acceptor.options);
    expect_corrupt(&challenged, said[1], "a challenge to an acceptor");
    Side unproven(Role::kAcceptor, honest.acceptor.options);
    expect_corrupt(&unproven, said[2], "a proof before a hello");
    Side greeted(Role::kAcceptor, honest.acceptor.options);
    greeted.Hear(said[0]);
    expect_corrupt(&greeted, said[0], "a second hello");
    Side waiting(Role::kDialer, honest.dialer.options);
    expect_corrupt(&waiting, said[2], "a proof instead of a challenge");
    Side twice(Role::kDialer, honest.dialer.options);
    twice.Hear(said[1]);
    expect_corrupt(&twice, said[1], "a second challenge");
    Side open(Role::kDialer, OptionsOf("worker:3"));
    expect_corrupt(&open, said[1], "a challenge to a peer without a secret");
  }
}

TEST(Handshake, StaysFailed) {
  Pair honest(OptionsOf("worker:3"), OptionsOf("ps:0"));
  std::vector<std::string> said = Protocol(&honest);
  Side acceptor(Role::kAcceptor, honest.acceptor.options);
  acceptor.Hear(said[1]);
  ASSERT_FALSE(acceptor.status.ok());
  ConstBytes in(said[0]);
  EXPECT_FALSE(acceptor.handshake.Feed(&in, &acceptor.out).ok());
  EXPECT_FALSE(acceptor.handshake.done());
  EXPECT_TRUE(acceptor.out.empty());
}

TEST(Handshake, AGreetingOverTheLimitIsCorruptBeforeItsBodyIsAwaited) {
  Side dialer(Role::kDialer, OptionsOf("worker:3"));
  std::string hello = dialer.Say().substr(0, wire::kGreetingPrefixBytes);
  SetNumber(&hello, 14, wire::kGreetingBytesMax - wire::kGreetingPrefixBytes + 1);
  Side acceptor(Role::kAcceptor, OptionsOf("ps:0"));
  acceptor.Hear(hello);
  EXPECT_EQ(acceptor.status.code(), Code::kCorrupt);
  EXPECT_THAT(acceptor.status.cause(), HasSubstr("body_bytes 4081, limit 4080"));
}

TEST(Handshake, StrangersAreNamedAndGetNoAnswer) {
  const std::pair<std::string, const char*> strangers[] = {
      {"GET / HTTP/1.1\r\nHost: ps-0\r\n\r\n", "an HTTP request"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP/2 or gRPC client"},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(40, 7), "a TLS hello"},
      {"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", "an SSH peer"},
      {"*1\r\n$4\r\nPING\r\n*1\r\n", "a Redis client"},
      {std::string(64, 0), "starts with 0000"},
      {"FUSEWIRf" + std::string(64, 0), "starts with 46555345"},
  };
  for (Role role : {Role::kDialer, Role::kAcceptor}) {
    for (const auto& [words, name] : strangers) {
      for (size_t most : {size_t{1}, SIZE_MAX}) {
        Side side(role, OptionsOf("ps:0"));
        side.out.clear();
        side.Hear(words, most);
        EXPECT_EQ(side.status.code(), Code::kCorrupt);
        EXPECT_THAT(side.status.cause(), HasSubstr(name));
        EXPECT_TRUE(side.out.empty());
      }
    }
  }
}

TEST(Handshake, RandomWordsAreNeverAGreeting) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    std::string words(random.Between(16, 200), 0);
    for (char& byte : words) byte = static_cast<char>(random.Next());
    if (random.Chance(0.5)) words.replace(0, 8, "FUSEWIRE");
    if (random.Chance(0.5)) words.replace(8, 5, std::string("\1\0\1\0\1", 5));
    Side side(random.Chance(0.5) ? Role::kDialer : Role::kAcceptor, OptionsOf("ps:0", random.Chance(0.5) ? "s" : ""));
    side.Hear(words, random.Between(1, 50));
    ASSERT_FALSE(side.handshake.done()) << "seed " << seed;
  }
}

// ---- peers that do not know the secret ----

class Attack : public testing::Test {
 protected:
  Attack() : earlier_(OptionsOf("worker:3", "s"), OptionsOf("ps:0", "s")), said_(Protocol(&earlier_)) {}

  // The bytes of an earlier, honest greeting.
  Pair earlier_;
  const std::vector<std::string> said_;
};

TEST_F(Attack, AnEarlierGreetingOfTheDialerIsWorthNothing) {
  Side acceptor(Role::kAcceptor, OptionsOf("ps:0", "s"));
  acceptor.Hear(said_[0] + said_[2]);
  EXPECT_FALSE(acceptor.handshake.done());
  EXPECT_EQ(acceptor.status.code(), Code::kRefused);
}

TEST_F(Attack, AnEarlierAcceptorsWordsAreWorthNothing) {
  Side dialer(Role::kDialer, OptionsOf("worker:3", "s"));
  dialer.Hear(said_[1] + said_[3]);
  EXPECT_FALSE(dialer.handshake.done());
  EXPECT_EQ(dialer.status.code(), Code::kRefused);
}

TEST_F(Attack, AWelcomeInPlaceOfTheChallengeIsWorthNothing) {
  Side dialer(Role::kDialer, OptionsOf("worker:3", "s"));
  dialer.Say();
  dialer.Hear(said_[3]);
  EXPECT_FALSE(dialer.handshake.done());
  EXPECT_EQ(dialer.status.code(), Code::kCorrupt);
  EXPECT_TRUE(dialer.out.empty());
}

// A stranger that only dials receives nothing that depends on the secret: as many random bytes with any secret.
TEST_F(Attack, ADialerGetsNothingToTestGuessesOn) {
  Side acceptor(Role::kAcceptor, OptionsOf("ps:0", "s")), other(Role::kAcceptor, OptionsOf("ps:0", "s"));
  acceptor.Hear(said_[0]);
  other.Hear(said_[0]);
  const std::string heard = acceptor.Say();
  EXPECT_EQ(heard.size(), wire::kGreetingPrefixBytes + sizeof(wire::Nonce));
  EXPECT_EQ(wire::DecodeGreetingPrefix(heard).value().kind, wire::GreetingKind::kChallenge);
  EXPECT_NE(heard, other.Say());
}

TEST_F(Attack, AProofThatIsSentBackIsWorthNothing) {
  Side dialer(Role::kDialer, OptionsOf("worker:3", "s"));
  dialer.Say();
  dialer.Hear(said_[1]);
  const std::string proof = dialer.Say();
  // A welcome that ends with the dialer's own proof.
  std::string welcome = said_[3];
  welcome.replace(welcome.size() - sizeof(wire::Proof), sizeof(wire::Proof), proof.substr(wire::kGreetingPrefixBytes));
  dialer.Hear(welcome);
  EXPECT_FALSE(dialer.handshake.done());
  EXPECT_EQ(dialer.status.code(), Code::kRefused);
}

// A member's certificate is not enough for a machine in the middle: the two connections have different binding bytes.
TEST_F(Attack, AProofIsWorthNothingOnAnotherConnection) {
  for (const char* acceptors : {"", "one", "other"}) {
    Pair pair(OptionsOf("worker:3", "s"), OptionsOf("ps:0", "s"));
    pair.dialer.binding = "one";
    pair.acceptor.binding = acceptors;
    pair.Talk();
    EXPECT_EQ(pair.both_done(), std::string(acceptors) == "one") << acceptors;
  }
}

TEST_F(Attack, AHelloThatIsSentBackAsAWelcomeIsWorthNothing) {
  Side dialer(Role::kDialer, OptionsOf("worker:3", "s"));
  std::string hello = dialer.Say();
  std::string welcome = hello + std::string(sizeof(wire::Proof), 0);
  welcome[12] = static_cast<char>(wire::GreetingKind::kWelcome);
  SetNumber(&welcome, 14, static_cast<uint16_t>(welcome.size() - wire::kGreetingPrefixBytes));
  dialer.Hear(said_[1]);
  dialer.Hear(welcome);
  EXPECT_FALSE(dialer.handshake.done());
  EXPECT_EQ(dialer.status.code(), Code::kRefused);
}

TEST_F(Attack, AWelcomeThatDeniesTheSecretIsRefused) {
  Side liar(Role::kAcceptor, OptionsOf("ps:0"));
  Side dialer(Role::kDialer, OptionsOf("worker:3", "s"));
  std::string hello = dialer.Say();
  hello[wire::kGreetingPrefixBytes + 62] = 0;  // on its way to the liar, who answers without a proof
  liar.Hear(hello);
  ASSERT_TRUE(liar.handshake.done());
  dialer.Hear(liar.Say());
  EXPECT_FALSE(dialer.handshake.done());
  EXPECT_EQ(dialer.status.code(), Code::kRefused);
}

TEST_F(Attack, GuessedProofsAreRefusedWithoutAHint) {
  Random random(1);
  std::string first_answer;
  for (int i = 0; i < 1000; ++i) {
    Side acceptor(Role::kAcceptor, OptionsOf("ps:0", "s"));
    acceptor.Hear(said_[0]);
    acceptor.Say();
    wire::Proof proof;
    for (uint8_t& byte : proof) byte = static_cast<uint8_t>(random.Next());
    acceptor.Hear(wire::EncodeProof(proof));
    ASSERT_FALSE(acceptor.handshake.done());
    std::string answer = acceptor.Say();
    if (i == 0) first_answer = answer;
    ASSERT_EQ(answer, first_answer);
  }
}

}  // namespace
}  // namespace fusewire::pipe
