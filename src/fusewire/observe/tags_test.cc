// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/tags.h"

#include <gtest/gtest.h>

#include <string>

namespace fusewire::observe {
namespace {

TEST(Tags, TheSameNamesHaveTheSameTagAndShareTheirPeersLine) {
  Tags tags;
  const uint32_t first = tags.Find(Kind::kReceive, "worker:0", "ps:0", "weights");
  EXPECT_NE(first, 0u);
  EXPECT_EQ(tags.Find(Kind::kReceive, "worker:0", "ps:0", "weights"), first);
  const uint32_t second = tags.Find(Kind::kReceive, "worker:0", "ps:0", "bias");
  EXPECT_NE(second, first);
  EXPECT_EQ(tags.at(first).line, tags.at(second).line);
  const uint32_t provide = tags.Find(Kind::kProvide, "worker:0", "ps:0", "weights");
  EXPECT_NE(tags.at(provide).line, tags.at(first).line);
  EXPECT_EQ(tags.at(second).name, "bias");
  EXPECT_EQ(tags.at(second).peer, "ps:0");
}

TEST(Tags, ALongNameIsCut) {
  Tags tags;
  const uint32_t tag = tags.Find(Kind::kCall, "", "", std::string(10'000, 'a'));
  EXPECT_EQ(tags.at(tag).name.size(), Tags::kNameBytesMax);
}

TEST(Tags, AFullTableCountsTheRestTogether) {
  Tags tags;
  for (uint32_t i = 0; i < Tags::kTagsMax; ++i) tags.Find(Kind::kReceive, "worker:0", "ps:0", std::to_string(i));
  EXPECT_EQ(tags.size(), Tags::kTagsMax + 1);  // the last one is the first of the others
  const uint32_t others = tags.Find(Kind::kReceive, "worker:0", "ps:0", "one more");
  EXPECT_EQ(tags.at(others).name, "(others)");
  EXPECT_EQ(tags.Find(Kind::kReceive, "worker:0", "ps:0", "and another"), others);
  EXPECT_NE(tags.Find(Kind::kReceive, "worker:0", "ps:1", "one more"), others);
  // As many peers as nobody has: all that is left is tag 0.
  for (uint32_t i = 0; i < 2 * Tags::kOthersMax; ++i)
    tags.Find(Kind::kReceive, "worker:0", "ps:" + std::to_string(i), "one more");
  EXPECT_EQ(tags.size(), Tags::kTagsMax + Tags::kOthersMax);
  EXPECT_EQ(tags.Find(Kind::kReceive, "worker:0", "ps:99999", "one more"), 0u);
  EXPECT_LE(tags.lines().size(), Tags::kLinesMax);
}

TEST(Tags, EachKindHasAName) {
  for (int kind = 0; kind < kKinds; ++kind) EXPECT_STRNE(KindName(static_cast<Kind>(kind)), "unknown");
  EXPECT_STREQ(KindName(static_cast<Kind>(kKinds)), "unknown");
}

}  // namespace
}  // namespace fusewire::observe
