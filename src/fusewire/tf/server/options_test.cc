// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/options.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusewire/base/log.h"
#include "fusewire/tf/snapshot/folder_test.h"

namespace fusewire::tf {
namespace {

using testing::HasSubstr;

// Sets variables for the life of a test.
class Environment {
 public:
  explicit Environment(std::vector<std::pair<const char*, const char*>> set) : set_(std::move(set)) {
    for (const auto& [name, value] : set_) setenv(name, value, 1);
  }
  ~Environment() {
    for (const auto& one : set_) unsetenv(one.first);
  }

 private:
  const std::vector<std::pair<const char*, const char*>> set_;
};

TEST(Settings, HaveDefaults) {
  ServerSettings settings = ReadSettings("ps");
  EXPECT_FALSE(settings.disabled);
  EXPECT_EQ(settings.pool.reactors, 0);
  EXPECT_FALSE(settings.pool.busy_poll);
  EXPECT_FALSE(settings.pool.pin);
  EXPECT_EQ(settings.patience_ns, 0);
  EXPECT_EQ(settings.pipe.silent_ns_max, 20 * kSecondNs);
}

// So that what they send at once matches the server's turns.
TEST(Settings, ManyWorkersHaveSmallWindowsAtAServer) {
  EXPECT_EQ(ReadSettings("ps", 0).pipe.window_bytes, 1u << 20);
  EXPECT_EQ(ReadSettings("ps", 4).pipe.window_bytes, 1u << 20);
  EXPECT_EQ(ReadSettings("ps", 64).pipe.window_bytes, 64u << 10);
  EXPECT_EQ(ReadSettings("ps", 3000).pipe.window_bytes, 16u << 10);
  EXPECT_EQ(ReadSettings("worker", 3000).pipe.window_bytes, 1u << 20);
  EXPECT_GT(ReadSettings("ps", 1).pipe.receive_at_once_bytes, 0u);
  EXPECT_EQ(ReadSettings("worker", 1).pipe.receive_at_once_bytes, 0u);
}

TEST(Settings, WorkersAreCountedInAllJobsThatHaveThem) {
  tensorflow::ClusterDef cluster;
  for (const auto& [name, count] : {std::pair<const char*, int>("ps", 3), {"worker", 5}, {"chief", 1}}) {
    tensorflow::JobDef* job = cluster.add_job();
    job->set_name(name);
    for (int i = 0; i < count; ++i) (*job->mutable_tasks())[i] = "localhost:1";
  }
  EXPECT_EQ(CountWorkers(cluster), 6);
}

TEST(Settings, OfTheProcessAreWarnedOfOnce) {
  Environment environment({{"FUSEWIRE_COMPRESSION", "fp8"}, {"FUSEWIRE_LOG", "loud"}});
  std::string log;
  SetLogSink([](LogLevel, const char* line, void* self) { *static_cast<std::string*>(self) += line; }, &log);
  ReadProcessSettings();
  EXPECT_THAT(log, HasSubstr("FUSEWIRE_COMPRESSION is \"fp8\": bf16, int8 or off is expected; nothing is compressed; "
                             "next: set one of these"));
  EXPECT_THAT(log, HasSubstr("FUSEWIRE_LOG is \"loud\": off, error, warn, info or debug is expected"));
  log.clear();
  ReadProcessSettings();
  SetLogSink(nullptr, nullptr);
  EXPECT_EQ(log, "");
}

TEST(Settings, KnowThePredecessorsNames) {
  Environment environment({{"NETWORK_PS_CORE_NUMBER", "3"},
                           {"NETWORK_WORKER_CORE_NUMBER", "2"},
                           {"PS_ENABLE_POLLING", "true"},
                           {"WORKER_DISABLE_PIN_CORES", "false"},
                           {"NETWORK_MAX_CONNECTION_TIMEOUT", "1500"}});
  ServerSettings ps = ReadSettings("ps"), worker = ReadSettings("worker"), other = ReadSettings("evaluator");
  EXPECT_EQ(ps.pool.reactors, 3);
  EXPECT_EQ(worker.pool.reactors, 2);
  EXPECT_EQ(other.pool.reactors, 3);
  EXPECT_TRUE(ps.pool.busy_poll);
  EXPECT_FALSE(worker.pool.busy_poll);
  EXPECT_FALSE(ps.pool.pin);
  EXPECT_TRUE(worker.pool.pin);
  EXPECT_EQ(ps.patience_ns, 1500 * kMillisecondNs);
}

TEST(Settings, OurNamesComeFirst) {
  Environment environment(
      {{"NETWORK_PS_CORE_NUMBER", "3"}, {"FUSEWIRE_PS_REACTORS", "1"}, {"FUSEWIRE_PEER_TIMEOUT", "7"}});
  EXPECT_EQ(ReadSettings("ps").pool.reactors, 1);
  EXPECT_EQ(ReadSettings("ps").pipe.silent_ns_max, 7 * kSecondNs);
}

TEST(Settings, SnapshotsAreOfTasksThatHoldVariables) {
  EXPECT_TRUE(ReadSettings("ps").snapshots.folder.empty());
  Environment environment({{"FUSEWIRE_SNAPSHOTS", "/data"}, {"FUSEWIRE_SNAPSHOT_EVERY", "0.25"}});
  for (const char* job : {"ps", "server"}) {
    const Snapshots::Options snapshots = ReadSettings(job).snapshots;
    EXPECT_EQ(snapshots.folder, "/data");
    EXPECT_EQ(snapshots.every_ns, 250 * kMillisecondNs);
    EXPECT_EQ(snapshots.cluster, "default");
  }
  for (const char* job : {"worker", "chief", "master", "evaluator"})
    EXPECT_TRUE(ReadSettings(job).snapshots.folder.empty());
}

TEST(Settings, AnIntervalOfSnapshotsThatMakesNoSenseLeavesTheDefault) {
  for (const char* every : {"", "often", "0", "-1", "nan", "1e9", "10 s"}) {
    Environment environment({{"FUSEWIRE_SNAPSHOTS", "/data"}, {"FUSEWIRE_SNAPSHOT_EVERY", every}});
    EXPECT_EQ(ReadSettings("ps").snapshots.every_ns, 10 * kSecondNs) << every;
  }
}

TEST(Settings, ThatMakeNoSenseLeaveTheDefault) {
  Environment environment({{"NETWORK_PS_CORE_NUMBER", "many"}, {"PS_ENABLE_POLLING", "perhaps"}});
  EXPECT_EQ(ReadSettings("ps").pool.reactors, 0);
  EXPECT_FALSE(ReadSettings("ps").pool.busy_poll);
}

TEST(Settings, AWorkersListIsMeasuredUnlessItIsAlwaysOrNever) {
  for (const auto& [word, use] : std::vector<std::pair<const char*, ListUse>>{{"", ListUse::kMeasured},
                                                                              {"auto", ListUse::kMeasured},
                                                                              {"sometimes", ListUse::kMeasured},
                                                                              {"always", ListUse::kAlways},
                                                                              {"never", ListUse::kNever}}) {
    Environment environment({{"FUSEWIRE_WORKER_LIST", word}, {"FUSEWIRE_DISABLE", "0"}});
    EXPECT_EQ(ReadSettings("worker").lists, use) << word;
  }
}

TEST(Settings, TheStatusPortIsOnLoopbackUnlessThereIsASecret) {
  using Pairs = std::vector<std::pair<const char*, const char*>>;
  EXPECT_TRUE(ReadSettings("ps").status.is_loopback);
  EXPECT_FALSE(ReadSettings("ps").status.is_off);
  {
    Environment environment(Pairs{{"FUSEWIRE_STATUS", "off"}});
    EXPECT_TRUE(ReadSettings("ps").status.is_off);
  }
  Environment environment(Pairs{{"FUSEWIRE_STATUS", "0.0.0.0:9477"}});
  EXPECT_TRUE(ReadSettings("ps").status.is_off);
  {
    Environment secret(Pairs{{"FUSEWIRE_SECRET", "a secret of tests"}});
    EXPECT_FALSE(ReadSettings("ps").status.is_off);
    EXPECT_EQ(ReadSettings("ps").status.port, 9477);
    EXPECT_EQ(ReadSettings("ps").pipe.secret, "a secret of tests");
    EXPECT_TRUE(ReadSettings("ps").secret.ok());
    Environment file(Pairs{{"FUSEWIRE_SECRET_FILE", "/no/such/file"}});
    EXPECT_FALSE(ReadSettings("ps").secret.ok());
  }
  Environment wrong(Pairs{{"FUSEWIRE_STATUS", "somewhere"}});
  EXPECT_TRUE(ReadSettings("ps").status.is_loopback);
}

TEST(FewGrpcThreads, LeaveTheEnvironmentAsItWas) {
  unsetenv("TF_GRPC_WORKER_CACHE_QUEUES");
  Environment environment({{"TF_GRPC_WORKER_CACHE_THREADS", "5"}, {"FUSEWIRE_LOG", "warn"}});
  {
    FewGrpcThreads few;
    EXPECT_STREQ(std::getenv("TF_GRPC_WORKER_CACHE_QUEUES"), "1");
    EXPECT_STREQ(std::getenv("TF_GRPC_WORKER_CACHE_THREADS"), "5");
  }
  EXPECT_EQ(std::getenv("TF_GRPC_WORKER_CACHE_QUEUES"), nullptr);
  EXPECT_STREQ(std::getenv("TF_GRPC_WORKER_CACHE_THREADS"), "5");
}

TEST(EagerTensors, TakeTheDataPortWhateverTheEnvironmentSays) {
  constexpr const char* kName = "TF_EAGER_REMOTE_USE_SEND_TENSOR_RPC";
  for (const char* before : {"", "1", "true", "0", "no"}) {
    setenv(kName, before, 1);
    CopyEagerTensorsOverTheDataPort();
    EXPECT_STREQ(std::getenv(kName), "0") << before;
  }
  unsetenv(kName);
  CopyEagerTensorsOverTheDataPort();
  EXPECT_STREQ(std::getenv(kName), "0");
  unsetenv(kName);
  unsetenv("TF_SEND_AS_PROTOS_WHEN_POSSIBLE");
}

class SecretFile : public testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode = 0400) {
    unlink(path_.c_str());
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string Refused() {
    const Result<std::string> read = ReadSecret("", path_);
    if (read.ok()) return "ok";
    EXPECT_THAT(read.status().cause(), HasSubstr("FUSEWIRE_SECRET_FILE, " + path_ + ": "));
    EXPECT_THAT(read.status().ToString(), testing::Not(HasSubstr("sesame")));
    EXPECT_FALSE(read.status().next().empty());
    return read.status().ToString();
  }
  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() / "secret";
};

TEST_F(SecretFile, IsReadWithoutItsLastNewline) {
  for (const mode_t mode : {0400, 0600, 0500}) {
    Write("open sesame, open\n", mode);
    EXPECT_EQ(ReadSecret("", path_).value(), "open sesame, open");
  }
  Write("open sesame, open");
  EXPECT_EQ(ReadSecret("", path_).value(), "open sesame, open");
  const std::string link = folder_.path() / "link";
  ASSERT_EQ(symlink("secret", link.c_str()), 0);  // as Kubernetes mounts a Secret
  EXPECT_EQ(ReadSecret("", link).value(), "open sesame, open");
}

TEST_F(SecretFile, TheVariableIsEnough) {
  EXPECT_EQ(ReadSecret("word", "").value(), "word");
  EXPECT_EQ(ReadSecret("", "").value(), "");
}

TEST_F(SecretFile, BothAreAnError) {
  Write("open sesame, open");
  const Result<std::string> read = ReadSecret("word", path_);
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.status().ToString(), HasSubstr("both set; next: unset one of them"));
}

TEST_F(SecretFile, IsRefusedIfOthersCanReachIt) {
  for (const mode_t mode : {0404, 0644, 0444}) {
    Write("open sesame, open", mode);
    EXPECT_THAT(Refused(), HasSubstr("others can read it; next: chmod 400")) << mode;
  }
  for (const mode_t mode : {0420, 0402, 0666}) {
    Write("open sesame, open", mode);
    EXPECT_THAT(Refused(), HasSubstr("others can write it; next: chmod 400")) << mode;
  }
  Write("open sesame, open", 0440);
  EXPECT_THAT(Refused(), geteuid() == 0 ? HasSubstr("ok") : HasSubstr("its group can read it; next: chmod 400"));
  if (geteuid() != 0) return;
  Write("open sesame, open");
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(Refused(), HasSubstr("belongs to another user"));
}

TEST_F(SecretFile, IsRefusedUnlessItIsALineOfText) {
  EXPECT_THAT(Refused(), HasSubstr("No such file"));
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("open sesame\nopen sesame\n"), std::string("open sesame\r\n"),
        std::string("open\0sesame", 11), std::string("open s\xc3\xa9same")}) {
    Write(text);
    EXPECT_THAT(Refused(), HasSubstr("is not one line of ASCII text; next: openssl rand")) << text;
  }
  Write(std::string(5000, 'x'));
  EXPECT_THAT(Refused(), HasSubstr("more than 4096 bytes"));
  unlink(path_.c_str());
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Refused(), HasSubstr("it is not a file"));
}

}  // namespace
}  // namespace fusewire::tf
