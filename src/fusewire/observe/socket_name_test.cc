// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/socket_name.h"

#include <gtest/gtest.h>

#include <string>

namespace fusewire::observe {
namespace {

TEST(SocketName, EqualPlacesAreEqualTexts) {
  SocketName name;
  ASSERT_TRUE(name.Set("10.0.0.7", 9477));
  EXPECT_EQ(name.ToString(), "10.0.0.7:9477");
  ASSERT_TRUE(name.Set("::ffff:10.0.0.7", 9477));
  EXPECT_EQ(name.ToString(), "10.0.0.7:9477");
  ASSERT_TRUE(name.Set("FE80::0:1", 9));
  EXPECT_EQ(name.ToString(), "[fe80::1]:9");
  EXPECT_FALSE(name.Set("worker-0", 9));
  EXPECT_EQ(PlaceOf("10.0.0.7:09477"), "10.0.0.7:9477");
  EXPECT_EQ(PlaceOf("[::FFFF:10.0.0.7]:9477"), "10.0.0.7:9477");
  EXPECT_EQ(PlaceOf("[fe80:0::1%eth0]:9"), "[fe80::1]:9");
  EXPECT_EQ(PlaceOf("Worker-0.Train:9477"), "worker-0.train:9477");
}

TEST(SocketName, WhatNamesNoPortIsNoPlace) {
  for (const char* host : {"", "10.0.0.7", "10.0.0.7:", "[::1]", "[::1", "::1]", "a:b", "a:65536", "a:-1", "a:1 "})
    EXPECT_EQ(PlaceOf(host), "") << host;
}

}  // namespace
}  // namespace fusewire::observe
