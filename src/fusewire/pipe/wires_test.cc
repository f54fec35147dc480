// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/pipe/wires.h"

#include <gtest/gtest.h>

#include <string>

namespace fusewire {
namespace pipe {
namespace {

TEST(Wires, AreFoundByTheirNames) {
  Wire wire = Wire::kTcp;
  EXPECT_TRUE(WireOf("auto", &wire));
  EXPECT_EQ(wire, Wire::kAuto);
  EXPECT_TRUE(WireOf("rdma", &wire));
  EXPECT_EQ(wire, Wire::kUcx);
  EXPECT_FALSE(WireOf("SHM", &wire));
  EXPECT_FALSE(WireOf("", &wire));
  EXPECT_EQ(wire, Wire::kUcx) << "what is not known changes nothing";
}

TEST(Wires, ATrialSaysWhatComesOfIt) {
  EXPECT_TRUE(TryWire(Wire::kTcp).status.ok());
  EXPECT_NE(TryWire(Wire::kShm).says.find("copied"), std::string::npos);
  for (const Wire wire : {Wire::kUring, Wire::kUcx}) {
    const WireTrial trial = TryWire(wire);
    EXPECT_FALSE(trial.says.empty());
    if (!trial.status.ok()) {
      EXPECT_NE(trial.status.cause(), "");
    }
  }
}

TEST(Wires, EachMakesATransport) {
  for (const char* name : {"auto", "tcp", "uring", "shm", "ucx"}) {
    Wire wire = Wire::kAuto;
    ASSERT_TRUE(WireOf(name, &wire)) << name;
    EXPECT_NE(MakeTransport(wire, {}), nullptr) << name;
  }
}

}  // namespace
}  // namespace pipe
}  // namespace fusewire
