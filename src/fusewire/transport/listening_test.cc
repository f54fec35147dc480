// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/listening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fusewire::transport {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

TEST(Listening, LoopbackIsLoopbackOnly) {
  for (const char* host : {"127.0.0.1", "127.0.0.5"}) {
    EXPECT_EQ(WhereToListen(host).host, host);
    EXPECT_EQ(WhereToListen(host).why, "");
    EXPECT_TRUE(SaysLoopback(host));
  }
  EXPECT_THAT(WhereToListen("localhost").host, AnyOf("127.0.0.1", "::1"));
  EXPECT_TRUE(SaysLoopback("localhost"));
  EXPECT_TRUE(SaysLoopback("::1"));
  const ListeningPlace six = WhereToListen("::1");  // a machine may have no IPv6
  EXPECT_EQ(six.host, six.why.empty() ? "::1" : "");
}

TEST(Listening, EveryInterfaceIsTakenAsAsked) {
  for (const char* host : {"", "*"}) {
    EXPECT_EQ(WhereToListen(host).host, "");
    EXPECT_EQ(WhereToListen(host).why, "");
    EXPECT_FALSE(SaysLoopback(host));
  }
  EXPECT_EQ(WhereToListen("0.0.0.0").host, "0.0.0.0");
}

TEST(Listening, WhatCannotBeToldIsEveryInterfaceWithAReason) {
  const ListeningPlace elsewhere = WhereToListen("192.0.2.1");  // kept free for documents
  EXPECT_EQ(elsewhere.host, "");
  EXPECT_THAT(elsewhere.why, HasSubstr("192.0.2.1 is no address of this machine"));
  const ListeningPlace unknown = WhereToListen("no-such-host.invalid");
  EXPECT_EQ(unknown.host, "");
  EXPECT_THAT(unknown.why, HasSubstr("no-such-host.invalid"));
  EXPECT_FALSE(SaysLoopback("192.0.2.1"));
  EXPECT_FALSE(SaysLoopback("no-such-host.invalid"));
}

}  // namespace
}  // namespace fusewire::transport
