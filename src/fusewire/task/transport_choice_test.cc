// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/task/transport_choice.h"

#include <gtest/gtest.h>

#include <string>

#include "fusewire/transport/protection.h"
#include "fusewire/transport/tcp/tcp_options.h"
#include "fusewire/transport/transport.h"

namespace fusewire::task {
namespace {

TEST(TransportChoice, AreFoundByTheirNames) {
  TransportChoice choice = TransportChoice::kTcp;
  EXPECT_TRUE(TransportChoiceOf("auto", &choice));
  EXPECT_EQ(choice, TransportChoice::kAuto);
  EXPECT_TRUE(TransportChoiceOf("rdma", &choice));
  EXPECT_EQ(choice, TransportChoice::kUcx);
  EXPECT_FALSE(TransportChoiceOf("SHM", &choice));
  EXPECT_FALSE(TransportChoiceOf("", &choice));
  EXPECT_EQ(choice, TransportChoice::kUcx) << "what is not known changes nothing";
}

TEST(TransportChoice, ATrialReportsItsResult) {
  EXPECT_TRUE(TryTransport(TransportChoice::kTcp).status.ok());
  EXPECT_NE(TryTransport(TransportChoice::kShm).says.find("copied"), std::string::npos);
  const TransportTrial ucx = TryTransport(TransportChoice::kUcx);
  EXPECT_FALSE(ucx.says.empty());
  if (!ucx.status.ok()) {
    EXPECT_NE(ucx.status.cause(), "");
  }
}

TEST(TransportChoice, EachMakesATransport) {
  for (const char* name : {"auto", "tcp", "shm", "ucx"}) {
    TransportChoice choice = TransportChoice::kAuto;
    ASSERT_TRUE(TransportChoiceOf(name, &choice)) << name;
    EXPECT_NE(MakeTransport(choice, {}, {}).value(), nullptr) << name;
  }
}

TEST(TransportChoice, TlsIsAllOrNothing) {
  transport::Protection only_key;
  only_key.tls.key = "key";
  auto made = MakeTransport(TransportChoice::kTcp, {}, only_key);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().ToString().find("FUSEWIRE_TLS_CERT"), std::string::npos);
  transport::Protection no_files;
  no_files.tls.certificate = "none";
  for (const TransportChoice choice : {TransportChoice::kAuto, TransportChoice::kTcp})
    EXPECT_EQ(MakeTransport(choice, {}, no_files).status().code(), Code::kInvalid);
  EXPECT_NE(MakeTransport(TransportChoice::kUcx, {}, no_files).status().ToString().find("carries neither TLS"),
            std::string::npos);
}

TEST(TransportChoice, WhatCannotBeCheckedIsRefused) {
  transport::Protection checked;
  checked.checksums = true;
  for (const TransportChoice choice : {TransportChoice::kAuto, TransportChoice::kTcp})
    EXPECT_NE(MakeTransport(choice, {}, checked).value(), nullptr);
  EXPECT_EQ(MakeTransport(TransportChoice::kUcx, {}, checked).status().code(), Code::kInvalid);
}

}  // namespace
}  // namespace fusewire::task
