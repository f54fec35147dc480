// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What is registered when the library is loaded, and what Python asks of it.
#include <cstddef>
#include <string>

#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/fuse/passes.h"
#include "fusewire/tf/peer/marks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tensorflow/core/common_runtime/session_factory.h>
#include <tensorflow/core/distributed_runtime/server_lib.h>
#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include <tensorflow/core/public/session_options.h>

extern "C" {
const char* fusewire_version();
const char* fusewire_tensorflow_version();
int fusewire_is_local(const char* target);
void fusewire_hold_fusion(int change);
size_t fusewire_stats(char* out, size_t size);
}

namespace fusewire::tf {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

std::string Stats() {
  std::string text(fusewire_stats(nullptr, 0), '\0');
  EXPECT_EQ(fusewire_stats(text.data(), text.size()), text.size());
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  return text;
}

TEST(Plugin, CountsWhatItsServersDo) {
  const uint64_t before = GlobalCounters().grpc_recvs.load();
  GlobalCounters().Add(&Counters::grpc_recvs, 3);
  EXPECT_EQ(GlobalCounters().grpc_recvs.load(), before + 3);
  EXPECT_EQ(&GlobalCounters(), &GlobalCounters());
  EXPECT_THAT(Stats(), StartsWith("{\"shared_bytes_out\": "));
  EXPECT_THAT(Stats(), EndsWith("}"));
  EXPECT_THAT(Stats(), HasSubstr("\"grpc_recvs\": " + std::to_string(before + 3)));
}

TEST(Plugin, CutsWhatDoesNotFitInto) {
  char few[8] = "xxxxxxx";
  EXPECT_GT(fusewire_stats(few, sizeof(few)), sizeof(few));
  EXPECT_EQ(std::string(few), "{\"share");
}

TEST(Plugin, KnowsItsVersions) {
  EXPECT_THAT(fusewire_version(),
              testing::MatchesRegex(R"([0-9]+\.[0-9]+\.[0-9]+(\.dev0(\+g[0-9a-f]+(\.changed)?)?)?)"));
  EXPECT_STREQ(fusewire_tensorflow_version(), FUSEWIRE_TF_VERSION);
}

TEST(Plugin, ServesItsProtocolsAndGrpc) {
  tensorflow::ServerDef def;
  tensorflow::ServerFactory* ours = nullptr;
  def.set_protocol("grpc++");
  ASSERT_TRUE(tensorflow::ServerFactory::GetFactory(def, &ours).ok());
  for (const char* protocol : {"star_server", "star_server_lite", "grpc"}) {
    tensorflow::ServerFactory* factory = nullptr;
    def.set_protocol(protocol);
    ASSERT_TRUE(tensorflow::ServerFactory::GetFactory(def, &factory).ok()) << protocol;
    EXPECT_EQ(factory, ours) << protocol;
  }
  tensorflow::ServerFactory* none = nullptr;
  def.set_protocol("grpc+no such");
  EXPECT_FALSE(tensorflow::ServerFactory::GetFactory(def, &none).ok());
}

TEST(Plugin, TakesTheTargetsThatNameItsProtocols) {
  tensorflow::SessionFactory* ours = nullptr;
  tensorflow::SessionOptions options;
  options.target = "grpc++://localhost:1";
  ASSERT_TRUE(tensorflow::SessionFactory::GetFactory(options, &ours).ok());
  tensorflow::SessionFactory* factory = nullptr;
  options.target = "fusewire+grpc://localhost:1";
  ASSERT_TRUE(tensorflow::SessionFactory::GetFactory(options, &factory).ok());
  EXPECT_EQ(factory, ours);
  options.target = "grpc://localhost:1";
  ASSERT_TRUE(tensorflow::SessionFactory::GetFactory(options, &factory).ok());
  EXPECT_NE(factory, ours);
  EXPECT_EQ(fusewire_is_local("grpc://localhost:1"), 0);
}

TEST(Plugin, HoldsFusionWhileAPartialRunIsSetUp) {
  EXPECT_FALSE(AreGraphsHeld());
  fusewire_hold_fusion(1);
  EXPECT_TRUE(AreGraphsHeld());
  fusewire_hold_fusion(-1);
  EXPECT_FALSE(AreGraphsHeld());
}

}  // namespace
}  // namespace fusewire::tf
