// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The profiler under TensorFlow's own session of profiling, in which the library has registered it.
#include "fusewire/tf/profile/profiler.h"

#include <gtest/gtest.h>

#include <string>

#include <tsl/profiler/lib/profiler_session.h>

namespace fusewire::tf {
namespace {

using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

tensorflow::ProfileOptions Options(uint32_t host_level) {
  tensorflow::ProfileOptions options = tsl::ProfilerSession::DefaultOptions();
  options.set_host_tracer_level(host_level);
  return options;
}

void Record(const std::string& name) {
  observe::Event event;
  event.Begin(observe::Kind::kReceive, 0, 0, 0);
  event.End(true, 0, [&name](observe::EventFacts* facts) {
    facts->peer = "ps:0";
    facts->name = name;
  });
}

const XPlane* Find(const XSpace& space, const std::string& name) {
  for (const XPlane& plane : space.planes()) {
    if (plane.name() == name) return &plane;
  }
  return nullptr;
}

TEST(WireProfiler, TensorFlowsProfileHasOurPlane) {
  auto session = tsl::ProfilerSession::Create(Options(2));
  ASSERT_TRUE(session->Status().ok()) << session->Status();
  EXPECT_TRUE(observe::HasEventListener());
  Record("weights");
  XSpace space;
  ASSERT_TRUE(session->CollectData(&space).ok());
  EXPECT_FALSE(observe::HasEventListener());
  const XPlane* plane = Find(space, kWirePlane);
  ASSERT_NE(plane, nullptr);
  ASSERT_EQ(plane->lines_size(), 1);
  EXPECT_EQ(plane->lines(0).events_size(), 1);
}

TEST(WireProfiler, ThreadsHaveOurEventsBesideTheKernels) {
  auto session = tsl::ProfilerSession::Create(Options(2));
  ASSERT_TRUE(session->Status().ok()) << session->Status();
  {
    TraceMe trace([] { return TraceMeEncode("fusewire test", {{"peer", "ps:0"}}); }, kTraceLevel);
  }
  XSpace space;
  ASSERT_TRUE(session->CollectData(&space).ok());
  const XPlane* host = Find(space, "/host:CPU");
  ASSERT_NE(host, nullptr);
  int found = 0;
  for (const auto& [id, metadata] : host->event_metadata()) found += metadata.name() == "fusewire test" ? 1 : 0;
  EXPECT_EQ(found, 1);
}

TEST(WireProfiler, IsSilentInAProfileWithoutTheHost) {
  auto session = tsl::ProfilerSession::Create(Options(0));
  ASSERT_TRUE(session->Status().ok()) << session->Status();
  EXPECT_FALSE(observe::HasEventListener());
  XSpace space;
  ASSERT_TRUE(session->CollectData(&space).ok());
  EXPECT_EQ(Find(space, kWirePlane), nullptr);
}

TEST(WireProfiler, AProfileThatIsGivenUpEnds) {
  {
    auto profiler = WireProfiler::Make(Options(2));
    ASSERT_NE(profiler, nullptr);
    ASSERT_TRUE(profiler->Start().ok());
    auto second = WireProfiler::Make(Options(2));
    EXPECT_EQ(second->Start().code(), absl::StatusCode::kUnavailable);
    second.reset();
    EXPECT_TRUE(observe::HasEventListener());  // the first one is still being taken
  }
  EXPECT_FALSE(observe::HasEventListener());
}

TEST(WireProfiler, WithoutTransfersAProfileHasNoPlaneOfOurs) {
  auto profiler = WireProfiler::Make(Options(2));
  ASSERT_TRUE(profiler->Start().ok());
  ASSERT_TRUE(profiler->Stop().ok());
  XSpace space;
  ASSERT_TRUE(profiler->CollectData(&space).ok());
  EXPECT_EQ(space.planes_size(), 0);
}

}  // namespace
}  // namespace fusewire::tf
