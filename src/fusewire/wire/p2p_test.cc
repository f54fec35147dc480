// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/wire/p2p.h"

#include <gtest/gtest.h>

#include <string>

#include "fusewire/wire/golden_test.h"

namespace fusewire::wire {
namespace {

struct Sent {
  FrameHeader header;
  std::string meta;
};

Sent Make(P2pVerb verb, uint64_t call, uint32_t aux, const uint64_t* numbers, const std::string& behind) {
  Sent sent;
  sent.header.method = static_cast<uint16_t>(verb);
  sent.header.call = call;
  sent.header.aux = aux;
  sent.meta.resize(kP2pNumbersMax * sizeof(uint64_t));
  sent.meta.resize(EncodeP2p(verb, numbers, Bytes(sent.meta.data(), sent.meta.size())));
  sent.meta += behind;
  sent.header.meta_bytes = static_cast<uint32_t>(sent.meta.size());
  return sent;
}

TEST(P2p, HasTheBytesOfTheSpecification) {
  const uint64_t numbers[] = {7, 0x200000005};
  Sent sent = Make(P2pVerb::kEager, kP2pMine | 0x100000003, kP2pConfirmEager | 2, numbers, "hiabc");
  std::string frame(kHeaderBytes, '\0');
  EncodeHeader(sent.header, sent.meta, Bytes(frame.data(), frame.size()));
  const std::string drawing =
      "46570100 03000000 02000100 15000000 00000000 99383b01 03000000 01000080 00000000 00000000\n"
      "07000000 00000000 05000000 02000000 68696162 63";
  EXPECT_EQ(Draw(frame + sent.meta), drawing);
  EXPECT_TRUE(IsDrawnInTheLaw(drawing));
}

TEST(P2p, ReadsWhatItWrote) {
  const uint64_t numbers[] = {1, 2, 3, 4, 5};
  for (uint16_t verb = 1; verb <= kP2pVerbMax; ++verb) {
    auto one = static_cast<P2pVerb>(verb);
    for (uint64_t call : {uint64_t{0}, uint64_t{9}, kP2pMine | 9, kP2pMine}) {
      Sent sent = Make(one, call, 0, numbers, "");
      Result<P2pMessage> read = DecodeP2p(sent.header, sent.meta);
      EXPECT_FALSE(call == kP2pMine && read.ok()) << P2pVerbName(one);
      if (!read.ok()) continue;
      EXPECT_EQ(read.value().verb, one);
      EXPECT_EQ(read.value().id, call & ~kP2pMine);
      for (size_t i = 0; i < P2pNumbers(one); ++i) EXPECT_EQ(read.value().numbers[i], i + 1);
      for (size_t cut = 0; cut < sent.meta.size(); ++cut) {
        sent.header.meta_bytes = static_cast<uint32_t>(cut);
        EXPECT_FALSE(DecodeP2p(sent.header, ConstBytes(sent.meta.data(), cut)).ok()) << P2pVerbName(one);
      }
    }
  }
}

TEST(P2p, CutsHeadAndPayloadApart) {
  const uint64_t numbers[] = {7, 0};
  Sent sent = Make(P2pVerb::kEager, kP2pMine | 1, 2, numbers, "hiabc");
  Result<P2pMessage> read = DecodeP2p(sent.header, sent.meta);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().head.ToString(), "hi");
  EXPECT_EQ(read.value().payload.ToString(), "abc");
  sent.header.body_bytes = 3;
  sent.header.segments = 1;
  EXPECT_EQ(DecodeP2p(sent.header, sent.meta).status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace fusewire::wire
