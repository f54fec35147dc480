// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/bridge/names.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

TEST(ShortNames, OfTasks) {
  EXPECT_EQ(ShortTask("/job:ps/replica:0/task:12/device:CPU:0"), "ps:12");
  EXPECT_EQ(ShortTask("/job:worker/replica:0/task:0"), "worker:0");
  EXPECT_EQ(ShortTask("worker:3 10.0.0.7:2222"), "worker:3");
  for (const char* other : {"/job:ps", "somewhere", ""}) EXPECT_EQ(ShortTask(other), other);
}

TEST(ShortNames, OfTensors) {
  EXPECT_EQ(ShortEdge("edge_17_weights/read"), "weights/read");
  for (const char* other : {"edge_", "edge_12", "edge_17_", "edge_x_1", "weights", "", "edge__a"})
    EXPECT_EQ(ShortEdge(other), other);
  EXPECT_EQ(EdgeOfKey("/job:ps/task:0;1;/job:worker/task:0;edge_3_weights;0:0"), "weights");
  EXPECT_EQ(EdgeOfKey("no key"), "no key");
}

}  // namespace
}  // namespace fusewire::tf
