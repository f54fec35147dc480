// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "fusewire/base/random.h"
#include "fusewire/wire/golden_test.h"

namespace fusewire::wire {
namespace {

using testing::HasSubstr;

constexpr char kSecret[] = "open sesame open";

// The two peers that docs/wire.md draws.
Hello Dialer() {
  Hello hello;
  hello.features = 5;
  hello.incarnation = 0x1122334455667788;
  for (size_t i = 0; i < hello.nonce.size(); ++i) hello.nonce[i] = static_cast<uint8_t>(i);
  hello.chunk_bytes = 256 << 10;
  hello.window_bytes = 1 << 20;
  hello.service = 1;
  hello.has_secret = true;
  hello.cluster = "prod";
  hello.name = "worker:3";
  return hello;
}

Hello Acceptor() {
  Hello hello = Dialer();
  hello.features = 1;
  hello.incarnation = 0x99;
  for (size_t i = 0; i < hello.nonce.size(); ++i) hello.nonce[i] = static_cast<uint8_t>(0x80 + i);
  hello.chunk_bytes = 128 << 10;
  hello.window_bytes = 2 << 20;
  hello.name = "ps:0";
  return hello;
}

std::string Challenge() { return EncodeChallenge(Acceptor().nonce); }

Proof DialersProof() { return MakeProof(kSecret, "dialer", EncodeHello(Dialer()) + Challenge(), ConstBytes()); }

// All that has been said when the acceptor proves itself.
std::string Greetings() {
  return EncodeHello(Dialer()) + Challenge() + EncodeProof(DialersProof()) + EncodeWelcome(Acceptor(), nullptr);
}

std::string WelcomeWithProof() {
  const Proof proof = MakeProof(kSecret, "acceptor", Greetings(), ConstBytes());
  return EncodeWelcome(Acceptor(), &proof);
}

std::string WrongCluster() { return EncodeRefusal(Refusal{Code::kRefused, "wrong cluster"}); }

ConstBytes BodyOf(const std::string& greeting) { return ConstBytes(greeting).From(kGreetingPrefixBytes); }

bool SameHello(const Hello& left, const Hello& right) {
  return left.features == right.features && left.incarnation == right.incarnation && left.nonce == right.nonce &&
         left.chunk_bytes == right.chunk_bytes && left.window_bytes == right.window_bytes &&
         left.service == right.service && left.has_secret == right.has_secret && left.cluster == right.cluster &&
         left.name == right.name;
}

void ExpectGolden(const std::string& greeting, GreetingKind kind, const char* drawing) {
  SCOPED_TRACE(static_cast<int>(kind));
  EXPECT_EQ(Draw(greeting), drawing);
  EXPECT_TRUE(IsDrawnInTheLaw(drawing)) << "not in docs/wire.md";
  Result<GreetingPrefix> prefix = DecodeGreetingPrefix(greeting);
  ASSERT_TRUE(prefix.ok()) << prefix.status().ToString();
  EXPECT_EQ(prefix.value().kind, kind);
  EXPECT_EQ(prefix.value().body_bytes, BodyOf(greeting).size);
  EXPECT_EQ(prefix.value().version, kVersion);
  EXPECT_EQ(prefix.value().version_min, kVersionMin);
}

TEST(Greeting, EveryKindHasTheBytesOfTheLaw) {
  ExpectGolden(EncodeHello(Dialer()), GreetingKind::kHello,
               "46555345 57495245 02000200 01005000 05000000 00000000 88776655 44332211 00010203 04050607\n"
               "08090a0b 0c0d0e0f 10111213 14151617 18191a1b 1c1d1e1f 00000400 00001000 00000000 01000100\n"
               "04007072 6f640800 776f726b 65723a33");
  ExpectGolden(Challenge(), GreetingKind::kChallenge,
               "46555345 57495245 02000200 05002000 80818283 84858687 88898a8b 8c8d8e8f 90919293 94959697\n"
               "98999a9b 9c9d9e9f");
  ExpectGolden(EncodeProof(DialersProof()), GreetingKind::kProof,
               "46555345 57495245 02000200 03002000 6844abd8 e8b856b7 ab11bbc4 7ca5f4b4 a840969f 0148514a\n"
               "ab981b9b 726fe09a");
  ExpectGolden(WelcomeWithProof(), GreetingKind::kWelcome,
               "46555345 57495245 02000200 02006c00 01000000 00000000 99000000 00000000 80818283 84858687\n"
               "88898a8b 8c8d8e8f 90919293 94959697 98999a9b 9c9d9e9f 00000200 00002000 00000000 01000100\n"
               "04007072 6f640400 70733a30 97a406a4 a6766ef3 2af32b68 3c79365f 42e9394f 5e57401b 70a19511\n"
               "4fd095dc");
  ExpectGolden(WrongCluster(), GreetingKind::kRefusal,
               "46555345 57495245 02000200 04001000 070d0077 726f6e67 20636c75 73746572");
}

TEST(Greeting, ComesBackAsItWasSent) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Hello hello;
    hello.features = random.Next();
    hello.incarnation = random.Next();
    for (uint8_t& byte : hello.nonce) byte = static_cast<uint8_t>(random.Next());
    hello.chunk_bytes = static_cast<uint32_t>(random.Between(kChunkBytesMin, UINT32_MAX));
    hello.window_bytes = random.Next() >> 1;
    hello.service = static_cast<uint16_t>(random.Next());
    hello.has_secret = random.Chance(0.5);
    hello.cluster = std::string(random.Below(kNameBytesMax + 1), static_cast<char>(random.Between(0x20, 0x7e)));
    hello.name = std::string(random.Below(kNameBytesMax + 1), static_cast<char>(random.Between(0x80, 0xff)));
    Proof proof;
    for (uint8_t& byte : proof) byte = static_cast<uint8_t>(random.Next());

    Result<Hello> hello_back = DecodeHello(BodyOf(EncodeHello(hello)));
    ASSERT_TRUE(hello_back.ok()) << hello_back.status().ToString();
    EXPECT_TRUE(SameHello(hello_back.value(), hello));

    const std::string greeting = EncodeWelcome(hello, hello.has_secret ? &proof : nullptr);
    EXPECT_LE(greeting.size(), kGreetingBytesMax);
    Result<Welcome> welcome = DecodeWelcome(BodyOf(greeting));
    ASSERT_TRUE(welcome.ok()) << welcome.status().ToString();
    EXPECT_TRUE(SameHello(welcome.value().hello, hello));
    EXPECT_EQ(welcome.value().has_proof, hello.has_secret);
    EXPECT_EQ(SameProof(welcome.value().proof, proof), hello.has_secret);

    EXPECT_TRUE(SameProof(DecodeProof(BodyOf(EncodeProof(proof))).value(), proof));
    EXPECT_EQ(DecodeChallenge(BodyOf(EncodeChallenge(hello.nonce))).value(), hello.nonce);
  }
}

TEST(Greeting, EveryTruncationAndEveryExtraByteIsNoticed) {
  Hello open = Dialer();
  open.has_secret = false;
  const std::string hello = EncodeHello(Dialer());
  const std::string welcome = EncodeWelcome(open, nullptr);
  const std::string proven = WelcomeWithProof();
  const std::string proof = EncodeProof(DialersProof());
  const std::string challenge = Challenge();
  const std::string refusal = WrongCluster();
  for (size_t size = 0; size <= BodyOf(proven).size; ++size) {
    SCOPED_TRACE(size);
    const auto part = [size](const std::string& greeting) { return greeting.substr(kGreetingPrefixBytes, size); };
    EXPECT_EQ(DecodeHello(part(hello)).ok(), part(hello).size() == BodyOf(hello).size);
    EXPECT_EQ(DecodeWelcome(part(welcome)).ok(), part(welcome).size() == BodyOf(welcome).size);
    EXPECT_EQ(DecodeWelcome(part(proven)).ok(), part(proven).size() == BodyOf(proven).size);
    EXPECT_EQ(DecodeProof(part(proof)).ok(), part(proof).size() == BodyOf(proof).size);
    EXPECT_EQ(DecodeChallenge(part(challenge)).ok(), part(challenge).size() == BodyOf(challenge).size);
    EXPECT_EQ(DecodeRefusal(part(refusal)).ok(), part(refusal).size() == BodyOf(refusal).size);
  }
  for (size_t size = 0; size < kGreetingPrefixBytes; ++size) {
    EXPECT_EQ(DecodeGreetingPrefix(hello.substr(0, size)).status().cause(), "greeting: cut off");
  }
  const std::string x = "x";
  EXPECT_EQ(DecodeHello(BodyOf(hello + x)).status().cause(), "hello: 1 bytes after its end");
  EXPECT_EQ(DecodeWelcome(BodyOf(welcome + x)).status().cause(), "welcome: 1 bytes after its end");
  EXPECT_EQ(DecodeWelcome(BodyOf(proven + x)).status().cause(), "welcome: 1 bytes after its end");
  EXPECT_EQ(DecodeProof(BodyOf(proof + x)).status().cause(), "proof: 1 bytes after its end");
  EXPECT_EQ(DecodeChallenge(BodyOf(challenge + x)).status().cause(), "challenge: 1 bytes after its end");
  EXPECT_EQ(DecodeRefusal(BodyOf(refusal + x)).status().cause(), "refusal: 1 bytes after its end");
}

std::string Changed(std::string greeting, size_t at, const std::string& bytes) {
  return greeting.replace(at, bytes.size(), bytes);
}

TEST(GreetingPrefix, AVersionThatWeShareIsTaken) {
  const std::string hello = EncodeHello(Dialer());
  // version 2..2 is ours; these share it.
  for (const char* versions : {"0200 0200", "0300 0200", "ffff 0200", "0200 0100", "ffff 0000"}) {
    EXPECT_TRUE(DecodeGreetingPrefix(Changed(hello, 8, Undraw(versions))).ok()) << versions;
  }
}

TEST(GreetingPrefix, AVersionThatWeDoNotShareIsRefusedInWords) {
  const std::string hello = EncodeHello(Dialer());
  const Status newer = DecodeGreetingPrefix(Changed(hello, 8, Undraw("0400 0300"))).status();
  EXPECT_EQ(newer.code(), Code::kRefused);
  EXPECT_EQ(newer.cause(), "peer speaks versions 3 to 4 of the protocol, we speak version 2");
  EXPECT_NE(newer.next(), "");
  const Status older = DecodeGreetingPrefix(Changed(hello, 8, Undraw("0100 0100"))).status();
  EXPECT_EQ(older.code(), Code::kRefused);
  EXPECT_EQ(older.cause(), "peer speaks version 1 of the protocol, we speak version 2");
  // The rest of another version's prefix is not checked.
  EXPECT_EQ(DecodeGreetingPrefix(Changed(hello, 8, Undraw("0400 0300 09 01 ffff"))).status().code(), Code::kRefused);
}

TEST(GreetingPrefix, ARefusalIsReadInAnyVersion) {
  const std::string refusal = Changed(WrongCluster(), 8, Undraw("0900 0700"));
  Result<GreetingPrefix> prefix = DecodeGreetingPrefix(refusal);
  ASSERT_TRUE(prefix.ok()) << prefix.status().ToString();
  EXPECT_EQ(prefix.value().kind, GreetingKind::kRefusal);
  EXPECT_EQ(DecodeRefusal(BodyOf(refusal)).value().why, "wrong cluster");
}

TEST(GreetingPrefix, NonsenseIsCorrupt) {
  const std::string hello = EncodeHello(Dialer());
  const std::pair<std::string, const char*> cases[] = {
      {Changed(hello, 8, Undraw("0100 0200")), "greeting: version 1, but version_min 2"},
      {Changed(hello, 12, Undraw("00")), "greeting: kind 0 is unknown"},
      {Changed(hello, 12, Undraw("06")), "greeting: kind 6 is unknown"},
      {Changed(hello, 13, Undraw("01")), "greeting: byte 13 is 1, must be 0"},
      {Changed(hello, 14, Undraw("f10f")), "greeting: body_bytes 4081, limit 4080"},
      {Changed(hello, 14, Undraw("ffff")), "greeting: body_bytes 65535, limit 4080"},
  };
  for (const auto& [bytes, cause] : cases) {
    const Status status = DecodeGreetingPrefix(bytes).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(status.cause(), cause);
  }
  EXPECT_TRUE(DecodeGreetingPrefix(Changed(hello, 14, Undraw("f00f"))).ok());
}

TEST(GreetingPrefix, StrangersAreNamed) {
  const std::pair<std::string, const char*> strangers[] = {
      {"GET / HTTP/1.1\r\nHost: ps0:5555\r\n", "an HTTP request"},
      {"OPTIONS * HTTP/1.1\r\n", "an HTTP request"},
      {"HTTP/1.1 400 Bad Request\r\n", "an HTTP reply"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP/2 or gRPC client"},
      {Undraw("000006 04 00 00000000 0005 00004000"), "an HTTP/2 or gRPC server"},
      {Undraw("000000 04 01 00000000"), "an HTTP/2 or gRPC server"},
      {Undraw("1603010200 010001fc 0303 00000000"), "a TLS hello"},
      {Undraw("1503010002 0246"), "a TLS alert"},
      {"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", "an SSH peer"},
      {"*1\r\n$4\r\nPING\r\n", "a Redis client"},
      {"PING\r\n", "a Redis client"},
      {"-ERR unknown command\r\n", "a Redis server"},
      {"+PONG\r\n", "a Redis server"},
      {"220 mail.example ESMTP\r\n", "a mail or FTP server"},
      {Undraw("0300002f2ae0000000000043"), "a remote desktop scan"},
      {Undraw("46570200 02010300 dc050000 19000000"), "a Fusewire frame before any hello"},
  };
  for (const auto& [bytes, name] : strangers) {
    const Status status = DecodeGreetingPrefix(bytes).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(status.cause(), std::string("not a Fusewire greeting: looks like ") + name);
    EXPECT_THAT(status.next(), HasSubstr("port"));
  }
}

TEST(GreetingPrefix, AnUnknownPrefixIsShownInHex) {
  EXPECT_EQ(DecodeGreetingPrefix(std::string(100, '\x7f')).status().cause(),
            "not a Fusewire greeting: starts with 7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f");
  EXPECT_EQ(DecodeGreetingPrefix(std::string("Fu")).status().cause(), "not a Fusewire greeting: starts with 4675");
  EXPECT_EQ(DecodeGreetingPrefix(std::string(16, '\0')).status().cause(),
            "not a Fusewire greeting: starts with 00000000000000000000000000000000");
}

TEST(Hello, OnlyWhatMakesSenseIsTaken) {
  const std::string hello = EncodeHello(Dialer());
  const std::pair<std::string, const char*> cases[] = {
      {Changed(hello, 78, Undraw("0200")), "hello: flags 2, limit 1"},
      {Changed(hello, 64, Undraw("ff0f0000")), "hello: chunk_bytes 4095, at least 4096"},
      {Changed(hello, 68, Undraw("00000000 00000080")),
       "hello: window_bytes 9223372036854775808, limit 9223372036854775807"},
      {Changed(hello, 80, Undraw("ffff")), "hello: cut off"},
      {Changed(hello, 86, Undraw("0900")), "hello: cut off"},
      {Changed(hello, 86, Undraw("0700")), "hello: 1 bytes after its end"},
      {Changed(hello, 82, "\n"), "hello: cluster holds a control character"},
      {Changed(hello, 88, "\x7f"), "hello: name holds a control character"},
  };
  for (const auto& [bytes, cause] : cases) {
    const Status status = DecodeHello(BodyOf(bytes)).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(status.cause(), cause);
  }
  const std::string fixed(reinterpret_cast<const char*>(BodyOf(hello).data), 64);
  const std::string long_name = fixed + Undraw("0000 0102") + std::string(513, 'n');
  EXPECT_EQ(DecodeHello(long_name).status().cause(), "hello: name of 513 bytes, limit 512");
}

TEST(Hello, WhatAUserSetIsCheckedFirst) {
  EXPECT_TRUE(CheckHello(Dialer()).ok());
  Hello hello = Dialer();
  hello.cluster = std::string(kNameBytesMax, 'c');
  EXPECT_TRUE(CheckHello(hello).ok());
  hello.cluster += 'c';
  EXPECT_EQ(CheckHello(hello).code(), Code::kInvalid);
  EXPECT_EQ(CheckHello(hello).cause(), "cluster of 513 bytes, limit 512");
}

TEST(HelloDeathTest, SendingWhatWasNotCheckedIsOurBug) {
  Hello hello = Dialer();
  hello.name = "two\nlines";
  EXPECT_DEATH((void)EncodeHello(hello), "CheckHello");
  hello = Dialer();
  hello.has_secret = false;
  const Proof proof{};
  EXPECT_DEATH((void)EncodeWelcome(hello, &proof), "has_secret");
}

TEST(Refusal, SaysACodeAndOneLine) {
  for (uint8_t code = 1; code <= kCodeMax; ++code) {
    const std::string refusal = EncodeRefusal(Refusal{static_cast<Code>(code), "why"});
    EXPECT_EQ(DecodeRefusal(BodyOf(refusal)).value().code, static_cast<Code>(code));
  }
  EXPECT_EQ(DecodeRefusal(BodyOf(EncodeRefusal(Refusal{Code::kRefused, "a\nb\x1b[2J"}))).value().why, "a b [2J");
  EXPECT_EQ(DecodeRefusal(BodyOf(EncodeRefusal(Refusal{Code::kRefused, std::string(5000, 'x')}))).value().why,
            std::string(kRefusalWhyBytesMax, 'x'));
  EXPECT_EQ(DecodeRefusal(Undraw("00 0000")).status().cause(), "refusal: code 0, limit 9");
  EXPECT_EQ(DecodeRefusal(Undraw("0a 0000")).status().cause(), "refusal: code 10, limit 9");
  EXPECT_EQ(DecodeRefusal(Undraw("07 0100")).status().cause(), "refusal: cut off");
}

TEST(Proof, CoversTheLabelTheSecretTheConnectionAndEveryByteOfAllGreetings) {
  const std::string said = Greetings(), binding(32, 'b');
  const Proof proof = MakeProof(kSecret, "acceptor", said, binding);
  EXPECT_TRUE(SameProof(proof, MakeProof(kSecret, "acceptor", said, binding)));
  EXPECT_FALSE(SameProof(proof, MakeProof(kSecret, "dialer", said, binding)));
  EXPECT_FALSE(SameProof(proof, MakeProof("open sesame ope", "acceptor", said, binding)));
  EXPECT_FALSE(SameProof(proof, MakeProof(kSecret, "acceptor", said, ConstBytes())));
  EXPECT_FALSE(SameProof(proof, MakeProof(kSecret, "acceptor", said, std::string(32, 'c'))));
  for (size_t at = 0; at < said.size(); ++at) {
    std::string changed = said;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(SameProof(proof, MakeProof(kSecret, "acceptor", changed, binding))) << at;
  }
}

TEST(Proof, IsMadeOfTheWelcomeAsItArrives) {
  const std::string sent = WelcomeWithProof();
  Result<Welcome> welcome = DecodeWelcome(BodyOf(sent));
  ASSERT_TRUE(welcome.ok());
  const std::string before = EncodeHello(Dialer()) + Challenge() + EncodeProof(DialersProof());
  const std::string without = sent.substr(0, sent.size() - sizeof(Proof));
  EXPECT_TRUE(SameProof(welcome.value().proof, MakeProof(kSecret, "acceptor", before + without, ConstBytes())));
}

TEST(Proof, EveryByteCounts) {
  const Proof proof = DialersProof();
  for (size_t at = 0; at < proof.size(); ++at) {
    Proof other = proof;
    other[at] ^= 0x80;
    EXPECT_FALSE(SameProof(proof, other)) << at;
  }
  EXPECT_TRUE(SameProof(proof, proof));
}

}  // namespace
}  // namespace fusewire::wire
