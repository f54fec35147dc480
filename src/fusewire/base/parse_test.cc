// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/base/parse.h"

#include <gtest/gtest.h>

#include <string>

namespace fusewire {
namespace {

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
  uint16_t port = 0;
  EXPECT_TRUE(ParseNumber("65535", &port));
  EXPECT_EQ(port, 65535);
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "0x1", "65536", "one"})
    EXPECT_FALSE(ParseNumber(text, &port)) << text;
  int64_t number = 0;
  EXPECT_TRUE(ParseNumber("-1", &number));
  EXPECT_EQ(number, -1);
}

TEST(ParseStart, CountsFieldsBehindTheName) {
  std::string stat = "7 (a) b) S";
  for (int field = 4; field < 22; ++field) stat += " " + std::to_string(field);
  uint64_t start = 0;
  EXPECT_FALSE(ParseStart(stat, &start));
  EXPECT_FALSE(ParseStart(stat + " ", &start));
  EXPECT_TRUE(ParseStart(stat + " 1234 23\n", &start));
  EXPECT_EQ(start, 1234u);
  EXPECT_FALSE(ParseStart("", &start));
}

}  // namespace
}  // namespace fusewire
