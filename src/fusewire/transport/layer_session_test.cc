// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/layer_session.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace fusewire::transport {
namespace {

// Opens what a session does in private.
class Open final : public Session {
 public:
  using Session::Drop;
  using Session::Peek;
  using Session::Put;
  using Session::Take;
  const char* wire() const override { return "open"; }
  Status Handshake() override { return Status::Ok(); }
  Result<size_t> Read(Bytes into) override { return Take(into); }
  Status Write(ConstBytes said) override {
    Put(said);
    return Status::Ok();
  }
};

std::string TextOf(ConstBytes bytes) { return std::string(reinterpret_cast<const char*>(bytes.data), bytes.size); }

TEST(Session, WhatComesInPiecesOfAnySizeIsTakenInItsOrder) {
  std::mt19937 random(1);
  auto up_to = [&random](size_t most) { return random() % (most + 1); };
  for (int round = 0; round < 300; ++round) {
    Open session;
    std::string come, taken;
    for (int piece = 0; piece < 20; ++piece) {
      std::string text(up_to(40), ' ');
      for (char& letter : text) letter = static_cast<char>(random());
      come += text;
      session.Feed(ConstBytes(text));
      for (size_t turn = up_to(4); turn > 0; --turn) {
        const size_t wanted = up_to(50);
        const ConstBytes seen = session.Peek(wanted);
        const bool is_there = come.size() - taken.size() >= wanted;
        ASSERT_EQ(TextOf(seen), is_there ? come.substr(taken.size(), wanted) : "");
        if (turn % 2 == 0) {
          taken += TextOf(seen);
          session.Drop(seen.size);
        } else {
          uint8_t room[50];
          const size_t got = session.Take(Bytes(room, wanted));
          ASSERT_EQ(got, std::min(wanted, come.size() - taken.size()));
          taken += TextOf(ConstBytes(room, got));
        }
        ASSERT_EQ(taken, come.substr(0, taken.size()));
      }
      session.KeepRest();
    }
  }
}

TEST(Session, WhatGoesOutStaysUntilItWasSent) {
  Open session;
  session.Put(ConstBytes("abc", 3));
  session.Sent(1);
  session.Put(ConstBytes("de", 2));
  EXPECT_EQ(TextOf(session.out()), "bcde");
  session.Sent(4);
  EXPECT_TRUE(session.out().empty());
  session.Put(ConstBytes(std::string(1 << 20, 'x')));
  session.Sent(1 << 20);
  session.Put(ConstBytes("f", 1));
  EXPECT_EQ(TextOf(session.out()), "f");
}

TEST(Session, WhatIsBeingSentStaysWhereItIs) {
  Open session;
  session.Put(ConstBytes("abc", 3));
  const ConstBytes lent = session.out();
  const std::string more(1 << 20, 'x');  // would not fit behind it
  session.Prepare(more.size());
  session.Put(ConstBytes(more));
  EXPECT_EQ(session.out().data, lent.data);
  EXPECT_EQ(TextOf(session.out()), "abc");
  session.Sent(2);
  EXPECT_EQ(session.out().data, lent.data + 2);
  session.Put(ConstBytes("d", 1));
  session.Sent(1);
  EXPECT_TRUE(session.has_out());
  EXPECT_EQ(TextOf(session.out()), more + "d");
}

}  // namespace
}  // namespace fusewire::transport
