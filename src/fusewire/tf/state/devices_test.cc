// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/state/devices.h"

#include <gtest/gtest.h>

namespace fusewire::tf {
namespace {

tensorflow::ServerDef DefOf(int cpus) {
  tensorflow::ServerDef def;
  def.set_job_name("ps");
  def.set_task_index(1);
  (*def.mutable_default_session_config()->mutable_device_count())["CPU"] = cpus;
  return def;
}

TEST(Devices, HaveTheIncarnationsThatAreKnownAndNewOnesOtherwise) {
  std::unique_ptr<tensorflow::DeviceMgr> devices, again;
  ASSERT_TRUE(MakeDevices(DefOf(2), {{"CPU:0", 7}}, &devices).ok());
  ASSERT_TRUE(MakeDevices(DefOf(2), IncarnationsOf(*devices), &again).ok());

  EXPECT_EQ(IncarnationsOf(*devices)["CPU:0"], 7u);
  EXPECT_GT(IncarnationsOf(*devices)["CPU:1"], 7u);  // TensorFlow's own are random
  EXPECT_EQ(IncarnationsOf(*again), IncarnationsOf(*devices));
  EXPECT_TRUE(devices->ContainsDevice(7));
  EXPECT_EQ(devices->HostCPU()->name(), "/job:ps/replica:0/task:1/device:CPU:0");
}

TEST(Devices, HaveShortNames) {
  EXPECT_EQ(ShortDevice("/job:ps/replica:0/task:1/device:CPU:0"), "CPU:0");
  EXPECT_EQ(ShortDevice("CPU:0"), "CPU:0");
}

}  // namespace
}  // namespace fusewire::tf
